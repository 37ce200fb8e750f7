/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/handoff_priv.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MAX_NS (1000 * NS_PER_MS)
#define REFUSED_MAX_NS (100 * NS_PER_MS)
#define TRIED_NS       NS_PER_S
#define LIVED_NS       (1000 * NS_PER_MS) /* a connection that ended sooner was refused */

/* Never waits: a plugin that is stopped must not stop those who tell it something. */
int handoff_tell(
    struct handoff_client *h, enum handoff_type type, const void *payload, size_t len, int fd)
{
    struct err e = ERR_INIT;
    if (h->sock < 0 || handoff_send(h->sock, type, payload, len, fd, &e) == 0)
        return 0;
    log_kv(LOG_DEBUG, "the node plugin does not listen", "error", e.msg, NULL);
    return -1;
}

/* What it must know: if it does not take it now, the next connection begins with it. */
static void must_tell(
    struct handoff_client *h, enum handoff_type type, const void *payload, size_t len)
{
    if (handoff_tell(h, type, payload, len, -1))
        shutdown(h->sock, SHUT_RDWR);
}

/* As many as it takes; the others later, also by another connection. */
static void tell_closes(struct handoff_client *h)
{
    mutex_assert_held(&h->mu);
    size_t n = 0;
    while (h->sock >= 0 && n < h->ncloses
        && handoff_tell(h, HANDOFF_BACKING_CLOSE, &h->closes[n], sizeof h->closes[n], -1) == 0)
        n++;
    if (!n)
        return;
    h->ncloses -= n;
    memmove(h->closes, h->closes + n, h->ncloses * sizeof *h->closes);
}

/* The plugin has given out an id. */
static void hold_backing(struct handoff_client *h, int32_t id)
{
    mutex_assert_held(&h->mu);
    if (h->nheld == h->held_cap) {
        h->held_cap = MAX(h->held_cap * 2, 64);
        h->held = xrealloc(h->held, h->held_cap * sizeof *h->held);
    }
    h->held[h->nheld++] = id;
}

/* After the closes: they are of ids that are not held any more. */
static void tell_holds(struct handoff_client *h)
{
    mutex_assert_held(&h->mu);
    const size_t most = HANDOFF_PAYLOAD_MAX / sizeof *h->held;
    size_t at = 0;
    bool more = true;
    if (!h->holds || h->sock < 0)
        return;
    tell_closes(h);
    while (more && !h->ncloses) { /* one without any ends it */
        size_t n = MIN(most, h->nheld - at);
        more = n && handoff_tell(h, HANDOFF_HOLDS, h->held + at, n * sizeof *h->held, -1) == 0;
        if (!n)
            handoff_tell(h, HANDOFF_HOLDS, NULL, 0, -1);
        at += n;
    }
}

/* On a fresh connection: tells the version, and what this process has. */
static void introduce(struct handoff_client *h)
{
    mutex_assert_held(&h->mu);
    struct handoff_hello hello = {HANDOFF_VERSION, HANDOFF_CAN_PONG};
    h->pings = false;
    handoff_tell(h, HANDOFF_HELLO, &hello, sizeof hello, -1);
    if (h->taken && h->fuse_fd >= 0) {
        handoff_tell(h, HANDOFF_RETURN_FD, NULL, 0, h->fuse_fd);
        if (h->welcome.init_len)
            handoff_tell(h, HANDOFF_INIT, h->welcome.init, h->welcome.init_len, -1);
        if (h->serving)
            handoff_tell(h, HANDOFF_SERVING, NULL, 0, -1);
    }
    if (*h->failed)
        handoff_tell(h, HANDOFF_FAILED, h->failed, strlen(h->failed), -1);
    if (h->cannot_resume)
        handoff_tell(h, HANDOFF_CANNOT_RESUME, NULL, 0, -1);
    tell_holds(h);
}

void handoff_client_holds(struct handoff_client *h, const int32_t *ids, size_t n)
{
    pthread_mutex_lock(&h->mu);
    for (size_t i = 0; i < n; i++)
        hold_backing(h, ids[i]);
    h->holds = true;
    tell_holds(h);
    pthread_mutex_unlock(&h->mu);
}

