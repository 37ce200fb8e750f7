/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/gs_lend.h"

#include "fuse/store/gs_account.h"
#include "fuse/store/lend.h"
#include "fuse/store/s3.h"
#include "fuse/store/web_lead.h"
#include "lib/base/buf.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/wipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define METADATA_AT "169.254.169.254"
#define TOKEN_AT    "/computeMetadata/v1/instance/service-accounts/default/token"
#define STS_AT      "https://sts.googleapis.com"
#define SCOPE       "https://www.googleapis.com/auth/devstorage.read_write"
#define SCOPE_ALL   "https://www.googleapis.com/auth/cloud-platform"
#define TOKEN_TYPE  "urn:ietf:params:oauth:token-type:"

struct gs_lender {
    const struct store_params *params;
    struct http *http; /* borrowed: for token servers */
    struct http *near; /* for the metadata server: by no proxy */
    char *sts_at;
    bool clear_tokens;
};

struct gs_lender *gs_lender_new(const struct store_params *p, struct http *http, struct err *e)
{
    struct gs_lender *l = xcalloc(1, sizeof *l);
    cleanup_free char *verify = NULL;
    l->params = p;
    l->http = http;
    if (option_get(p, "sts-endpoint", &l->sts_at, e) || option_get(p, "tls-verify", &verify, e)
        || (l->sts_at && s3_endpoint_check(p, "sts-endpoint", l->sts_at, e))
        || !(l->near = lend_near(e))) {
        gs_lender_free(l);
        return NULL;
    }
    l->clear_tokens = verify && strcmp(verify, "false") == 0;
    return l;
}

void gs_lender_free(struct gs_lender *l)
{
    if (!l)
        return;
    http_free(l->near);
    free(l->sts_at);
    free(l);
}

/* -- answers --------------------------------------------------------------------------------------
 */

static int err_status(
    const struct gs_lender *l, const char *at, const struct http_resp *resp, struct err *e)
{
    char words[200];
    int status = resp->status;
    gs_token_fault(resp->body.data ? resp->body.data : "", resp->body.len, words);
    bool later = status >= 500 || status == 429 || status == 408;
    bool expired = strstr(words, "invalid_grant") != NULL;
    return store_err(e, later ? ERR_RETRY : ERR_DENIED, later ? EIO : EACCES,
        later         ? REASON_STORE_ERROR
            : expired ? REASON_EXPIRED
                      : REASON_ACCESS_DENIED,
        l->params->url, ": no token from %s (%d%s%s)%s", at, status, *words ? " " : "", words,
        later ? ": it may be a moment" : ": check what is shown to it, and that it is known there");
}

static int take_token(const struct gs_lender *l, const char *at, const struct http_resp *resp,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    struct gs_token t;
    if (resp->status != 200)
        return err_status(l, at, resp, e);
    if (!gs_token_parse(resp->body.data ? resp->body.data : "", resp->body.len, &t))
        return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, l->params->url,
            ": what %s answered is no token", at);
    log_redact(t.token);
    s3_keys_clear(out);
    *out = (struct s3_keys){xstrdup("token"), xstrdup(""), t.token};
    *lifetime_ns = t.lifetime_s ? t.lifetime_s * NS_PER_S : lend_until(resp, t.until);
    return 0;
}

/* -- token servers -------------------------------------------------------------------------------
 */

/* Google's own: "https://sts.googleapis.com/v1/token". */
static bool is_googles(const char *url)
{
    static const char end[] = ".googleapis.com", old[] = "accounts.google.com";
    if (strncmp(url, "https://", 8) != 0)
        return false;
    const char *host = url + 8;
    size_t n = strcspn(host, "/:?#@");
    return host[n] == '/'
        && ((n >= sizeof end && strncmp(host + n - (sizeof end - 1), end, sizeof end - 1) == 0)
            || (n == sizeof old - 1 && strncmp(host, old, n) == 0));
}

/* What messages call it: people who read them may not read the Secret that names it. */
static const char *server_shown(const struct gs_lender *l, const char *url)
{
    size_t n = l->sts_at ? strlen(l->sts_at) : 0;
    n -= n && l->sts_at[n - 1] == '/';
    return is_googles(url) || (n && strncmp(url, l->sts_at, n) == 0 && url[n] == '/')
        ? url
        : "the token server that the credentials name";
}

