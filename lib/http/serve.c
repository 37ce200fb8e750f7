/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/serve.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/http/sock.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_THREADS 64
#define DEFAULT_BODY    (1u << 20)
#define DEFAULT_IDLE_NS (60 * NS_PER_S)
#define HEAD_NS         (10 * NS_PER_S) /* from a request's first byte to its blank line */
#define BODY_NS         (60 * NS_PER_S) /* for the whole request body */
/* serve_stop: then connections in the middle of an answer are cut */
#define STOP_GRACE_NS        (5 * NS_PER_S)
#define RESPONSE_MAX         (256u << 20)
#define RESPONSE_HEADERS_MAX (16u << 10)
#define STACK_BYTES          (1u << 20)

struct conn {
    struct serve *s;
    struct conn *next, **prev; /* serve.mu */
    int fd;
    bool waiting;     /* serve.mu: no complete request yet, so it may be cut */
    int64_t since_ns; /* serve.mu: waiting since */
    struct buf in;    /* bytes read and not yet used */
};

struct serve {
    struct serve_route *routes;
    size_t nroutes, max_body;
    unsigned max_threads;
    int64_t idle_ns;
    int listen_fd, wake_fd, port;
    pthread_t acceptor;
    pthread_mutex_t mu; /* a leaf */
    pthread_cond_t changed;
    struct conn *conns; /* mu */
    unsigned nconns;    /* mu */
    bool stopping;      /* mu */
};

const char *serve_header(const struct serve_req *r, const char *lower_name, char *out, size_t cap)
{
    return head_value(r->headers, lower_name, out, cap);
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
            if (head_unescape(value, true) == 0)
                return value;
            free(value);
            return NULL;
        }
        p += len + (p[len] == '&');
    }
    return NULL;
}

/* -- one connection -------------------------------------------------------------------------- */

static bool stopping(struct serve *s)
{
    pthread_mutex_lock(&s->mu);
    bool yes = s->stopping;
    pthread_mutex_unlock(&s->mu);
    return yes;
}

static void set_waiting(struct conn *c, bool waiting)
{
    pthread_mutex_lock(&c->s->mu);
    c->waiting = waiting;
    c->since_ns = clock_mono_ns();
    pthread_mutex_unlock(&c->s->mu);
}

/* Adds what the client sent to c->in. 1: some, 0: deadline, -1: closed or broken. */
static int fill(struct conn *c, int64_t deadline_ns)
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

static int send_response(struct conn *c, struct serve_resp *r, bool no_body, bool keep)
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

static void fail(struct serve_resp *r, int status, const char *text)
{
    r->status = status;
    buf_addf(&r->body, "%s\n", text);
}

/* The longest prefix that matches; among equals the one of this method. *other: the path exists,
 * but not for this method. */
static const struct serve_route *find_route(
    const struct serve *s, const char *method, const char *path, bool *other)
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

static void dispatch(struct serve *s, const struct serve_req *req, struct serve_resp *resp)
{
    bool other;
    const struct serve_route *r = find_route(s, req->method, req->path, &other);
    if (r)
        r->handler(r->user, req, resp);
    else if (other)
        fail(resp, 405, "this path does not take that method");
    else
        fail(resp, 404, "there is nothing here");
}

/* Refuses the request and ends the connection: where the next request would begin is not known. */
static void refuse(struct conn *c, int status, const char *text)
{
    struct serve_resp resp;
    resp_init(&resp);
    fail(&resp, status, text);
    send_response(c, &resp, false, false);
    resp_free(&resp);
    shutdown(c->fd, SHUT_WR);
    /* what is still on its way would turn our answer into a reset */
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
static int read_head(struct conn *c, size_t *len)
{
    int64_t idle = clock_mono_ns() + c->s->idle_ns, deadline = idle;
    set_waiting(c, true);
    for (bool first = true;;) {
        size_t skip = 0; /* blank lines before a request, which old clients send */
        while (skip < c->in.len && (c->in.data[skip] == '\r' || c->in.data[skip] == '\n'))
            skip++;
        buf_drop(&c->in, skip);
        *len = c->in.len ? head_length(c->in.data, c->in.len) : 0;
        if (*len > HEAD_MAX || (!*len && c->in.len >= HEAD_MAX)) {
            refuse(c, 431, "the request head is larger than 16 KiB");
            return 0;
        }
        if (*len) {
            set_waiting(c, false);
            return 1;
        }
        if (c->in.len && first) {
            deadline = clock_mono_ns() + HEAD_NS;
            first = false;
        }
        int rc = stopping(c->s) ? -1 : fill(c, deadline);
        if (rc == 0 && c->in.len)
            refuse(c, 408, "the request head took longer than 10 s");
        if (rc <= 0)
            return 0;
    }
}

static int read_body(struct conn *c, const struct head *h, size_t head_len)
{
    size_t want = head_len + (size_t)h->content_length;
    if (h->expect_continue && c->in.len < want) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (sock_send(c->fd, go_on, sizeof go_on - 1, 0))
            return -1;
    }
    int64_t deadline = clock_mono_ns() + BODY_NS;
    while (c->in.len < want) {
        int rc = fill(c, deadline);
        if (rc == 0)
            refuse(c, 408, "the request body took longer than 60 s");
        if (rc <= 0)
            return -1;
    }
    return 0;
}

