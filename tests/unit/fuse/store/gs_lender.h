/* SPDX-License-Identifier: Apache-2.0 */
/* gs_lender — Google's metadata server, as far as it lends what is in DIR/token. It is what this
 * process asks from then on, and nothing else of Google's is found. Header only. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_STORE_GS_LENDER_H
#define MILLRACE_TESTS_UNIT_FUSE_STORE_GS_LENDER_H

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"

#include <stdlib.h>

static inline void gs_lender_lend(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    cleanup_free char *path = path_join(user, "token"), *text = file_read(path, 99, NULL, NULL);
    (void)req;
    buf_adds(&resp->headers, "Metadata-Flavor: Google\r\n");
    buf_addf(&resp->body, "{\"access_token\":\"%s\",\"expires_in\":3599}", text ? text : "");
}

/* dir is borrowed until serve_stop(). */
static inline struct http_server *gs_lender_start(char *dir)
{
    struct err e = ERR_INIT;
    const struct serve_route route = {
        "GET", "/computeMetadata/v1/instance/service-accounts/default/token", gs_lender_lend, dir};
    struct http_server *s = serve_start(
        &(struct serve_conf){.address = "127.0.0.1:0", .routes = &route, .nroutes = 1}, &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    cleanup_free char *host = xasprintf("127.0.0.1:%d", serve_port(s));
    setenv("GCE_METADATA_HOST", host, 1);
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    unsetenv("CLOUDSDK_CONFIG");
    setenv("HOME", dir, 1);
    return s;
}

#endif
