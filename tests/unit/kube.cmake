pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl)
millrace_unit_test(http_client SOURCES unit/test_http_client.c LIBS fake_api mr_http)
millrace_unit_test(http_tls SOURCES unit/test_http_tls.c LIBS mr_http PkgConfig::SSL PkgConfig::CRYPTO)