static void on_welcome(struct handoff_client *h, const struct handoff_msg *m, int *fd)
{
    mutex_assert_held(&h->mu);
    struct handoff_welcome w;
    if (m->len != sizeof w || *fd < 0) {
        log_warn("the node plugin's welcome is malformed");
        return;
    }
    memcpy(&w, m->payload, sizeof w);
    if (w.version != HANDOFF_VERSION || w.init_len > HANDOFF_INIT_MAX) {
        log_warn("the node plugin speaks another version (%u)", w.version);
        return;
    }
    /* an echo of the fd that was handed back, or a new mount: this process ends with its own first
     */
    if (h->taken)
        return;
    if (h->fuse_fd >= 0)
        close(h->fuse_fd); /* that mount was given up before we served it */
    h->fuse_fd = *fd;
    *fd = -1;
    h->welcome = w;
    if (*h->failed)
        handoff_tell(h, HANDOFF_FAILED, h->failed, strlen(h->failed), -1);
}

static void on_caller(struct handoff_client *h, const struct handoff_msg *m)
{
    mutex_assert_held(&h->mu);
    struct handoff_caller c;
    memcpy(&c, m->payload, sizeof c);
    c.name[sizeof c.name - 1] = '\0';
    for (struct caller_query *a = h->queries; a; a = a->next)
        if (a->pid == c.pid && !a->answered) {
            memcpy(a->out, c.name, sizeof c.name);
            a->answered = true;
        }
}

static void on_ping(struct handoff_client *h)
{
    mutex_assert_held(&h->mu);
    h->pings = true;
    /* one whose threads hang does not say that it is there */
    if (!h->serves || h->serves(h->serves_user))
        handoff_tell(h, HANDOFF_PONG, NULL, 0, -1);
}

static void on_mount_lost(struct handoff_client *h, const struct handoff_msg *m)
{
    mutex_assert_held(&h->mu);
    memcpy(&h->lost, m->payload, sizeof h->lost);
    h->lost.why[sizeof h->lost.why - 1] = '\0';
    if (h->on_lost)
        h->on_lost(h->on_lost_user, &h->lost);
}

static void on_message(struct handoff_client *h, const struct handoff_msg *m, int *fd)
{
    pthread_mutex_lock(&h->mu);
    h->heard_ns = clock_mono_ns();
    if (m->type == HANDOFF_PING) {
        on_ping(h);
    } else if (m->type == HANDOFF_WELCOME) {
        on_welcome(h, m, fd);
    } else if (m->type == HANDOFF_BACKING && m->len == sizeof h->answer && h->asking) {
        memcpy(&h->answer, m->payload, sizeof h->answer);
        h->answered = true;
        if (h->answer > 0 && h->answer <= INT32_MAX)
            hold_backing(h, (int32_t)h->answer);
    } else if (m->type == HANDOFF_CALLER && m->len == sizeof(struct handoff_caller)) {
        on_caller(h, m);
    } else if (m->type == HANDOFF_LOST && m->len == sizeof(struct handoff_lost)) {
        on_mount_lost(h, m);
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mu);
}

/* Waits for the plugin to say something, and tells it what is left to tell. */
static void wait_message(struct handoff_client *h, int sock)
{
    bool readable = false;
    while (!readable && !atomic_load(&h->task.stop)) {
        uint64_t count;
        pthread_mutex_lock(&h->mu);
        tell_closes(h);
        bool more = h->ncloses;
        pthread_mutex_unlock(&h->mu);
        struct pollfd p[] = {{.fd = sock, .events = (short)(POLLIN | (more ? POLLOUT : 0))},
            {.fd = h->wake_fd, .events = POLLIN}};
        if (poll(p, 2, -1) > 0 && p[1].revents
            && read(h->wake_fd, &count, sizeof count) != sizeof count)
            log_debug("nobody woke the handoff's thread");
        readable = p[0].revents & ~POLLOUT;
    }
}

/* Receives until the node plugin closes the socket. */
static void receive_messages(struct handoff_client *h, int sock)
{
    struct handoff_msg *m = xmalloc(sizeof *m);
    for (;;) {
        int fd = -1;
        struct err e = ERR_INIT;
        wait_message(h, sock);
        int rc = handoff_recv(sock, NULL, m, &fd, &e);
        if (rc > 0)
            on_message(h, m, &fd);
        if (fd >= 0)
            close(fd);
        if (rc <= 0)
            break;
    }
    free(m);
}