static bool serve_one(struct conn *c)
{
    size_t len;
    if (!read_head(c, &len))
        return false;
    struct head h;
    bool keep = false;
    int status = head_parse(&h, c->in.data, len);
    if (status) {
        refuse(c, status,
            status == 411 ? "send the body with a Content-Length"
                          : "this is not a request that can be understood");
    } else if (h.content_length > c->s->max_body) {
        refuse(c, 413, "the request body is too large");
    } else if (read_body(c, &h, len) == 0) {
        struct serve_req req = {
            h.method, h.path, h.query, h.headers, c->in.data + len, (size_t)h.content_length};
        struct serve_resp resp;
        resp_init(&resp);
        dispatch(c->s, &req, &resp);
        keep = h.keep_alive && !stopping(c->s);
        if (send_response(c, &resp, strcmp(h.method, "HEAD") == 0, keep))
            keep = false;
        resp_free(&resp);
        buf_drop(&c->in, len + (size_t)h.content_length);
    }
    head_free(&h);
    return keep;
}

static void *conn_main(void *user)
{
    struct conn *c = user;
    struct serve *s = c->s;
    while (serve_one(c)) {
    }
    buf_free(&c->in);
    pthread_mutex_lock(&s->mu);
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    close(c->fd); /* under the lock: nobody may shut down a number that is somebody else's by now */
    s->nconns--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
    free(c);
    return NULL;
}

/* -- accepting ------------------------------------------------------------------------------- */

static int start_thread(pthread_t *thread, void *(*run)(void *), void *user, bool detached)
{
    pthread_attr_t attr;
    sigset_t all, old;
    /* signals are the main thread's; SIGPIPE of sendfile stays pending here and harms nobody */
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (detached)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, &attr, run, user);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

static void add_conn(struct serve *s, int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    struct conn *c = xcalloc(1, sizeof *c);
    c->s = s;
    c->fd = fd;
    c->in.max = HEAD_MAX + s->max_body + 16384;
    c->waiting = true;
    c->since_ns = clock_mono_ns();
    pthread_t thread;
    pthread_mutex_lock(&s->mu);
    if (start_thread(&thread, conn_main, c, true)) {
        close(fd);
        free(c);
    } else {
        c->prev = &s->conns;
        c->next = s->conns;
        if (c->next)
            c->next->prev = &c->next;
        s->conns = c;
        s->nconns++;
    }
    pthread_mutex_unlock(&s->mu);
}

/* All threads are taken and somebody knocks: the connection that has been waiting longest for a
 * request makes room. */
