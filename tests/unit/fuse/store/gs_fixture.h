/* SPDX-License-Identifier: Apache-2.0 */
/* gs_fixture — servers that play the XML API (fake_gs.c), the metadata server and the token servers
 * of Google. There is no real Google here: what they take and say is what its documents say. Header
 * only. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_STORE_GS_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_STORE_GS_FIXTURE_H

#include "tests/unit/fuse/store/s3_fixture.h"

#include "lib/http/serve.h"

#include <pthread.h>
#include <stdlib.h>

/* -- who gives tokens ---------------------------------------------------------------------------
 */

static struct {
    struct http_server *server;
    pthread_mutex_t mu;
    char asked[16384], bearer[256], path[256]; /* of the last request */
    unsigned requests;
    int status;
    int lifetime_s;
    const char *token;
} lender = {.mu = PTHREAD_MUTEX_INITIALIZER};

static inline void note(const struct serve_req *req)
{
    lender.requests++;
    snprintf(lender.path, sizeof lender.path, "%s", req->path);
    snprintf(lender.asked, sizeof lender.asked, "%.*s", (int)req->body_len,
        req->body ? (const char *)req->body : "");
    if (!serve_header(req, "authorization", lender.bearer, sizeof lender.bearer))
        lender.bearer[0] = '\0';
}

static inline void metadata(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char flavor[16];
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note(req);
    resp->status = lender.status;
    if (!serve_header(req, "metadata-flavor", flavor, sizeof flavor)
        || strcmp(flavor, "Google") != 0)
        resp->status = 403;
    buf_adds(&resp->headers, "Metadata-Flavor: Google\r\n");
    buf_addf(&resp->body, "{\"access_token\":\"%s\",\"expires_in\":%d,\"token_type\":\"Bearer\"}",
        lender.token, lender.lifetime_s);
    pthread_mutex_unlock(&lender.mu);
}

static inline void token(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note(req);
    resp->status = lender.status;
    if (lender.status != 200)
        buf_adds(&resp->body,
            "{\"error\":\"invalid_grant\",\"error_description\":\"Invalid JWT\\nSignature.\"}");
    else
        buf_addf(&resp->body, "{\"access_token\":\"%s\",\"expires_in\":%d}",
            strcmp(req->path, "/v1/token") == 0 && lender.lifetime_s == 1 ? "federated"
                                                                          : lender.token,
            lender.lifetime_s);
    pthread_mutex_unlock(&lender.mu);
}

static inline void account_token(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char end[CLOCK_RFC3339_LEN];
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note(req);
    clock_rfc3339(clock_real_ns() + 3600 * NS_PER_S, end);
    buf_addf(&resp->body, "{\"accessToken\":\"%s\",\"expireTime\":\"%s\"}", lender.token, end);
    pthread_mutex_unlock(&lender.mu);
}

static inline unsigned lent(void)
{
    pthread_mutex_lock(&lender.mu);
    unsigned n = lender.requests;
    pthread_mutex_unlock(&lender.mu);
    return n;
}

static inline char *at_lender(const char *path)
{
    return xasprintf("http://127.0.0.1:%d%s", serve_port(lender.server), path);
}

/* -- the fixture --------------------------------------------------------------------------------
 */

static inline int begin_gs(void **state)
{
    static const struct serve_route routes[] = {
        {"GET", "/computeMetadata/v1/instance/service-accounts/default/token", metadata, NULL},
        {"POST", "/token", token, NULL}, {"POST", "/v1/token", token, NULL},
        {"POST", "/impersonate", account_token, NULL}};
    struct err e = ERR_INIT;
    setup(state);
    struct fixture *w = *state;
    store_free(w->s);
    mount_free(w->m);
    w->s = NULL;
    w->m = mount_new("gs://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->server));
    mount_option(w->m, "endpoint", endpoint);
    mount_option(w->m, "tls-verify", "false"); /* tokens go by http:// */
    fake_s3_google(w->server, "ya29.one");
    fake_s3_put(w->server, "set/file", "content", 7); /* it has a generation now */
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    unsetenv("CLOUDSDK_CONFIG");
    unsetenv("MILLRACE_IDENTITY_TOKEN_FILE");
    setenv("HOME", w->dir, 1);
    lender.server = serve_start(
        &(struct serve_conf){.address = "127.0.0.1:0", .routes = routes, .nroutes = 4}, &e);
    assert_non_null(lender.server);
    lender.status = 200;
    lender.lifetime_s = 3599;
    lender.token = "ya29.one";
    lender.requests = 0;
    lender.asked[0] = '\0';
    cleanup_free char *host = xasprintf("127.0.0.1:%d", serve_port(lender.server));
    setenv("GCE_METADATA_HOST", host, 1);
    return 0;
}

static inline int end_gs(void **state)
{
    serve_stop(lender.server);
    return teardown(state);
}

#define with_gs(test) cmocka_unit_test_setup_teardown(test, begin_gs, end_gs)

/* in a cluster: with a directory of Secrets */
static inline void open_gs(struct fixture *w) { w->s = open_store(w->m, w->dir, 20 * NS_PER_S); }

static inline void as_service_account(struct fixture *w)
{
    write_secret(w, "token", "k8s.to.ken\n");
    cleanup_free char *path = path_join(w->dir, "token");
    setenv("MILLRACE_IDENTITY_TOKEN_FILE", path, 1);
}

static inline int read_file(struct fixture *w, struct err *e)
{
    char c[7];
    int rc = store_read(w->s, "file", "", 0, sizeof c, c, NULL, e);
    if (rc == 0)
        assert_memory_equal(c, "content", sizeof c);
    return rc;
}

static inline void expect_read(struct fixture *w)
{
    struct err e = ERR_INIT;
    ok(read_file(w, &e), &e);
}

static inline void expect_refused(struct fixture *w, const char *reason, const char *words)
{
    struct err e = ERR_INIT;
    assert_int_equal(read_file(w, &e), -1);
    if (strcmp(store_reason(&e), reason) != 0 || !strstr(e.msg, words))
        fail_msg("not %s with \"%s\": %s", reason, words, e.msg);
}

#endif
