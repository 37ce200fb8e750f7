/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's own routes: ranges of files, loads of ranges into its cache, the end of all pins. */
#include "fuse/peers/peers.h"
#include "fuse/worker/request.h"
#include "fuse/worker/server.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define COPY_MAX (16u << 20) /* of a response that goes through our memory … */
/* … and of all of them that are on their way: who reads slowly, or not at all, holds them */
#define COPIES_MAX (64u << 20)
#define BODY_MAX   4096 /* of a request */

static void answer_failure(struct server *s, struct serve_resp *resp, const struct err *e)
{
    atomic_fetch_add(&s->failed_requests, 1);
    int status = server_status_of(e);
    server_answer_error(resp, status, status == 409 ? "VersionChanged" : store_reason(e), e->msg);
}

/* Everything that a request needs before bytes move. -1: answered. */
static int open_requested(struct server *s, const struct serve_req *req, struct serve_resp *resp,
    struct request *r, struct cache_file **f)
{
    struct err e = ERR_INIT;
    struct cache *cache = atomic_load(&s->cache);
    atomic_fetch_add(&s->requests, 1);
    if (!cache) {
        atomic_fetch_add(&s->failed_requests, 1);
        server_answer_error(resp, 503, "Starting", "the worker's cache is not ready yet");
        return -1;
    }
    if (request_parse(req, s->conf->nmounts, r, &e)) {
        atomic_fetch_add(&s->failed_requests, 1);
        server_answer_error(resp, 400, "InvalidRequest", e.msg);
        return -1;
    }
    *f = cache_open(cache, &r->key, &e);
    if (!*f) {
        answer_failure(s, resp, &e);
        request_free(r);
        return -1;
    }
    return 0;
}

/* The checksums of the blocks of a range, if it is whole blocks. */
static void tell_crcs(struct serve_resp *resp, const uint32_t *crcs, uint64_t len)
{
    cleanup_free char *text = peers_crcs_text(
        crcs, (size_t)((len + CACHE_BLOCK - 1) / CACHE_BLOCK));
    buf_addf(&resp->headers, SIGN_CRC_HEADER ": %s\r\n", text);
}

static bool is_whole_blocks(const struct cache_file *f, uint64_t off, uint64_t len)
{
    return len && off % CACHE_BLOCK == 0
        && ((off + len) % CACHE_BLOCK == 0 || off + len == cache_size(f));
}

static void release_span(void *user)
{
    cache_release_span(user);
    free(user);
}

/* The range as a piece of a local file. 1: done (or answered with an error), 0: it has to be
 * copied. */
static int send_file(
    struct server *s, struct cache_file *f, uint64_t off, uint64_t len, struct serve_resp *resp)
{
    struct err e = ERR_INIT;
    struct cache_span *span = malloc(sizeof *span);
    int rc = span ? cache_hold_span(f, off, (size_t)len, span, &e) : 0;
    if (rc == 1) {
        resp->fd = fcntl(span->fd, F_DUPFD_CLOEXEC, 3);
        if (resp->fd >= 0) {
            if (is_whole_blocks(f, off, len))
                tell_crcs(resp, span->crcs, len);
            resp->fd_off = (off_t)span->off;
            resp->fd_len = span->len;
            resp->done = release_span;
            resp->done_user = span;
            return 1;
        }
        cache_release_span(span);
        rc = 0;
    }
    free(span);
    if (rc == 0)
        return 0;
    answer_failure(s, resp, &e);
    return 1;
}

struct copy {
    struct server *s;
    uint64_t len;
};

static void release_copy(void *user)
{
    struct copy *copy = user;
    atomic_fetch_sub(&copy->s->copied_bytes, copy->len);
    free(copy);
}