static void handoff_client_free(struct handoff_client *h)
{
    if (h->fuse_fd >= 0)
        close(h->fuse_fd);
    pthread_mutex_destroy(&h->mu);
    pthread_mutex_destroy(&h->ask);
    pthread_cond_destroy(&h->changed);
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    free(h->closes);
    free(h->held);
    free(h->path);
    free(h);
}

/* It was unmounted or aborted: nobody can serve it any more. */
static bool mount_has_ended(const struct handoff_client *h)
{
    mutex_assert_held(&h->mu);
    struct pollfd p = {.fd = h->taken ? h->fuse_fd : -1};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

/* The process ends by itself and the next one gets another mount: there is nothing to tell the
 * plugin. One whose threads hang has to be ended. */
static void await_end(struct handoff_client *h)
{
    mutex_assert_held(&h->mu);
    int64_t until = clock_mono_ns() + h->hung_after_ns;
    h->ended = true;
    pthread_cond_broadcast(&h->changed);
    while (!task_wait(&h->task, until)) {
        if (clock_mono_ns() < until)
            continue;
        until = TASK_FOREVER;
        if (h->serves && h->on_hung)
            h->on_hung(h->on_hung_user);
    }
}

/* After a connection that was refused, as after none: the next try is later. */
static void pause_connecting(struct handoff_client *h, int64_t *pause, int64_t most)
{
    task_wait(&h->task, clock_mono_ns() + MIN(*pause, most));
    *pause = MIN(*pause * 2, most);
}

static void handoff_client_thread(void *user)
{
    struct handoff_client *h = user;
    int64_t pause = HANDOFF_CONNECT_MIN_NS;
    pthread_mutex_lock(&h->mu);
    while (!atomic_load(&h->task.stop)) {
        struct err e = ERR_INIT;
        if (mount_has_ended(h)) {
            await_end(h);
            break;
        }
        pthread_mutex_unlock(&h->mu);
        int sock = handoff_connect(h->path, &e);
        pthread_mutex_lock(&h->mu);
        h->tried = true;
        if (sock < 0) {
            pthread_cond_broadcast(&h->changed);
            log_kv(LOG_DEBUG, "the node plugin is not there yet", "error", e.msg, NULL);
            pause_connecting(h, &pause, CONNECT_MAX_NS);
            continue;
        }
        int64_t began = clock_mono_ns();
        h->sock = sock;
        introduce(h);
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->mu);
        receive_messages(h, sock);
        pthread_mutex_lock(&h->mu);
        h->sock = -1;
        pthread_cond_broadcast(&h->changed);
        close(sock);
        if (!atomic_load(&h->task.stop))
            log_info("the node plugin is gone; connecting again");
        if (clock_mono_ns() - began < LIVED_NS)
            pause_connecting(h, &pause, REFUSED_MAX_NS);
        else
            pause = HANDOFF_CONNECT_MIN_NS;
    }
    pthread_mutex_unlock(&h->mu);
}

struct handoff_client *handoff_client_start(
    const char *path, int fuse_fd, const struct handoff_welcome *w, struct err *e)
{
    struct handoff_client *h = xcalloc(1, sizeof *h);
    h->path = xstrdup(path);
    h->sock = h->fuse_fd = -1;
    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wake_fd < 0)
        log_warn("no eventfd: %s", strerror(errno)); /* closes then wait for the next message */
    if (fuse_fd >= 0 && (h->fuse_fd = fcntl(fuse_fd, F_DUPFD_CLOEXEC, 0)) >= 0) {
        h->welcome = *w;
        h->taken = true;
    }
    pthread_mutex_init(&h->mu, NULL);
    pthread_mutex_init(&h->ask, NULL);
    clock_cond_init(&h->changed);
    if (task_start_with(&h->task, &h->mu, "mr-handoff", handoff_client_thread, h, e)) {
        handoff_client_free(h);
        return NULL;
    }
    /* a plugin that is there sees that the next process comes before that reads requests */
    int64_t until = clock_mono_ns() + TRIED_NS;
    pthread_mutex_lock(&h->mu);
    while (!h->tried && clock_cond_wait(&h->changed, &h->mu, until) == 0)
        continue;
    pthread_mutex_unlock(&h->mu);
    return h;
}

