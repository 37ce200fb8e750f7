#include "tests/fake/fake_s3.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/http/http.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BODY_MAX (256u << 20)
#define SKEW_S 3600
#define MTIME "2026-01-02T03:04:05.000Z"

struct object {
    char *key; /* of a part: "<upload id>/<number>", apart from the others by its first byte, 1 */
    char *data;
    size_t len;
    char etag[40];
    char mark[64]; /* x-amz-meta-millrace-upload */
};

struct fault {
    char method[8], kind[16];
    unsigned left;
};

struct conn {
    struct fake_s3 *f;
    struct conn *next;
    pthread_t thread;
    int fd;
};

struct fake_s3 {
    int listen_fd, port;
    pthread_t acceptor;
    pthread_mutex_t mu; /* guards all below */
    struct object *objects; /* sorted by key */
    size_t n;
    struct fault faults[64];
    size_t nfaults;
    struct conn *conns;
    unsigned counts[6], uploads, serial;
    char expired[64];
    bool stopping;
};

static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};

/* -- objects ----------------------------------------------------------------------------------------------------------- */

static size_t lower_bound(const struct fake_s3 *f, const char *key)
{
    size_t i = 0;
    while (i < f->n && strcmp(f->objects[i].key, key) < 0)
        i++;
    return i;
}

static struct object *find(struct fake_s3 *f, const char *key)
{
    size_t i = lower_bound(f, key);
    return i < f->n && strcmp(f->objects[i].key, key) == 0 ? &f->objects[i] : NULL;
}

static struct object *put(struct fake_s3 *f, const char *key, const void *data, size_t len)
{
    struct object *o = find(f, key);
    if (!o) {
        size_t i = lower_bound(f, key);
        f->objects = xrealloc(f->objects, (f->n + 1) * sizeof *f->objects);
        memmove(&f->objects[i + 1], &f->objects[i], (f->n - i) * sizeof *f->objects);
        f->n++;
        o = &f->objects[i];
        *o = (struct object){.key = xstrdup(key)};
    }
    free(o->data);
    o->mark[0] = '\0';
    o->data = xmalloc(len + 1);
    if (len)
        memcpy(o->data, data, len);
    o->len = len;
    snprintf(o->etag, sizeof o->etag, "\"%016" PRIx64 "\"", hash64(o->data, len));
    return o;
}

static void del(struct fake_s3 *f, struct object *o)
{
    free(o->key);
    free(o->data);
    size_t i = (size_t)(o - f->objects);
    memmove(o, o + 1, (f->n - i - 1) * sizeof *o);
    f->n--;
}

void fake_s3_put(struct fake_s3 *f, const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&f->mu);
    put(f, key, data, len);
    pthread_mutex_unlock(&f->mu);
}

void *fake_s3_get(struct fake_s3 *f, const char *key, size_t *len)
{
    pthread_mutex_lock(&f->mu);
    const struct object *o = find(f, key);
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

/* -- faults ------------------------------------------------------------------------------------------------------------ */

static const char *const kinds[] = {"slowdown", "throttled", "error", "reset", "truncated", "short", "long", "etag", "norange",
    "otherrange", "xml", "html", "redirect", "hang", "skew", "denied", "ok200", "lost", "fine"};

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

void fake_s3_expire(struct fake_s3 *f, const char *key_id)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->expired, sizeof f->expired, "%s", key_id);
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

/* -- answers ----------------------------------------------------------------------------------------------------------- */

struct answer {
    int status;
    struct buf headers, body;
    bool head_only, drop, hang; /* drop: close without a word */
    size_t cut;                 /* bytes of the body held back, though the length says otherwise */
    int date_offset_s;
};

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

static void error(struct answer *a, int status, const char *code, const char *message)
{
    a->status = status;
    buf_clear(&a->body);
    buf_addf(&a->body, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code, message);
}

static void add_text(struct buf *out, const char *key) /* as with encoding-type=url */
{
    cleanup_free char *text = http_escape(key, true);
    buf_adds(out, text);
}

/* -- requests ---------------------------------------------------------------------------------------------------------- */

struct request {
    struct head h;
    const char *key; /* "" for the bucket */
    const char *body;
    size_t body_len;
};

static char *query(const struct request *r, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = r->h.query; *p;) {
        size_t len = strcspn(p, "&");
        if (len >= n && strncmp(p, name, n) == 0 && (p[n] == '=' || len == n)) {
            char *value = xstrndup(p + n + (len > n), len - n - (len > n));
            if (head_unescape(value, false))
                value[0] = '\0';
            return value;
        }
        p += len + (p[len] == '&');
    }
    return NULL;
}

