if(NOT TARGET mr_csi)
  return()
endif()
add_executable(fake_keep_client fake/keep_client.c)
target_link_libraries(fake_keep_client PRIVATE mr_keep)

foreach(part pbcheck source mountinfo backing volume place child keeper requests)
  millrace_unit_test(csi_${part} SOURCES unit/test_csi_${part}.c unit/csi_env.c LIBS mr_csi)
endforeach()
target_sources(test_csi_keeper PRIVATE unit/csi_keeper_world.c)
target_sources(test_csi_requests PRIVATE unit/csi_keeper_world.c)
foreach(part child keeper requests)
  target_compile_definitions(test_csi_${part} PRIVATE FAKE_CLIENT="$<TARGET_FILE:fake_keep_client>")
  add_dependencies(test_csi_${part} fake_keep_client)
endforeach()

# gRPC is not instrumented for ThreadSanitizer.
if(NOT MILLRACE_SANITIZE STREQUAL "thread" AND NOT MILLRACE_FUZZ)
  add_library(mr_grpc_client STATIC fake/grpc_client.c)
  target_link_libraries(mr_grpc_client PUBLIC mr_csi_rpc mr_csi_grpc)
  millrace_unit_test(csi_rpc SOURCES unit/test_csi_rpc.c unit/csi_env.c LIBS mr_grpc_client)

  # Kubelet, played; with the real client. Run by hack/test in namespaces of its own.
  if(TARGET millrace-fuse)
    add_executable(csi_node integration/csi_node.c unit/csi_env.c)
    target_link_libraries(csi_node PRIVATE mr_grpc_client PkgConfig::CMOCKA)
    target_compile_definitions(csi_node PRIVATE MILLRACE_CSI="$<TARGET_FILE:millrace-csi>" MILLRACE_FUSE="$<TARGET_FILE:millrace-fuse>")
    add_dependencies(csi_node millrace-csi millrace-fuse)
    add_test(NAME integration/csi_node COMMAND csi_node)
    set_tests_properties(integration/csi_node PROPERTIES LABELS integration TIMEOUT 300 SKIP_RETURN_CODE 77
      ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP")
  endif()
endif()
