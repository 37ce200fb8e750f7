/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/loop.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

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

#define SPIN_NS INT64_C(150000) /* the leader spins so long before it sleeps … */
/* … if the last request came within this: being woken takes long, too */
#define SPIN_IF_WITHIN_NS INT64_C(500000)
#define BUSY_NS           INT64_C(20000) /* a longer pause: others have work for the processor */
#define SPIN_PAUSES       16             /* between two looks: half a microsecond */
#define SPIN_MISSES_MAX   4 /* after so many spins in vain, 2^this chances are passed over */
#define WATCH_NS          (10 * NS_PER_MS)
#define IDLE_MAX          10
#define THREADS_MAX       1024 /* with those that wait for a store or a disk */

struct spin_stats {        /* of looking for requests before sleeping */
    unsigned misses, skip; /* spins in vain, one after the other; chances to pass over */
};

struct loop {
    struct loop_conf c;
    int wake_fd;   /* readable: it is over */
    bool may_spin; /* there is more than one processor */
    _Atomic bool over;
    pthread_mutex_t mu;
    pthread_cond_t leader_wanted; /* there is none, or it is over */
    pthread_cond_t ended;         /* a thread */
    unsigned nthreads, nidle;     /* mu; idle: neither leads nor works */
    unsigned ncoming;             /* mu; begun, but not there yet */
    atomic_uint nblocked;         /* of nthreads: they wait for a store or a disk */
    atomic_bool starved;          /* written with mu: no thread could be added */
    bool has_leader;              /* mu; a thread waits for the next request */
    bool watched;                 /* mu; an idle thread sees to it that there is a leader */
    bool unwatched;               /* mu; nothing comes: there is no need to watch */
    uint64_t nrequests;           /* mu; so far */
    /* of the leader, handed on under mu: */
    bool came_soon; /* the last request did */
    struct spin_stats spins;
    /* of a thread that has answered while the leader sleeps: */
    bool spinning;                 /* mu; there is one */
    struct spin_stats reply_spins; /* its, handed on under mu */
};

/* this thread works on a request, and there is no leader meanwhile */
static __thread struct loop *tl_leaderless;
static __thread struct loop *tl_loop; /* of this thread */
static __thread bool tl_blocked;      /* it is counted in nblocked */
static __thread bool tl_dismissed;
static __thread unsigned tl_in_a_row; /* requests it took without having to wait */

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
    l->may_spin = sched_getaffinity(0, sizeof cpus, &cpus) || CPU_COUNT(&cpus) > 1;
    pthread_mutex_init(&l->mu, NULL);
    clock_cond_init(&l->leader_wanted);
    pthread_cond_init(&l->ended, NULL);
    return l;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    close(l->wake_fd);
    pthread_cond_destroy(&l->leader_wanted);
    pthread_cond_destroy(&l->ended);
    pthread_mutex_destroy(&l->mu);
    free(l);
}

/* ---- threads ---- */

