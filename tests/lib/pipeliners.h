/* SPDX-License-Identifier: Apache-2.0 */
/* pipeliners — connections that send requests without end and take their answers slowly, so that
 * none of them is ever idle and none is at one answer for long. One that is closed comes again. */
#ifndef MILLRACE_TESTS_LIB_PIPELINERS_H
#define MILLRACE_TESTS_LIB_PIPELINERS_H

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPELINERS     4
#define PIPELINERS_CUT 65536 /* bytes that each takes in an eighth of a second, at most */

struct pipeliners {
    int port;
    const char *request;
    pthread_t thread;
    struct pipeliner {
        int fd;
        size_t at; /* of the request */
    } each[PIPELINERS];
    atomic_bool stop;
    atomic_size_t taken; /* bytes, by all of them */
    atomic_uint ended;   /* connections */
};

static inline int pipeliners_dial(int port)
{
    /* on loopback the server would buffer megabytes otherwise, and wait for them */
    int small = 4096, segment = 1448;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* As many requests as the server's buffers hold. */
static inline void pipeliner_ask(const struct pipeliners *p, struct pipeliner *one)
{
    size_t len = strlen(p->request);
    ssize_t n;
    while (
        (n = send(one->fd, p->request + one->at, len - one->at, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        one->at = (one->at + (size_t)n) % len;
}

static inline void pipeliner_take(struct pipeliners *p, struct pipeliner *one)
{
    char buf[4096];
    ssize_t n = 1;
    for (size_t got = 0; n > 0 && got < PIPELINERS_CUT; got += (size_t)MAX(n, 0)) {
        n = recv(one->fd, buf, sizeof buf, MSG_DONTWAIT);
        atomic_fetch_add(&p->taken, (size_t)MAX(n, 0));
    }
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        close(one->fd);
        atomic_fetch_add(&p->ended, 1);
        *one = (struct pipeliner){.fd = pipeliners_dial(p->port)};
    }
}

static inline void *pipeliners_thread(void *user)
{
    struct pipeliners *p = user;
    while (!atomic_load(&p->stop)) {
        for (int i = 0; i < PIPELINERS; i++) {
            pipeliner_ask(p, &p->each[i]);
            pipeliner_take(p, &p->each[i]);
        }
        clock_sleep_ns(NS_PER_S / 8);
    }
    return NULL;
}

/* When it returns they are at it. request: borrowed. */
static inline void pipeliners_start(struct pipeliners *p, int port, const char *request)
{
    *p = (struct pipeliners){.port = port, .request = request};
    for (int i = 0; i < PIPELINERS; i++)
        p->each[i].fd = pipeliners_dial(port);
    assert_int_equal(pthread_create(&p->thread, NULL, pipeliners_thread, p), 0);
    while (atomic_load(&p->taken) < 4 * PIPELINERS * PIPELINERS_CUT && !atomic_load(&p->ended))
        clock_sleep_ns(NS_PER_MS);
}

static inline void pipeliners_stop(struct pipeliners *p)
{
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < PIPELINERS; i++)
        close(p->each[i].fd);
}

#endif
