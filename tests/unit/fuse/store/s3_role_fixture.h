/* SPDX-License-Identifier: Apache-2.0 */
/* s3_role_fixture — a server that plays the token service and the metadata services, and an S3
 * server that wants the keys which those give. Header only. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_STORE_S3_ROLE_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_STORE_S3_ROLE_FIXTURE_H

#include "tests/unit/fuse/store/s3_fixture.h"

#include "lib/http/serve.h"

#include <pthread.h>
#include <stdlib.h>

#define ROLE "arn:aws:iam::1:role/reader"

/* -- the services ------------------------------------------------------------------------------ */

static struct {
    struct http_server *server;
    pthread_mutex_t mu;
    char asked[4096], authorization[512], token[256]; /* of the last request */
    unsigned requests;
    int status;
    int64_t lifetime_s;
    const char *key_id;
    int64_t delay_ns;
} lender = {.mu = PTHREAD_MUTEX_INITIALIZER};

static inline const char *until(char text[CLOCK_RFC3339_LEN])
{
    clock_rfc3339(clock_real_ns() + lender.lifetime_s * NS_PER_S, text);
    return text;
}

static inline void note_request(const struct serve_req *req)
{
    lender.requests++;
    snprintf(lender.asked, sizeof lender.asked, "%.*s", (int)req->body_len,
        req->body ? (const char *)req->body : "");
    if (!serve_header(req, "authorization", lender.authorization, sizeof lender.authorization))
        lender.authorization[0] = '\0';
    if (!serve_header(req, "x-amz-security-token", lender.token, sizeof lender.token))
        lender.token[0] = '\0';
}

static inline void sts(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char end[CLOCK_RFC3339_LEN];
    (void)user;
    if (lender.delay_ns)
        clock_sleep_ns(lender.delay_ns);
    pthread_mutex_lock(&lender.mu);
    note_request(req);
    resp->status = lender.status;
    const char *action = strstr(lender.asked, "WebIdentity&") ? "AssumeRoleWithWebIdentity"
                                                              : "AssumeRole";
    if (lender.status == 200)
        buf_addf(&resp->body,
            "<%sResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><%sResult><Credentials>"
            "<AccessKeyId>%s</AccessKeyId><SecretAccessKey>s3cr3t</SecretAccessKey>"
            "<SessionToken>session-%u</SessionToken><Expiration>%s</Expiration></Credentials>"
            "</%sResult></%sResponse>",
            action, action, lender.key_id, lender.requests, until(end), action, action);
    else
        buf_adds(&resp->body,
            "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>"
            "<Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>");
    pthread_mutex_unlock(&lender.mu);
}

static inline void json_keys(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char end[CLOCK_RFC3339_LEN], header[64] = "";
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note_request(req);
    bool metadata = strncmp(req->path, "/latest/", 8) == 0;
    serve_header(req, "x-aws-ec2-metadata-token", header, sizeof header);
    if (metadata && strcmp(header, "T0K3N") != 0)
        resp->status = 401;
    else if (strcmp(req->path, "/latest/meta-data/iam/security-credentials/") == 0)
        buf_adds(&resp->body, "node-role\n");
    else
        buf_addf(&resp->body,
            "{\"Code\":\"Success\",\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"%s\"}",
            lender.key_id, until(end));
    pthread_mutex_unlock(&lender.mu);
}

static inline void metadata_token(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char ttl[16];
    (void)user;
    if (serve_header(req, "x-aws-ec2-metadata-token-ttl-seconds", ttl, sizeof ttl))
        buf_adds(&resp->body, "T0K3N");
    else
        resp->status = 400;
}

static inline unsigned lent(void)
{
    pthread_mutex_lock(&lender.mu);
    unsigned n = lender.requests;
    pthread_mutex_unlock(&lender.mu);
    return n;
}

/* -- the fixture ------------------------------------------------------------------------------- */

static const char *const variables[] = {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_ROLE_SESSION_NAME", "AWS_REGION", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
    "MILLRACE_IDENTITY_TOKEN_FILE"};

/* An S3 server, and a mount of it without any key. */
static inline int begin_keyless(void **state)
{
    static const struct serve_route routes[] = {{"POST", "/", sts, NULL},
        {"GET", "/creds", json_keys, NULL}, {"PUT", "/latest/api/token", metadata_token, NULL},
        {"GET", "/latest/meta-data/", json_keys, NULL}};
    struct err e = ERR_INIT;
    setup(state);
    struct fixture *w = *state;
    store_free(w->s);
    mount_free(w->m);
    w->s = NULL;
    w->m = mount_new("s3://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->server));
    mount_option(w->m, "endpoint", endpoint);
    mount_option(w->m, "tls-verify", "false"); /* tokens go by http:// */
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", w->dir, 1);
    lender.server = serve_start(
        &(struct serve_conf){.address = "127.0.0.1:0", .routes = routes, .nroutes = 4}, &e);
    assert_non_null(lender.server);
    lender.status = 200;
    lender.lifetime_s = 3600;
    lender.key_id = "good";
    lender.requests = 0;
    lender.delay_ns = 0;
    lender.asked[0] = '\0';
    cleanup_free char *at = xasprintf("http://127.0.0.1:%d", serve_port(lender.server));
    mount_option(w->m, "sts-endpoint", at);
    return 0;
}

static inline int end_keyless(void **state)
{
    serve_stop(lender.server);
    return teardown(state);
}

#define keyless(test) cmocka_unit_test_setup_teardown(test, begin_keyless, end_keyless)

static inline char *service(const char *path)
{
    return xasprintf("http://127.0.0.1:%d%s", serve_port(lender.server), path);
}

static inline void give_token(const struct fixture *w, const char *variable, const char *token)
{
    write_secret(w, "token", token);
    cleanup_free char *path = path_join(w->dir, "token");
    setenv(variable, path, 1);
}

/* in the cluster: no environment but for identities, no files */
static inline void open_keyless(struct fixture *w)
{
    w->s = open_store(w->m, w->dir, 20 * NS_PER_S);
}

static inline int read_byte(struct fixture *w, struct err *e)
{
    char c;
    return store_read(w->s, "file", "", 0, 1, &c, NULL, e);
}

static inline void expect_read(struct fixture *w)
{
    struct err e = ERR_INIT;
    ok(read_byte(w, &e), &e);
}

static inline void expect_refused(struct fixture *w, const char *reason, const char *words)
{
    struct err e = ERR_INIT;
    assert_int_equal(read_byte(w, &e), -1);
    if (strcmp(store_reason(&e), reason) != 0 || !strstr(e.msg, words))
        fail_msg("not %s with \"%s\": %s", reason, words, e.msg);
}

#endif