/* What a document names may be read by its server: nobody has judged it. */
static int check_token_server(const struct gs_lender *l, const char *url, struct err *e)
{
    const struct conf_mount *m = l->params->mount;
    bool allowed = server_shown(l, url) == url || web_may_lead(url, m->endpoints, m->nendpoints);
    if (!allowed)
        return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, l->params->url,
            ": the credentials name a token server that is not Google's, and that this cluster does not allow (value limits.endpoints)");
    if (!l->clear_tokens && strncmp(url, "https://", 8) != 0)
        return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, l->params->url,
            ": a token is not asked for at %s, where anybody on the way sees it: use https://, or set option tls-verify to \"false\"",
            server_shown(l, url));
    return 0;
}

/* type: of the body; bearer: NULL, or as whom. */
static int ask_token_server(struct gs_lender *l, const char *url, const char *type,
    const char *bearer, const struct buf *body, struct s3_keys *out, int64_t *lifetime_ns,
    struct err *e)
{
    if (check_token_server(l, url, e))
        return -1;
    cleanup_free char *kind = xasprintf("content-type: %s", type);
    cleanup_free char *line = bearer ? xasprintf("authorization: Bearer %s", bearer) : NULL;
    const char *headers[] = {kind, line, NULL};
    struct http_req req = {.method = "POST",
        .url = url,
        .headers = headers,
        .body = body->data,
        .body_len = body->len,
        .max_body = LEND_ANSWER_MAX,
        .timeout_ns = LEND_NS};
    cleanup_answer struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    const char *at = server_shown(l, url);
    /* the text of the error may name the server */
    const char *hidden = "it does not answer, or its certificate is not trusted";
    int rc = http_do(l->http, &req, &resp, &inner)
        ? lend_err_network(l->params, "token", at, at == url ? inner.msg : hidden, &inner, e)
        : take_token(l, at, &resp, out, lifetime_ns, e);
    if (line)
        explicit_bzero(line, strlen(line));
    return rc;
}

#define FORM "application/x-www-form-urlencoded"

static int show_service_account(struct gs_lender *l, const struct gs_account *a,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    struct err inner = ERR_INIT;
    char *jwt = gs_account_sign(a, SCOPE, clock_real_ns() / NS_PER_S, &inner);
    if (!jwt)
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, l->params->url,
            ": the credentials are not to be used: %s", inner.msg);
    cleanup_form struct buf form = LEND_FORM;
    lend_form_add(&form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
    lend_form_add(&form, "assertion", jwt);
    wipe_text(&jwt);
    return ask_token_server(l, a->token_uri, FORM, NULL, &form, out, lifetime_ns, e);
}

static int show_user(struct gs_lender *l, const struct gs_account *a, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    cleanup_form struct buf form = LEND_FORM;
    lend_form_add(&form, "grant_type", "refresh_token");
    lend_form_add(&form, "client_id", a->client_id);
    lend_form_add(&form, "client_secret", a->client_secret);
    lend_form_add(&form, "refresh_token", a->token);
    return ask_token_server(l, a->token_uri, FORM, NULL, &form, out, lifetime_ns, e);
}

static int impersonate(
    struct gs_lender *l, const char *url, struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    struct buf body = LEND_FORM;
    char *as = steal(&out->token);
    buf_adds(&body, "{\"scope\":[\"" SCOPE "\"],\"lifetime\":\"3600s\"}");
    int rc = ask_token_server(l, url, "application/json", as, &body, out, lifetime_ns, e);
    wipe_text(&as);
    buf_free(&body);
    return rc;
}

