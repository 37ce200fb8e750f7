/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/handoff.h"

#include "fuse/session/loop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_FIRST_NS (20 * NS_PER_MS)
#define CONNECT_LAST_NS  (1000 * NS_PER_MS)
#define ANSWER_NS        (2 * NS_PER_S)
/* a keeper that did not answer is not asked again: who opens a file waits for it */
#define MUTE_NS   (30 * NS_PER_S)
#define CALLER_NS (50 * NS_PER_MS) /* a reader waits for it */

struct asker { /* of who a process is; on its stack */
    struct asker *next;
    pid_t pid;
    bool answered;
    char *out;
};

struct keeper {
    char *path;
    pthread_t thread;
    pthread_mutex_t mu, ask;
    pthread_cond_t changed;
    int sock; /* mu; -1 while there is no connection */
    /* mu; -1 before the first mount; never closed: a session may be reading from it */
    int fuse_fd;
    struct keep_welcome welcome; /* mu; of fuse_fd, with the INIT as it is known now */
    /* mu; keeper_wait() gave it away: what comes later is another mount */
    bool taken;
    bool serving;                  /* mu */
    char failed[KEEP_PAYLOAD_MAX]; /* mu; "" nothing failed */
    bool asking, answered;         /* mu */
    int64_t answer;                /* mu */
    int64_t mute_ns;               /* mu; until when nothing is asked */
    struct asker *askers;          /* mu */
    bool stop;                     /* mu */
};

static void say(struct keeper *k, enum keep_type type, const void *payload, size_t len, int fd)
{
    struct err e = ERR_INIT;
    if (k->sock >= 0 && keep_send(k->sock, type, payload, len, fd, &e))
        log_kv(LOG_DEBUG, "the keeper does not listen", "error", e.msg, NULL);
}

/* A fresh connection: says who we are and what we have. mu is held. */
static void introduce(struct keeper *k)
{
    uint32_t version = KEEP_VERSION;
    say(k, KEEP_HELLO, &version, sizeof version, -1);
    if (k->taken && k->fuse_fd >= 0) {
        say(k, KEEP_RETURN_FD, NULL, 0, k->fuse_fd);
        if (k->welcome.init_len)
            say(k, KEEP_INIT, k->welcome.init, k->welcome.init_len, -1);
        if (k->serving)
            say(k, KEEP_SERVING, NULL, 0, -1);
    }
    if (*k->failed)
        say(k, KEEP_FAILED, k->failed, strlen(k->failed), -1);
}

static void take_welcome(struct keeper *k, const struct keep_msg *m, int *fd)
{
    struct keep_welcome w;
    if (m->len != sizeof w || *fd < 0) {
        log_warn("the keeper's welcome is malformed");
        return;
    }
    memcpy(&w, m->payload, sizeof w);
    if (w.version != KEEP_VERSION || w.init_len > KEEP_INIT_MAX) {
        log_warn("the keeper speaks another version (%u)", w.version);
        return;
    }
    /* an echo of the fd that was handed back, or a new mount: this process ends with its own first
     */
    if (k->taken)
        return;
    if (k->fuse_fd >= 0)
        close(k->fuse_fd); /* that mount was given up before we served it */
    k->fuse_fd = *fd;
    *fd = -1;
    k->welcome = w;
    if (*k->failed)
        say(k, KEEP_FAILED, k->failed, strlen(k->failed), -1);
}

static void take_caller(struct keeper *k, const struct keep_msg *m)
{
    struct keep_caller c;
    memcpy(&c, m->payload, sizeof c);
    c.name[sizeof c.name - 1] = '\0';
    for (struct asker *a = k->askers; a; a = a->next)
        if (a->pid == c.pid && !a->answered) {
            memcpy(a->out, c.name, sizeof c.name);
            a->answered = true;
        }
}

