/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/each.h"

#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/base/progress.h"

#include <pthread.h>

struct each {
    size_t n;
    int (*fn)(void *user, size_t i, struct err *e);
    void *user;
    struct progress_things progress;
    atomic_size_t next;
    atomic_bool *failed;
    pthread_mutex_t mu;
    struct err first; /* mu */
};

static void each_failed(struct each *all, const struct err *e)
{
    pthread_mutex_lock(&all->mu);
    if (!atomic_load(all->failed))
        all->first = *e;
    atomic_store(all->failed, true);
    pthread_mutex_unlock(&all->mu);
}

static void do_next(void *user)
{
    struct each *all = user;
    size_t i;
    progress_as(&all->progress);
    while (!atomic_load(all->failed) && (i = atomic_fetch_add(&all->next, 1)) < all->n) {
        struct err e = ERR_INIT;
        if (all->fn(all->user, i, &e))
            each_failed(all, &e);
    }
}

int each(const char *name, size_t n, unsigned threads,
    int (*fn)(void *user, size_t i, struct err *e), void *user, atomic_bool *failed, struct err *e)
{
    atomic_bool own = false;
    struct each all = {.n = n,
        .fn = fn,
        .user = user,
        .failed = failed ? failed : &own,
        .progress = progress_mine()};
    unsigned others = n && threads ? (unsigned)MIN(n, (size_t)threads) - 1 : 0;
    struct pool *pool = others ? pool_new(&(struct pool_conf){.name = name, .threads = others})
                               : NULL;
    pthread_mutex_init(&all.mu, NULL);
    for (unsigned k = 0; pool && k < others; k++)
        if (pool_add(pool, 0, do_next, &all))
            break;
    do_next(&all);
    pool_free(pool);
    pthread_mutex_destroy(&all.mu);
    bool any = atomic_load(all.failed);
    if (any && e)
        *e = all.first;
    return any ? -1 : 0;
}
