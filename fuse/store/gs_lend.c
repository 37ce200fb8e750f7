/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/gs_lend.h"

#include "fuse/store/gs_account.h"
#include "fuse/store/s3.h"
#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX  (64u << 10)
#define TOKEN_MAX   (64u << 10) /* bytes */
#define FORM_MAX    (256u << 10)
#define LIFETIME    (3600 * NS_PER_S) /* where nobody says */
#define PROBE_NS    NS_PER_S /* a machine that has a metadata server answers in that time */
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
    const struct http_conf near = {.direct = true, .connect_ns = PROBE_NS, .max_idle = 1};
    l->params = p;
    l->http = http;
    if (option_get(p, "sts-endpoint", &l->sts_at, e) || option_get(p, "tls-verify", &verify, e)
        || (l->sts_at && s3_endpoint_check(p, "sts-endpoint", l->sts_at, e))
        || !(l->near = http_new(&near, e))) {
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

/* -- what comes and goes ------------------------------------------------------------------------
 */

static void answer_free(struct http_resp *resp)
{
    if (resp->body.data)
        explicit_bzero(resp->body.data, resp->body.len);
    http_resp_free(resp);
}
#define cleanup_answer __attribute__((cleanup(answer_free)))

static void form_free(struct buf *form)
{
    if (form->data)
        explicit_bzero(form->data, form->len);
    buf_free(form);
}
#define cleanup_form __attribute__((cleanup(form_free)))

static void form_pair(struct buf *b, const char *name, const char *value)
{
    cleanup_free char *escaped = http_escape(value, false);
    buf_addf(b, "%s%s=%s", b->len ? "&" : "", name, escaped);
    explicit_bzero(escaped, strlen(escaped));
}

/* The text of the error may name the server. */
static int err_network(
    const struct gs_lender *l, const char *at, bool shown, const struct err *inner, struct err *e)
{
    enum reason reason = inner->cls == ERR_DENIED ? REASON_TLS_FAILED
        : inner->sys == EADDRNOTAVAIL             ? REASON_NAME_NOT_RESOLVED
                                                  : REASON_UNREACHABLE;
    return store_err(e, inner->cls == ERR_DENIED ? ERR_DENIED : ERR_RETRY, EIO, reason,
        l->params->url, ": no token from %s: %s", at,
        shown ? inner->msg : "it does not answer, or its certificate is not trusted");
}

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

/* By the clock of who answered, if he tells the time. */
static int64_t lifetime_of(const struct http_resp *resp, const struct gs_token *t)
{
    char date[64];
    int64_t now = clock_real_ns(), end;
    if (t->lifetime_s)
        return t->lifetime_s * NS_PER_S;
    if (!*t->until || clock_parse_rfc3339(t->until, &end))
        return LIFETIME;
    if (http_header(resp, "date", date, sizeof date))
        clock_parse_http_date(date, &now);
    return end - now;
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
    *lifetime_ns = lifetime_of(resp, &t);
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
static int check_server(const struct gs_lender *l, const char *url, struct err *e)
{
    const struct conf_mount *m = l->params->mount;
    bool allowed = !m->nendpoints || server_shown(l, url) == url;
    for (size_t i = 0; i < m->nendpoints && !allowed; i++) {
        size_t n = strlen(m->endpoints[i]);
        while (n && m->endpoints[i][n - 1] == '/')
            n--;
        allowed = strncmp(url, m->endpoints[i], n) == 0 && url[n] == '/';
    }
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
static int ask_server(struct gs_lender *l, const char *url, const char *type, const char *bearer,
    const struct buf *body, struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    if (check_server(l, url, e))
        return -1;
    cleanup_free char *kind = xasprintf("content-type: %s", type);
    cleanup_free char *line = bearer ? xasprintf("authorization: Bearer %s", bearer) : NULL;
    const char *headers[] = {kind, line, NULL};
    struct http_req req = {.method = "POST",
        .url = url,
        .headers = headers,
        .body = body->data,
        .body_len = body->len,
        .max_body = ANSWER_MAX,
        .timeout_ns = LEND_NS};
    cleanup_answer struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    const char *at = server_shown(l, url);
    int rc = http_do(l->http, &req, &resp, &inner) ? err_network(l, at, at == url, &inner, e)
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
    cleanup_form struct buf form = BUF_INIT(FORM_MAX);
    form_pair(&form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
    form_pair(&form, "assertion", jwt);
    s3_wipe(&jwt);
    return ask_server(l, a->token_uri, FORM, NULL, &form, out, lifetime_ns, e);
}

static int show_user(struct gs_lender *l, const struct gs_account *a, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    cleanup_form struct buf form = BUF_INIT(FORM_MAX);
    form_pair(&form, "grant_type", "refresh_token");
    form_pair(&form, "client_id", a->client_id);
    form_pair(&form, "client_secret", a->client_secret);
    form_pair(&form, "refresh_token", a->token);
    return ask_server(l, a->token_uri, FORM, NULL, &form, out, lifetime_ns, e);
}

/* A file that others write now and then; caller wipes. */
static char *read_token(
    const struct gs_lender *l, const char *file, const char *field, struct err *e)
{
    struct err inner = ERR_INIT;
    size_t len = 0;
    char *text = file_read(file, TOKEN_MAX, &len, &inner);
    if (text && *field) {
        char *value = gs_account_field(text, len, field);
        s3_wipe(&text);
        text = value;
        len = value ? strlen(value) : 0;
    }
    while (text && len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    if (text && len && http_is_word(text, len))
        return text;
    s3_wipe(&text);
    store_err(e, ERR_DENIED, EACCES, REASON_SECRET_MISSING, l->params->url,
        ": there is no token in %s%s%s", file, *inner.msg ? ": " : "", inner.msg);
    return NULL;
}

static int impersonate(
    struct gs_lender *l, const char *url, struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    struct buf body = BUF_INIT(FORM_MAX);
    char *as = steal(&out->token);
    buf_adds(&body, "{\"scope\":[\"" SCOPE "\"],\"lifetime\":\"3600s\"}");
    int rc = ask_server(l, url, "application/json", as, &body, out, lifetime_ns, e);
    s3_wipe(&as);
    buf_free(&body);
    return rc;
}

/* a: external; token_type and impersonate may be "" */
static int exchange(struct gs_lender *l, const struct gs_account *a, const char *file,
    struct s3_keys *out, int64_t *lifetime_ns, struct err *e)
{
    char *token = read_token(l, file, a->field, e);
    if (!token)
        return -1;
    cleanup_form struct buf form = BUF_INIT(FORM_MAX);
    form_pair(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    form_pair(&form, "audience", a->audience);
    form_pair(&form, "scope", *a->impersonate ? SCOPE_ALL : SCOPE);
    form_pair(&form, "requested_token_type", TOKEN_TYPE "access_token");
    form_pair(&form, "subject_token_type", *a->token_type ? a->token_type : TOKEN_TYPE "jwt");
    form_pair(&form, "subject_token", token);
    s3_wipe(&token);
    int rc = ask_server(l, a->token_uri, FORM, NULL, &form, out, lifetime_ns, e);
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

static int ask_metadata(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    const char *host = getenv("GCE_METADATA_HOST");
    cleanup_free char *url = xasprintf("http://%s" TOKEN_AT, host && *host ? host : METADATA_AT);
    const char *headers[] = {"Metadata-Flavor: Google", NULL};
    struct http_req req = {.method = "GET",
        .url = url,
        .headers = headers,
        .max_body = ANSWER_MAX,
        .timeout_ns = id->maybe ? 2 * PROBE_NS : LEND_NS};
    cleanup_answer struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    char flavor[16];
    if (http_do(l->near, &req, &resp, &inner))
        return err_network(l, url, true, &inner, e);
    if (!http_header(&resp, "metadata-flavor", flavor, sizeof flavor)
        || strcmp(flavor, "Google") != 0)
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, l->params->url,
            ": no token from %s (%d): it is no metadata server of Google's", url, resp.status);
    return take_token(l, url, &resp, out, lifetime_ns, e);
}

/* -- all of it --------------------------------------------------------------------------------- */

static int lend_any(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
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
        return ask_metadata(l, id, out, lifetime_ns, e);
    }
    return 0;
}

int gs_lend(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e)
{
    *out = (struct s3_keys){0};
    *lifetime_ns = LIFETIME;
    int rc = lend_any(l, id, out, lifetime_ns, e);
    if (rc == 0 && *lifetime_ns <= 0)
        rc = store_err(e, ERR_RETRY, EIO, REASON_EXPIRED, l->params->url,
            ": the token of %s had expired when it came", id->origin);
    if (rc)
        s3_keys_clear(out);
    if (rc && id->maybe) {
        err_clear(e);
        rc = 0;
    }
    return rc;
}
