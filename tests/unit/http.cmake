millrace_unit_test(head SOURCES unit/test_head.c LIBS mr_http)
millrace_unit_test(serve SOURCES unit/test_serve.c LIBS mr_http)
millrace_unit_test(metric SOURCES unit/test_metric.c LIBS mr_http)
millrace_fuzz_target(head SOURCES fuzz/fuzz_head.c LIBS mr_http)
