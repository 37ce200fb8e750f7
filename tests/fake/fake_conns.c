/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fake_conns.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SLOW_NS (50 * NS_PER_MS)

struct conn {
    struct fake_conns *f;
    struct conn *next;
    pthread_t thread;
    int fd;
};

struct fake_conns {
    int listen_fd, port;
    fake_respond respond;
    void *user;
    pthread_t acceptor;
    pthread_mutex_t mu; /* guards what follows */
    struct conn *conns;
    bool stopping;
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

/* -- connections ----------------------------------------------------------------------------- */

static bool stopping(struct fake_conns *f)
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

/* Until the client gives up. */
static void wait_for_end(const struct conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
    while (!stopping(c->f) && poll(&p, 1, 50) == 0) {
    }
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
        c->f->respond(c->f->user, &r, &a);
        if (a.slow)
            clock_sleep_ns(SLOW_NS);
        keep = !a.drop && !a.hang && !a.cut;
        if (!a.drop && !a.hang)
            send_answer(c->fd, &a);
        if (a.hang || a.stall)
            wait_for_end(c);
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
    struct fake_conns *f = user;
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

struct fake_conns *fake_conns_start(int port, fake_respond respond, void *user)
{
    struct fake_conns *f = xcalloc(1, sizeof *f);
    f->respond = respond;
    f->user = user;
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
        perror("fake_conns");
        abort();
    }
    f->port = ntohs(at.sin_port);
    return f;
}

int fake_conns_port(const struct fake_conns *f) { return f->port; }

void fake_conns_stop(struct fake_conns *f)
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
    pthread_mutex_destroy(&f->mu);
    free(f);
}
