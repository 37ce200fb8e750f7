/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/stall.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CALLERS  64              /* those that did not read for longest give way */
#define MAX_PIDS     1024u           /* remembered … */
#define PID_VALID_NS (30 * NS_PER_S) /* … for so long: they are used again */

struct stall_caller {
    struct stall_times times;
    struct stall_window window;
    unsigned reading;          /* reads under way */
    int64_t since_ns, last_ns; /* when the first of them began; when the latest one did */
};

struct stalls {
    stall_who who;
    void *user;
    pthread_mutex_t mu;
    struct stall_caller callers[MAX_CALLERS]; /* mu; .caller "" unused */
    struct {
        pid_t pid;
        int64_t until_ns;
        unsigned caller;
    } pids[MAX_PIDS]; /* mu; by pid % MAX_PIDS */
};

struct stalls *stalls_new(stall_who who, void *user)
{
    struct stalls *s = xcalloc(1, sizeof *s);
    s->who = who;
    s->user = user;
    pthread_mutex_init(&s->mu, NULL);
    return s;
}

void stalls_free(struct stalls *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->mu);
    free(s);
}

static unsigned find_caller(struct stalls *s, const char *name)
{
    mutex_assert_held(&s->mu);
    unsigned oldest = MAX_CALLERS;
    for (unsigned i = 0; i < MAX_CALLERS; i++) {
        struct stall_caller *c = &s->callers[i];
        if (strcmp(c->times.caller, name) == 0)
            return i;
        if (!c->reading && (oldest == MAX_CALLERS || c->last_ns < s->callers[oldest].last_ns))
            oldest = i;
    }
    if (oldest == MAX_CALLERS) /* all of them read right now */
        return 0;
    for (unsigned i = 0; i < MAX_PIDS;
         i++) /* pids of the caller that gives way are not the newcomer's */
        if (s->pids[i].caller == oldest)
            s->pids[i].until_ns = 0;
    s->callers[oldest] = (struct stall_caller){0};
    snprintf(s->callers[oldest].times.caller, CALLER_MAX, "%s", name);
    return oldest;
}

/* -1: it must be asked for. */
static int known(struct stalls *s, pid_t pid, int64_t now)
{
    mutex_assert_held(&s->mu);
    unsigned at = (unsigned)pid % MAX_PIDS;
    if (s->pids[at].pid != pid || s->pids[at].until_ns < now
        || !s->callers[s->pids[at].caller].times.caller[0])
        return -1;
    return (int)s->pids[at].caller;
}

struct stall_caller *stalls_begin(struct stalls *s, pid_t pid)
{
    struct cache_stall old;
    cache_stall(&old);
    int64_t now = clock_mono_ns();
    pid = MAX(pid, 0); /* 0: of another namespace */
    pthread_mutex_lock(&s->mu);
    int at = known(s, pid, now);
    if (at < 0) {
        char name[CALLER_MAX] = CALLER_UNKNOWN;
        pthread_mutex_unlock(&s->mu);
        if (pid)
            s->who(s->user, pid, name);
        pthread_mutex_lock(&s->mu);
        at = (int)find_caller(s, name);
        s->pids[(unsigned)pid % MAX_PIDS].pid = pid;
        s->pids[(unsigned)pid % MAX_PIDS].until_ns = strcmp(s->callers[at].times.caller, name) == 0
            ? now + PID_VALID_NS
            : 0;
        s->pids[(unsigned)pid % MAX_PIDS].caller = (unsigned)at;
    }
    struct stall_caller *c = &s->callers[at];
    c->times.reads++;
    c->last_ns = now;
    if (c->reading++ == 0)
        c->since_ns = now;
    pthread_mutex_unlock(&s->mu);
    return c;
}

