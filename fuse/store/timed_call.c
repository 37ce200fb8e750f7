/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/timed_call.h"

#include "fuse/store/impl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"
#include "lib/http/metric.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#define STUCK_DEFAULT  64
#define TRYING_DEFAULT 4
#define IDLE_NS        (10 * NS_PER_S)  /* a helper without work ends */
#define SLICE_NS       (50 * NS_PER_MS) /* how soon a cancelled call notices */

struct helper {
    struct helper *next; /* idle ones; timed_calls.mu */
    struct timed_calls *g;
    struct timed_job *job; /* timed_calls.mu; what it is to run */
    pthread_cond_t wake;
};

struct timed_calls {
    char *name;
    unsigned max_stuck, max_trying;
    pthread_mutex_t mu;
    pthread_cond_t room; /* a helper ended, or is not stuck any more */
    struct helper *idle; /* mu, as all below; the one that worked last first */
    unsigned threads, stuck, stuck_changes;
    unsigned waiting;    /* callers whose job runs */
    int64_t returned_ns; /* monotonic: when a call last returned */
    int64_t silent_ns;   /* real: since when nothing returns; 0: it does */
    bool closed, left;   /* timed_calls_free has begun; it has ended, and the last helper frees */
};

static struct {
    pthread_once_t once;
    struct metric *stuck;
} gauges = {.once = PTHREAD_ONCE_INIT};

METRIC_GAUGE(stuck_calls, "millrace_store_stuck_calls", "",
    "Calls to a file system that were given up and have not returned.");

static void make_gauges(void) { gauges.stuck = metric_of(&stuck_calls); }

struct timed_calls *timed_calls_new(const struct timed_conf *conf)
{
    struct timed_calls *g = xcalloc(1, sizeof *g);
    g->name = xstrdup(conf->name);
    g->max_stuck = conf->max_stuck ? conf->max_stuck : STUCK_DEFAULT;
    g->max_trying = conf->max_trying ? conf->max_trying : TRYING_DEFAULT;
    pthread_mutex_init(&g->mu, NULL);
    clock_cond_init(&g->room);
    pthread_once(&gauges.once, make_gauges);
    return g;
}

static void timed_calls_destroy(struct timed_calls *g)
{
    pthread_mutex_destroy(&g->mu);
    pthread_cond_destroy(&g->room);
    free(g->name);
    free(g);
}

void timed_calls_free(struct timed_calls *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->mu);
    g->closed = true;
    for (struct helper *h = g->idle; h; h = h->next)
        pthread_cond_signal(&h->wake);
    while (g->threads > g->stuck)
        pthread_cond_wait(&g->room, &g->mu);
    g->left = true;
    bool last = !g->threads;
    pthread_mutex_unlock(&g->mu);
    if (last)
        timed_calls_destroy(g);
}

void timed_calls_stats(struct timed_calls *g, struct timed_stats *out)
{
    pthread_mutex_lock(&g->mu);
    *out = (struct timed_stats){g->threads, g->stuck, g->silent_ns != 0};
    pthread_mutex_unlock(&g->mu);
}

/* -- helpers --------------------------------------------------------------------------------- */

static void leave_idle(struct timed_calls *g, const struct helper *h)
{
    struct helper **p = &g->idle;
    while (*p && *p != h)
        p = &(*p)->next;
    if (*p)
        *p = h->next;
}

/* mu is held, but not while it works. */
static void run_job(struct timed_calls *g, struct timed_job *job)
{
    pthread_mutex_unlock(&g->mu);
    progress_as(&job->progress);
    job->run(job);
    pthread_mutex_lock(&g->mu);
    bool back = g->silent_ns;
    g->silent_ns = 0;
    g->returned_ns = clock_mono_ns();
    bool late = atomic_load(&job->given_up);
    if (!late) {
        job->done = true;
        pthread_cond_signal(&job->finished); /* from here on it is the caller's */
    }
    if (!late && !back)
        return;
    bool change = late && job->change;
    pthread_mutex_unlock(&g->mu);
    if (back)
        log_kv(LOG_INFO, "a file system answers again", "directory", g->name, NULL);
    if (late) {
        pthread_cond_destroy(&job->finished);
        job->drop(job);
    }
    pthread_mutex_lock(&g->mu);
    if (late) {
        g->stuck--;
        g->stuck_changes -= change;
        metric_add(gauges.stuck, -1);
        pthread_cond_broadcast(&g->room);
    }
}

/* Waits for work. mu is held. */
static bool wait_idle(struct timed_calls *g, struct helper *h)
{
    int64_t until = clock_mono_ns() + IDLE_NS;
    h->next = g->idle;
    g->idle = h;
    while (!h->job && !g->closed && clock_mono_ns() < until)
        clock_cond_wait(&h->wake, &g->mu, until);
    if (h->job) /* the caller that gave it took this helper off the list */
        return true;
    leave_idle(g, h);
    return false;
}

