/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/pool.h"

#include "lib/base/mutex.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define STACK_BYTES (512u << 10)

struct pool_job {
    struct pool_job *next;
    void (*run)(void *arg);
    void *arg;
};

struct pool_lane {
    struct pool_job *head, **tail;
    unsigned queued, running, batch;
};

struct pool {
    const char *name;
    unsigned max_threads, queue_max;
    pthread_mutex_t mu; /* a leaf */
    pthread_cond_t work, room;
    struct pool_lane lanes[POOL_LANES]; /* mu */
    unsigned queued, nthreads, idle;    /* mu */
    bool stopping;                      /* mu */
    pthread_t threads[];
};

struct pool *pool_new(const struct pool_conf *conf)
{
    struct pool *p = calloc(1, sizeof *p + conf->threads * sizeof p->threads[0]);
    if (!p)
        return NULL;
    p->name = conf->name;
    p->max_threads = conf->threads;
    p->queue_max = conf->queue_max;
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->room, NULL);
    for (unsigned i = 0; i < POOL_LANES; i++) {
        p->lanes[i].tail = &p->lanes[i].head;
        p->lanes[i].batch = conf->batch[i];
    }
    return p;
}

static void lane_append(struct pool *p, struct pool_lane *l, struct pool_job *j)
{
    *l->tail = j;
    l->tail = &j->next;
    l->queued++;
    p->queued++;
}

/* The first job of the first lane that has one, and that lane; NULL: none waits. */
static struct pool_job *next_job(struct pool *p, struct pool_lane **lane)
{
    mutex_assert_held(&p->mu);
    for (struct pool_lane *l = p->lanes; l < p->lanes + POOL_LANES; l++) {
        struct pool_job *j = l->head;
        if (!j)
            continue;
        l->head = j->next;
        if (!j->next)
            l->tail = &l->head;
        l->queued--;
        p->queued--;
        *lane = l;
        return j;
    }
    return NULL;
}

static void *pool_thread(void *arg)
{
    struct pool *p = arg;
    pthread_setname_np(pthread_self(), p->name);
    pthread_mutex_lock(&p->mu);
    for (struct pool_lane *l = NULL;;) {
        struct pool_job *j = next_job(p, &l);
        if (!j && p->stopping)
            break;
        if (!j) {
            p->idle++;
            pthread_cond_wait(&p->work, &p->mu);
            p->idle--;
            continue;
        }
        l->running++;
        if (p->queue_max)
            pthread_cond_signal(&p->room);
        pthread_mutex_unlock(&p->mu);
        j->run(j->arg);
        free(j);
        pthread_mutex_lock(&p->mu);
        l->running--;
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

/* Starts a thread if more jobs wait than threads. */
static void pool_grow(struct pool *p)
{
    mutex_assert_held(&p->mu);
    if (p->queued <= p->idle || p->nthreads == p->max_threads)
        return;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&p->threads[p->nthreads], &attr, pool_thread, p) == 0)
        p->nthreads++;
    pthread_attr_destroy(&attr);
}

int pool_add(struct pool *p, unsigned lane, void (*run)(void *arg), void *arg)
{
    struct pool_job *j = malloc(sizeof *j);
    if (!j)
        return -1;
    *j = (struct pool_job){NULL, run, arg};
    struct pool_lane *l = &p->lanes[lane];
    pthread_mutex_lock(&p->mu);
    while (p->queue_max && p->queued >= p->queue_max && !p->stopping)
        pthread_cond_wait(&p->room, &p->mu);
    if (!p->stopping) {
        lane_append(p, l, j);
        bool enough = l->running * l->batch >= l->queued;
        if (!enough)
            pool_grow(p);
        if (p->nthreads) {
            if (!enough)
                pthread_cond_signal(&p->work);
            pthread_mutex_unlock(&p->mu);
            return 0;
        }
        next_job(p, &l); /* without a thread nothing else waits: it is this one */
    }
    pthread_mutex_unlock(&p->mu);
    free(j);
    return -1;
}

unsigned pool_queued(struct pool *p, unsigned lane)
{
    pthread_mutex_lock(&p->mu);
    unsigned n = p->lanes[lane].queued;
    pthread_mutex_unlock(&p->mu);
    return n;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mu);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    unsigned n = p->nthreads;
    pthread_mutex_unlock(&p->mu);
    for (unsigned i = 0; i < n; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->room);
    pthread_mutex_destroy(&p->mu);
    free(p);
}
