/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/loop.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_NS INT64_C(150000) /* the waiting thread looks so long before it sleeps … */
/* … if the last request came within this: being woken takes long, too */
#define NEAR_NS    INT64_C(500000)
#define BUSY_NS    INT64_C(20000) /* … and nobody else has work for the processor */
#define PAUSES     16             /* between two looks: half a microsecond */
#define MISSES_MAX 4              /* 2^this chances are passed over after so many looks in vain */
#define WATCH_NS   (10 * NS_PER_MS)
#define IDLE_MAX   10

struct luck {              /* of looking for requests before sleeping */
    unsigned misses, skip; /* looks in vain, one after the other; chances to pass over */
};

struct loop {
    struct loop_conf c;
    int wake_fd;   /* readable: it is over */
    bool may_look; /* there is more than one processor */
    _Atomic bool over;
    pthread_mutex_t mu;
    pthread_cond_t turn;      /* nobody waits, or it is over */
    pthread_cond_t ended;     /* a thread */
    unsigned nthreads, nidle; /* mu; idle: neither waits nor works */
    unsigned ncoming;         /* mu; begun, but not there yet */
    bool waiting;             /* mu; somebody waits for the next request */
    bool watched;             /* mu; an idle thread sees to it that somebody does */
    bool quiet;               /* mu; nothing to watch */
    uint64_t taken;           /* mu; requests */
    /* of the waiting thread, handed on under mu: */
    bool near; /* the last request came soon */
    struct luck luck;
    /* of a thread that has answered while another one waits, which sleeps: */
    bool looking;      /* mu; there is one */
    struct luck after; /* its, handed on under mu */
};

static __thread struct loop *tl_alone; /* nobody waits while this thread works on a request */
static __thread bool tl_dismissed;
static __thread unsigned tl_row; /* requests it took without having to wait */

struct loop *loop_new(const struct loop_conf *conf, struct err *e)
{
    struct loop *l = calloc(1, sizeof *l);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!l || fd < 0) {
        err_sys(e, l ? errno : ENOMEM, "make the serving threads");
        if (fd >= 0)
            close(fd);
        free(l);
        return NULL;
    }
    cpu_set_t cpus;
    l->c = *conf;
    l->wake_fd = fd;
    l->may_look = sched_getaffinity(0, sizeof cpus, &cpus) || CPU_COUNT(&cpus) > 1;
    pthread_mutex_init(&l->mu, NULL);
    clock_cond_init(&l->turn);
    pthread_cond_init(&l->ended, NULL);
    return l;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    close(l->wake_fd);
    pthread_cond_destroy(&l->turn);
    pthread_cond_destroy(&l->ended);
    pthread_mutex_destroy(&l->mu);
    free(l);
}

/* ---- threads ---- */

