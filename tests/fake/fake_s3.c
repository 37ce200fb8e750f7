/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fake_s3.h"

#include "tests/fake/fake_s3_ops.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/http/http.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SKEW_S  3600
#define SLOW_NS (50 * NS_PER_MS)

struct conn {
    struct fake_s3 *f;
    struct conn *next;
    pthread_t thread;
    int fd;
};

static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};

void fake_s3_put(struct fake_s3 *f, const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&f->mu);
    object_put(f, key, data, len);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_del(struct fake_s3 *f, const char *key)
{
    pthread_mutex_lock(&f->mu);
    struct object *o = object_find(f, key);
    if (o)
        object_del(f, o);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_synth(
    struct fake_s3 *f, const char *prefix, unsigned dirs, unsigned files, size_t size)
{
    pthread_mutex_lock(&f->mu);
    f->synth = (struct synth){.dirs = dirs, .files = files, .size = size};
    snprintf(f->synth.prefix, sizeof f->synth.prefix, "%s", prefix);
    pthread_mutex_unlock(&f->mu);
}

void *fake_s3_get(struct fake_s3 *f, const char *key, size_t *len)
{
    pthread_mutex_lock(&f->mu);
    const struct object *o = object_find(f, key);
    void *copy = NULL;
    if (o) {
        copy = xmalloc(o->len + 1);
        memcpy(copy, o->data, o->len);
        *len = o->len;
    }
    pthread_mutex_unlock(&f->mu);
    return copy;
}

unsigned fake_s3_requests(struct fake_s3 *f, const char *method)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        n += !method || strcmp(method, methods[i]) == 0 ? f->counts[i] : 0;
    pthread_mutex_unlock(&f->mu);
    return n;
}

unsigned fake_s3_uploads(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    unsigned n = f->uploads;
    pthread_mutex_unlock(&f->mu);
    return n;
}

/* -- faults ---------------------------------------------------------------------------------- */

static const char *const kinds[] = {"slowdown", "throttled", "error", "reset", "truncated", "short",
    "long", "etag", "norange", "otherrange", "xml", "html", "redirect", "hang", "skew", "denied",
    "ok200", "lost", "slow", "forgotten", "damaged", "fine"};
_Static_assert(ARRAY_LEN(kinds) <= FAULT_KINDS, "a counter for each kind");

int fake_s3_fault(struct fake_s3 *f, const char *method, const char *kind, unsigned count)
{
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        known |= strcmp(kinds[i], kind) == 0;
    if (!known)
        return -1;
    pthread_mutex_lock(&f->mu);
    if (f->nfaults < ARRAY_LEN(f->faults)) {
        struct fault *x = &f->faults[f->nfaults++];
        snprintf(x->method, sizeof x->method, "%s", method);
        snprintf(x->kind, sizeof x->kind, "%s", kind);
        x->left = count;
    }
    pthread_mutex_unlock(&f->mu);
    return 0;
}

void fake_s3_clear(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->nfaults = 0;
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_tags(struct fake_s3 *f, bool etags, bool touched)
{
    pthread_mutex_lock(&f->mu);
    f->untagged = !etags;
    f->touched = touched;
    pthread_mutex_unlock(&f->mu);
}

unsigned fake_s3_faults(struct fake_s3 *f, const char *kind)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        n += strcmp(kinds[i], kind) == 0 ? f->struck[i] : 0;
    pthread_mutex_unlock(&f->mu);
    return n;
}

void fake_s3_race(
    struct fake_s3 *f, const char *method, const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->race.method, sizeof f->race.method, "%s", method);
    snprintf(f->race.key, sizeof f->race.key, "%s", key);
    f->race.len = MIN(len, sizeof f->race.data);
    f->race.after = false;
    memcpy(f->race.data, data, f->race.len);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_race_after(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->race.after = true;
    pthread_mutex_unlock(&f->mu);
}

