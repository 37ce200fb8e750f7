/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/s3_lend.h"

#include "fuse/store/lend.h"
#include "fuse/store/s3.h"
#include "lib/base/mem.h"
#include "lib/base/wipe.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_AT "http://169.254.170.2"
#define INSTANCE_AT  "http://169.254.169.254"
#define INSTANCE_DIR "/latest/meta-data/iam/security-credentials/"

struct s3_lender {
    const struct store_params *params;
    struct http *http; /* borrowed: for the token service */
    struct http *near; /* for what is on this machine: by no proxy */
    char *sts_at, *region;
    bool clear_tokens;
};

/* -- the lender ------------------------------------------------------------------------------ */

static int find_sts(struct s3_lender *l, struct err *e)
{
    const struct store_params *p = l->params;
    cleanup_free char *own = NULL, *endpoint = NULL, *verify = NULL, *fips = NULL;
    if (option_get(p, "sts-endpoint", &own, e) || s3_endpoint_get(p, &endpoint, e)
        || option_get(p, "region", &l->region, e) || option_get(p, "tls-verify", &verify, e)
        || option_get(p, "fips", &fips, e) || (own && s3_endpoint_check(p, "sts-endpoint", own, e)))
        return -1;
    if (!l->region)
        l->region = s3_file_setting(p, "region");
    l->clear_tokens = verify && strcmp(verify, "false") == 0;
    const char *at = own ? own : endpoint && !s3_is_amazons(endpoint) ? endpoint : NULL;
    if (at)
        l->sts_at = s3_origin(at);
    else if (l->region)
        l->sts_at = xasprintf("https://sts%s.%s.amazonaws.com%s",
            fips && strcmp(fips, "true") == 0 ? "-fips" : "", l->region,
            strncmp(l->region, "cn-", 3) == 0 ? ".cn" : "");
    else
        l->sts_at = xstrdup(fips && strcmp(fips, "true") == 0
                ? "https://sts-fips.us-east-1.amazonaws.com"
                : "https://sts.amazonaws.com");
    if (!l->region)
        l->region = xstrdup("us-east-1");
    return 0;
}

struct s3_lender *s3_lender_new(const struct store_params *p, struct http *http, struct err *e)
{
    struct s3_lender *l = xcalloc(1, sizeof *l);
    l->params = p;
    l->http = http;
    if (find_sts(l, e) || !(l->near = lend_near(e))) {
        s3_lender_free(l);
        return NULL;
    }
    return l;
}

void s3_lender_free(struct s3_lender *l)
{
    if (!l)
        return;
    http_free(l->near);
    free(l->sts_at);
    free(l->region);
    free(l);
}

/* -- answers --------------------------------------------------------------------------------- */

/* A key becomes part of headers. */
static bool keys_ok(const struct s3_keys *k)
{
    return k->id && k->secret && http_is_word(k->id, strlen(k->id)) && *k->id && *k->secret
        && (!k->token || http_is_word(k->token, strlen(k->token)));
}

static int err_answer(const struct s3_lender *l, const char *at, struct err *e)
{
    return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, l->params->url,
        ": what %s answered are no credentials", at);
}

/* -- token service ----------------------------------------------------------------------------- */

static int err_role(const struct s3_lender *l, const struct s3_role *role,
    const struct http_resp *resp, struct err *e)
{
    struct s3_fault f;
    s3_xml_fault(resp->body.data, resp->body.len, &f);
    int status = resp->status;
    bool expired = strcmp(f.code, "ExpiredTokenException") == 0
        || strcmp(f.code, "ExpiredToken") == 0 || strcmp(f.code, "InvalidIdentityToken") == 0;
    if (status >= 500 || status == 429 || strcmp(f.code, "Throttling") == 0
        || strcmp(f.code, "IDPCommunicationError") == 0)
        return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, l->params->url,
            ": %s gives no credentials for role %s now (%d %s): %s", l->sts_at, role->arn, status,
            f.code, f.message);
    if (status == 404 || status == 405 || (status / 100 == 2))
        return store_err(e, ERR_DENIED, EACCES, REASON_INVALID_OPTION, l->params->url,
            ": %s is no token service (%d): set option sts-endpoint", l->sts_at, status);
    return store_err(e, ERR_DENIED, EACCES, expired ? REASON_EXPIRED : REASON_ACCESS_DENIED,
        l->params->url, ": role %s is not to be had (%d %s): %s; check %s", role->arn, status,
        *f.code ? f.code : "from the token service", f.message,
        expired ? "that the issuer of the token is known there, and its audience"
                : "the role's name, and whom its trust policy names");
}