/* a: external; token_type and impersonate may be "" */
static int exchange(struct gs_lender *l, const struct gs_account *a, const char *file,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    char *token = lend_token(l->params, file, *a->field ? a->field : NULL, e);
    if (!token)
        return -1;
    cleanup_form struct buf form = LEND_FORM;
    lend_form_add(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    lend_form_add(&form, "audience", a->audience);
    lend_form_add(&form, "scope", *a->impersonate ? SCOPE_ALL : SCOPE);
    lend_form_add(&form, "requested_token_type", TOKEN_TYPE "access_token");
    lend_form_add(&form, "subject_token_type", *a->token_type ? a->token_type : TOKEN_TYPE "jwt");
    lend_form_add(&form, "subject_token", token);
    wipe_text(&token);
    int rc = ask_token_server(l, a->token_uri, FORM, NULL, &form, out, lifetime_ns, e);
    return rc || !*a->impersonate ? rc : impersonate(l, a->impersonate, out, lifetime_ns, e);
}

static int show_provider(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    char none[] = "";
    const char *at = l->sts_at ? l->sts_at : STS_AT;
    int n = (int)strlen(at);
    cleanup_free char *url = xasprintf("%.*s/v1/token", n - (at[n - 1] == '/'), at);
    const struct gs_account a = {.kind = GS_EXTERNAL,
        .token_uri = url,
        .audience = id->web.arn,
        .token_type = none,
        .field = none,
        .impersonate = none};
    return exchange(l, &a, id->token_file, out, lifetime_ns, e);
}

/* In a cluster a document comes from a Secret: of the files in the pod it may have shown the one
 * that is meant for it. */
static int show_external(struct gs_lender *l, const struct gs_account *a, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    const char *file = l->params->secrets_dir ? getenv(ENV_IDENTITY_TOKEN) : a->file;
    if (file && *file)
        return exchange(l, a, file, out, lifetime_ns, e);
    return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, l->params->url,
        ": these credentials need a token of the cluster to show: set spec.serviceAccountName of the Dataset");
}

static int show_document(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    struct gs_account a;
    struct err inner = ERR_INIT;
    int rc = -1;
    if (gs_account_parse(id->document, strlen(id->document), &a, &inner)) {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, l->params->url,
            ": %s: these are no credentials as Google's tools write them: %s", id->origin,
            inner.msg);
    } else {
        switch (a.kind) {
        case GS_SERVICE_ACCOUNT:
            rc = show_service_account(l, &a, out, lifetime_ns, e);
            break;
        case GS_USER:
            rc = show_user(l, &a, out, lifetime_ns, e);
            break;
        case GS_EXTERNAL:
            rc = show_external(l, &a, out, lifetime_ns, e);
            break;
        }
    }
    gs_account_clear(&a);
    return rc;
}

/* -- the metadata server --------------------------------------------------------------------------
 */

static int ask_metadata_server(struct gs_lender *l, const struct s3_identity *id,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    const char *host = getenv("GCE_METADATA_HOST");
    cleanup_free char *url = xasprintf("http://%s" TOKEN_AT, host && *host ? host : METADATA_AT);
    const char *headers[] = {"Metadata-Flavor: Google", NULL};
    struct http_req req = {.method = "GET",
        .url = url,
        .headers = headers,
        .max_body = LEND_ANSWER_MAX,
        .timeout_ns = id->maybe ? 2 * LEND_PROBE_NS : LEND_NS};
    cleanup_answer struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    char flavor[16];
    if (http_do(l->near, &req, &resp, &inner))
        return lend_err_network(l->params, "token", url, inner.msg, &inner, e);
    if (!http_header(&resp, "metadata-flavor", flavor, sizeof flavor)
        || strcmp(flavor, "Google") != 0)
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, l->params->url,
            ": no token from %s (%d): it is no metadata server of Google's", url, resp.status);
    return take_token(l, url, &resp, out, lifetime_ns, e);
}

/* -- all of it --------------------------------------------------------------------------------- */

int gs_lend(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    switch (id->first) {
    case S3_NOBODY:
    case S3_KEYS:
    case S3_CONTAINER:
        return 0;
    case S3_DOCUMENT:
        return show_document(l, id, out, lifetime_ns, e);
    case S3_WEB_IDENTITY:
        return show_provider(l, id, out, lifetime_ns, e);
    case S3_INSTANCE:
        return ask_metadata_server(l, id, out, lifetime_ns, e);
    }
    return 0;
}
