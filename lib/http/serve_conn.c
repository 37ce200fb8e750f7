/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the server: reads requests, finds their routes, sends the answers. */
#include "lib/http/serve_priv.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/sock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_NS              (10 * NS_PER_S) /* from a request's first byte to its blank line */
#define BODY_NS              (60 * NS_PER_S) /* for the whole request body */
#define RESPONSE_MAX         (256u << 20)
#define RESPONSE_HEADERS_MAX (16u << 10)

const char *serve_header(const struct serve_req *r, const char *lower_name, char *out, size_t cap)
{
    return http_head_value(r->headers, lower_name, out, cap);
}

char *serve_query(const struct serve_req *r, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = r->query; *p;) {
        size_t len = strcspn(p, "&");
        size_t klen = strcspn(p, "=&");
        if (klen == n && memcmp(p, key, n) == 0) {
            size_t skip = klen < len ? klen + 1 : klen;
            char *value = xstrndup(p + skip, len - skip);
            if (http_head_unescape(value, true) == 0)
                return value;
            free(value);
            return NULL;
        }
        p += len + (p[len] == '&');
    }
    return NULL;
}

static bool server_stopping(struct http_server *s)
{
    pthread_mutex_lock(&s->mu);
    bool yes = s->stopping;
    pthread_mutex_unlock(&s->mu);
    return yes;
}

static void set_state(struct http_conn *c, enum http_state state)
{
    pthread_mutex_lock(&c->s->mu);
    c->state = state;
    c->since_ns = clock_mono_ns();
    pthread_mutex_unlock(&c->s->mu);
}

/* May the connection wait for another request after this answer? */
static bool may_stay(struct http_server *s, const struct serve_resp *resp)
{
    pthread_mutex_lock(&s->mu);
    bool full = s->nconns >= s->max_threads;
    bool yes = !s->stopping && (!s->answer_ns || resp->patient || !full);
    pthread_mutex_unlock(&s->mu);
    return yes;
}

/* Adds what the client sent to c->in. 1: some, 0: deadline, -1: closed or broken. */
static int conn_read(struct http_conn *c, int64_t deadline_ns)
{
    char chunk[16384];
    for (;;) {
        ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n > 0)
            return buf_add(&c->in, chunk, (size_t)n) ? -1 : 1;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        int rc = sock_wait(c->fd, POLLIN, deadline_ns);
        if (rc <= 0)
            return rc;
    }
}

static const char *status_text(int status)
{
    switch (status) {
    case 100:
        return "Continue";
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 206:
        return "Partial Content";
    case 304:
        return "Not Modified";
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 411:
        return "Length Required";
    case 412:
        return "Precondition Failed";
    case 413:
        return "Content Too Large";
    case 416:
        return "Range Not Satisfiable";
    case 417:
        return "Expectation Failed";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 502:
        return "Bad Gateway";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Status";
    }
}

static int send_response(struct http_conn *c, struct serve_resp *r, bool no_body, bool keep)
{
    if (r->body.truncated || r->headers.truncated) {
        log_error("http: an answer is larger than %u MiB and was replaced by an error",
            RESPONSE_MAX >> 20);
        buf_clear(&r->body);
        buf_clear(&r->headers);
        r->status = 500;
    }
    bool empty = r->status == 204 || r->status == 304;
    uint64_t len = r->fd >= 0 ? r->fd_len : r->body.len;
    char date[64];
    time_t now = time(NULL);
    struct tm tm;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    struct buf head = BUF_INIT(RESPONSE_HEADERS_MAX + 1024);
    buf_addf(&head, "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: %s\r\n", r->status,
        status_text(r->status), date, keep ? "keep-alive" : "close");
    if (!empty)
        buf_addf(
            &head, "Content-Type: %s\r\nContent-Length: %" PRIu64 "\r\n", r->content_type, len);
    buf_add(&head, r->headers.data, r->headers.len);
    buf_adds(&head, "\r\n");
    no_body |= empty || !len;
    int rc = sock_send(c->fd, head.data, head.len, no_body ? 0 : MSG_MORE);
    buf_free(&head);
    if (rc || no_body)
        return rc;
    return r->fd >= 0 ? sock_sendfile(c->fd, r->fd, r->fd_off, r->fd_len)
                      : sock_send(c->fd, r->body.data, r->body.len, 0);
}

static void resp_init(struct serve_resp *r)
{
    *r = (struct serve_resp){.status = 200, .content_type = "text/plain", .fd = -1};
    r->body.max = RESPONSE_MAX;
    r->headers.max = RESPONSE_HEADERS_MAX;
}

static void resp_free(struct serve_resp *r)
{
    buf_free(&r->body);
    buf_free(&r->headers);
    if (r->fd >= 0)
        close(r->fd);
    if (r->done)
        r->done(r->done_user);
}

static void set_error(struct serve_resp *r, int status, const char *text)
{
    r->status = status;
    buf_addf(&r->body, "%s\n", text);
}

/* The longest prefix that matches; among equals the one of this method. *other: the path exists,
 * but not for this method. */