/* Memory for one, given back when the response has been sent or given up. */
static bool reserve_copy(struct server *s, uint64_t len, struct serve_resp *resp)
{
    struct copy *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    *copy = (struct copy){s, len};
    if (atomic_fetch_add(&s->copied_bytes, len) + len > COPIES_MAX) {
        release_copy(copy);
        return false;
    }
    resp->done = release_copy;
    resp->done_user = copy;
    return true;
}

static void send_copy(
    struct server *s, struct cache_file *f, uint64_t off, uint64_t len, struct serve_resp *resp)
{
    struct err e = ERR_INIT;
    if (!reserve_copy(s, len, resp)) {
        atomic_fetch_add(&s->failed_requests, 1);
        server_answer_error(resp, 503, "Busy",
            "too many readers are being sent what is not kept in the cache: ask again, or the store");
        return;
    }
    char *data = malloc((size_t)len + 1);
    if (!data)
        err_sys(&e, ENOMEM, "serve a range");
    if (!data || cache_read(f, data, (size_t)len, off, &e) != (ssize_t)len) {
        free(data);
        answer_failure(s, resp, &e);
        return;
    }
    data[len] = '\0';
    buf_free(&resp->body);
    resp->body.data = data; /* as it is: no second copy */
    resp->body.len = (size_t)len;
    resp->body.cap = (size_t)len + 1;
    if (!is_whole_blocks(f, off, len))
        return;
    uint32_t crcs[PEERS_CRCS_MAX];
    for (size_t at = 0, i = 0; at < len; at += CACHE_BLOCK, i++)
        crcs[i] = crc32c(0, data + at, (size_t)MIN((uint64_t)CACHE_BLOCK, len - at));
    tell_crcs(resp, crcs, len);
}

static void send_range(struct server *s, const struct request *r, struct cache_file *f, bool ranged,
    uint64_t off, uint64_t len, struct serve_resp *resp)
{
    uint64_t size = r->key.size;
    bool one_chunk = len && off / PEERS_CHUNK == (off + len - 1) / PEERS_CHUNK;
    if (!one_chunk && len > COPY_MAX) {
        server_answer_error(resp, 413, "RangeTooLarge",
            "ask for ranges within 64 MiB of a file that begin at multiples of 64 MiB");
        return;
    }
    if (len && !(one_chunk && send_file(s, f, off, len, resp))) {
        /* nothing is kept here, and this is more than we hold in memory for one reader */
        if (len > COPY_MAX) {
            server_answer_error(
                resp, 503, "CacheFull", "the cache has no room: ask for ranges of at most 16 MiB");
            return;
        }
        send_copy(s, f, off, len, resp);
    }
    if (resp->status != 200)
        return;
    resp->content_type = "application/octet-stream";
    buf_adds(&resp->headers, "Accept-Ranges: bytes\r\n");
    if (ranged) {
        resp->status = 206;
        buf_addf(&resp->headers, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n",
            off, off + len - 1, size);
    }
    atomic_fetch_add(&s->served_bytes, len);
}

static void serve_data(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct server *s = user;
    struct request r;
    struct cache_file *f;
    if (open_requested(s, req, resp, &r, &f))
        return;
    char header[128];
    const char *range = serve_header(req, "range", header, sizeof header);
    uint64_t off, len;
    switch (range_parse(range, r.key.size, &off, &len)) {
    case RANGE_OK:
        send_range(s, &r, f, range != NULL, off, len, resp);
        break;
    case RANGE_BAD:
        server_answer_error(
            resp, 400, "InvalidRequest", "the header Range is not one range of bytes");
        break;
    case RANGE_OUTSIDE:
        buf_addf(&resp->headers, "Content-Range: bytes */%" PRIu64 "\r\n", r.key.size);
        server_answer_error(
            resp, 416, "OutOfRange", "the range begins behind the end of the object");
        break;
    }
    cache_close(f);
    request_free(&r);
}

static void answer_no_room(
    struct server *s, struct serve_resp *resp, const char *reason, const struct err *e)
{
    if (e->cls == ERR_EXHAUSTED && e->sys == ENOSPC)
        server_answer_error(resp, 507, reason, e->msg);
    else
        answer_failure(s, resp, e);
}

