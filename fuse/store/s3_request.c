/* SPDX-License-Identifier: Apache-2.0 */
/* One signed request to an S3 server, and how often it is made again. */
#include "fuse/store/s3.h"

#include "fuse/store/gs.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STALL_NS       (15 * NS_PER_S)
#define ANSWER_MAX     (64u << 10)
#define HEADERS_MAX    32
#define WARN_EVERY_NS  (10 * NS_PER_S)
#define SNAPSHOT_CHUNK (256u << 10)

struct fd_body {
    const struct s3_call *c;
    uint64_t sent;
};

static ssize_t fd_body_read(void *user, void *data, size_t len)
{
    struct fd_body *u = user;
    size_t want = (size_t)MIN((uint64_t)len, u->c->fd_len - u->sent);
    ssize_t n;
    do {
        n = want ? pread(u->c->fd, data, want, (off_t)(u->c->fd_off + u->sent)) : 0;
    } while (n < 0 && errno == EINTR);
    if (n < 0 || (n == 0 && want))
        return -1;
    u->sent += (uint64_t)n;
    return n;
}

static int fd_body_rewind(void *user)
{
    ((struct fd_body *)user)->sent = 0;
    return 0;
}

static char *build_url(
    const struct s3_place *place, const struct s3_call *c, const char *query, char **path)
{
    cleanup_free char *key = c->key ? http_escape(c->key, true) : xstrdup("");
    *path = xasprintf("%s/%s", place->path_prefix, key);
    if (!c->key && *place->path_prefix)
        (*path)[strlen(*path) - 1] = '\0'; /* "/bucket", which every server takes */
    return xasprintf("%s%s%s%s", place->origin, *path, *query ? "?" : "", query);
}

struct header_lines {
    char *line[HEADERS_MAX];
    size_t n;
};

static void lines_free(struct header_lines *l)
{
    for (size_t i = 0; i < l->n; i++) {
        explicit_bzero(l->line[i], strlen(l->line[i]));
        free(l->line[i]);
    }
}

static int by_pair_name(const void *a, const void *b)
{
    return strcmp(((const struct sigv4_pair *)a)->name, ((const struct sigv4_pair *)b)->name);
}

/* The same lines as Google has them. */
static void to_google(struct header_lines *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        char *line = gs_line(l->line[i]);
        explicit_bzero(l->line[i], strlen(l->line[i]));
        free(l->line[i]);
        if (line)
            l->line[n++] = line;
    }
    for (size_t i = n; i < l->n; i++)
        l->line[i] = NULL;
    l->n = n;
}

/* The caller's headers, those of the terms and of the body. */
static int own_headers(
    const struct s3 *s, const struct s3_call *c, struct header_lines *out, struct err *e)
{
    for (size_t i = 0; c->headers && c->headers[i]; i++)
        out->line[out->n++] = xstrdup(c->headers[i]);
    for (size_t i = 0; i < s->terms.n; i++)
        if (!s->terms.term[i].when || (s->terms.term[i].when & c->does))
            out->line[out->n++] = xstrdup(s->terms.term[i].line);
    enum s3_sum kind = c->sums ? s->terms.sum : S3_SUM_NONE;
    uint64_t sum = 0;
    if (c->from_fd && kind && s3_sum_fd(kind, c->fd, c->fd_off, c->fd_len, &sum, e))
        return -1;
    if (c->sum)
        *c->sum = sum;
    if (!kind)
        return 0;
    char text[S3_SUM_TEXT];
    s3_sum_text(kind, sum, text);
    out->line[out->n++] = s3_sum_header(kind, text);
    out->line[out->n++] = xasprintf("x-amz-sdk-checksum-algorithm: %s", s3_sum_name(kind));
    return 0;
}

