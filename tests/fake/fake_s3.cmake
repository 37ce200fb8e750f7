add_library(fake_s3 STATIC fake/fake_s3.c fake/fake_s3_ops.c fake/fake_s3_synth.c)
target_link_libraries(fake_s3 PUBLIC mr_http)
add_executable(fake-s3 fake/fake_s3_main.c)
target_link_libraries(fake-s3 PRIVATE fake_s3)