static void run_race(struct fake_s3 *f, const char *method, bool after)
{
    if (strcmp(f->race.method, method) != 0 || f->race.after != after)
        return;
    object_put(f, f->race.key, f->race.data, f->race.len);
    f->race.method[0] = '\0';
}

void fake_s3_unconditional(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->unconditional = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_expire(struct fake_s3 *f, const char *key_id)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->expired, sizeof f->expired, "%s", key_id);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_region(struct fake_s3 *f, const char *region, enum fake_s3_tells how)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->region, sizeof f->region, "%s", region);
    f->tells = how;
    pthread_mutex_unlock(&f->mu);
}

/* The fault for this request, "" for none; one of its count is used up. mu held. */
static const char *next_fault(struct fake_s3 *f, const char *method)
{
    for (size_t i = 0; i < f->nfaults; i++)
        if (f->faults[i].left && strcmp(f->faults[i].method, method) == 0) {
            f->faults[i].left--;
            return f->faults[i].kind;
        }
    return "";
}

/* -- answers --------------------------------------------------------------------------------- */

static void send_all(int fd, const char *p, size_t len)
{
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        p += n;
        len -= (size_t)n;
    }
}

static void send_answer(int fd, struct answer *a)
{
    char date[64];
    struct tm tm;
    time_t now = time(NULL) + a->date_offset_s;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    cleanup_buf struct buf head = BUF_INIT(1 << 16);
    buf_addf(&head, "HTTP/1.1 %d Status\r\nDate: %s\r\n", a->status, date);
    if (!strstr(buf_str(&a->headers), "Content-Length"))
        buf_addf(&head, "Content-Length: %zu\r\n", a->body.len);
    buf_addf(&head, "%s\r\n", buf_str(&a->headers));
    send_all(fd, head.data, head.len);
    if (!a->head_only)
        send_all(fd, buf_str(&a->body), a->body.len - a->cut);
}

/* Faults that need no look at the object. True: the answer is ready. */
static bool early_fault(
    struct fake_s3 *f, const struct request *r, const char *fault, struct answer *a)
{
    char auth[1024] = "", date[64] = "", key_id[64] = "";
    http_head_value(r->h.headers, "authorization", auth, sizeof auth);
    if (strncmp(auth, "AWS4-HMAC-SHA256 Credential=", 28) == 0)
        snprintf(key_id, sizeof key_id, "%.*s", (int)strcspn(auth + 28, "/"), auth + 28);
    if (strcmp(fault, "slowdown") == 0) {
        answer_error(a, 503, "SlowDown", "Please reduce your request rate.");
        buf_adds(&a->headers, "Retry-After: 1\r\n");
    } else if (strcmp(fault, "throttled") == 0) {
        answer_error(a, 429, "TooManyRequests", "Please reduce your request rate.");
    } else if (strcmp(fault, "error") == 0) {
        answer_error(
            a, 500, "InternalError", "We encountered an internal error. Please try again.");
    } else if (strcmp(fault, "denied") == 0) {
        answer_error(a, 403, "AccessDenied", "Access Denied");
    } else if (strcmp(fault, "redirect") == 0) {
        answer_error(a, 301, "PermanentRedirect",
            "The bucket you are attempting to access must be addressed using the specified endpoint.");
        buf_adds(&a->headers, "x-amz-bucket-region: eu-west-9\r\n");
    } else if (strcmp(fault, "xml") == 0) {
        buf_adds(&a->body, "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>half");
    } else if (strcmp(fault, "html") == 0) {
        buf_adds(&a->body, "<html><head/><body>Welcome to nginx!</body></html>");
    } else if (strcmp(fault, "ok200") == 0) {
        answer_error(
            a, 200, "InternalError", "We encountered an internal error. Please try again.");
    } else if (strcmp(fault, "forgotten") == 0) {
        answer_error(a, 404, "NoSuchUpload", "The specified upload does not exist.");
    } else if (strcmp(fault, "reset") == 0) {
        a->drop = true;
    } else if (strcmp(fault, "hang") == 0) {
        a->hang = true;
    } else if (strcmp(fault, "skew") == 0) {
        char want[16];
        time_t there = time(NULL) + SKEW_S;
        struct tm tm;
        strftime(want, sizeof want, "%Y%m%dT%H", gmtime_r(&there, &tm));
        http_head_value(r->h.headers, "x-amz-date", date, sizeof date);
        if (strncmp(date, want, 11) == 0)
            return false;
        answer_error(a, 403, "RequestTimeTooSkewed",
            "The difference between the request time and the server's time is too large.");
        a->date_offset_s = SKEW_S;
    } else if (*key_id && strcmp(key_id, f->expired) == 0) {
        answer_error(a, 400, "ExpiredToken", "The provided token has expired.");
    } else if (*key_id && strcmp(key_id, "good") != 0) {
        answer_error(a, 403, "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.");
    } else {
        return false;
    }
    return true;
}