/* Is there a mount, after timeout_ns at most? */
static bool await_mount(struct handoff_client *h, int64_t timeout_ns)
{
    mutex_assert_held(&h->mu);
    int64_t until = clock_mono_ns() + timeout_ns;
    while (h->fuse_fd < 0 && !atomic_load(&h->task.stop)
        && clock_cond_wait(&h->changed, &h->mu, until) == 0)
        continue;
    return h->fuse_fd >= 0;
}

int handoff_client_wait(
    struct handoff_client *h, struct handoff_welcome *welcome, int64_t timeout_ns)
{
    pthread_mutex_lock(&h->mu);
    bool there = await_mount(h, timeout_ns) && !atomic_load(&h->task.stop);
    int fd = there ? fcntl(h->fuse_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        h->taken = true;
        *welcome = h->welcome;
    }
    pthread_mutex_unlock(&h->mu);
    return fd;
}

bool handoff_client_peek(
    struct handoff_client *h, struct handoff_welcome *welcome, int64_t timeout_ns)
{
    pthread_mutex_lock(&h->mu);
    bool there = await_mount(h, timeout_ns);
    if (there)
        *welcome = h->welcome;
    pthread_mutex_unlock(&h->mu);
    return there;
}

void handoff_client_failed(struct handoff_client *h, const char *text)
{
    char clean[HANDOFF_PAYLOAD_MAX];
    snprintf(clean, sizeof clean, "%s", text);
    log_redact_text(clean);
    pthread_mutex_lock(&h->mu);
    memcpy(h->failed, clean, sizeof clean);
    if (*h->failed)
        handoff_tell(h, HANDOFF_FAILED, h->failed, strlen(h->failed), -1);
    pthread_mutex_unlock(&h->mu);
}

void handoff_client_cannot_resume(struct handoff_client *h)
{
    pthread_mutex_lock(&h->mu);
    h->cannot_resume = true;
    must_tell(h, HANDOFF_CANNOT_RESUME, NULL, 0);
    pthread_mutex_unlock(&h->mu);
}

void handoff_client_init(struct handoff_client *h, const void *init, size_t len)
{
    pthread_mutex_lock(&h->mu);
    if (len <= HANDOFF_INIT_MAX) {
        memcpy(h->welcome.init, init, len);
        h->welcome.init_len = (uint32_t)len;
        must_tell(h, HANDOFF_INIT, init, len);
    }
    pthread_mutex_unlock(&h->mu);
}

void handoff_client_serving(struct handoff_client *h)
{
    pthread_mutex_lock(&h->mu);
    h->failed[0] = '\0';
    h->serving = true;
    must_tell(h, HANDOFF_SERVING, NULL, 0);
    pthread_mutex_unlock(&h->mu);
}

void handoff_client_watch(struct handoff_client *h, bool (*serves)(void *user), void *user)
{
    pthread_mutex_lock(&h->mu);
    h->serves = serves;
    h->serves_user = user;
    pthread_mutex_unlock(&h->mu);
}

void handoff_client_on_hung(
    struct handoff_client *h, void (*fn)(void *user), void *user, int64_t after_ns)
{
    pthread_mutex_lock(&h->mu);
    h->on_hung = fn;
    h->on_hung_user = user;
    h->hung_after_ns = after_ns;
    pthread_mutex_unlock(&h->mu);
}

bool handoff_client_ended(struct handoff_client *h)
{
    pthread_mutex_lock(&h->mu);
    bool ended = h->ended;
    pthread_mutex_unlock(&h->mu);
    return ended;
}

void handoff_client_on_lost(
    struct handoff_client *h, void (*fn)(void *user, const struct handoff_lost *lost), void *user)
{
    pthread_mutex_lock(&h->mu);
    h->on_lost = fn;
    h->on_lost_user = user;
    if (h->lost.at_s)
        fn(user, &h->lost);
    pthread_mutex_unlock(&h->mu);
}

void handoff_client_stop(struct handoff_client *h)
{
    if (!h)
        return;
    task_cancel(&h->task);
    pthread_mutex_lock(&h->mu);
    tell_closes(h);
    if (h->sock >= 0)
        shutdown(h->sock, SHUT_RDWR);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mu);
    task_stop(&h->task);
    handoff_client_free(h);
}
