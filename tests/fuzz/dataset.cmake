include(${CMAKE_CURRENT_LIST_DIR}/../golden/golden.cmake)
if(TARGET mr_golden AND TARGET mr_operator AND TARGET mr_conf)
  millrace_fuzz_target(dataset SOURCES fuzz/fuzz_dataset.c golden/golden_dataset.c LIBS mr_golden mr_operator mr_conf)
endif()