/* Adds the headers of the signature, which covers those that are S3's own. */
static void sign_headers(const struct s3_place *place, const struct s3_call *c,
    const struct s3_signer *signer, const struct sigv4_scope *scope, const char *path,
    const char *query, const char *hash, struct header_lines *out)
{
    struct sigv4_pair pairs[HEADERS_MAX];
    char *names[HEADERS_MAX];
    size_t n = 0, owned = 0;
    for (size_t i = 0; i < out->n; i++) {
        const char *line = out->line[i];
        if (strncmp(line, "x-amz-", 6) != 0)
            continue;
        size_t len = strcspn(line, ":");
        names[owned] = xstrndup(line, len);
        pairs[n++] = (struct sigv4_pair){names[owned++], line + len + 1};
    }
    if (!signer->anonymous) {
        pairs[n++] = (struct sigv4_pair){"host", place->host};
        pairs[n++] = (struct sigv4_pair){"x-amz-content-sha256", hash};
        pairs[n++] = (struct sigv4_pair){"x-amz-date", scope->time};
        out->line[out->n++] = xasprintf("x-amz-content-sha256: %s", hash);
        out->line[out->n++] = xasprintf("x-amz-date: %s", scope->time);
        if (signer->token) {
            pairs[n++] = (struct sigv4_pair){"x-amz-security-token", signer->token};
            out->line[out->n++] = xasprintf("x-amz-security-token: %s", signer->token);
        }
        qsort(pairs, n, sizeof *pairs, by_pair_name);
        struct sigv4_req req = {c->method, path, query, pairs, n, hash};
        cleanup_free char *value = sigv4_authorization(&req, scope, signer->key_id, signer->key);
        out->line[out->n++] = xasprintf("authorization: %s", value);
    }
    while (owned)
        free(names[--owned]);
}

/* A token says who asks, and nothing of what is asked for. */
static void bear_token(
    const struct s3_call *c, const struct s3_signer *signer, struct header_lines *out)
{
    /* else what is stored compressed comes decompressed, and has another length */
    if (c->key && strcmp(c->method, "GET") == 0)
        out->line[out->n++] = xstrdup("accept-encoding: gzip");
    if (!signer->anonymous)
        out->line[out->n++] = xasprintf("authorization: Bearer %s", signer->token);
}

static int payload_hash(const struct s3_call *c, char hex[SIGV4_HEX_LEN], struct err *e)
{
    if (c->from_fd)
        return sigv4_sha256_fd(c->fd, c->fd_off, c->fd_len, hex, e);
    if (c->body_len)
        sigv4_sha256(c->body, c->body_len, hex);
    else
        memcpy(hex, SIGV4_EMPTY, sizeof SIGV4_EMPTY);
    return 0;
}

/* The answer's Date tells by how much our clock is wrong. */
static bool learn_skew(struct s3 *s, const struct http_resp *resp)
{
    char value[64];
    int64_t server;
    if (!http_header(resp, "date", value, sizeof value) || clock_parse_http_date(value, &server))
        return false;
    int64_t skew = server - clock_real_ns();
    log_warn(
        "%s: this machine's clock is %lld s off the server's; its requests are dated by the server's from now on",
        s->params.url, (long long)(-skew / NS_PER_S));
    atomic_store(&s->skew_ns, skew);
    return true;
}

/* -- s3_metrics -------------------------------------------------------------------------------- */

METRIC_SECONDS(
    store_seconds, "millrace_store_request_seconds", "method", "Requests to S3, by duration.");
METRIC_COUNTER(
    store_errors, "millrace_store_errors_total", "", "Requests to S3 without a good answer.");
METRIC_COUNTER(store_throttled, "millrace_store_throttled_total", "",
    "Answers of S3 that ask for fewer requests.");
METRIC_COUNTER(
    store_retries, "millrace_store_retries_total", "", "Requests to S3 that were made again.");

static struct {
    struct metric *seconds[5], *errors, *throttled, *retries;
} s3_metrics;

static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
_Static_assert(ARRAY_LEN(methods) == ARRAY_LEN(s3_metrics.seconds), "a histogram for each method");

static void s3_metrics_register(void)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        s3_metrics.seconds[i] = metric_of(&store_seconds, methods[i]);
    s3_metrics.errors = metric_of(&store_errors);
    s3_metrics.throttled = metric_of(&store_throttled);
    s3_metrics.retries = metric_of(&store_retries);
}

static void count_request(const struct s3_call *c, int status, bool ok, int64_t took_ns)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(methods[i], c->method) == 0)
            metric_add(s3_metrics.seconds[i], took_ns);
    if (!ok)
        metric_add(s3_metrics.errors, 1);
    if (status == 503 || status == 429)
        metric_add(s3_metrics.throttled, 1);
}

/* -- attempts -------------------------------------------------------------------------------- */

