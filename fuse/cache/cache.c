/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/cache.h"

#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LATELY_NS       (50 * NS_PER_S) /* longer than who asks takes to come again */
#define THREADS_DEFAULT 16
#define HELD_NS         (3 * NS_PER_S)
#define LOCK_NS         (5 * NS_PER_S)

static void *keep(void *arg)
{
    struct cache *c = arg;
    tier_sweep(c);
    pthread_mutex_lock(&c->mu);
    while (!c->stopping) {
        clock_cond_wait(&c->keeper_wake, &c->mu, clock_mono_ns() + NS_PER_S);
        pthread_mutex_unlock(&c->mu);
        int64_t now = clock_mono_ns();
        fetch_trim_held(c, INT64_MAX, now - HELD_NS);
        budget_trim(&c->budget, now - 2 * NS_PER_S);
        pthread_mutex_lock(&c->mu);
    }
    pthread_mutex_unlock(&c->mu);
    return NULL;
}

static int open_dir(struct cache *c, const char *dir, struct err *e)
{
    if (file_mkdirs(dir, 0700, e))
        return -1;
    c->dir = xstrdup(dir);
    cleanup_free char *lock = path_join(dir, "lock");
    c->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->lock_fd < 0)
        return err_sys(e, errno, "open %s", lock);
    int64_t deadline = clock_mono_ns() + LOCK_NS; /* a predecessor may be about to end */
    int held;
    while ((held = flock(c->lock_fd, LOCK_EX | LOCK_NB)) && clock_mono_ns() < deadline)
        clock_sleep_ns(20 * NS_PER_MS);
    if (held)
        return err_set(e, ERR_CONFLICT, "the cache directory %s is in use by another process", dir);
    cleanup_free char *table = path_join(dir, "table");
    c->table_fd = open(table, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return c->table_fd < 0 ? err_sys(e, errno, "open %s", table) : 0;
}

static int open_tiers(struct cache *c, const struct cache_conf *conf, struct err *e)
{
    if (conf->ntiers > MAX_TIERS)
        return err_set(e, ERR_INVALID, "%zu cache tiers: at most %d, one of each medium",
            conf->ntiers, MAX_TIERS);
    /* slots of no bytes name it */
    if (!conf->ntiers && tier_init(c, &c->tiers[0], &(struct conf_tier){CONF_MEM, 0}, e))
        return -1;
    for (size_t i = 0; i < conf->ntiers; i++) {
        if (conf->tiers[i].quota < 0)
            return err_set(e, ERR_INVALID, "the quota of cache tier %zu is negative", i);
        if (tier_of_medium(c, conf->tiers[i].medium) >= 0)
            return err_set(e, ERR_INVALID, "two cache tiers of the same medium: give one of each");
        c->ntiers++; /* before tier_init, so that a half made one is taken down */
        if (tier_init(c, &c->tiers[i], &conf->tiers[i], e))
            return -1;
        if (c->tiers[i].dir)
            continue;
        for (int a = 0; a < ARENAS; a++) {
            int fd = memfd_create("millrace-cache-small", MFD_CLOEXEC);
            if (fd < 0)
                return err_sys(e, errno, "create the memory tier");
            c->tiers[i].arenas[a] = fd;
        }
    }
    return 0;
}

static int start(struct cache *c, const struct cache_conf *conf, struct err *e)
{
    if (conf->dir && open_dir(c, conf->dir, e))
        return -1;
    if (open_tiers(c, conf, e) || slot_load(c, e))
        return -1;
    struct pool_conf pool = {
        .name = "cache", .threads = c->threads, .batch = {[LANE_LAND] = FILLS_EACH}};
    c->pool = pool_new(&pool);
    if (!c->pool)
        return err_sys(e, ENOMEM, "start the cache");
    c->has_keeper = pthread_create(&c->keeper, NULL, keep, c) == 0;
    if (!c->has_keeper)
        return err_set(e, ERR_EXHAUSTED, "start a thread of the cache");
    return 0;
}

/* Where it is and who serves it: two servers may have a bucket of the same name. */
static char *mount_name(const struct conf_mount *m)
{
    for (size_t i = 0; i < m->noptions; i++)
        if (strcmp(m->options[i].key, "endpoint") == 0)
            return xasprintf("%s %s", m->mount_point, m->options[i].value);
    return xstrdup(m->mount_point);
}