static void make_room(struct serve *s)
{
    int64_t until = clock_mono_ns() + 100 * NS_PER_MS;
    pthread_mutex_lock(&s->mu);
    struct conn *oldest = NULL;
    for (struct conn *c = s->conns; c; c = c->next)
        if (c->waiting && (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    if (oldest)
        shutdown(oldest->fd, SHUT_RDWR);
    if (s->nconns >= s->max_threads && !s->stopping)
        clock_cond_wait(&s->changed, &s->mu, until);
    pthread_mutex_unlock(&s->mu);
}

static void *acceptor_main(void *user)
{
    struct serve *s = user;
    for (;;) {
        struct pollfd p[2] = {
            {.fd = s->listen_fd, .events = POLLIN}, {.fd = s->wake_fd, .events = POLLIN}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
        pthread_mutex_lock(&s->mu);
        bool full = s->nconns >= s->max_threads, stop = s->stopping;
        pthread_mutex_unlock(&s->mu);
        if (stop)
            break;
        if (!(p[0].revents & POLLIN))
            continue;
        if (full) {
            make_room(s);
            continue;
        }
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            add_conn(s, fd);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            clock_sleep_ns(50 * NS_PER_MS); /* no descriptors left: those in use will come back */
    }
    return NULL;
}

/* "1.2.3.4:80", "[::]:80", ":80" */
static int listen_on(const char *address, int *port, struct err *e)
{
    const char *colon = strrchr(address, ':');
    if (!colon)
        return err_set(e, ERR_INVALID,
            "listen address '%s' has no port; write for example 0.0.0.0:9400", address);
    size_t n = (size_t)(colon - address);
    bool bracket = n >= 2 && address[0] == '[' && address[n - 1] == ']';
    cleanup_free char *host = bracket ? xstrndup(address + 1, n - 2) : xstrndup(address, n);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    int rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &list);
    if (rc)
        return err_set(e, ERR_INVALID, "listen address '%s': %s", address, gai_strerror(rc));
    cleanup_fd int fd = -1;
    int one = 1;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 512) == 0;
    int saved = errno;
    freeaddrinfo(list);
    if (!ok)
        return err_sys(e, saved, "listen on %s", address);
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    if (getsockname(fd, (struct sockaddr *)&ss, &len))
        return err_sys(e, errno, "listen on %s", address);
    *port = ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                           : ((struct sockaddr_in *)&ss)->sin_port);
    int result = fd;
    fd = -1;
    return result;
}

/* Every address: over IPv6 also IPv4's, but there are hosts without IPv6. */
static int listen_any(int want, int *port, struct err *e)
{
    char any6[32], any4[32];
    snprintf(any6, sizeof any6, "[::]:%d", want);
    snprintf(any4, sizeof any4, "0.0.0.0:%d", want);
    int fd = listen_on(any6, port, NULL);
    return fd >= 0 ? fd : listen_on(any4, port, e);
}

struct serve *serve_start(const struct serve_conf *conf, struct err *e)
{
    int port = 0;
    int fd = conf->address ? listen_on(conf->address, &port, e) : listen_any(conf->port, &port, e);
    if (fd < 0)
        return NULL;
    struct serve *s = xcalloc(1, sizeof *s);
    s->listen_fd = fd;
    s->port = port;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->nroutes = conf->nroutes;
    s->routes = xcalloc(conf->nroutes + 1, sizeof *s->routes);
    for (size_t i = 0; i < conf->nroutes; i++) {
        s->routes[i] = conf->routes[i];
        s->routes[i].method = xstrdup(conf->routes[i].method);
        s->routes[i].prefix = xstrdup(conf->routes[i].prefix);
    }
    s->max_threads = conf->max_threads ? conf->max_threads : DEFAULT_THREADS;
    s->max_body = conf->max_body ? conf->max_body : DEFAULT_BODY;
    s->idle_ns = conf->idle_ns ? conf->idle_ns : DEFAULT_IDLE_NS;
    pthread_mutex_init(&s->mu, NULL);
    clock_cond_init(&s->changed);
    int rc = s->wake_fd < 0 ? errno : start_thread(&s->acceptor, acceptor_main, s, false);
    if (rc == 0)
        return s;
    err_sys(e, rc, "start the HTTP server on port %d", port);
    s->stopping = true;
    s->max_threads = 0; /* no acceptor to join */
    serve_stop(s);
    return NULL;
}

int serve_port(const struct serve *s) { return s->port; }

static void cut(struct serve *s, bool all)
{
    for (struct conn *c = s->conns; c; c = c->next)
        if (all || c->waiting)
            shutdown(c->fd, SHUT_RDWR);
}

void serve_stop(struct serve *s)
{
    if (!s)
        return;
    bool accepting = s->max_threads > 0;
    pthread_mutex_lock(&s->mu);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
    if (accepting) {
        uint64_t one = 1;
        if (write(s->wake_fd, &one, sizeof one) < 0) {
        } /* an eventfd takes its first 1 */
        pthread_join(s->acceptor, NULL);
    }
    close(s->listen_fd);
    pthread_mutex_lock(&s->mu);
    int64_t began = clock_mono_ns();
    while (s->nconns) {
        cut(s, clock_mono_ns() - began > STOP_GRACE_NS);
        clock_cond_wait(&s->changed, &s->mu, clock_mono_ns() + NS_PER_S);
    }
    pthread_mutex_unlock(&s->mu);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mu);
    for (size_t i = 0; i < s->nroutes; i++) {
        free((char *)s->routes[i].method);
        free((char *)s->routes[i].prefix);
    }
    free(s->routes);
    free(s);
}