/* True: the request went to another region than the bucket's, and the answer says so. */
static bool wrong_region(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    char auth[1024] = "", asked[128] = "";
    http_head_value(r->h.headers, "authorization", auth, sizeof auth);
    const char *scope = strchr(auth, '/'); /* Credential=ID/DAY/REGION/s3/aws4_request */
    if (scope)
        sscanf(scope, "/%*[^/]/%127[^/]", asked);
    const char *told = f->region;
    if (f->tells == FAKE_S3_TELLS_CIRCLE && strcmp(asked, f->region) == 0)
        told = "us-east-1";
    else if (strcmp(asked, f->region) == 0)
        return false;
    if (a->head_only && f->tells == FAKE_S3_TELLS_HEAD) {
        a->status = 403;
        buf_addf(&a->headers, "x-amz-bucket-region: %s\r\n", told);
    } else if (f->tells == FAKE_S3_TELLS_BODY || f->tells == FAKE_S3_TELLS_CIRCLE) {
        a->status = 400;
        buf_addf(&a->body,
            "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is malformed; the region is wrong</Message><Region>%s</Region></Error>",
            told);
    } else {
        answer_error(a, 301, "PermanentRedirect",
            "The bucket you are attempting to access must be addressed using the specified endpoint.");
        if (f->tells == FAKE_S3_TELLS_HEADER)
            buf_addf(&a->headers, "x-amz-bucket-region: %s\r\n", told);
    }
    return true;
}

static void respond(struct fake_s3 *f, struct request *r, struct answer *a)
{
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        f->counts[i] += strcmp(methods[i], r->h.method) == 0;
    const char *fault = next_fault(f, r->h.method);
    run_race(f, r->h.method, false);
    bool bucket = strncmp(r->h.path, "/data", 5) == 0 && (r->h.path[5] == '/' || !r->h.path[5]);
    r->key = bucket && r->h.path[5] ? r->h.path + 6 : "";
    bool early = early_fault(f, r, fault, a);
    if (early || (*f->region && wrong_region(f, r, a)) || lacks_header(f, r, a)) {
    } else if (!bucket) {
        answer_error(a, 404, "NoSuchBucket", "The specified bucket does not exist");
    } else if (!*r->key) {
        op_list(f, r, a);
    } else if (strcmp(r->h.method, "GET") == 0 || a->head_only) {
        op_get(f, r, fault, a);
    } else if (strcmp(r->h.method, "PUT") == 0) {
        op_put(f, r, a);
    } else if (strcmp(r->h.method, "POST") == 0) {
        op_post(f, r, a);
    } else {
        op_delete(f, r, a);
    }
    run_race(f, r->h.method, true);
    a->drop |= strcmp(fault, "lost") == 0;
    a->slow = strcmp(fault, "slow") == 0;
    bool struck = (early && *fault) || a->slow || a->spoiled || strcmp(fault, "lost") == 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        f->struck[i] += struck && strcmp(kinds[i], fault) == 0;
    pthread_mutex_unlock(&f->mu);
}