static const struct serve_route *find_route(
    const struct http_server *s, const char *method, const char *path, bool *other)
{
    const struct serve_route *best = NULL;
    size_t best_len = 0, any_len = 0;
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    *other = false;
    for (size_t i = 0; i < s->nroutes; i++) {
        const struct serve_route *r = &s->routes[i];
        size_t n = strlen(r->prefix);
        bool match = n && r->prefix[n - 1] == '/' ? strncmp(path, r->prefix, n) == 0
                                                  : strcmp(path, r->prefix) == 0;
        if (!match)
            continue;
        any_len = MAX(any_len, n);
        *other = true;
        if (strcmp(r->method, method) == 0 && n > best_len) {
            best = r;
            best_len = n;
        }
    }
    return best && best_len == any_len ? best : NULL;
}

static void dispatch(struct http_server *s, const struct serve_req *req, struct serve_resp *resp)
{
    bool other;
    const struct serve_route *r = find_route(s, req->method, req->path, &other);
    if (r)
        r->handler(r->user, req, resp);
    else if (other)
        set_error(resp, 405, "this path does not take that method");
    else
        set_error(resp, 404, "there is nothing here");
}

/* Refuses the request and ends the connection: where the next request would begin is not known. */
static void conn_refuse(struct http_conn *c, int status, const char *text)
{
    struct serve_resp resp;
    resp_init(&resp);
    set_error(&resp, status, text);
    send_response(c, &resp, false, false);
    resp_free(&resp);
    shutdown(c->fd, SHUT_WR);
    /* unread bytes of the request would turn our answer into a reset */
    int64_t until = clock_mono_ns() + NS_PER_S;
    size_t drained = 0;
    char chunk[4096];
    while (drained < (1u << 20) && sock_wait(c->fd, POLLIN, until) > 0) {
        ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n <= 0)
            break;
        drained += (size_t)n;
    }
}

/* 1: c->in begins with a complete head of *len bytes; 0: the connection is over (and answered, if
 * that made sense). */
static int read_head(struct http_conn *c, size_t *len)
{
    int64_t idle = clock_mono_ns() + c->s->idle_ns, deadline = idle;
    set_state(c, HTTP_WAITING);
    for (bool first = true;;) {
        size_t skip = 0; /* blank lines before a request, which old clients send */
        while (skip < c->in.len && (c->in.data[skip] == '\r' || c->in.data[skip] == '\n'))
            skip++;
        buf_drop(&c->in, skip);
        *len = c->in.len ? http_head_length(c->in.data, c->in.len) : 0;
        if (*len > HEAD_MAX || (!*len && c->in.len >= HEAD_MAX)) {
            conn_refuse(c, 431, "the request head is larger than 16 KiB");
            return 0;
        }
        if (*len)
            return 1;
        if (c->in.len && first) {
            deadline = clock_mono_ns() + HEAD_NS;
            first = false;
        }
        int rc = server_stopping(c->s) ? -1 : conn_read(c, deadline);
        if (rc == 0 && c->in.len)
            conn_refuse(c, 408, "the request head took longer than 10 s");
        if (rc <= 0)
            return 0;
    }
}

static int read_body(struct http_conn *c, const struct http_head *h, size_t head_len)
{
    size_t want = head_len + (size_t)h->content_length;
    if (h->expect_continue && c->in.len < want) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (sock_send(c->fd, go_on, sizeof go_on - 1, 0))
            return -1;
    }
    int64_t deadline = clock_mono_ns() + BODY_NS;
    while (c->in.len < want) {
        int rc = conn_read(c, deadline);
        if (rc == 0)
            conn_refuse(c, 408, "the request body took longer than 60 s");
        if (rc <= 0)
            return -1;
    }
    return 0;
}

static bool serve_one(struct http_conn *c)
{
    size_t len;
    if (!read_head(c, &len))
        return false;
    struct http_head h;
    bool keep = false;
    int status = http_head_parse(&h, c->in.data, len);
    if (status) {
        conn_refuse(c, status,
            status == 411 ? "send the body with a Content-Length"
                          : "this is not a request that can be understood");
    } else if (h.content_length > c->s->max_body) {
        conn_refuse(c, 413, "the request body is too large");
    } else if (read_body(c, &h, len) == 0) {
        set_state(c, HTTP_WORKING);
        struct serve_req req = {
            h.method, h.path, h.query, h.headers, c->in.data + len, (size_t)h.content_length};
        struct serve_resp resp;
        resp_init(&resp);
        dispatch(c->s, &req, &resp);
        set_state(c, resp.patient ? HTTP_PATIENT : HTTP_ANSWERING);
        keep = h.keep_alive && may_stay(c->s, &resp);
        if (send_response(c, &resp, strcmp(h.method, "HEAD") == 0, keep))
            keep = false;
        resp_free(&resp);
        buf_drop(&c->in, len + (size_t)h.content_length);
    }
    http_head_free(&h);
    return keep;
}

void *conn_thread(void *user)
{
    struct http_conn *c = user;
    struct http_server *s = c->s;
    while (serve_one(c)) {
    }
    buf_free(&c->in);
    pthread_mutex_lock(&s->mu);
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    close(c->fd); /* under the lock: the number may be another file's as soon as it is closed */
    s->nconns--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
    free(c);
    return NULL;
}