static void dispatch(struct keeper *k, const struct keep_msg *m, int *fd)
{
    pthread_mutex_lock(&k->mu);
    if (m->type == KEEP_WELCOME) {
        take_welcome(k, m, fd);
    } else if (m->type == KEEP_BACKING && m->len == sizeof k->answer && k->asking) {
        memcpy(&k->answer, m->payload, sizeof k->answer);
        k->answered = true;
    } else if (m->type == KEEP_CALLER && m->len == sizeof(struct keep_caller)) {
        take_caller(k, m);
    }
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->mu);
}

/* Receives until the keeper closes. */
static void receive(struct keeper *k, int sock)
{
    struct keep_msg *m = xmalloc(sizeof *m);
    for (;;) {
        int fd = -1;
        struct err e = ERR_INIT;
        int rc = keep_recv(sock, m, &fd, &e);
        if (rc > 0)
            dispatch(k, m, &fd);
        if (fd >= 0)
            close(fd);
        if (rc <= 0)
            break;
    }
    free(m);
}

static bool is_stopped(struct keeper *k)
{
    pthread_mutex_lock(&k->mu);
    bool stop = k->stop;
    pthread_mutex_unlock(&k->mu);
    return stop;
}

static void *run(void *arg)
{
    struct keeper *k = arg;
    int64_t wait = CONNECT_FIRST_NS;
    while (!is_stopped(k)) {
        struct err e = ERR_INIT;
        int sock = keep_connect(k->path, &e);
        if (sock < 0) {
            log_kv(LOG_DEBUG, "the keeper is not there yet", "error", e.msg, NULL);
            clock_sleep_ns(wait);
            wait = MIN(wait * 2, CONNECT_LAST_NS);
            continue;
        }
        wait = CONNECT_FIRST_NS;
        pthread_mutex_lock(&k->mu);
        k->sock = sock;
        introduce(k);
        pthread_mutex_unlock(&k->mu);
        receive(k, sock);
        pthread_mutex_lock(&k->mu);
        k->sock = -1;
        pthread_cond_broadcast(&k->changed);
        pthread_mutex_unlock(&k->mu);
        close(sock);
        if (!is_stopped(k))
            log_info("the keeper is gone; connecting again");
    }
    return NULL;
}

struct keeper *keeper_start(const char *path, struct err *e)
{
    struct keeper *k = xcalloc(1, sizeof *k);
    k->path = xstrdup(path);
    k->sock = k->fuse_fd = -1;
    pthread_mutex_init(&k->mu, NULL);
    pthread_mutex_init(&k->ask, NULL);
    clock_cond_init(&k->changed);
    int rc = pthread_create(&k->thread, NULL, run, k);
    if (rc) {
        err_sys(e, rc, "start a thread");
        free(k->path);
        free(k);
        return NULL;
    }
    return k;
}

int keeper_wait(struct keeper *k, struct keep_welcome *welcome, int64_t timeout_ns)
{
    int64_t until = clock_mono_ns() + timeout_ns;
    pthread_mutex_lock(&k->mu);
    while (k->fuse_fd < 0 && !k->stop && clock_cond_wait(&k->changed, &k->mu, until) == 0)
        continue;
    int fd = k->stop ? -1 : k->fuse_fd;
    if (fd >= 0) {
        k->taken = true;
        *welcome = k->welcome;
    }
    pthread_mutex_unlock(&k->mu);
    return fd;
}

bool keeper_peek(struct keeper *k, struct keep_welcome *welcome, int64_t timeout_ns)
{
    int64_t until = clock_mono_ns() + timeout_ns;
    pthread_mutex_lock(&k->mu);
    while (k->fuse_fd < 0 && !k->stop && clock_cond_wait(&k->changed, &k->mu, until) == 0)
        continue;
    bool there = k->fuse_fd >= 0;
    if (there)
        *welcome = k->welcome;
    pthread_mutex_unlock(&k->mu);
    return there;
}

void keeper_failed(struct keeper *k, const char *text)
{
    char clean[KEEP_PAYLOAD_MAX];
    snprintf(clean, sizeof clean, "%s", text);
    log_redact_text(clean);
    pthread_mutex_lock(&k->mu);
    memcpy(k->failed, clean, sizeof clean);
    if (*k->failed)
        say(k, KEEP_FAILED, k->failed, strlen(k->failed), -1);
    pthread_mutex_unlock(&k->mu);
}

