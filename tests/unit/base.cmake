millrace_unit_test(base SOURCES unit/test_base.c LIBS mr_base)
millrace_unit_test(json SOURCES unit/test_json.c LIBS mr_json)