static void do_list(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    cleanup_free char *prefix = query(r, "prefix"), *delimiter = query(r, "delimiter"), *token = query(r, "continuation-token"),
                      *max = query(r, "max-keys");
    size_t plen = prefix ? strlen(prefix) : 0, limit = max ? strtoul(max, NULL, 10) : 1000, n = 0;
    cleanup_free char *last = NULL;
    bool more = false;
    buf_adds(&a->body, "<?xml version=\"1.0\"?><ListBucketResult><Name>data</Name><EncodingType>url</EncodingType>");
    for (size_t i = 0; i < f->n; i++) {
        const struct object *o = &f->objects[i];
        if (o->key[0] == 1 || strncmp(o->key, prefix ? prefix : "", plen) != 0)
            continue;
        const char *cut = delimiter && *delimiter ? strstr(o->key + plen, delimiter) : NULL;
        cleanup_free char *name = cut ? xstrndup(o->key, (size_t)(cut - o->key) + 1) : xstrdup(o->key);
        if ((token && strcmp(name, token) <= 0) || (last && strcmp(name, last) == 0))
            continue;
        if (n == limit) {
            more = true;
            break;
        }
        n++;
        buf_addf(&a->body, cut ? "<CommonPrefixes><Prefix>" : "<Contents><Key>");
        add_text(&a->body, name);
        if (cut)
            buf_adds(&a->body, "</Prefix></CommonPrefixes>");
        else
            buf_addf(&a->body, "</Key><LastModified>" MTIME "</LastModified><ETag>%s</ETag><Size>%zu</Size></Contents>", o->etag, o->len);
        free(last);
        last = xstrdup(name);
    }
    buf_addf(&a->body, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more) {
        buf_adds(&a->body, "<NextContinuationToken>");
        add_text(&a->body, last ? last : "");
        buf_adds(&a->body, "</NextContinuationToken>");
    }
    buf_adds(&a->body, "</ListBucketResult>");
}

static void do_get(struct fake_s3 *f, const struct request *r, const char *fault, struct answer *a)
{
    struct object *o = find(f, r->key);
    char value[256], etag[40];
    unsigned long long first = 0, last = 0;
    if (!o) {
        error(a, 404, "NoSuchKey", "The specified key does not exist.");
        return;
    }
    snprintf(etag, sizeof etag, "%s", o->etag);
    if (head_value(r->h.headers, "if-match", value, sizeof value) && strcmp(value, o->etag) != 0) {
        error(a, 412, "PreconditionFailed", "At least one of the preconditions you specified did not hold.");
        return;
    }
    bool ranged = head_value(r->h.headers, "range", value, sizeof value) &&
                  sscanf(value, "bytes=%llu-%llu", &first, &last) == 2 && strcmp(fault, "norange") != 0;
    if (ranged && first >= o->len) {
        error(a, 416, "InvalidRange", "The requested range is not satisfiable");
        return;
    }
    if (!ranged)
        first = 0;
    if (!ranged || last >= o->len)
        last = o->len ? o->len - 1 : 0;
    size_t len = o->len ? (size_t)(last - first + 1) : 0;
    if (strcmp(fault, "otherrange") == 0) {
        first = first ? first - 1 : 1;
        len = MIN(len, o->len - (size_t)first);
    } else if (strcmp(fault, "short") == 0) {
        len -= len / 3;
    }
    a->status = ranged ? 206 : 200;
    buf_add(&a->body, o->data + first, len);
    if (strcmp(fault, "long") == 0)
        buf_add(&a->body, "XXXXXXXXXXXXXXXX", 16);
    if (strcmp(fault, "etag") == 0) {
        snprintf(etag, sizeof etag, "\"0123456789abcdef\"");
        for (size_t i = 0; i < a->body.len; i++)
            a->body.data[i] ^= 0x55;
    }
    if (strcmp(fault, "truncated") == 0)
        a->cut = a->body.len / 2;
    buf_addf(&a->headers, "ETag: %s\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n", etag);
    if (*o->mark)
        buf_addf(&a->headers, "x-amz-meta-millrace-upload: %s\r\n", o->mark);
    if (ranged)
        buf_addf(&a->headers, "Content-Range: bytes %llu-%llu/%zu\r\n", first, first + (len ? len - 1 : 0), o->len);
}

static void part_key(char out[128], const char *id, const char *number)
{
    snprintf(out, 128, "\001%s/%05lu", id, strtoul(number, NULL, 10));
}