/* A pin is of what this worker caches of a file, and grows by the chunks that the worker is asked
 * to load. */
static int set_pin(struct server *s, const struct request *r, uint64_t off, uint64_t len,
    enum request_pin pin, struct cache_file **f, struct err *e)
{
    struct cache *cache = atomic_load(&s->cache);
    if (pin == REQUEST_UNPIN)
        cache_unpin(cache, &r->key);
    if (pin != REQUEST_PIN)
        return 0;
    cache_close(*f);
    *f = cache_pin(cache, &r->key, off, len, e);
    return *f ? 0 : -1;
}

/* Before it is looked at what there is: then nothing is evicted unseen. */
static void mark_loaded(struct cache_file *f, uint8_t mark)
{
    if (mark)
        cache_mark_loaded(f, mark);
}

/* Fetches a range; says how much of it was here before. pin=1: pins it as well; pin=0: ends its
 * pin. mark=N: what is evicted of it from now on is counted. */
static void serve_load(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct server *s = user;
    struct request r;
    struct cache_file *f;
    struct err e = ERR_INIT;
    uint64_t off, len, had = 0;
    enum request_pin pin;
    uint8_t mark;
    if (open_requested(s, req, resp, &r, &f))
        return;
    if (request_number(req, "off", 0, &off, &e) || request_number(req, "len", r.key.size, &len, &e)
        || request_pin(req, &pin, &e) || request_mark(req, &mark, &e)) {
        server_answer_error(resp, 400, "InvalidRequest", e.msg);
    } else if (had = cache_cached(f, off, len), set_pin(s, &r, off, len, pin, &f, &e)) {
        answer_no_room(s, resp, "PinLimit", &e);
    } else if (mark_loaded(f, mark), cache_fill(f, off, len, &e)) {
        answer_no_room(s, resp, "CacheFull", &e);
    } else {
        resp->content_type = "application/json";
        buf_addf(&resp->body, "{\"cachedBytes\":%" PRIu64 ",\"hadBytes\":%" PRIu64 "}\n",
            cache_cached(f, off, len), had);
    }
    cache_close(f);
    request_free(&r);
}

/* How many bytes of a file are here. Nothing is fetched. */
static void serve_cached(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct request r;
    struct cache_file *f;
    if (open_requested(user, req, resp, &r, &f))
        return;
    resp->content_type = "text/plain";
    buf_addf(&resp->body, "%" PRIu64 "\n", cache_cached(f, 0, r.key.size));
    cache_close(f);
    request_free(&r);
}

/* Is this the same word as the last one? It is kept for the next. */
static bool pins_are_of(struct server *s, const char *unless)
{
    pthread_mutex_lock(&s->mu);
    bool same = unless && *unless && strcmp(s->pins_of, unless) == 0;
    snprintf(s->pins_of, sizeof s->pins_of, "%s", unless ? unless : "");
    pthread_mutex_unlock(&s->mu);
    return same;
}

/* Ends the pins of every file, also of those that are gone from the store. unless=WORD: but if it
 * was the same word the last time. */
static void serve_unpin(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct server *s = user;
    struct cache *cache = atomic_load(&s->cache);
    if (!cache) {
        server_answer_error(resp, 503, "Starting", "the worker's cache is not ready yet");
        return;
    }
    cleanup_free char *unless = serve_query(req, "unless");
    if (!pins_are_of(s, unless))
        cache_unpin_all(cache);
    resp->content_type = "application/json";
    buf_adds(&resp->body, "{}\n");
}

/* Ends the marks of files that were not asked for with mark=N. */
static void serve_unmark(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct server *s = user;
    struct cache *cache = atomic_load(&s->cache);
    struct err e = ERR_INIT;
    uint8_t mark;
    if (request_mark(req, &mark, &e)) {
        server_answer_error(resp, 400, "InvalidRequest", e.msg);
        return;
    }
    if (cache)
        cache_forget_loaded(cache, mark);
    resp->content_type = "application/json";
    buf_adds(&resp->body, "{}\n");
}

