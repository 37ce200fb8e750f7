include(${CMAKE_CURRENT_LIST_DIR}/../golden/golden.cmake)
if(TARGET mr_golden AND TARGET mr_operator)
  millrace_fuzz_target(tfjob SOURCES fuzz/fuzz_tfjob.c golden/golden_tfjob.c LIBS mr_golden mr_operator)
endif()
