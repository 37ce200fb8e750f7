/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/queue.h"

#include "lib/base/clock.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define IDLE ((size_t)-1)

/* Everything known about a key. It exists while the key waits, is worked on, or has failures to
 * remember. */
struct queue_key {
    char *name;
    int64_t due_ns; /* mono; meaningful while at != IDLE */
    uint64_t order; /* of equal times the first added comes first */
    size_t at;      /* place in the heap, or IDLE */
    unsigned failures;
    bool busy;   /* handed to a worker */
    bool again;  /* added while busy: due at due_ns once it is done */
    bool resync; /* the next reconcile is a resync */
    bool fresh;  /* in the line of new keys, not in the heap; due_ns is when it came there */
    TAILQ_ENTRY(queue_key) line;
};

struct queue {
    struct queue_backoff backoff;
    struct queue_metrics counted; /* NULLs: not */
    pthread_mutex_t mu;           /* a leaf */
    pthread_cond_t changed;
    struct map *keys;             /* mu: owned struct queue_key */
    struct queue_key **heap;      /* mu: by due_ns, then order; borrowed from keys */
    size_t n, cap;                /* mu */
    TAILQ_HEAD(, queue_key) line; /* mu: new keys, the first first; borrowed from keys */
    size_t nfresh;                /* mu: of them */
    unsigned passed_over;         /* mu: keys handed out before one of them, while it waited */
    uint64_t order;               /* mu */
    uint64_t random;              /* mu: state of the jitter */
    bool stopped;                 /* mu */
};

static void queue_key_free(void *p)
{
    struct queue_key *k = p;
    free(k->name);
    free(k);
}

struct queue *queue_new(const struct queue_backoff *b, const struct queue_metrics *counted)
{
    struct queue *q = xcalloc(1, sizeof *q);
    q->backoff = *b;
    if (counted)
        q->counted = *counted;
    q->keys = map_new(queue_key_free);
    TAILQ_INIT(&q->line);
    q->random = (uint64_t)clock_real_ns() | 1;
    pthread_mutex_init(&q->mu, NULL);
    clock_cond_init(&q->changed);
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    map_free(q->keys);
    free(q->heap);
    pthread_mutex_destroy(&q->mu);
    pthread_cond_destroy(&q->changed);
    free(q);
}

/* ---- the heap ---- */