static void *helper_thread(void *arg)
{
    struct helper *h = arg;
    struct timed_calls *g = h->g;
    pthread_mutex_lock(&g->mu);
    do
        run_job(g, steal(&h->job));
    while (!g->closed && wait_idle(g, h));
    g->threads--;
    bool last = g->left && !g->threads;
    pthread_cond_broadcast(&g->room);
    pthread_mutex_unlock(&g->mu);
    pthread_cond_destroy(&h->wake);
    free(h);
    if (last)
        timed_calls_destroy(g);
    return NULL;
}

static int helper_start(struct timed_calls *g, struct timed_job *job)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    struct helper *h = xcalloc(1, sizeof *h);
    h->g = g;
    h->job = job;
    clock_cond_init(&h->wake);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, &attr, helper_thread, h);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        return 0;
    pthread_cond_destroy(&h->wake);
    free(h);
    return rc;
}

/* mu is held. */
static int start_job(struct timed_calls *g, struct timed_job *job)
{
    struct helper *h = g->idle;
    if (h) {
        g->idle = h->next;
        h->job = job;
        pthread_cond_signal(&h->wake);
        return 0;
    }
    int rc = helper_start(g, job);
    g->threads += rc == 0;
    return rc;
}

/* -- callers --------------------------------------------------------------------------------- */

static bool is_set(const atomic_bool *cancel)
{
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

static int err_timed_cancelled(const struct timed_job *job, struct err *e)
{
    return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, job->what, ": cancelled");
}

/* asked_ns: monotonic. mu is held. */
static int err_silent(
    const struct timed_calls *g, const struct timed_job *job, int64_t asked_ns, struct err *e)
{
    char since[CLOCK_RFC3339_LEN];
    clock_rfc3339(
        g->silent_ns ? g->silent_ns : clock_real_ns() - (clock_mono_ns() - asked_ns), since);
    return store_err(e, ERR_RETRY, EIO, REASON_UNREACHABLE, job->what,
        ": the file system of %s has not answered since %s; does its server run?", g->name, since);
}

/* Nothing came in the time that a call had. mu is held. Returns whether that is news. */
static bool note_silence(struct timed_calls *g, const struct timed_job *job, int64_t asked_ns)
{
    if (job->brief || g->silent_ns || g->returned_ns > asked_ns)
        return false;
    g->silent_ns = clock_real_ns() - (clock_mono_ns() - asked_ns);
    return true;
}

static bool has_slot(const struct timed_calls *g, const struct timed_job *job)
{
    return job->goes_on || (g->stuck < g->max_stuck && !(job->change && g->stuck_changes));
}

/* Until the job may begin. mu is held. */
static int await_turn(struct timed_calls *g, const struct timed_job *job, int64_t asked_ns,
    int64_t until_ns, const atomic_bool *cancel, bool *news, struct err *e)
{
    if (g->silent_ns && g->waiting >= g->max_trying && !job->goes_on)
        return err_silent(g, job, asked_ns, e);
    while (!has_slot(g, job)) {
        int64_t now = clock_mono_ns();
        if (is_set(cancel))
            return err_timed_cancelled(job, e);
        if (now >= until_ns)
            *news = note_silence(g, job, asked_ns);
        if (g->silent_ns || now >= until_ns)
            return err_silent(g, job, asked_ns, e);
        clock_cond_wait(&g->room, &g->mu, MIN(until_ns, now + SLICE_NS));
    }
    return 0;
}

/* Until it has returned. mu is held. */
static int await_job(struct timed_calls *g, struct timed_job *job, int64_t asked_ns,
    int64_t until_ns, const atomic_bool *cancel, bool *news, struct err *e)
{
    g->waiting++;
    for (int64_t now; !job->done && !is_set(cancel) && (now = clock_mono_ns()) < until_ns;)
        clock_cond_wait(&job->finished, &g->mu, cancel ? MIN(until_ns, now + SLICE_NS) : until_ns);
    g->waiting--;
    if (job->done) {
        pthread_cond_destroy(&job->finished);
        return 0;
    }
    g->stuck++;
    g->stuck_changes += job->change;
    metric_add(gauges.stuck, 1);
    atomic_store(&job->given_up, true);
    if (is_set(cancel))
        return err_timed_cancelled(job, e);
    *news = note_silence(g, job, asked_ns);
    return err_silent(g, job, asked_ns, e);
}

int timed_call(struct timed_calls *g, struct timed_job *job, int64_t until_ns,
    const atomic_bool *cancel, struct err *e)
{
    int64_t asked_ns = clock_mono_ns();
    bool news = false, begun = false;
    progress_mark();
    job->progress = progress_mine();
    clock_cond_init(&job->finished);
    pthread_mutex_lock(&g->mu);
    int rc = await_turn(g, job, asked_ns, until_ns, cancel, &news, e);
    if (rc == 0 && (rc = start_job(g, job)))
        rc = store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, job->what,
            ": start a thread for it: error %d", rc);
    else if (rc == 0) {
        begun = true;
        rc = await_job(g, job, asked_ns, until_ns, cancel, &news, e);
    }
    pthread_mutex_unlock(&g->mu); /* one that was given up may be gone from here on */
    if (news)
        log_kv(LOG_WARN, "a file system does not answer: only what is cached is served", "error",
            e->msg, NULL);
    if (!begun) {
        pthread_cond_destroy(&job->finished);
        job->drop(job);
    }
    return rc;
}
