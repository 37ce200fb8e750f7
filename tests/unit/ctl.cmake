millrace_unit_test(ctl_queue SOURCES unit/test_ctl_queue.c LIBS mr_ctl)
millrace_unit_test(ctl_plan SOURCES unit/test_ctl_plan.c LIBS mr_ctl)
millrace_unit_test(ctl_store SOURCES unit/test_ctl_store.c LIBS mr_ctl)