static bool key_before(const struct queue_key *a, const struct queue_key *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_place(struct queue *q, struct queue_key *k, size_t at)
{
    q->heap[at] = k;
    k->at = at;
}

static void heap_sift(struct queue *q, struct queue_key *k, size_t at)
{
    while (at > 0 && key_before(k, q->heap[(at - 1) / 2])) {
        heap_place(q, q->heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = at * 2 + 1;
        if (child + 1 < q->n && key_before(q->heap[child + 1], q->heap[child]))
            child++;
        if (child >= q->n || !key_before(q->heap[child], k))
            break;
        heap_place(q, q->heap[child], at);
        at = child;
    }
    heap_place(q, k, at);
}

static void heap_put(struct queue *q, struct queue_key *k)
{
    if (q->n == q->cap)
        q->heap = xrealloc(q->heap, (q->cap = q->cap ? q->cap * 2 : 64) * sizeof *q->heap);
    heap_sift(q, k, q->n++);
}

static struct queue_key *heap_pop(struct queue *q)
{
    struct queue_key *k = q->heap[0], *last = q->heap[--q->n];
    k->at = IDLE;
    if (last != k)
        heap_sift(q, last, 0);
    return k;
}

static void count(struct metric *m, int64_t delta)
{
    if (m)
        metric_add(m, delta);
}

/* ---- new keys ---- */

static void line_up(struct queue *q, struct queue_key *k)
{
    k->fresh = true;
    k->due_ns = clock_mono_ns();
    TAILQ_INSERT_TAIL(&q->line, k, line);
    q->nfresh++;
    count(q->counted.adds, 1);
}

static void leave_line(struct queue *q, struct queue_key *k)
{
    k->fresh = false;
    TAILQ_REMOVE(&q->line, k, line);
    q->nfresh--;
}

/* ---- keys ---- */

static struct queue_key *queue_key_of(struct queue *q, const char *name)
{
    struct queue_key *k = map_get(q->keys, name);
    if (!k) {
        k = xcalloc(1, sizeof *k);
        k->name = xstrdup(name);
        k->at = IDLE;
        map_put(q->keys, name, k);
    }
    return k;
}

static void drop_if_idle(struct queue *q, struct queue_key *k)
{
    if (k->at == IDLE && !k->fresh && !k->busy && !k->failures)
        map_del(q->keys, k->name);
}

static void add_locked(struct queue *q, struct queue_key *k, int64_t due_ns)
{
    bool waits = k->busy ? k->again : k->at != IDLE;
    if (waits && k->due_ns <= due_ns)
        return;
    if (!waits)
        count(q->counted.adds, 1);
    k->due_ns = due_ns;
    k->order = q->order++;
    if (k->busy) {
        k->again = true;
        return;
    }
    if (k->at != IDLE)
        heap_sift(q, k, k->at);
    else
        heap_put(q, k);
    pthread_cond_signal(&q->changed);
}

static void queue_add_at(struct queue *q, const char *name, int64_t after_ns, bool resync)
{
    pthread_mutex_lock(&q->mu);
    if (!q->stopped) {
        struct queue_key *k = queue_key_of(q, name);
        int64_t due_ns = clock_mono_ns() + MAX(after_ns, 0);
        k->resync |= resync;
        if (k->fresh && !resync) { /* it is begun, then; and the earlier time wins */
            leave_line(q, k);
            due_ns = k->due_ns;
        }
        if (!k->fresh)
            add_locked(q, k, due_ns);
    }
    pthread_mutex_unlock(&q->mu);
}

void queue_add(struct queue *q, const char *key) { queue_add_at(q, key, 0, false); }
void queue_add_after(struct queue *q, const char *key, int64_t after_ns)
{
    queue_add_at(q, key, after_ns, false);
}
void queue_add_resync(struct queue *q, const char *key, int64_t after_ns)
{
    queue_add_at(q, key, after_ns, true);
}

void queue_add_new(struct queue *q, const char *key)
{
    pthread_mutex_lock(&q->mu);
    if (!q->stopped) {
        struct queue_key *k = queue_key_of(q, key);
        if (k->busy || k->at != IDLE) {
            add_locked(q, k, clock_mono_ns());
        } else if (!k->fresh) {
            line_up(q, k);
            pthread_cond_signal(&q->changed);
        }
    }
    pthread_mutex_unlock(&q->mu);
}

/* Takes the next key out; NULL if none is due. */
static struct queue_key *queue_take_locked(struct queue *q)
{
    struct queue_key *fresh = TAILQ_FIRST(&q->line);
    bool due = q->n && q->heap[0]->due_ns <= clock_mono_ns();
    if (due && fresh && ++q->passed_over >= QUEUE_SHARE)
        due = false;
    if (due)
        return heap_pop(q);
    q->passed_over = 0;
    if (fresh)
        leave_line(q, fresh);
    return fresh;
}

static void queue_wait_locked(struct queue *q)
{
    if (q->n) {
        clock_cond_wait(&q->changed, &q->mu, q->heap[0]->due_ns);
    } else {
        pthread_cond_wait(&q->changed, &q->mu);
    }
}

char *queue_get(struct queue *q, bool *resync)
{
    char *name = NULL;
    pthread_mutex_lock(&q->mu);
    while (!q->stopped && !name) {
        struct queue_key *k = queue_take_locked(q);
        if (!k) {
            queue_wait_locked(q);
            continue;
        }
        count(q->counted.waited, MAX(clock_mono_ns() - k->due_ns, 0));
        k->busy = true;
        *resync = k->resync;
        k->resync = false;
        name = xstrdup(k->name);
    }
    if (q->n + q->nfresh) /* the time the others sleep until may be another one now */
        pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->mu);
    return name;
}

static void queue_finish_locked(struct queue *q, struct queue_key *k)
{
    k->busy = false;
    if (k->again) {
        k->again = false;
        if (!q->stopped) {
            heap_put(q, k);
            pthread_cond_signal(&q->changed);
        }
    }
    drop_if_idle(q, k);
}

void queue_done(struct queue *q, const char *key)
{
    pthread_mutex_lock(&q->mu);
    struct queue_key *k = map_get(q->keys, key);
    if (k && k->busy) {
        k->failures = 0;
        queue_finish_locked(q, k);
    }
    pthread_mutex_unlock(&q->mu);
}

/* xorshift64: spreading, not secrecy */
static uint64_t random_locked(struct queue *q)
{
    q->random ^= q->random << 13;
    q->random ^= q->random >> 7;
    return q->random ^= q->random << 17;
}

/* wait_ns is with its jitter */
static void fail_locked(struct queue *q, struct queue_key *k, int64_t wait_ns)
{
    k->failures++;
    count(q->counted.retries, 1);
    add_locked(q, k, clock_mono_ns() + wait_ns);
    queue_finish_locked(q, k);
}

int64_t queue_fail_steady(struct queue *q, const char *key, int64_t min_ns, int64_t max_ns)
{
    pthread_mutex_lock(&q->mu);
    struct queue_key *k = map_get(q->keys, key);
    int64_t wait = min_ns + (int64_t)(random_locked(q) % (uint64_t)(max_ns - min_ns + 1));
    if (k && k->busy)
        fail_locked(q, k, wait);
    pthread_mutex_unlock(&q->mu);
    return wait;
}

int64_t queue_fail(struct queue *q, const char *key, int64_t at_least_ns)
{
    int64_t wait = 0;
    pthread_mutex_lock(&q->mu);
    struct queue_key *k = map_get(q->keys, key);
    if (k && k->busy) {
        unsigned doublings = MIN(k->failures, 40u);
        wait = q->backoff.min_ns;
        while (doublings-- && wait < q->backoff.max_ns)
            wait *= 2;
        wait = MIN(wait, q->backoff.max_ns);
        wait = MAX(wait, at_least_ns);
        wait += wait / 5 - (int64_t)(random_locked(q) % (uint64_t)(wait / 5 * 2 + 1));
        fail_locked(q, k, wait);
    }
    pthread_mutex_unlock(&q->mu);
    return wait;
}

void queue_stop(struct queue *q)
{
    pthread_mutex_lock(&q->mu);
    q->stopped = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mu);
}

size_t queue_len(struct queue *q)
{
    pthread_mutex_lock(&q->mu);
    size_t n = q->n + q->nfresh;
    pthread_mutex_unlock(&q->mu);
    return n;
}

unsigned queue_failures(struct queue *q, const char *key)
{
    pthread_mutex_lock(&q->mu);
    struct queue_key *k = map_get(q->keys, key);
    unsigned n = k ? k->failures : 0;
    pthread_mutex_unlock(&q->mu);
    return n;
}
