if(TARGET mr_inode)
  millrace_unit_test(inode SOURCES unit/test_inode.c LIBS mr_inode)
  millrace_unit_test(conf SOURCES unit/test_conf.c LIBS mr_conf)
  millrace_fuzz_target(conf SOURCES fuzz/fuzz_conf.c LIBS mr_conf)
endif()

# What the scripts tests/integration/fuse_*.sh run on a real mount.
if(TARGET mr_fuse)
  add_executable(fuse_patterns integration/fuse_patterns.c)
  target_link_libraries(fuse_patterns PRIVATE PkgConfig::CMOCKA)
  add_executable(fuse_random integration/fuse_random.c)
  target_link_libraries(fuse_random PRIVATE Threads::Threads)
endif()
