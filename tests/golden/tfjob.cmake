include(${CMAKE_CURRENT_LIST_DIR}/golden.cmake)
if(TARGET mr_golden AND TARGET mr_operator)
  millrace_unit_test(golden_tfjob SOURCES golden/main_tfjob.c golden/golden_tfjob.c LIBS mr_golden mr_operator)
endif()