static void *work(void *user)
{
    struct loop *l = user;
    pthread_mutex_lock(&l->mu);
    l->ncoming--;
    pthread_mutex_unlock(&l->mu);
    l->c.work(l->c.user);
    loop_will_block();
    pthread_mutex_lock(&l->mu);
    l->nthreads--;
    pthread_cond_signal(&l->ended);
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

/* mu is held. */
static int add_thread(struct loop *l)
{
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    int rc = pthread_create(&thread, &attr, work, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    l->nthreads += rc == 0;
    l->ncoming += rc == 0;
    return rc;
}

/* Somebody is to wait for the next request. mu is held. */
static void pass_on(struct loop *l)
{
    if (l->waiting)
        return;
    if (atomic_load(&l->over)) {
        pthread_cond_broadcast(&l->turn);
    } else if (l->nidle) {
        pthread_cond_signal(&l->turn);
    } else if (!l->ncoming && l->nthreads < l->c.threads) {
        int rc = add_thread(l);
        if (rc)
            log_kv(LOG_WARN, "no more threads to serve with", "error", strerror(rc), NULL);
    } /* or one of those that work, when it is done */
}

int loop_run(struct loop *l, struct err *e)
{
    pthread_mutex_lock(&l->mu);
    int rc = add_thread(l);
    while (l->nthreads)
        pthread_cond_wait(&l->ended, &l->mu);
    pthread_mutex_unlock(&l->mu);
    return rc ? err_sys(e, rc, "start a thread") : 0;
}

void loop_end(struct loop *l)
{
    uint64_t one = 1;
    atomic_store(&l->over, true);
    if (write(l->wake_fd, &one, sizeof one) < 0)
        return; /* it was written to before */
}

/* ---- whose turn it is ---- */

/* Where requests come, one idle thread looks now and then whether somebody waits for them. mu is
 * held. */
static void idle(struct loop *l)
{
    if (l->watched || l->quiet) {
        pthread_cond_wait(&l->turn, &l->mu);
        return;
    }
    int64_t until = clock_mono_ns() + WATCH_NS;
    uint64_t taken = l->taken;
    l->watched = true;
    clock_cond_wait(&l->turn, &l->mu, until);
    l->watched = false;
    l->quiet = l->waiting && taken == l->taken;
}

/* False: it is over, or there are idle threads enough. */
static bool take_turn(struct loop *l)
{
    pthread_mutex_lock(&l->mu);
    bool stays = l->nidle < IDLE_MAX;
    l->nidle++;
    while (stays && l->waiting && !atomic_load(&l->over))
        idle(l);
    l->nidle--;
    bool mine = stays && !l->waiting && !atomic_load(&l->over);
    tl_dismissed = !mine;
    l->waiting |= mine;
    if (!mine)
        pass_on(l);
    pthread_mutex_unlock(&l->mu);
    return mine;
}

/* Is it worth while to look for the next request before sleeping? */
static bool shall_look(struct luck *luck)
{
    if (!luck->skip)
        return true;
    luck->skip--;
    return false;
}

static void looked(struct luck *luck, bool found)
{
    luck->misses = found ? 0 : MIN(luck->misses + 1, MISSES_MAX);
    luck->skip = found ? 0 : (1u << luck->misses) - 1;
}

/* A request is taken, or none will come. at_once: it was there already. */
static void taken(struct loop *l, bool waited, bool at_once, unsigned in_a_row)
{
    tl_row = at_once ? tl_row + 1 : 0;
    pthread_mutex_lock(&l->mu);
    l->taken++;
    l->quiet = false;
    if (waited)
        l->waiting = false;
    if (tl_row < in_a_row && l->watched && !l->waiting) {
        tl_alone = l;
    } else {
        tl_row = 0;
        pass_on(l);
    }
    pthread_mutex_unlock(&l->mu);
}

/* Lets others run if there are any. False: there are, so that it is not the time to look around. */
static bool look_around(int64_t *now_ns)
{
    for (int i = 0; i < PAUSES; i++)
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
    sched_yield();
    int64_t before_ns = *now_ns;
    *now_ns = clock_mono_ns();
    return *now_ns - before_ns < BUSY_NS;
}

/* Waits, as the one who does, for a request. */
static ssize_t wait_for_request(struct loop *l, void *buf, size_t len, bool *at_once)
{
    int64_t began = clock_mono_ns(), now = began;
    bool look = l->may_look && l->near && shall_look(&l->luck), looks = look, slept = false;
    ssize_t n;
    while ((n = read(l->c.fd, buf, len)) < 0 && errno == EAGAIN && !atomic_load(&l->over)) {
        *at_once = false;
        if (looks) {
            looks = look_around(&now) && now - began < LOOK_NS;
            continue;
        }
        struct pollfd fds[] = {
            {.fd = l->c.fd, .events = POLLIN}, {.fd = l->wake_fd, .events = POLLIN}};
        poll(fds, ARRAY_LEN(fds), -1);
        now = clock_mono_ns();
        slept = true;
    }
    if (look)
        looked(&l->luck, !slept);
    l->near = now - began < NEAR_NS;
    return n;
}

/* Looks for the request that an answer often brings about, for a thread that has just given one and
 * need not wait for the next: the one that waits may be asleep, and slow to wake. */
static ssize_t look_after(struct loop *l, void *buf, size_t len)
{
    int64_t began = clock_mono_ns(), now = began;
    ssize_t n = -1;
    pthread_mutex_lock(&l->mu);
    bool look = l->may_look && l->waiting && !l->looking && shall_look(&l->after);
    l->looking |= look;
    pthread_mutex_unlock(&l->mu);
    errno = EAGAIN;
    if (!look)
        return -1;
    while (look_around(&now) && now - began < LOOK_NS && (n = read(l->c.fd, buf, len)) < 0
        && errno == EAGAIN)
        continue;
    int saved = n < 0 && errno != EAGAIN ? errno : EAGAIN;
    pthread_mutex_lock(&l->mu);
    l->looking = false;
    looked(&l->after, n >= 0);
    pthread_mutex_unlock(&l->mu);
    errno = saved;
    return n;
}

/* While it worked on a request nobody waited, and nobody need have begun to. */
static bool retake_turn(struct loop *l)
{
    if (!tl_alone)
        return false;
    tl_alone = NULL;
    pthread_mutex_lock(&l->mu);
    bool mine = !l->waiting;
    l->waiting = true;
    pthread_mutex_unlock(&l->mu);
    return mine;
}

bool loop_dismissed(void) { return tl_dismissed; }

ssize_t loop_read(struct loop *l, void *buf, size_t len)
{
    bool waited = retake_turn(l), at_once = true;
    ssize_t n = waited ? -1 : read(l->c.fd, buf, len);
    if (!waited && n < 0 && errno == EAGAIN) {
        n = look_after(l, buf, len);
        at_once = false;
    }
    if (waited || (n < 0 && errno == EAGAIN)) {
        waited = waited || take_turn(l);
        if (waited)
            n = wait_for_request(l, buf, len, &at_once);
        if (!waited || atomic_load(&l->over))
            errno = EINTR;
    }
    if (n < 0 && !waited)
        return n;
    int saved = errno;
    taken(l, waited, at_once, n > 0 ? l->c.in_a_row(buf, (size_t)n) : 0);
    errno = saved;
    return n;
}

void loop_will_block(void)
{
    struct loop *l = tl_alone;
    if (!l)
        return;
    tl_alone = NULL;
    pthread_mutex_lock(&l->mu);
    pass_on(l);
    pthread_mutex_unlock(&l->mu);
}