void stalls_end(struct stalls *s, struct stall_caller *c)
{
    struct cache_stall now;
    cache_stall(&now);
    pthread_mutex_lock(&s->mu);
    int64_t at = clock_mono_ns();
    uint64_t waited = --c->reading == 0 ? (uint64_t)(at - c->since_ns) : 0;
    c->times.store_ns += (uint64_t)now.source_ns[0];
    c->times.worker_ns += (uint64_t)now.source_ns[1];
    c->times.disk_ns += (uint64_t)now.disk_ns;
    c->times.waiting_ns += waited;
    struct stall_minute *m = stall_window_at(&c->window, at);
    m->reads++;
    m->store_ns += (uint64_t)now.source_ns[0];
    m->worker_ns += (uint64_t)now.source_ns[1];
    m->disk_ns += (uint64_t)now.disk_ns;
    m->waiting_ns += waited;
    pthread_mutex_unlock(&s->mu);
}

void stalls_each(
    struct stalls *s, void (*fn)(void *user, const struct stall_times *times), void *user)
{
    for (unsigned i = 0; i < MAX_CALLERS; i++) {
        pthread_mutex_lock(&s->mu);
        struct stall_times t = s->callers[i].times;
        if (s->callers[i].reading)
            t.waiting_ns += (uint64_t)(clock_mono_ns() - s->callers[i].since_ns);
        pthread_mutex_unlock(&s->mu);
        if (*t.caller)
            fn(user, &t);
    }
}

/* -- lately ---------------------------------------------------------------------------------- */

#define MINUTE_NS (60 * NS_PER_S)

struct stall_minute *stall_window_at(struct stall_window *w, int64_t now_ns)
{
    int64_t minute = now_ns / MINUTE_NS;
    struct stall_minute *m = &w->minutes[minute % STALL_MINUTES];
    if (m->minute != minute)
        *m = (struct stall_minute){.minute = minute};
    return m;
}

int64_t stall_window_sum(const struct stall_window *w, int64_t now_ns, struct stall_times *out)
{
    int64_t first = now_ns / MINUTE_NS - (STALL_MINUTES - 1);
    out->reads = out->waiting_ns = out->store_ns = out->worker_ns = out->disk_ns = 0;
    for (size_t i = 0; i < STALL_MINUTES; i++) {
        const struct stall_minute *m = &w->minutes[i];
        if (m->minute < first)
            continue;
        out->reads += m->reads;
        out->waiting_ns += m->waiting_ns;
        out->store_ns += m->store_ns;
        out->worker_ns += m->worker_ns;
        out->disk_ns += m->disk_ns;
    }
    return now_ns - MAX(first, 0) * MINUTE_NS;
}

/* Of one caller; what waits now counts from when it began, within the window. */
static int64_t recent_of(const struct stall_caller *c, int64_t now, struct stall_times *out)
{
    int64_t window = stall_window_sum(&c->window, now, out);
    if (c->reading) {
        out->reads += c->reading;
        out->waiting_ns += (uint64_t)MIN(now - c->since_ns, window);
    }
    memcpy(out->caller, c->times.caller, CALLER_MAX);
    return window;
}

int64_t stalls_recent(struct stalls *s, pid_t pid, struct stall_times *out, bool *own)
{
    char name[CALLER_MAX] = CALLER_UNKNOWN;
    struct stall_times t;
    int64_t now = clock_mono_ns(), window = 0;
    if (pid > 0)
        s->who(s->user, pid, name);
    *out = (struct stall_times){0};
    *own = false;
    pthread_mutex_lock(&s->mu);
    for (unsigned i = 0; i < MAX_CALLERS && !*own; i++) {
        window = recent_of(&s->callers[i], now, &t);
        *own = t.reads && strcmp(t.caller, name) == 0;
        if (*own || t.waiting_ns > out->waiting_ns || (t.reads && !out->reads))
            *out = t;
    }
    pthread_mutex_unlock(&s->mu);
    *own = *own && strcmp(name, CALLER_UNKNOWN) != 0; /* who has no name shares that with others */
    return window;
}