static int send_sts(struct s3_lender *l, const struct s3_role *role, struct buf *form,
    const struct s3_keys *signer, struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    if (!l->clear_tokens && strncmp(l->sts_at, "https:", 6) != 0)
        return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, l->params->url,
            ": credentials are not asked for at %s, where anybody on the way sees them: use https://, or set option tls-verify to \"false\"",
            l->sts_at);
    cleanup_free char *url = xasprintf("%s/", l->sts_at), *date = NULL, *token = NULL,
                      *authorization = NULL;
    const char *headers[6] = {"content-type: application/x-www-form-urlencoded"};
    size_t n = 1;
    if (signer) {
        char hash[SIGV4_HEX_LEN];
        unsigned char key[32];
        struct sigv4_scope scope = {.region = l->region, .service = "sts"};
        sigv4_time(clock_real_ns(), scope.time);
        sigv4_sha256(form->data, form->len, hash);
        const struct sigv4_pair pairs[] = {{"host", strstr(l->sts_at, "://") + 3},
            {"x-amz-date", scope.time}, {"x-amz-security-token", signer->token}};
        const struct sigv4_req req = {"POST", "/", "", pairs, signer->token ? 3 : 2, hash};
        sigv4_key(signer->secret, &scope, key);
        cleanup_free char *value = sigv4_authorization(&req, &scope, signer->id, key);
        explicit_bzero(key, sizeof key);
        headers[n++] = date = xasprintf("x-amz-date: %s", scope.time);
        headers[n++] = authorization = xasprintf("authorization: %s", value);
        if (signer->token)
            headers[n++] = token = xasprintf("x-amz-security-token: %s", signer->token);
    }
    struct http_req req = {.method = "POST",
        .url = url,
        .headers = headers,
        .body = form->data,
        .body_len = form->len,
        .max_body = LEND_ANSWER_MAX,
        .timeout_ns = LEND_NS};
    cleanup_answer struct http_resp resp;
    struct err inner = ERR_INIT;
    if (http_do(l->http, &req, &resp, &inner))
        return lend_err_network(l->params, "credentials", l->sts_at, inner.msg, &inner, e);
    char until[40];
    if (resp.status != 200
        || !s3_xml_keys(resp.body.data, resp.body.len, &out->id, &out->secret, &out->token, until))
        return err_role(l, role, &resp, e);
    *lifetime_ns = lend_until(&resp, *until ? until : NULL);
    return keys_ok(out) ? 0 : err_answer(l, l->sts_at, e);
}

static void begin_form(struct buf *form, const char *action, const struct s3_role *role)
{
    lend_form_add(form, "Action", action);
    lend_form_add(form, "Version", "2011-06-15");
    lend_form_add(form, "RoleArn", role->arn);
    lend_form_add(form, "RoleSessionName", role->session);
    if (role->external_id)
        lend_form_add(form, "ExternalId", role->external_id);
}

static int assume(struct s3_lender *l, const struct s3_role *role, const struct s3_keys *as,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    cleanup_form struct buf form = LEND_FORM;
    begin_form(&form, "AssumeRole", role);
    return send_sts(l, role, &form, as, out, lifetime_ns, e);
}

static int show_token(struct s3_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    char *token = lend_token(l->params, id->token_file, NULL, e);
    if (!token)
        return -1;
    cleanup_form struct buf form = LEND_FORM;
    begin_form(&form, "AssumeRoleWithWebIdentity", &id->web);
    lend_form_add(&form, "WebIdentityToken", token);
    wipe_text(&token);
    return send_sts(l, &id->web, &form, NULL, out, lifetime_ns, e);
}

/* -- services of the machine ------------------------------------------------------------------ */

/* 200, or -1. */
static int ask_near(struct s3_lender *l, const char *method, const char *url, const char *header,
    int64_t timeout_ns, struct http_resp *resp, struct err *e)
{
    const char *headers[] = {header, NULL};
    struct http_req req = {.method = method,
        .url = url,
        .headers = headers,
        .max_body = LEND_ANSWER_MAX,
        .timeout_ns = timeout_ns};
    struct err inner = ERR_INIT;
    if (http_do(l->near, &req, resp, &inner))
        return lend_err_network(l->params, "credentials", url, inner.msg, &inner, e);
    if (resp->status == 200)
        return 0;
    bool later = resp->status >= 500 || resp->status == 429;
    return store_err(e, later ? ERR_RETRY : ERR_DENIED, later ? EIO : EACCES,
        later ? REASON_STORE_ERROR : REASON_ACCESS_DENIED, l->params->url,
        ": no credentials from %s (%d): %s", url, resp->status,
        later ? "it may be a moment" : "is a role bound to this machine or pod?");
}