static void *loop_thread(void *user)
{
    struct loop *l = user;
    pthread_mutex_lock(&l->mu);
    l->ncoming--;
    pthread_mutex_unlock(&l->mu);
    tl_loop = l;
    l->c.work(l->c.user);
    loop_will_block();
    pthread_mutex_lock(&l->mu);
    l->nthreads--;
    atomic_fetch_sub(&l->nblocked, tl_blocked);
    pthread_cond_signal(&l->ended);
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

static int add_thread(struct loop *l)
{
    mutex_assert_held(&l->mu);
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    int rc = pthread_create(&thread, &attr, loop_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    l->nthreads += rc == 0;
    l->ncoming += rc == 0;
    return rc;
}

/* Those that wait for a store do not count, so that one that is dead leaves the others theirs. */
static bool may_add_thread(const struct loop *l)
{
    mutex_assert_held(&l->mu);
    return l->nthreads < l->c.threads + atomic_load(&l->nblocked) && l->nthreads < THREADS_MAX;
}

/* Where there is no leader, a follower becomes it, or a new thread. */
static void promote_follower(struct loop *l)
{
    mutex_assert_held(&l->mu);
    if (l->has_leader)
        return;
    if (atomic_load(&l->over)) {
        pthread_cond_broadcast(&l->leader_wanted);
    } else if (l->nidle) {
        pthread_cond_signal(&l->leader_wanted);
    } else if (!l->ncoming) {
        atomic_store(&l->starved, true); /* loop_will_block() looks at it, after it has counted */
        if (!may_add_thread(l))
            return; /* one of those that work, when it is done */
        atomic_store(&l->starved, false);
        int rc = add_thread(l);
        if (rc)
            log_kv(LOG_WARN, "no more threads to serve with", "error", strerror(rc), NULL);
    }
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

bool loop_serves(struct loop *l, uint64_t *seen)
{
    pthread_mutex_lock(&l->mu);
    bool serves = l->has_leader || l->nidle || may_add_thread(l) || l->nrequests != *seen;
    *seen = l->nrequests;
    pthread_mutex_unlock(&l->mu);
    return serves;
}

/* ---- leader and followers ---- */

/* While requests come, one idle thread checks now and then that there is a leader. */
static void follow(struct loop *l)
{
    mutex_assert_held(&l->mu);
    if (l->watched || l->unwatched) {
        pthread_cond_wait(&l->leader_wanted, &l->mu);
        return;
    }
    int64_t until = clock_mono_ns() + WATCH_NS;
    uint64_t before = l->nrequests;
    l->watched = true;
    clock_cond_wait(&l->leader_wanted, &l->mu, until);
    l->watched = false;
    l->unwatched = l->has_leader && before == l->nrequests;
}

/* False: it is over, or there are idle threads enough. */
static bool become_leader(struct loop *l)
{
    pthread_mutex_lock(&l->mu);
    bool stays = l->nidle < IDLE_MAX;
    l->nidle++;
    while (stays && l->has_leader && !atomic_load(&l->over))
        follow(l);
    l->nidle--;
    bool leads = stays && !l->has_leader && !atomic_load(&l->over);
    tl_dismissed = !leads;
    l->has_leader |= leads;
    if (!leads)
        promote_follower(l);
    pthread_mutex_unlock(&l->mu);
    return leads;
}

/* Is it worth while to spin for the next request before sleeping? */
static bool should_spin(struct spin_stats *stats)
{
    if (!stats->skip)
        return true;
    stats->skip--;
    return false;
}

static void record_spin(struct spin_stats *stats, bool found)
{
    stats->misses = found ? 0 : MIN(stats->misses + 1, SPIN_MISSES_MAX);
    stats->skip = found ? 0 : (1u << stats->misses) - 1;
}

/* A request is taken, or none will come. at_once: it was there already. */
static void request_taken(struct loop *l, bool leads, bool at_once, unsigned in_a_row)
{
    tl_in_a_row = at_once ? tl_in_a_row + 1 : 0;
    pthread_mutex_lock(&l->mu);
    l->nrequests++;
    l->unwatched = false;
    if (leads)
        l->has_leader = false;
    if (tl_in_a_row < in_a_row && l->watched && !l->has_leader) {
        tl_leaderless = l;
    } else {
        tl_in_a_row = 0;
        promote_follower(l);
    }
    pthread_mutex_unlock(&l->mu);
}

/* Lets other threads have the processor. False: they had use for it, so this is no time to spin. */
static bool spin_once(int64_t *now_ns)
{
    for (int i = 0; i < SPIN_PAUSES; i++)
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

/* Waits for a request, as the leader. */
static ssize_t lead(struct loop *l, void *buf, size_t len, bool *at_once)
{
    int64_t began = clock_mono_ns(), now = began;
    bool spin = l->may_spin && l->came_soon && should_spin(&l->spins), spins = spin, slept = false;
    ssize_t n;
    while ((n = read(l->c.fd, buf, len)) < 0 && errno == EAGAIN && !atomic_load(&l->over)) {
        *at_once = false;
        if (spins) {
            spins = spin_once(&now) && now - began < SPIN_NS;
            continue;
        }
        struct pollfd fds[] = {
            {.fd = l->c.fd, .events = POLLIN}, {.fd = l->wake_fd, .events = POLLIN}};
        poll(fds, ARRAY_LEN(fds), -1);
        now = clock_mono_ns();
        slept = true;
    }
    if (spin)
        record_spin(&l->spins, !slept);
    l->came_soon = now - began < SPIN_IF_WITHIN_NS;
    return n;
}

/* Spins for the request that an answer often brings about, in a thread that has just given one and
 * is not the leader: the leader may be asleep, and slow to wake. */
static ssize_t spin_after_reply(struct loop *l, void *buf, size_t len)
{
    int64_t began = clock_mono_ns(), now = began;
    ssize_t n = -1;
    pthread_mutex_lock(&l->mu);
    bool spin = l->may_spin && l->has_leader && !l->spinning && should_spin(&l->reply_spins);
    l->spinning |= spin;
    pthread_mutex_unlock(&l->mu);
    errno = EAGAIN;
    if (!spin)
        return -1;
    while (spin_once(&now) && now - began < SPIN_NS && (n = read(l->c.fd, buf, len)) < 0
        && errno == EAGAIN)
        continue;
    int saved = n < 0 && errno != EAGAIN ? errno : EAGAIN;
    pthread_mutex_lock(&l->mu);
    l->spinning = false;
    record_spin(&l->reply_spins, n >= 0);
    pthread_mutex_unlock(&l->mu);
    errno = saved;
    return n;
}

/* True: there was no leader while this thread worked on a request, and it leads again. */
static bool resume_leading(struct loop *l)
{
    if (tl_blocked) {
        tl_blocked = false;
        atomic_fetch_sub(&l->nblocked, 1);
    }
    if (!tl_leaderless)
        return false;
    tl_leaderless = NULL;
    pthread_mutex_lock(&l->mu);
    bool leads = !l->has_leader;
    l->has_leader = true;
    pthread_mutex_unlock(&l->mu);
    return leads;
}

bool loop_dismissed(void) { return tl_dismissed; }

ssize_t loop_read(struct loop *l, void *buf, size_t len)
{
    bool leads = resume_leading(l), at_once = true;
    ssize_t n = leads ? -1 : read(l->c.fd, buf, len);
    if (!leads && n < 0 && errno == EAGAIN) {
        n = spin_after_reply(l, buf, len);
        at_once = false;
    }
    if (leads || (n < 0 && errno == EAGAIN)) {
        leads = leads || become_leader(l);
        if (leads)
            n = lead(l, buf, len, &at_once);
        if (!leads || atomic_load(&l->over))
            errno = EINTR;
    }
    if (n < 0 && !leads)
        return n;
    int saved = errno;
    request_taken(l, leads, at_once, n > 0 ? l->c.in_a_row(buf, (size_t)n) : 0);
    errno = saved;
    return n;
}

void loop_will_block(void)
{
    struct loop *l = tl_loop;
    if (!l)
        return;
    if (!tl_blocked)
        atomic_fetch_add(&l->nblocked, 1);
    tl_blocked = true;
    if (!tl_leaderless && !atomic_load(&l->starved))
        return;
    tl_leaderless = NULL;
    pthread_mutex_lock(&l->mu);
    promote_follower(l);
    pthread_mutex_unlock(&l->mu);
}