struct cache *cache_new(const struct cache_conf *conf, struct err *e)
{
    struct cache *c = xcalloc(1, sizeof *c);
    c->table_fd = c->lock_fd = -1;
    c->free_slots = NONE;
    c->held_tail = &c->held;
    c->source = conf->source;
    c->drop_behind = conf->drop_behind;
    c->will_block = conf->will_block;
    c->threads = conf->fetch_threads ? conf->fetch_threads : THREADS_DEFAULT;
    pthread_mutex_init(&c->mu, NULL);
    pthread_mutex_init(&c->table_mu, NULL);
    clock_cond_init(&c->keeper_wake);
    int64_t memory = 0;
    for (size_t i = 0; i < conf->ntiers; i++)
        memory += conf->tiers[i].medium == CONF_MEM ? conf->tiers[i].quota : 0;
    budget_init(&c->budget, conf->buffer_budget ? conf->buffer_budget : budget_detect(memory));
    if (conf->mounts) {
        c->nmounts = conf->nmounts;
        c->mounts = xcalloc(c->nmounts + 1, sizeof *c->mounts);
        for (size_t i = 0; i < c->nmounts; i++)
            c->mounts[i] = mount_name(&conf->mounts[i]);
    }
    if (start(c, conf, e) == 0)
        return c;
    cache_free(c);
    return NULL;
}

static void free_nodes(struct cache *c)
{
    for (uint32_t id = 0; id < c->nslots; id++) {
        struct slot *s = &c->slots[id];
        if (s->kind == SLOT_FILE && s->node) {
            struct node *n = s->node;
            s->node = NULL;
            node_free(n);
        }
    }
}

void cache_cancel(struct cache *c) { atomic_store(&c->cancel, true); }

void cache_free(struct cache *c)
{
    if (!c)
        return;
    cache_cancel(c);
    if (c->has_keeper) {
        pthread_mutex_lock(&c->mu);
        c->stopping = true;
        pthread_cond_broadcast(&c->keeper_wake);
        pthread_mutex_unlock(&c->mu);
        pthread_join(c->keeper, NULL);
    }
    pool_free(c->pool);
    c->pool = NULL;
    fetch_trim_held(c, -1, INT64_MAX);
    free_nodes(c);
    for (size_t i = 0; i < c->ntiers; i++)
        tier_fini(&c->tiers[i]);
    for (size_t i = 0; i < c->nmounts; i++)
        free(c->mounts[i]);
    free(c->mounts);
    free(c->slots);
    free(c->buckets);
    free(c->dir);
    if (c->table_fd >= 0)
        close(c->table_fd);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    budget_fini(&c->budget);
    pthread_cond_destroy(&c->keeper_wake);
    pthread_mutex_destroy(&c->mu);
    pthread_mutex_destroy(&c->table_mu);
    free(c);
}

void cache_stats(struct cache *c, struct cache_stats *out)
{
    int64_t now = clock_mono_ns();
    *out = (struct cache_stats){.hit_bytes = c->hit_bytes,
        .fetched_bytes = c->fetched_bytes,
        .evicted_bytes = c->evicted_bytes,
        .corrupt_blocks = c->corrupt_blocks,
        .full = c->full,
        .moved_bytes = c->moved_bytes,
        .buffer_bytes = (uint64_t)atomic_load(&c->budget.used),
        .buffer_peak = (uint64_t)atomic_load(&c->budget.peak)};
    pthread_mutex_lock(&c->mu);
    for (size_t i = 0; i < c->ntiers; i++) {
        out->used_bytes += c->tiers[i].used * PAGE;
        out->capacity_bytes += c->tiers[i].quota * PAGE;
        out->disk_full |= c->tiers[i].dir && c->tiers[i].blocked_ns
            && now - c->tiers[i].blocked_ns < LATELY_NS;
    }
    out->files = c->nwith_data;
    out->pinned_bytes = c->pin_pages * PAGE;
    out->pinned_most = keep_most(c) * PAGE;
    out->pinned_files = c->npinned;
    out->complete_files = c->ncomplete;
    pthread_mutex_unlock(&c->mu);
}