static int send_signed(struct s3 *s, const struct s3_place *place, const struct s3_call *c,
    const struct retry *r, const struct s3_signer *signer, const char *time, struct http_resp *resp,
    struct err *e)
{
    char hash[SIGV4_HEX_LEN];
    if (!s->google && payload_hash(c, hash, e))
        return -1;
    cleanup_free char *query = sigv4_query(c->query, c->nquery), *path = NULL;
    cleanup_free char *url = build_url(place, c, query, &path);
    struct sigv4_scope scope = {.region = place->region, .service = "s3"};
    memcpy(scope.time, time, SIGV4_TIME_LEN);
    struct header_lines lines = {0};
    if (own_headers(s, c, &lines, e)) {
        lines_free(&lines);
        return -1;
    }
    if (s->google) {
        to_google(&lines);
        bear_token(c, signer, &lines);
    } else {
        sign_headers(place, c, signer, &scope, path, query, hash, &lines);
    }
    struct fd_body up = {c, 0};
    struct http_req req = {
        .method = c->method,
        .url = url,
        .headers = (const char *const *)lines.line,
        .body = c->body,
        .body_len = c->from_fd ? (size_t)c->fd_len : c->body_len,
        .sink = c->sink,
        .begin = c->begin,
        .sink_user = c->sink_user,
        .max_body = c->max_body ? c->max_body : ANSWER_MAX,
        .stall_ns = STALL_NS + c->inside_ns,
        .cancel = r->cancel,
        .also_cancel = r->also_cancel,
        .await_answer = c->await_answer,
    };
    if (c->from_fd && c->fd_len) {
        req.source = fd_body_read;
        req.source_user = &up;
        req.source_rewind = fd_body_rewind;
    }
    int64_t began = pace_enter(&s->pace, r->deadline_ns, r->cancel);
    req.timeout_ns = retry_left_ns(r);
    int rc = http_do(s->http, &req, resp, e);
    pace_leave(&s->pace, began, resp->status == 503 || resp->status == 429);
    count_request(c, resp->status, rc == 0 && resp->status / 100 == 2, clock_mono_ns() - began);
    lines_free(&lines);
    return rc;
}

int s3_once(struct s3 *s, const struct s3_call *c, const struct retry *r, struct http_resp *resp,
    struct s3_outcome *out, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, s3_metrics_register);
    *resp = (struct http_resp){0};
    out->status = 0;
    out->fault = (struct s3_fault){0};
    out->after_ns = -1;
    out->place = atomic_load(&s->place);
    out->elsewhere = false;
    char time[SIGV4_TIME_LEN];
    sigv4_time(clock_real_ns() + atomic_load(&s->skew_ns), time);
    struct s3_signer signer;
    if (s3_cred_get(s->cred, time, out->place->region, &signer, e))
        return -1;
    out->generation = signer.generation;
    bool seen = !s->clear_tokens && strncmp(out->place->origin, "https:", 6) != 0;
    if (seen && (signer.token || s->terms.secret)) {
        bool token = signer.token != NULL;
        s3_signer_clear(&signer);
        return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, s->params.url,
            ": a %s is not sent to %s, where anybody on the way sees it: use https://, or set option tls-verify to \"false\"",
            s->google   ? "token"
                : token ? "session token"
                        : "customer's key",
            out->place->origin);
    }
    struct err inner = ERR_INIT;
    int rc = send_signed(s, out->place, c, r, &signer, time, resp, &inner);
    s3_signer_clear(&signer);
    out->status = resp->status;
    if (rc)
        return s3_fail_network(s, c, out->place, &inner, e);
    if (resp->status / 100 == 2)
        return 0;
    s3_xml_fault(resp->body.data, resp->body.len, &out->fault);
    if (!*out->fault.region)
        http_header(resp, "x-amz-bucket-region", out->fault.region, sizeof out->fault.region);
    out->elsewhere = s3_is_elsewhere(resp->status, out->fault.code);
    out->after_ns = retry_after_ns(resp);
    if (strcmp(out->fault.code, "RequestTimeTooSkewed") == 0 && !out->healed
        && learn_skew(s, resp)) {
        out->healed = true;
        out->after_ns = 0;
        s3_fail(s, c, out, e);
        e->cls = ERR_RETRY;
        return -1;
    }
    return s3_fail(s, c, out, e);
}

