millrace_unit_test(sigv4 SOURCES unit/test_sigv4.c LIBS mr_store)
millrace_unit_test(s3_xml SOURCES unit/test_s3_xml.c LIBS mr_store)
millrace_unit_test(store SOURCES unit/test_store.c LIBS mr_store)
millrace_unit_test(guard SOURCES unit/test_guard.c LIBS mr_store)
millrace_unit_test(store_s3 SOURCES unit/test_store_s3.c LIBS mr_store fake_s3)
millrace_unit_test(store_s3_write SOURCES unit/test_store_s3_write.c LIBS mr_store fake_s3)

# Against a real S3 server (versitygw).
add_executable(test_s3_live integration/s3_live.c)
target_link_libraries(test_s3_live PRIVATE mr_store PkgConfig::CMOCKA)
add_test(NAME integration/s3_store COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/integration/s3_store.sh $<TARGET_FILE:test_s3_live>)
set_tests_properties(integration/s3_store PROPERTIES LABELS integration TIMEOUT 300 SKIP_RETURN_CODE 77
  ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP")

millrace_fuzz_target(s3_xml SOURCES fuzz/fuzz_s3_xml.c LIBS mr_store)
millrace_fuzz_target(store_url SOURCES fuzz/fuzz_store_url.c LIBS mr_store)
millrace_fuzz_target(content_range SOURCES fuzz/fuzz_content_range.c LIBS mr_store)
millrace_fuzz_target(sigv4 SOURCES fuzz/fuzz_sigv4.c LIBS mr_store)

if(TARGET millrace)
  add_test(NAME integration/s3_cli COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/integration/s3_cli.sh $<TARGET_FILE:millrace>)
  set_tests_properties(integration/s3_cli PROPERTIES LABELS integration TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
if(TARGET millrace AND TARGET millrace-fuse)
  add_custom_target(millrace_together ALL # as they are installed: `millrace mount` starts the client that lies beside it
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/together
    COMMAND ${CMAKE_COMMAND} -E create_hardlink $<TARGET_FILE:millrace> ${CMAKE_BINARY_DIR}/together/millrace
    COMMAND ${CMAKE_COMMAND} -E create_hardlink $<TARGET_FILE:millrace-fuse> ${CMAKE_BINARY_DIR}/together/millrace-fuse
    DEPENDS millrace millrace-fuse VERBATIM)
  add_test(NAME integration/s3_mount COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/integration/s3_mount.sh ${CMAKE_BINARY_DIR}/together)
  set_tests_properties(integration/s3_mount PROPERTIES LABELS integration TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
