/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/serve.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/http/serve_priv.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEFAULT_THREADS 64
#define DEFAULT_BODY    (1u << 20)
#define DEFAULT_IDLE_NS (60 * NS_PER_S)
/* serve_stop: then connections in the middle of an answer are cut */
#define STOP_GRACE_NS (5 * NS_PER_S)
#define STACK_BYTES   (1u << 20)
/* What a new connection has for its first bytes, and for our thread to read them. */
#define FIRST_BYTES_NS (50 * NS_PER_MS)
#define UNREAD_NS      (2 * NS_PER_S)

static int start_thread(pthread_t *thread, void *(*run)(void *), void *user, bool detached)
{
    pthread_attr_t attr;
    sigset_t all, old;
    /* signals are the main thread's; SIGPIPE of sendfile stays pending here and does no harm */
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

static void add_conn(struct http_server *s, int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    struct http_conn *c = xcalloc(1, sizeof *c);
    c->s = s;
    c->fd = fd;
    c->in.max = HEAD_MAX + s->max_body + 16384;
    c->since_ns = clock_mono_ns();
    pthread_t thread;
    pthread_mutex_lock(&s->mu);
    if (start_thread(&thread, conn_thread, c, true)) {
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

/* It says nothing: neither new nor with a request that its thread has yet to read. */
static bool is_idle(const struct http_conn *c, int64_t now)
{
    int unread = 0;
    if (c->state != HTTP_WAITING || now - c->since_ns < FIRST_BYTES_NS)
        return false;
    return now - c->since_ns > UNREAD_NS || ioctl(c->fd, FIONREAD, &unread) || !unread;
}

/* All threads are taken and a client connects: the connection that has been waiting longest for a
 * request makes room, else the one that is at an answer longest, if that is too long. */
static void cut_oldest(struct http_server *s)
{
    int64_t now = clock_mono_ns(), until = now + FIRST_BYTES_NS;
    pthread_mutex_lock(&s->mu);
    struct http_conn *oldest = NULL;
    bool oldest_idle = false;
    for (struct http_conn *c = s->conns; c; c = c->next) {
        bool idle = is_idle(c, now),
             late = c->state == HTTP_ANSWERING && s->answer_ns && now - c->since_ns > s->answer_ns;
        if ((idle || late)
            && (!oldest || (idle && !oldest_idle)
                || (idle == oldest_idle && c->since_ns < oldest->since_ns))) {
            oldest = c;
            oldest_idle = idle;
        }
    }
    if (oldest)
        shutdown(oldest->fd, SHUT_RDWR);
    if (s->nconns >= s->max_threads && !s->stopping)
        clock_cond_wait(&s->changed, &s->mu, until);
    pthread_mutex_unlock(&s->mu);
}

static void *acceptor_thread(void *user)
{
    struct http_server *s = user;
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
            cut_oldest(s);
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

struct http_server *serve_start(const struct serve_conf *conf, struct err *e)
{
    int port = 0;
    int fd = conf->address ? listen_on(conf->address, &port, e) : listen_any(conf->port, &port, e);
    if (fd < 0)
        return NULL;
    struct http_server *s = xcalloc(1, sizeof *s);
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
    s->answer_ns = conf->answer_ns;
    s->idle_ns = conf->idle_ns ? conf->idle_ns : DEFAULT_IDLE_NS;
    pthread_mutex_init(&s->mu, NULL);
    clock_cond_init(&s->changed);
    int rc = s->wake_fd < 0 ? errno : start_thread(&s->acceptor, acceptor_thread, s, false);
    if (rc == 0)
        return s;
    err_sys(e, rc, "start the HTTP server on port %d", port);
    s->stopping = true;
    s->max_threads = 0; /* no acceptor to join */
    serve_stop(s);
    return NULL;
}

int serve_port(const struct http_server *s) { return s->port; }

static void cut_conns(struct http_server *s, bool all)
{
    mutex_assert_held(&s->mu);
    for (struct http_conn *c = s->conns; c; c = c->next)
        if (all || c->state == HTTP_WAITING)
            shutdown(c->fd, SHUT_RDWR);
}

void serve_stop(struct http_server *s)
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
        cut_conns(s, clock_mono_ns() - began > STOP_GRACE_NS);
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
