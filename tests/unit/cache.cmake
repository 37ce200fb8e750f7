if(TARGET mr_cache)
  millrace_unit_test(cache SOURCES unit/test_cache.c LIBS mr_cache)
endif()