static int take_json(const struct s3_lender *l, const char *at, const struct http_resp *resp,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    struct err inner = ERR_INIT;
    cleanup_json json_t *j = json_parse(resp->body.data, resp->body.len, &inner);
    const char *code = jget_str(j, "Code", "Success");
    if (!j || strcmp(code, "Success") != 0)
        return err_answer(l, at, e);
    *out = (struct s3_keys){xstrdup(jget_str(j, "AccessKeyId", NULL)),
        xstrdup(jget_str(j, "SecretAccessKey", NULL)), xstrdup(jget_str(j, "Token", NULL))};
    *lifetime_ns = lend_until(resp, jget_str(j, "Expiration", NULL));
    return keys_ok(out) ? 0 : err_answer(l, at, e);
}

/* Without TLS a token goes to this machine only. */
static bool is_near(const char *url)
{
    static const char *const hosts[] = {
        "127.0.0.1", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (strncmp(url, "https://", 8) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        size_t n = strlen(hosts[i]);
        if (strncmp(url, "http://", 7) == 0 && strncmp(url + 7, hosts[i], n) == 0
            && strchr("/:", url[7 + n]))
            return true;
    }
    return false;
}

static int ask_container(
    struct s3_lender *l, struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    const char *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *plain = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    cleanup_free char *url = relative && *relative ? xasprintf("%s%s", CONTAINER_AT, relative)
                                                   : xstrdup(full ? full : "");
    if (!is_near(url))
        return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, l->params->url,
            ": AWS_CONTAINER_CREDENTIALS_FULL_URI is %s: without TLS only this machine is asked",
            url);
    char *token = file && *file ? lend_token(l->params, file, NULL, e)
                                : xstrdup(plain ? plain : "");
    if (!token)
        return -1;
    cleanup_free char *header = *token ? xasprintf("authorization: %s", token) : NULL;
    wipe_text(&token);
    cleanup_answer struct http_resp resp = {0};
    int rc = ask_near(l, "GET", url, header, LEND_NS, &resp, e);
    if (header)
        explicit_bzero(header, strlen(header));
    return rc ? rc : take_json(l, url, &resp, out, lifetime_ns, e);
}

/* The first line of what the metadata service has there. */
static int ask_metadata(struct s3_lender *l, const char *method, const char *path,
    const char *header, char **out, struct err *e)
{
    const char *at = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    cleanup_free char *url = xasprintf("%s%s", at && *at ? at : INSTANCE_AT, path);
    cleanup_answer struct http_resp resp = {0};
    if (ask_near(l, method, url, header, 2 * LEND_PROBE_NS, &resp, e))
        return -1;
    const char *text = buf_str(&resp.body);
    size_t n = strcspn(text, "\r\n");
    if (!n || !http_is_word(text, n))
        return err_answer(l, url, e);
    *out = xstrndup(text, n);
    return 0;
}

static int ask_instance(
    struct s3_lender *l, struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    const char *at = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    cleanup_free char *token = NULL, *role = NULL;
    if (ask_metadata(
            l, "PUT", "/latest/api/token", "x-aws-ec2-metadata-token-ttl-seconds: 300", &token, e))
        return -1;
    cleanup_free char *header = xasprintf("x-aws-ec2-metadata-token: %s", token);
    if (ask_metadata(l, "GET", INSTANCE_DIR, header, &role, e))
        return -1;
    cleanup_free char *name = http_escape(role, false);
    cleanup_free char *url = xasprintf("%s%s%s", at && *at ? at : INSTANCE_AT, INSTANCE_DIR, name);
    cleanup_answer struct http_resp resp = {0};
    if (ask_near(l, "GET", url, header, 2 * LEND_PROBE_NS, &resp, e))
        return -1;
    return take_json(l, url, &resp, out, lifetime_ns, e);
}

/* -- all of it --------------------------------------------------------------------------------- */

static int lend_first(struct s3_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    switch (id->first) {
    case S3_NOBODY:
    case S3_DOCUMENT:
        return 0;
    case S3_KEYS:
        s3_keys_copy(out, &id->keys);
        return 0;
    case S3_WEB_IDENTITY:
        return show_token(l, id, out, lifetime_ns, e);
    case S3_CONTAINER:
        return ask_container(l, out, lifetime_ns, e);
    case S3_INSTANCE:
        return ask_instance(l, out, lifetime_ns, e);
    }
    return 0;
}

int s3_lend(struct s3_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    int rc = lend_first(l, id, out, lifetime_ns, e);
    for (unsigned i = 0; rc == 0 && i < id->nroles; i++) {
        struct s3_keys as = *out;
        *out = (struct s3_keys){0};
        rc = assume(l, &id->roles[i], &as, out, lifetime_ns, e);
        s3_keys_clear(&as);
    }
    return rc;
}
