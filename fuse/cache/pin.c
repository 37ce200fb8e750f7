/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: which files eviction spares, for as long as their version is there. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <errno.h>

#define SETTLE_TRIES    100 /* for its readers to finish */
#define SETTLE_PAUSE_NS (10 * NS_PER_MS)

int pin_refuse(struct cache *c, const char *path, struct err *e)
{
    char most[HUMAN_BYTES_LEN], taken[HUMAN_BYTES_LEN];
    struct catalogue_stats stats = catalogue_stats(c->catalogue);
    human_bytes(stats.pinned_most * PAGE, most);
    human_bytes(stats.pinned * PAGE, taken);
    err_set(e, ERR_EXHAUSTED,
        "no room to pin %s: pins may take %s, half of the cache, and have %s: unpin something, or raise the quota of the "
        "tiers",
        path, most, taken);
    if (e)
        e->sys = ENOSPC;
    return -1;
}

/* What is in memory goes where it lasts, as soon as it has no readers. */
static void settle(struct cache *c, const struct cache_key *key, uint64_t len)
{
    uint64_t path[2], version = cache_sized_version(key), pages = to_pages(MIN(len, key->size));
    cache_hash_key(c, key, path);
    for (int tries = 0; tries < SETTLE_TRIES && !evict_settle(c, path, version, pages); tries++)
        clock_sleep_ns(SETTLE_PAUSE_NS);
}

/* o is open. */
static int pin_range(struct object *o, uint64_t off, uint64_t len, struct err *e)
{
    struct cache *c = o->c;
    if (off >= o->id.size || !len)
        return 0;
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + MIN(len, o->id.size - off) - 1) / CACHE_BLOCK);
    pthread_mutex_lock(&o->mu); /* nothing of it is being evicted */
    uint64_t blocks = atomic_load(&o->nvalid);
    for (uint32_t b = first; b <= last; b++)
        blocks += !object_has(o, b);
    enum catalogue_pinning rc = catalogue_pin(c->catalogue, o->entry, object_pages(o, blocks));
    pthread_mutex_unlock(&o->mu);
    switch (rc) {
    case CATALOGUE_PIN_GONE:
        return err_sys(e, ESTALE, "pin %s", o->path);
    case CATALOGUE_PIN_FULL:
        return pin_refuse(c, o->path, e);
    case CATALOGUE_PINNED:
        break;
    }
    table_persist(c, o->entry);
    return 0;
}

struct cache_file *cache_pin(
    struct cache *c, const struct cache_key *key, uint64_t off, uint64_t len, struct err *e)
{
    settle(c, key, len);
    struct cache_file *f = cache_open(c, key, e);
    if (!f || pin_range(f->o, off, len, e) == 0)
        return f;
    cache_close(f);
    return NULL;
}

bool cache_is_pinned(struct cache_file *f)
{
    return catalogue_info(f->o->c->catalogue, f->o->entry).is_pinned;
}

void cache_unpin(struct cache *c, const struct cache_key *key)
{
    uint64_t path[2];
    cache_hash_key(c, key, path);
    for (uint32_t entry; (entry = catalogue_unpin(c->catalogue, path)) != NO_ENTRY;)
        table_persist(c, entry);
}

uint64_t cache_unpin_all(struct cache *c)
{
    uint64_t files = 0;
    for (uint32_t entry = 0; (entry = catalogue_unpin_next(c->catalogue, entry)) != NO_ENTRY;
         entry++, files++)
        table_persist(c, entry);
    return files;
}

void cache_mark_loaded(struct cache_file *f, uint8_t mark)
{
    catalogue_mark_loaded(f->o->c->catalogue, f->o->entry, mark);
}

void cache_forget_loaded(struct cache *c, uint8_t but)
{
    catalogue_forget_loaded(c->catalogue, but);
}
