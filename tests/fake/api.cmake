# An API server that tests command; linked into their programs.
if(TARGET mr_kube)
  add_library(fake_api STATIC fake/api.c fake/api_hands.c fake/api_store.c)
  target_link_libraries(fake_api PUBLIC mr_kube mr_json mr_http mr_base)
endif()