void keeper_init(struct keeper *k, const void *init, size_t len)
{
    pthread_mutex_lock(&k->mu);
    if (len <= KEEP_INIT_MAX) {
        memcpy(k->welcome.init, init, len);
        k->welcome.init_len = (uint32_t)len;
        say(k, KEEP_INIT, init, len, -1);
    }
    pthread_mutex_unlock(&k->mu);
}

void keeper_serving(struct keeper *k)
{
    pthread_mutex_lock(&k->mu);
    k->failed[0] = '\0';
    k->serving = true;
    say(k, KEEP_SERVING, NULL, 0, -1);
    pthread_mutex_unlock(&k->mu);
}

int keeper_backing_open(void *keeper, int fd, int32_t *id, struct err *e)
{
    struct keeper *k = keeper;
    int rc = -1;
    loop_will_block();
    pthread_mutex_lock(&k->ask);
    pthread_mutex_lock(&k->mu);
    int64_t now = clock_mono_ns(), until = now + ANSWER_NS;
    int sock = now < k->mute_ns ? -1 : k->sock;
    k->asking = sock >= 0;
    k->answered = false;
    if (sock >= 0)
        say(k, KEEP_BACKING_OPEN, NULL, 0, fd);
    while (k->sock == sock && sock >= 0 && !k->answered
        && clock_cond_wait(&k->changed, &k->mu, until) == 0)
        continue;
    k->asking = false;
    if (!k->answered)
        err_set(e, ERR_RETRY, "the keeper does not answer");
    else if (k->answer <= 0 || k->answer > INT32_MAX)
        err_sys(
            e, k->answer < 0 ? (int)-k->answer : EIO, "the keeper cannot register a backing file");
    else {
        *id = (int32_t)k->answer;
        rc = 0;
    }
    if (!k->answered && k->sock == sock && sock >= 0) {
        /* a late answer must not be taken for that of the next question */
        shutdown(sock, SHUT_RDWR);
        k->mute_ns = clock_mono_ns() + MUTE_NS;
    }
    pthread_mutex_unlock(&k->mu);
    pthread_mutex_unlock(&k->ask);
    return rc;
}

void keeper_backing_close(void *keeper, int32_t id)
{
    struct keeper *k = keeper;
    int64_t value = id;
    pthread_mutex_lock(&k->mu);
    say(k, KEEP_BACKING_CLOSE, &value, sizeof value, -1);
    pthread_mutex_unlock(&k->mu);
}

/* A keeper that hangs is not to make readers hang. */
static bool listens(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLOUT};
    return sock >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

void keeper_caller(void *keeper, pid_t pid, char out[CALLER_MAX])
{
    struct keeper *k = keeper;
    struct asker me = {.pid = pid, .out = out};
    int64_t value = pid, until = clock_mono_ns() + CALLER_NS;
    snprintf(out, CALLER_MAX, CALLER_UNKNOWN);
    loop_will_block();
    pthread_mutex_lock(&k->mu);
    if (listens(k->sock)) {
        me.next = k->askers;
        k->askers = &me;
        say(k, KEEP_WHO, &value, sizeof value, -1);
        while (!me.answered && k->sock >= 0 && !k->stop
            && clock_cond_wait(&k->changed, &k->mu, until) == 0)
            continue;
        struct asker **at = &k->askers;
        while (*at != &me)
            at = &(*at)->next;
        *at = me.next;
    }
    pthread_mutex_unlock(&k->mu);
}

void keeper_stop(struct keeper *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->mu);
    k->stop = true;
    if (k->sock >= 0)
        shutdown(k->sock, SHUT_RDWR);
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->mu);
    pthread_join(k->thread, NULL);
    if (k->fuse_fd >= 0)
        close(k->fuse_fd);
    pthread_mutex_destroy(&k->mu);
    pthread_mutex_destroy(&k->ask);
    pthread_cond_destroy(&k->changed);
    free(k->path);
    free(k);
}
