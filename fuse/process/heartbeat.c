/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/process/heartbeat.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BEAT_NS     NS_PER_S
#define LOOK_MAX_NS (3 * NS_PER_S) /* so much passes between two looks of one that runs */

struct heartbeat {
    struct task task;
    struct heartbeats *shared;
    struct heartbeat_ear ear; /* the thread's */
    int64_t patience_ns;
    int supervisor_fd; /* a pidfd; -1: the kernel has none */
    pthread_mutex_t mu;
    bool (*serves)(void *user); /* mu: held while it is called */
    void *user;                 /* mu */
};

bool heartbeat_missed(
    struct heartbeat_ear *ear, uint64_t beats, int64_t now_ns, int64_t patience_ns)
{
    int64_t since = ear->looked_ns ? MIN(now_ns - ear->looked_ns, LOOK_MAX_NS) : 0;
    ear->looked_ns = now_ns;
    ear->silent_ns = beats == ear->heard ? ear->silent_ns + since : 0;
    ear->heard = beats;
    return patience_ns > 0 && beats && ear->silent_ns >= patience_ns;
}

/* To one that runs it says nothing. */
static void wake_supervisor(struct heartbeat *h)
{
    h->ear.silent_ns = 0;
    log_warn(
        "the supervisor of this process does not run: telling it to go on; while it is stopped, nobody takes this mount over");
    if (syscall(SYS_pidfd_send_signal, h->supervisor_fd, SIGCONT, NULL, 0))
        log_debug("the supervisor cannot be told to go on");
}

static void heartbeat_thread(void *user)
{
    struct heartbeat *h = user;
    do {
        pthread_mutex_lock(&h->mu);
        bool serves = !h->serves || h->serves(h->user);
        pthread_mutex_unlock(&h->mu);
        if (serves)
            atomic_fetch_add(&h->shared->serving, 1);
        if (heartbeat_missed(
                &h->ear, atomic_load(&h->shared->supervisor), clock_mono_ns(), h->patience_ns))
            wake_supervisor(h);
    } while (!task_wait(&h->task, clock_mono_ns() + BEAT_NS));
}

static void heartbeat_free(struct heartbeat *h)
{
    if (h->supervisor_fd >= 0)
        close(h->supervisor_fd);
    pthread_mutex_destroy(&h->mu);
    free(h);
}

struct heartbeat *heartbeat_start(
    struct heartbeats *shared, pid_t supervisor, int64_t patience_ns, struct err *e)
{
    struct heartbeat *h = xcalloc(1, sizeof *h);
    h->shared = shared;
    h->patience_ns = patience_ns;
    h->supervisor_fd = (int)syscall(SYS_pidfd_open, supervisor, 0);
    pthread_mutex_init(&h->mu, NULL);
    if (task_start(&h->task, "mr-heartbeat", heartbeat_thread, h, e) == 0)
        return h;
    heartbeat_free(h);
    return NULL;
}

void heartbeat_watch(struct heartbeat *h, bool (*serves)(void *user), void *user)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mu);
    h->serves = serves;
    h->user = user;
    pthread_mutex_unlock(&h->mu);
}

void heartbeat_stop(struct heartbeat *h)
{
    if (!h)
        return;
    task_stop(&h->task);
    heartbeat_free(h);
}
