/* SPDX-License-Identifier: Apache-2.0 */
/* handoff_plugin — a node plugin that tests of the client's end play by hand. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_SESSION_HANDOFF_PLUGIN_H
#define MILLRACE_TESTS_UNIT_FUSE_SESSION_HANDOFF_PLUGIN_H

#include "tests/lib/unit.h"

#include "fuse/session/handoff.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON (10 * NS_PER_S) /* what a working program needs much less than */

struct plugin {
    char dir[64], path[96];
    int listener, sock;
    struct handoff_client *client;
};

static inline void accept_client(struct plugin *p)
{
    p->sock = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(p->sock >= 0);
    struct timeval limit = {10, 0};
    assert_int_equal(setsockopt(p->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
}

/* The next message, of that type; its descriptor or -1. */
static inline int expect(struct plugin *p, enum handoff_type type, struct handoff_msg *m)
{
    static struct handoff_msg own;
    struct err e = ERR_INIT;
    int fd = -1;
    m = m ? m : &own;
    if (handoff_recv(p->sock, NULL, m, &fd, &e) != 1)
        fail_msg("no message: %s", e.msg);
    assert_int_equal(m->type, type);
    return fd;
}

static inline void expect_hello(struct plugin *p)
{
    struct handoff_msg m;
    struct handoff_hello hello;
    assert_int_equal(expect(p, HANDOFF_HELLO, &m), -1);
    assert_int_equal(m.len, sizeof hello);
    memcpy(&hello, m.payload, sizeof hello);
    assert_int_equal(hello.version, HANDOFF_VERSION);
    assert_int_equal(hello.can, HANDOFF_CAN_PONG);
}

/* Nothing else is there: the next message is the one that this brings about. */
static inline void expect_silence(struct plugin *p)
{
    struct handoff_msg m;
    handoff_client_backing_close(p->client, 4711);
    int64_t id;
    assert_int_equal(expect(p, HANDOFF_BACKING_CLOSE, &m), -1);
    memcpy(&id, m.payload, sizeof id);
    assert_true(m.len == sizeof id && id == 4711);
}

struct question {
    struct handoff_client *client;
    int fd, rc;
    int32_t id;
    pid_t pid;
    char caller[CALLER_MAX];
    struct err e;
    pthread_t thread;
};

static inline void *ask_caller(void *arg)
{
    struct question *q = arg;
    handoff_client_caller(q->client, q->pid, q->caller);
    return NULL;
}

static inline void tell(
    struct plugin *p, enum handoff_type type, const void *payload, size_t len, int fd)
{
    struct err e = ERR_INIT;
    if (handoff_send(p->sock, type, payload, len, fd, &e))
        fail_msg("%s", e.msg);
}

/* The client has taken in all that it was told so far: a question is answered after it. */
static inline void expect_taken_in(struct plugin *p)
{
    struct handoff_caller c = {.pid = 9999, .name = "taken in"};
    struct question q = {.client = p->client, .pid = 9999};
    do { /* on a busy machine the answer may be late */
        assert_int_equal(pthread_create(&q.thread, NULL, ask_caller, &q), 0);
        expect(p, HANDOFF_WHO, NULL);
        tell(p, HANDOFF_CALLER, &c, sizeof c, -1);
        pthread_join(q.thread, NULL);
    } while (strcmp(q.caller, c.name) != 0);
}

static inline void reconnect(struct plugin *p)
{
    close(p->sock);
    accept_client(p);
    expect_hello(p);
}

static inline struct plugin *plugin_new(void)
{
    struct plugin *p = xcalloc(1, sizeof *p);
    struct err e = ERR_INIT;
    snprintf(p->dir, sizeof p->dir, "/tmp/millrace-handoff.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof p->path, "%s/sock", p->dir);
    p->listener = handoff_listen(p->path, &e);
    assert_true(p->listener >= 0);
    p->client = handoff_client_start(p->path, -1, NULL, &e);
    assert_non_null(p->client);
    accept_client(p);
    expect_hello(p);
    return p;
}

static inline void plugin_free(struct plugin *p)
{
    handoff_client_stop(p->client);
    close(p->sock);
    close(p->listener);
    unlink(p->path);
    rmdir(p->dir);
    free(p);
}

static inline int new_file(void)
{
    int fd = memfd_create("fuse", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static inline bool same_file(int a, int b)
{
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino
        && sa.st_dev == sb.st_dev;
}

static inline struct handoff_welcome welcome_of(const char *init)
{
    struct handoff_welcome w = {.version = HANDOFF_VERSION, .init_len = (uint32_t)strlen(init)};
    memcpy(w.init, init, strlen(init));
    return w;
}

static inline void *ask_backing(void *arg)
{
    struct question *q = arg;
    q->rc = handoff_client_backing_open(q->client, q->fd, &q->id, &q->e);
    return NULL;
}

#endif