/* -- who may ask ----------------------------------------------------------------------------- */

/* The value of a header that the response has, or "". */
static void own_header(struct serve_resp *resp, const char *name, char *out, size_t cap)
{
    size_t n = strlen(name);
    *out = '\0';
    for (const char *p = buf_str(&resp->headers); *p; p += strcspn(p, "\n") + 1) {
        size_t len = strcspn(p, "\r\n");
        if (strncasecmp(p, name, n) == 0 && p[n] == ':' && p[n + 1] == ' ' && len - n - 2 < cap) {
            memcpy(out, p + n + 2, len - n - 2);
            out[len - n - 2] = '\0';
        }
        if (!p[len])
            return;
    }
}

static void sign_response(struct server *s, const char *request, struct serve_resp *resp)
{
    char range[96], crcs[PEERS_CRCS_MAX * 9 + 1], signature[SIGN_HEX + 1];
    own_header(resp, "Content-Range", range, sizeof range);
    own_header(resp, SIGN_CRC_HEADER, crcs, sizeof crcs);
    const struct sign_answer answer = {
        .request = request, .status = resp->status, .range = range, .crcs = crcs};
    sign_answer(s->key, &answer, signature);
    buf_addf(&resp->headers, SIGN_ANSWER_HEADER ": %s\r\n", signature);
}

/* Runs the handler for those who have the key, and signs what it answers. */
static void serve_signed(
    struct server *s, const struct serve_req *req, struct serve_resp *resp, serve_handler handler)
{
    char request[SIGN_REQUEST_MAX + 1], range[128];
    struct err e = ERR_INIT;
    if (!s->key) {
        resp->patient = true;
        handler(s, req, resp);
        return;
    }
    const char *header = serve_header(req, SIGN_REQUEST_HEADER, request, sizeof request);
    const struct sign_ask ask = {
        req->method, req->path, req->query, serve_header(req, "range", range, sizeof range)};
    if (sign_check_request(s->key, &ask, header, clock_real_ns() / NS_PER_S, &e)) {
        atomic_fetch_add(&s->requests, 1);
        atomic_fetch_add(&s->failed_requests, 1);
        server_answer_error(resp, 401, "Unauthorized", e.msg);
        return;
    }
    resp->patient = true;
    handler(s, req, resp);
    sign_response(s, request, resp);
}

static void route_data(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    serve_signed(user, req, resp, serve_data);
}

static void route_load(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    serve_signed(user, req, resp, serve_load);
}

static void route_cached(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    serve_signed(user, req, resp, serve_cached);
}

static void route_unpin(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    serve_signed(user, req, resp, serve_unpin);
}

static void route_unmark(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    serve_signed(user, req, resp, serve_unmark);
}

void serve_range_routes(struct server *s, struct serve_route out[SERVE_RANGE_ROUTES])
{
    out[0] = (struct serve_route){"GET", "/v1/data", route_data, s};
    out[1] = (struct serve_route){"POST", "/v1/load", route_load, s};
    out[2] = (struct serve_route){"POST", "/v1/unpin", route_unpin, s};
    out[3] = (struct serve_route){"POST", "/v1/unmark", route_unmark, s};
    out[4] = (struct serve_route){"GET", PEERS_CACHED, route_cached, s};
}

struct http_server *server_listen(const char *address, unsigned max_threads,
    const struct serve_route *routes, size_t n, struct err *e)
{
    const struct serve_conf conf = {.address = address,
        .port = PORT_HTTP,
        .routes = routes,
        .nroutes = n,
        .max_threads = max_threads,
        .max_body = BODY_MAX,
        .answer_ns = HEALTH_ANSWER_NS};
    return serve_start(&conf, e);
}
