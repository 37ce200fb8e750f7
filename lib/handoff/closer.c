/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/handoff/closer.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES (64 << 10)

struct closer {
    pthread_mutex_t mu; /* a leaf */
    int *fds;           /* mu: to be closed, the oldest first */
    size_t n, cap;      /* mu */
    bool closing;       /* mu: the thread is in close() */
    bool running;       /* mu: there is a thread */
    bool left;          /* mu: the last one frees */
};

struct closer *closer_new(void)
{
    struct closer *c = xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->mu, NULL);
    return c;
}

static void closer_free(struct closer *c)
{
    pthread_mutex_destroy(&c->mu);
    free(c->fds);
    free(c);
}

/* The next one to close, -1: none. */
static int closer_next(struct closer *c)
{
    mutex_assert_held(&c->mu);
    if (!c->n)
        return -1;
    int fd = c->fds[0];
    c->n--;
    memmove(c->fds, c->fds + 1, c->n * sizeof *c->fds);
    return fd;
}

static void *closer_thread(void *user)
{
    struct closer *c = user;
    pthread_mutex_lock(&c->mu);
    for (int fd; (fd = closer_next(c)) >= 0;) {
        c->closing = true;
        pthread_mutex_unlock(&c->mu);
        /* most sockets that would linger then do not; no socket: fine */
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
        pthread_mutex_lock(&c->mu);
        c->closing = false;
    }
    c->running = false;
    bool last = c->left;
    pthread_mutex_unlock(&c->mu);
    if (last)
        closer_free(c);
    return NULL;
}

static void closer_start(struct closer *c)
{
    mutex_assert_held(&c->mu);
    if (c->running || !c->n)
        return;
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&thread, &small, closer_thread, c);
    pthread_attr_destroy(&small);
    c->running = rc == 0;
    if (rc) /* tried again with the next one */
        log_kv(LOG_WARN, "no thread to close a descriptor", "error", strerror(rc), NULL);
}

void closer_take(struct closer *c, int fd)
{
    if (fd < 0)
        return;
    pthread_mutex_lock(&c->mu);
    if (c->n == c->cap) {
        c->cap = MAX(c->cap * 2, 16);
        c->fds = xrealloc(c->fds, c->cap * sizeof *c->fds);
    }
    c->fds[c->n++] = fd;
    closer_start(c);
    pthread_mutex_unlock(&c->mu);
}

size_t closer_pending(struct closer *c)
{
    pthread_mutex_lock(&c->mu);
    closer_start(c);
    size_t n = c->n + c->closing;
    pthread_mutex_unlock(&c->mu);
    return n;
}

void closer_leave(struct closer *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mu);
    closer_start(c);
    c->left = true;
    bool last = !c->running;
    pthread_mutex_unlock(&c->mu);
    if (last)
        closer_free(c);
}
