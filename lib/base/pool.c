/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/pool.h"

#include <pthread.h>
#include <stdlib.h>

#define STACK_BYTES   (512u << 10)
#define PRIOS         (POOL_IDLE + 1)
#define LANDINGS_EACH 3

struct job {
    struct job *next;
    void (*run)(void *arg);
    void *arg;
};

struct pool {
    pthread_mutex_t mu; /* a leaf */
    pthread_cond_t work;
    struct job *head[PRIOS], **tail[PRIOS]; /* mu */
    unsigned queued[PRIOS], running[PRIOS]; /* mu */
    unsigned nthreads, idle, max_threads;   /* mu */
    bool stopping;                          /* mu */
    pthread_t threads[];
};

struct pool *pool_new(unsigned max_threads)
{
    struct pool *p = calloc(1, sizeof *p + max_threads * sizeof p->threads[0]);
    if (!p)
        return NULL;
    p->max_threads = max_threads;
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->work, NULL);
    for (int i = 0; i < PRIOS; i++)
        p->tail[i] = &p->head[i];
    return p;
}

static struct job *take(struct pool *p, int *prio)
{
    for (int i = 0; i < PRIOS; i++) {
        struct job *j = p->head[i];
        if (!j)
            continue;
        p->head[i] = j->next;
        if (!j->next)
            p->tail[i] = &p->head[i];
        p->queued[i]--;
        p->running[i]++;
        *prio = i;
        return j;
    }
    return NULL;
}

static void *work(void *arg)
{
    struct pool *p = arg;
    pthread_mutex_lock(&p->mu);
    for (int prio = 0;;) {
        struct job *j = take(p, &prio);
        if (!j && p->stopping)
            break;
        if (!j) {
            p->idle++;
            pthread_cond_wait(&p->work, &p->mu);
            p->idle--;
            continue;
        }
        pthread_mutex_unlock(&p->mu);
        j->run(j->arg);
        free(j);
        pthread_mutex_lock(&p->mu);
        p->running[prio]--;
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

/* One more thread if there is more work than idle threads. p->mu is held. */
static void grow(struct pool *p)
{
    unsigned queued = 0;
    for (int i = 0; i < PRIOS; i++)
        queued += p->queued[i];
    if (queued <= p->idle || p->nthreads == p->max_threads)
        return;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&p->threads[p->nthreads], &attr, work, p) == 0)
        p->nthreads++;
    pthread_attr_destroy(&attr);
}

int pool_add(struct pool *p, enum pool_prio prio, void (*run)(void *arg), void *arg)
{
    struct job *j = malloc(sizeof *j);
    if (!j)
        return -1;
    *j = (struct job){NULL, run, arg};
    pthread_mutex_lock(&p->mu);
    if (!p->stopping) {
        *p->tail[prio] = j;
        p->tail[prio] = &j->next;
        p->queued[prio]++;
        /* short writes, one after the other: the thread that is at it takes this one too, sooner
         * than another wakes up */
        bool enough = prio == POOL_LAND
            && p->running[POOL_LAND] * LANDINGS_EACH >= p->queued[POOL_LAND];
        if (!enough)
            grow(p);
        if (p->nthreads) {
            if (!enough)
                pthread_cond_signal(&p->work);
            pthread_mutex_unlock(&p->mu);
            return 0;
        }
        /* not one thread could be started, so the queues were empty before this job */
        p->head[prio] = NULL;
        p->tail[prio] = &p->head[prio];
        p->queued[prio]--;
    }
    pthread_mutex_unlock(&p->mu);
    free(j);
    return -1;
}

unsigned pool_queued(struct pool *p, enum pool_prio prio)
{
    pthread_mutex_lock(&p->mu);
    unsigned n = p->queued[prio];
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
    pthread_mutex_destroy(&p->mu);
    free(p);
}