static void warn_rarely(struct s3 *s, const struct err *e)
{
    int64_t now = clock_mono_ns(), last = atomic_load(&s->warned_ns);
    if ((last && now - last < WARN_EVERY_NS)
        || !atomic_compare_exchange_strong(&s->warned_ns, &last, now))
        return;
    log_warn("%s; trying again", e->msg);
}

/* The bucket is not where the request went: is it known now where it is? */
static bool go_elsewhere(struct s3 *s, const struct retry *r, struct s3_outcome *out)
{
    if (!out->elsewhere || out->moved)
        return false;
    if (!*out->fault.region)
        s3_place_ask(s, out->place, r, out->fault.region);
    out->moved = s3_place_learn(s, out->place, out->fault.region);
    return out->moved;
}

/* The server refused the credentials: are there other ones now? */
static bool go_renewed(struct s3 *s, struct s3_outcome *out, struct err *e)
{
    bool expired = out->status && strcmp(store_reason(e), "ExpiredCredentials") == 0;
    bool refused = expired || ((out->status == 401 || out->status == 403) && e->cls != ERR_RETRY);
    if (!refused || out->healed)
        return false;
    out->healed = s3_cred_renew(s->cred, out->generation);
    if (!out->healed && expired)
        s3_cred_cause(s->cred, e);
    return out->healed;
}

bool s3_again(struct s3 *s, struct retry *r, struct s3_outcome *out, struct err *e)
{
    if (go_renewed(s, out, e)) {
        metric_add(s3_metrics.retries, 1);
        return true;
    }
    if (go_elsewhere(s, r, out)) {
        metric_add(s3_metrics.retries, 1);
        return true;
    }
    if (!retry_again(r, e, out->after_ns))
        return false;
    warn_rarely(s, e);
    metric_add(s3_metrics.retries, 1);
    return true;
}

/* The body as it is now, for a file that is written to meanwhile: what is signed and what is sent
 * are read one after the other. -1: there is no room for it. */
static int take_snapshot(const struct s3_call *c)
{
    int fd = memfd_create("millrace-upload", MFD_CLOEXEC);
    cleanup_free char *chunk = malloc(SNAPSHOT_CHUNK);
    for (uint64_t at = 0; fd >= 0 && at < c->fd_len;) {
        size_t len = (size_t)MIN(c->fd_len - at, (uint64_t)SNAPSHOT_CHUNK);
        if (!chunk || io_pread_exact(c->fd, chunk, len, c->fd_off + at)
            || io_pwrite(fd, chunk, len, at)) {
            close(fd);
            return -1;
        }
        at += len;
    }
    return fd;
}

int s3_do(struct s3 *s, const struct s3_call *c, struct retry *r, struct http_resp *resp,
    struct s3_outcome *out, struct err *e)
{
    struct s3_call call = *c;
    cleanup_fd int snapshot = -1;
    for (;;) {
        if (s3_once(s, &call, r, resp, out, e) == 0)
            return 0;
        bool torn = call.from_fd && snapshot < 0
            && (strcmp(out->fault.code, "XAmzContentSHA256Mismatch") == 0
                || (call.sums && strcmp(out->fault.code, "BadDigest") == 0));
        if (torn && (snapshot = take_snapshot(c)) >= 0) {
            call.fd = snapshot;
            call.fd_off = 0;
        } else if (!s3_again(s, r, out, e)) {
            return -1;
        }
        http_resp_free(resp);
    }
}

int s3_check_body(struct s3 *s, const struct s3_call *c, const struct http_resp *resp,
    struct s3_outcome *out, struct err *e)
{
    if (!s3_xml_fault(resp->body.data, resp->body.len, &out->fault))
        return 0;
    /* the real one has gone out as 200 */
    out->status = strcmp(out->fault.code, "PreconditionFailed") == 0 ? 412 : 500;
    return s3_fail(s, c, out, e);
}

const char *s3_tag(const struct s3 *s, const struct http_resp *resp, char *out, size_t cap)
{
    return http_header(resp, s->google ? "x-goog-generation" : "etag", out, cap);
}

int64_t s3_inside_ns(uint64_t len)
{
    return MIN((int64_t)(len >> 20) * (NS_PER_S / 10), 600 * NS_PER_S);
}