/* -- connections ----------------------------------------------------------------------------- */

static bool stopping(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    bool yes = f->stopping;
    pthread_mutex_unlock(&f->mu);
    return yes;
}

static bool fill(int fd, struct buf *in)
{
    char chunk[65536];
    ssize_t n = recv(fd, chunk, sizeof chunk, 0);
    return n > 0 && buf_add(in, chunk, (size_t)n) == 0;
}

static bool serve_one(struct conn *c, struct buf *in)
{
    size_t len;
    while (!(len = in->len ? http_head_length(in->data, in->len) : 0))
        if (!fill(c->fd, in))
            return false;
    struct request r = {0};
    struct answer a = {.status = 200, .headers = BUF_INIT(4096), .body = BUF_INIT(BODY_MAX)};
    bool keep = http_head_parse(&r.h, in->data, len) == 0;
    if (keep && r.h.expect_continue)
        send_all(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    while (keep && in->len < len + r.h.content_length)
        keep = fill(c->fd, in);
    if (keep) {
        buf_str(in);
        r.body = in->data + len;
        r.body_len = (size_t)r.h.content_length;
        a.head_only = strcmp(r.h.method, "HEAD") == 0;
        respond(c->f, &r, &a);
        if (a.slow)
            clock_sleep_ns(SLOW_NS);
        while (a.hang && !stopping(c->f)) {
            struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
            if (poll(&p, 1, 50) > 0)
                break;
        }
        keep = !a.drop && !a.hang && !a.cut;
        if (!a.drop && !a.hang)
            send_answer(c->fd, &a);
        buf_drop(in, len + r.body_len);
    }
    http_head_free(&r.h);
    buf_free(&a.headers);
    buf_free(&a.body);
    return keep;
}

static void *conn_main(void *user)
{
    struct conn *c = user;
    struct buf in = BUF_INIT(BODY_MAX);
    while (serve_one(c, &in)) {
    }
    buf_free(&in);
    shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static void *acceptor_main(void *user)
{
    struct fake_s3 *f = user;
    for (;;) {
        int fd = accept(f->listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        int one = 1;
        /* head and body are sent apart */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = xcalloc(1, sizeof *c);
        c->f = f;
        c->fd = fd;
        pthread_mutex_lock(&f->mu);
        c->next = f->conns;
        f->conns = c;
        if (pthread_create(&c->thread, NULL, conn_main, c))
            abort();
        pthread_mutex_unlock(&f->mu);
    }
}

struct fake_s3 *fake_s3_start(int port)
{
    struct fake_s3 *f = xcalloc(1, sizeof *f);
    pthread_mutex_init(&f->mu, NULL);
    f->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    setsockopt(f->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    if (bind(f->listen_fd, (struct sockaddr *)&at, sizeof at) || listen(f->listen_fd, 128)
        || getsockname(f->listen_fd, (struct sockaddr *)&at, &len)
        || pthread_create(&f->acceptor, NULL, acceptor_main, f)) {
        perror("fake_s3");
        abort();
    }
    f->port = ntohs(at.sin_port);
    return f;
}

int fake_s3_port(const struct fake_s3 *f) { return f->port; }

void fake_s3_stop(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->stopping = true;
    pthread_mutex_unlock(&f->mu);
    shutdown(f->listen_fd, SHUT_RDWR);
    pthread_join(f->acceptor, NULL);
    close(f->listen_fd);
    for (struct conn *c = f->conns, *next; c; c = next) {
        next = c->next;
        shutdown(c->fd, SHUT_RDWR);
        pthread_join(c->thread, NULL);
        close(c->fd);
        free(c);
    }
    while (f->n)
        object_del(f, &f->objects[f->n - 1]);
    free(f->objects);
    pthread_mutex_destroy(&f->mu);
    free(f);
}