static void do_put(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    char source[1200], name[128];
    cleanup_free char *id = query(r, "uploadId"), *number = query(r, "partNumber");
    const char *key = r->key;
    if (id && number) {
        part_key(name, id, number);
        key = name;
    }
    if (!head_value(r->h.headers, "x-amz-copy-source", source, sizeof source)) {
        struct object *o = put(f, key, r->body, r->body_len);
        buf_addf(&a->headers, "ETag: %s\r\n", o->etag);
        return;
    }
    const struct object *from = head_unescape(source, false) || strncmp(source, "/data/", 6) != 0 ? NULL : find(f, source + 6);
    if (!from) {
        error(a, 404, "NoSuchKey", "The specified key does not exist.");
        return;
    }
    unsigned long long first = 0, last = from->len - 1;
    char range[64];
    if (head_value(r->h.headers, "x-amz-copy-source-range", range, sizeof range))
        sscanf(range, "bytes=%llu-%llu", &first, &last);
    cleanup_free char *copy = xmalloc((size_t)(last - first + 2));
    memcpy(copy, from->data + first, (size_t)(last - first + 1));
    struct object *o = put(f, key, copy, (size_t)(last - first + 1));
    const char *root = id ? "CopyPartResult" : "CopyObjectResult";
    buf_addf(&a->body, "<%s><ETag>%s</ETag></%s>", root, o->etag, root);
}

static void drop_parts(struct fake_s3 *f, const char *id)
{
    char first[128];
    part_key(first, id, "0");
    size_t n = strlen(id) + 2;
    for (;;) {
        size_t i = lower_bound(f, first);
        if (i == f->n || strncmp(f->objects[i].key, first, n) != 0)
            return;
        del(f, &f->objects[i]);
    }
}

static struct object *find_upload(struct fake_s3 *f, const char *id)
{
    char key[128];
    snprintf(key, sizeof key, "\001%s", id);
    return find(f, key);
}

static void end_upload(struct fake_s3 *f, const char *id)
{
    drop_parts(f, id);
    del(f, find_upload(f, id));
    f->uploads--;
}

static void do_post(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    cleanup_free char *id = query(r, "uploadId");
    if (!id) {
        char name[128];
        snprintf(name, sizeof name, "\001up%u", ++f->serial);
        struct object *up = put(f, name, "", 0);
        head_value(r->h.headers, "x-amz-meta-millrace-upload", up->mark, sizeof up->mark);
        f->uploads++;
        buf_addf(&a->body, "<InitiateMultipartUploadResult><UploadId>up%u</UploadId></InitiateMultipartUploadResult>", f->serial);
        return;
    }
    const struct object *up = find_upload(f, id);
    if (!up) {
        error(a, 404, "NoSuchUpload", "The specified upload does not exist.");
        return;
    }
    cleanup_buf struct buf whole = BUF_INIT(BODY_MAX);
    unsigned parts = 0;
    for (;; parts++) {
        char name[128], number[16];
        snprintf(number, sizeof number, "%u", parts + 1);
        part_key(name, id, number);
        const struct object *o = find(f, name);
        if (!o)
            break;
        if (!strstr(r->body, o->etag)) {
            error(a, 400, "InvalidPart", "One or more of the specified parts could not be found.");
            return;
        }
        buf_add(&whole, o->data, o->len);
    }
    char mark[64];
    memcpy(mark, up->mark, sizeof mark);
    end_upload(f, id);
    struct object *o = put(f, r->key, buf_str(&whole), whole.len);
    memcpy(o->mark, mark, sizeof mark);
    o->etag[strlen(o->etag) - 1] = '\0';
    snprintf(o->etag + strlen(o->etag), 16, "-%u\"", parts);
    buf_addf(&a->body, "<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>", o->etag);
}

static void do_delete(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    cleanup_free char *id = query(r, "uploadId");
    a->status = 204;
    if (id && find_upload(f, id)) {
        end_upload(f, id);
    } else if (id) {
        error(a, 404, "NoSuchUpload", "The specified upload does not exist.");
    } else {
        struct object *o = find(f, r->key);
        if (o)
            del(f, o);
    }
}

