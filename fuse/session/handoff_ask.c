/* SPDX-License-Identifier: Apache-2.0 */
/* What the client asks of the node plugin: nobody waits long for one that does not answer. */
#include "fuse/session/handoff_priv.h"
#include "fuse/session/loop.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_WITHIN_NS (2 * NS_PER_S)
/* a node plugin that did not answer is not asked again for so long: opening a file waits for it */
#define SILENCE_NS (30 * NS_PER_S)
/* a plugin that pings and has not for so long is not asked either */
#define HEARD_WITHIN_NS  (15 * NS_PER_S)
#define CALLER_WITHIN_NS (50 * NS_PER_MS) /* a reader waits for it */
#define SETTLE_EACH_NS   (500 * NS_PER_MS)

/* Does the plugin say nothing, though it used to? */
static bool fallen_silent(const struct handoff_client *h, int64_t now)
{
    return h->pings && now >= h->heard_ns + HEARD_WITHIN_NS;
}

int handoff_client_backing_open(void *handoff, int fd, int32_t *id, struct err *e)
{
    struct handoff_client *h = handoff;
    int rc = -1;
    loop_will_block();
    pthread_mutex_lock(&h->ask);
    pthread_mutex_lock(&h->mu);
    int64_t now = clock_mono_ns(), until = now + ANSWER_WITHIN_NS;
    int sock = now < h->silent_until_ns || fallen_silent(h, now) ? -1 : h->sock;
    if (sock >= 0 && handoff_tell(h, HANDOFF_BACKING_OPEN, NULL, 0, fd)) {
        h->silent_until_ns = now + SILENCE_NS;
        sock = -1;
    }
    h->asking = sock >= 0;
    h->answered = false;
    while (h->sock == sock && sock >= 0 && !h->answered
        && clock_cond_wait(&h->changed, &h->mu, until) == 0)
        continue;
    h->asking = false;
    if (!h->answered)
        err_set(e, ERR_RETRY, "the node plugin does not answer");
    else if (h->answer <= 0 || h->answer > INT32_MAX)
        err_sys(e, h->answer < 0 ? (int)-h->answer : EIO,
            "the node plugin cannot register a backing file");
    else {
        *id = (int32_t)h->answer;
        rc = 0;
    }
    if (!h->answered && h->sock == sock && sock >= 0) {
        /* a late answer must not be taken for that of the next question */
        shutdown(sock, SHUT_RDWR);
        h->silent_until_ns = clock_mono_ns() + SILENCE_NS;
    }
    pthread_mutex_unlock(&h->mu);
    pthread_mutex_unlock(&h->ask);
    return rc;
}

static void unhold(struct handoff_client *h, int32_t id)
{
    mutex_assert_held(&h->mu);
    size_t i = 0;
    while (i < h->nheld && h->held[i] != id)
        i++;
    if (i < h->nheld)
        h->held[i] = h->held[--h->nheld];
}

void handoff_client_backing_close(void *handoff, int32_t id)
{
    struct handoff_client *h = handoff;
    int64_t value = id;
    pthread_mutex_lock(&h->mu);
    unhold(h, id);
    if (h->ncloses == h->closes_cap) {
        h->closes_cap = MAX(h->closes_cap * 2, 64);
        h->closes = xrealloc(h->closes, h->closes_cap * sizeof *h->closes);
    }
    h->closes[h->ncloses++] = value;
    if (h->ncloses == 1 && h->wake_fd >= 0 && write(h->wake_fd, &(uint64_t){1}, 8) != 8)
        log_debug("the handoff's thread is awake");
    pthread_mutex_unlock(&h->mu);
}

/* A node plugin that hangs must not make readers hang. */
static bool plugin_listens(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLOUT};
    return sock >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* Waits for the answer; false: there was none on this connection. */
static bool ask_who(struct handoff_client *h, pid_t pid, char out[CALLER_MAX], int64_t until_ns)
{
    mutex_assert_held(&h->mu);
    struct caller_query me = {.next = h->queries, .pid = pid, .out = out};
    int sock = h->sock;
    int64_t value = pid;
    h->queries = &me;
    if (handoff_tell(h, HANDOFF_WHO, &value, sizeof value, -1) == 0)
        while (!me.answered && h->sock == sock && sock >= 0 && !atomic_load(&h->task.stop)
            && clock_cond_wait(&h->changed, &h->mu, until_ns) == 0)
            continue;
    struct caller_query **at = &h->queries;
    while (*at != &me)
        at = &(*at)->next;
    *at = me.next;
    return me.answered;
}

void handoff_client_caller(void *handoff, pid_t pid, char out[CALLER_MAX])
{
    struct handoff_client *h = handoff;
    snprintf(out, CALLER_MAX, CALLER_UNKNOWN);
    loop_will_block();
    pthread_mutex_lock(&h->mu);
    if (plugin_listens(h->sock))
        ask_who(h, pid, out, clock_mono_ns() + CALLER_WITHIN_NS);
    pthread_mutex_unlock(&h->mu);
}

bool handoff_client_settle(struct handoff_client *h, int64_t timeout_ns)
{
    char nobody[CALLER_MAX];
    int64_t now = clock_mono_ns(), until = now + timeout_ns;
    pthread_mutex_lock(&h->mu);
    bool settled = h->fuse_fd < 0 || !h->taken || h->ended;
    for (; !settled && now < until; now = clock_mono_ns()) {
        int64_t soon = MIN(until, now + SETTLE_EACH_NS);
        /* the plugin answers in order: after it has taken what a connection begins with */
        if (h->sock >= 0)
            settled = ask_who(h, 0, nobody, soon);
        if (!settled)
            clock_cond_wait(
                &h->changed, &h->mu, MIN(soon, clock_mono_ns() + HANDOFF_CONNECT_MIN_NS));
    }
    pthread_mutex_unlock(&h->mu);
    return settled;
}
