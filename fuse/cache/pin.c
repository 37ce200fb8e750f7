/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: which files eviction spares. What is pinned is in no queue, so that eviction never comes
 * across it. A pin reserves the pages that its file may take, and grows with it; the sum of all is
 * bounded, so that the rest of the cache goes on being one. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <errno.h>

#define SETTLE_TRIES    100 /* for those who read it to finish */
#define SETTLE_PAUSE_NS (10 * NS_PER_MS)

static uint64_t pages_of(const struct node *n, uint64_t blocks)
{
    return MIN(blocks * (CACHE_BLOCK / PAGE), to_pages(n->id.size));
}

bool keep_grow(struct node *n)
{
    struct cache *c = n->c;
    pthread_mutex_lock(&c->mu);
    uint64_t blocks = (uint64_t)atomic_load(&n->nvalid) + n->landing + 1;
    bool fits = !(c->slots[n->slot].flags & SLOT_PINNED)
        || keep_pin(c, n->slot, pages_of(n, blocks));
    pthread_mutex_unlock(&c->mu);
    return fits;
}

int keep_refuse(struct cache *c, const char *path, struct err *e)
{
    char most[HUMAN_BYTES_LEN], taken[HUMAN_BYTES_LEN];
    pthread_mutex_lock(&c->mu);
    human_bytes(keep_most(c) * PAGE, most);
    human_bytes(c->pin_pages * PAGE, taken);
    pthread_mutex_unlock(&c->mu);
    err_set(e, ERR_EXHAUSTED,
        "no room to pin %s: pins may take %s, half of the cache, and have %s: unpin something, or raise the quota of the "
        "tiers",
        path, most, taken);
    if (e)
        e->sys = ENOSPC;
    return -1;
}

/* What is in memory goes where it lasts, as soon as nobody reads it. */
static void settle(struct cache *c, const struct cache_key *key, uint64_t len)
{
    uint64_t path[2], version = cache_sized_version(key);
    cache_hash_key(c, key, path);
    for (int tries = 0; tries < SETTLE_TRIES && tier_lasting(c) >= 0; tries++) {
        pthread_mutex_lock(&c->mu);
        uint32_t id = slot_find(c, path, &version);
        const struct slot *s = id == NONE ? NULL : &c->slots[id];
        bool moves = s && s->valid && !c->tiers[s->tier].dir && !(s->flags & SLOT_DROP)
            && (s->flags & SLOT_PINNED
                || c->pin_pages + to_pages(MIN(len, key->size)) <= keep_most(c));
        bool idle = moves && !(s->flags & SLOT_BUSY) && (!s->node || s->node->refs == 0);
        if (idle)
            evict_settle(c, id); /* unlocks */
        else
            pthread_mutex_unlock(&c->mu);
        if (!moves || idle)
            return;
        clock_sleep_ns(SETTLE_PAUSE_NS);
    }
}

/* n is open. */
static int pin(struct node *n, uint64_t off, uint64_t len, struct err *e)
{
    struct cache *c = n->c;
    if (off >= n->id.size || !len)
        return 0;
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + MIN(len, n->id.size - off) - 1) / CACHE_BLOCK);
    pthread_mutex_lock(&n->mu); /* nothing of it is being evicted */
    uint64_t blocks = atomic_load(&n->nvalid);
    for (uint32_t b = first; b <= last; b++)
        blocks += !node_has(n, b);
    pthread_mutex_lock(&c->mu);
    bool gone = c->slots[n->slot].flags & SLOT_DEAD,
         fits = !gone && keep_pin(c, n->slot, pages_of(n, blocks));
    if (fits)
        c->slots[n->slot].flags &= (uint8_t)~SLOT_DROP;
    pthread_mutex_unlock(&c->mu);
    pthread_mutex_unlock(&n->mu);
    if (gone)
        return err_sys(e, ESTALE, "pin %s", n->path);
    if (!fits)
        return keep_refuse(c, n->path, e);
    slot_persist(c, n->slot);
    return 0;
}

struct cache_file *cache_keep(
    struct cache *c, const struct cache_key *key, uint64_t off, uint64_t len, struct err *e)
{
    settle(c, key, len);
    struct cache_file *f = cache_open(c, key, e);
    if (!f || pin(f->n, off, len, e) == 0)
        return f;
    cache_close(f);
    return NULL;
}

bool cache_is_kept(struct cache_file *f)
{
    struct cache *c = f->n->c;
    pthread_mutex_lock(&c->mu);
    bool pinned = c->slots[f->n->slot].flags & SLOT_PINNED;
    pthread_mutex_unlock(&c->mu);
    return pinned;
}

/* cache.mu is held on entry, not on return. */
static void release(struct cache *c, uint32_t id)
{
    bool pinned = c->slots[id].kind == SLOT_FILE && c->slots[id].flags & SLOT_PINNED;
    if (pinned)
        keep_unpin(c, id);
    pthread_mutex_unlock(&c->mu);
    if (pinned)
        slot_persist(c, id);
}

/* cache.mu is held. */
static uint32_t find_pinned(const struct cache *c, const uint64_t path[2])
{
    for (uint32_t id = slot_find(c, path, NULL); id != NONE; id = c->slots[id].chain) {
        const struct slot *s = &c->slots[id];
        if (s->path[0] == path[0] && s->path[1] == path[1] && s->flags & SLOT_PINNED)
            return id;
    }
    return NONE;
}

void cache_unkeep(struct cache *c, const struct cache_key *key)
{
    uint64_t path[2];
    cache_hash_key(c, key, path);
    for (uint32_t id = 0; id != NONE;) {
        pthread_mutex_lock(&c->mu);
        id = find_pinned(c, path);
        if (id == NONE)
            pthread_mutex_unlock(&c->mu);
        else
            release(c, id); /* unlocks */
    }
}

void cache_unkeep_all(struct cache *c)
{
    for (uint32_t id = 0;; id++) {
        pthread_mutex_lock(&c->mu);
        if (id >= c->nslots) {
            pthread_mutex_unlock(&c->mu);
            return;
        }
        release(c, id); /* unlocks */
    }
}