/* Faults that need no look at the object. True: the answer is ready. */
static bool early_fault(struct fake_s3 *f, const struct request *r, const char *fault, struct answer *a)
{
    char auth[1024] = "", date[64] = "", key_id[64] = "";
    head_value(r->h.headers, "authorization", auth, sizeof auth);
    if (strncmp(auth, "AWS4-HMAC-SHA256 Credential=", 28) == 0)
        snprintf(key_id, sizeof key_id, "%.*s", (int)strcspn(auth + 28, "/"), auth + 28);
    if (strcmp(fault, "slowdown") == 0) {
        error(a, 503, "SlowDown", "Please reduce your request rate.");
        buf_adds(&a->headers, "Retry-After: 1\r\n");
    } else if (strcmp(fault, "throttled") == 0) {
        error(a, 429, "TooManyRequests", "Please reduce your request rate.");
    } else if (strcmp(fault, "error") == 0) {
        error(a, 500, "InternalError", "We encountered an internal error. Please try again.");
    } else if (strcmp(fault, "denied") == 0) {
        error(a, 403, "AccessDenied", "Access Denied");
    } else if (strcmp(fault, "redirect") == 0) {
        error(a, 301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint.");
        buf_adds(&a->headers, "x-amz-bucket-region: eu-west-9\r\n");
    } else if (strcmp(fault, "xml") == 0) {
        buf_adds(&a->body, "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>half");
    } else if (strcmp(fault, "html") == 0) {
        buf_adds(&a->body, "<html><head/><body>Welcome to nginx!</body></html>");
    } else if (strcmp(fault, "ok200") == 0) {
        error(a, 200, "InternalError", "We encountered an internal error. Please try again.");
    } else if (strcmp(fault, "reset") == 0) {
        a->drop = true;
    } else if (strcmp(fault, "hang") == 0) {
        a->hang = true;
    } else if (strcmp(fault, "skew") == 0) {
        char want[16];
        time_t there = time(NULL) + SKEW_S;
        struct tm tm;
        strftime(want, sizeof want, "%Y%m%dT%H", gmtime_r(&there, &tm));
        head_value(r->h.headers, "x-amz-date", date, sizeof date);
        if (strncmp(date, want, 11) == 0)
            return false;
        error(a, 403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large.");
        a->date_offset_s = SKEW_S;
    } else if (*key_id && strcmp(key_id, f->expired) == 0) {
        error(a, 400, "ExpiredToken", "The provided token has expired.");
    } else if (*key_id && strcmp(key_id, "good") != 0) {
        error(a, 403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.");
    } else {
        return false;
    }
    return true;
}

static void respond(struct fake_s3 *f, struct request *r, struct answer *a)
{
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        f->counts[i] += strcmp(methods[i], r->h.method) == 0;
    const char *fault = next_fault(f, r->h.method);
    bool bucket = strncmp(r->h.path, "/data", 5) == 0 && (r->h.path[5] == '/' || !r->h.path[5]);
    r->key = bucket && r->h.path[5] ? r->h.path + 6 : "";
    if (early_fault(f, r, fault, a)) {
    } else if (!bucket) {
        error(a, 404, "NoSuchBucket", "The specified bucket does not exist");
    } else if (!*r->key) {
        do_list(f, r, a);
    } else if (strcmp(r->h.method, "GET") == 0 || a->head_only) {
        do_get(f, r, fault, a);
    } else if (strcmp(r->h.method, "PUT") == 0) {
        do_put(f, r, a);
    } else if (strcmp(r->h.method, "POST") == 0) {
        do_post(f, r, a);
    } else {
        do_delete(f, r, a);
    }
    a->drop |= strcmp(fault, "lost") == 0;
    pthread_mutex_unlock(&f->mu);
}

/* -- connections ------------------------------------------------------------------------------------------------------- */

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
    while (!(len = in->len ? head_length(in->data, in->len) : 0))
        if (!fill(c->fd, in))
            return false;
    struct request r = {0};
    struct answer a = {.status = 200, .headers = BUF_INIT(4096), .body = BUF_INIT(BODY_MAX)};
    bool keep = head_parse(&r.h, in->data, len) == 0;
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
    head_free(&r.h);
    buf_free(&a.headers);
    buf_free(&a.body);
    return keep;
}

static void *conn_main(void *user)
{
    struct conn *c = user;
    struct buf in = BUF_INIT(BODY_MAX);
    while (serve_one(c, &in)) {}
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
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    if (bind(f->listen_fd, (struct sockaddr *)&at, sizeof at) || listen(f->listen_fd, 128) ||
        getsockname(f->listen_fd, (struct sockaddr *)&at, &len) || pthread_create(&f->acceptor, NULL, acceptor_main, f)) {
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
        del(f, &f->objects[f->n - 1]);
    free(f->objects);
    pthread_mutex_destroy(&f->mu);
    free(f);
}
