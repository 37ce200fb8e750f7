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

#define THREADS_DEFAULT 16
#define PARKED_NS       (3 * NS_PER_S)
#define LOCK_NS         (5 * NS_PER_S)

static void maintain(void *user)
{
    struct cache *c = user;
    media_remove_orphans(c);
    while (!task_wait(&c->maintenance, clock_mono_ns() + NS_PER_S)) {
        int64_t now = clock_mono_ns();
        fetch_trim_parked(c, INT64_MAX, now - PARKED_NS);
        budget_trim(&c->budget, now - 2 * NS_PER_S);
        floor_look(c);
    }
}

static int open_dir(struct cache *c, const char *dir, struct err *e)
{
    cleanup_free char *lock = path_join(dir, "lock");
    c->dir = xstrdup(dir);
    if (file_mkdirs(dir, 0700, e))
        return -1;
    /* a predecessor may be about to end */
    c->lock_fd = file_lock(lock, clock_mono_ns() + LOCK_NS, e);
    if (c->lock_fd < 0)
        return err_wrap(e, "the cache directory");
    cleanup_free char *table = path_join(dir, "table");
    c->table_fd = open(table, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return c->table_fd < 0 ? err_sys(e, errno, "open %s", table) : 0;
}

static int open_tiers(struct cache *c, const struct cache_conf *conf, struct err *e)
{
    struct catalogue_tier tiers[MAX_TIERS];
    if (conf->ntiers > MAX_TIERS)
        return err_set(e, ERR_INVALID, "%zu cache tiers: at most %d, one of each medium",
            conf->ntiers, MAX_TIERS);
    for (size_t i = 0; i < conf->ntiers; i++) {
        const struct conf_tier *t = &conf->tiers[i];
        if (t->quota < 0)
            return err_set(e, ERR_INVALID, "the quota of cache tier %zu is negative", i);
        if (media_of(c, t->medium) >= 0)
            return err_set(e, ERR_INVALID, "two cache tiers of the same medium: give one of each");
        if (media_init(c, t, e))
            return -1;
        tiers[i] = (struct catalogue_tier){
            (uint64_t)t->quota / PAGE, (uint8_t)t->medium, t->medium != CONF_MEM};
    }
    c->catalogue = catalogue_new(tiers, conf->ntiers);
    return c->catalogue ? 0 : err_sys(e, ENOMEM, "start the cache");
}

static int start(struct cache *c, const struct cache_conf *conf, struct err *e)
{
    if (conf->dir && open_dir(c, conf->dir, e))
        return -1;
    if (open_tiers(c, conf, e) || table_load(c, e))
        return -1;
    struct pool_conf pool = {
        .name = "cache", .threads = c->threads, .batch = {[LANE_FILL] = FILLS_EACH}};
    c->pool = pool_new(&pool);
    if (!c->pool)
        return err_sys(e, ENOMEM, "start the cache");
    floor_look(c);
    if (task_start(&c->maintenance, "cache-maintain", maintain, c, e))
        return -1;
    return c->scrub_ns ? task_start(&c->scrub, "cache-scrub", scrub_run, c, e) : 0;
}

struct cache *cache_new(const struct cache_conf *conf, struct err *e)
{
    struct cache *c = xcalloc(1, sizeof *c);
    c->table_fd = c->lock_fd = -1;
    c->parked.tail = &c->parked.first;
    c->source = conf->source;
    c->drop_behind = conf->drop_behind;
    c->will_block = conf->will_block;
    c->scrub_ns = conf->scrub_ns;
    c->keep_free = conf->keep_free;
    c->threads = conf->fetch_threads ? conf->fetch_threads : THREADS_DEFAULT;
    pthread_mutex_init(&c->parked.mu, NULL);
    pthread_mutex_init(&c->table_mu, NULL);
    pthread_mutex_init(&c->short_mu, NULL);
    int64_t memory = 0;
    for (size_t i = 0; i < conf->ntiers; i++)
        memory += conf->tiers[i].medium == CONF_MEM ? conf->tiers[i].quota : 0;
    budget_init(&c->budget, conf->buffer_budget ? conf->buffer_budget : budget_detect(memory));
    if (conf->mounts) {
        c->nmounts = conf->nmounts;
        c->mounts = xcalloc(c->nmounts + 1, sizeof *c->mounts);
        for (size_t i = 0; i < c->nmounts; i++)
            c->mounts[i] = conf_mount_id(&conf->mounts[i]);
    }
    if (start(c, conf, e) == 0)
        return c;
    cache_free(c);
    return NULL;
}

void cache_cancel(struct cache *c) { atomic_store(&c->cancel, true); }

void cache_free(struct cache *c)
{
    if (!c)
        return;
    cache_cancel(c);
    task_stop(&c->maintenance);
    task_stop(&c->scrub);
    pool_free(c->pool);
    c->pool = NULL;
    fetch_trim_parked(c, -1, INT64_MAX);
    uint32_t from = 0;
    for (struct object *o; c->catalogue && (o = catalogue_detach(c->catalogue, &from));)
        object_free(o);
    catalogue_free(c->catalogue);
    for (size_t i = 0; i < c->ntiers; i++)
        media_fini(&c->media[i]);
    for (size_t i = 0; i < c->nmounts; i++)
        free(c->mounts[i]);
    free(c->mounts);
    free(c->dir);
    if (c->table_fd >= 0)
        close(c->table_fd);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    budget_fini(&c->budget);
    pthread_mutex_destroy(&c->parked.mu);
    pthread_mutex_destroy(&c->table_mu);
    pthread_mutex_destroy(&c->short_mu);
    free(c);
}

static bool is_lately(int64_t ns) { return ns && clock_mono_ns() - ns < CACHE_LATELY_NS; }

void cache_stats(struct cache *c, struct cache_stats *out)
{
    struct catalogue_stats s = catalogue_stats(c->catalogue);
    *out = (struct cache_stats){.used_bytes = s.used * PAGE,
        .capacity_bytes = s.quota * PAGE,
        .files = s.files,
        .complete_files = s.complete_files,
        .pinned_bytes = s.pinned * PAGE,
        .pinned_most = s.pinned_most * PAGE,
        .pinned_files = s.pinned_files,
        .disk_full = is_lately(s.blocked_ns) || is_lately(c->short_ns),
        .hit_bytes = c->hit_bytes,
        .fetched_bytes = c->fetched_bytes,
        .evicted_bytes = c->evicted_bytes,
        .evicted_loaded_bytes = c->evicted_loaded_bytes,
        .corrupt_blocks = c->corrupt_blocks,
        .full = c->full,
        .moved_bytes = c->moved_bytes,
        .scrubbed_bytes = c->scrubbed_bytes,
        .rotten_blocks = c->rotten_blocks,
        .buffer_bytes = (uint64_t)atomic_load(&c->budget.used),
        .buffer_peak = (uint64_t)atomic_load(&c->budget.peak)};
}
