/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCKED_NS    (10 * NS_PER_S)
#define RESERVE_TRIES 256

#define SKIPS_MAX     512
#define PROMOTE_HITS  2
/* bytes that somebody may wait for while they are copied */
#define SETTLE_MAX (UINT64_C(256) << 20)

void evict_slot(struct cache *c, uint32_t id)
{
    keep_unpin(c, id);
    struct slot *s = &c->slots[id];
    struct node *n = s->node;
    while (s->owner != NONE) {
        s->pages += c->slots[s->owner].pages;
        slot_seg_free(c, s->owner);
        s = &c->slots[id];
    }
    s3f_remove(&c->tiers[s->tier].queue, id);
    if (!(s->flags & SLOT_DEAD))
        slot_unhash(c, id);
    if (s->flags & SLOT_COMPLETE)
        c->ncomplete--;
    if (s->valid)
        c->nwith_data--;
    struct meta_file meta = slot_meta(c, id);
    struct tier *t = &c->tiers[s->tier];
    int64_t place = s->place;
    bool has_file = s->valid || (n && n->fd >= 0), own_memory = n && n->own_fd && !t->dir;
    s->flags = SLOT_DEAD;
    s->valid = 0;
    s->node = NULL;
    pthread_mutex_unlock(&c->mu);

    if (n)
        node_free(n);
    if (has_file) {
        if (t->dir)
            slot_persist(c, id);
        if (!own_memory)
            tier_remove(t, &meta, id, place);
    }
    pthread_mutex_lock(&c->mu);
    t->used -= c->slots[id].pages;
    slot_free(c, id);
    pthread_mutex_unlock(&c->mu);
}

/* -- between tiers --------------------------------------------------------------------------- */

/* n is ours alone still? Then `to` becomes its place, and *old is what it was. */
static bool commit_move(struct node *n, const struct place *to, uint64_t pages, struct place *old)
{
    struct cache *c = n->c;
    struct stat st;
    bool on_disk = c->tiers[to->tier].dir && fstat(to->fd, &st) == 0;
    pthread_mutex_lock(&c->mu);
    struct slot *s = &c->slots[n->slot];
    bool alone = n->refs == 1 && !(s->flags & (SLOT_DEAD | SLOT_DROP))
        && (s->flags & SLOT_COMPLETE);
    if (alone) {
        *old = (struct place){n->fd, n->side_fd, n->tier, n->own_fd, n->base};
        s3f_remove(&c->tiers[old->tier].queue, n->slot);
        c->tiers[old->tier].used -= s->pages;
        c->tiers[to->tier].used += s->pages - pages;
        node_place(n, to);
        if (on_disk)
            s->place = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
        for (uint32_t i = 0; i < n->nsegs; i++)
            atomic_store(&n->segs[i]->trusted, atomic_load(&n->segs[i]->valid));
        if (to->tier < old->tier) /* hot: past the small queue */
            s3f_remember(&c->tiers[to->tier].queue, slot_key(c, n->slot));
        slot_enqueue(c, n->slot);
    }
    s->flags &= (uint8_t)~SLOT_BUSY;
    pthread_mutex_unlock(&c->mu);
    return alone;
}

/* Moves an idle complete file. cache.mu is held on entry, not on return. -1: it stays where it is.
 */
static int move_file(struct cache *c, uint32_t id, int to_tier)
{
    uint64_t pages = c->slots[id].pages;
    struct node *n = node_get(c, id);
    if (n)
        c->slots[id].flags |= SLOT_BUSY;
    pthread_mutex_unlock(&c->mu);
    if (!n)
        return -1;
    struct place to, old;
    bool reserved = tier_reserve(c, to_tier, pages) == 0;
    bool created = reserved && node_load(n, NULL) == 0 && node_complete(n)
        && node_create(n, to_tier, &to) == 0;
    bool copied = created && move_copy(n, &to) == 0;
    if (copied && commit_move(n, &to, pages, &old)) {
        struct tier *t = &c->tiers[old.tier];
        node_close_place(c, &old);
        if (t->dir || !old.own_fd)
            tier_remove(t, &n->id, id, (int64_t)old.base);
        atomic_fetch_add(&c->moved_bytes, n->id.size);
        slot_persist(c, id);
        node_put(n);
        return 0;
    }
    pthread_mutex_lock(&c->mu);
    c->slots[id].flags &= (uint8_t)~SLOT_BUSY;
    if (reserved)
        c->tiers[to_tier].used -= pages;
    pthread_mutex_unlock(&c->mu);
    if (created) {
        struct tier *t = &c->tiers[to_tier];
        node_close_place(c, &to);
        if (t->dir || !to.own_fd)
            tier_remove(t, &n->id, id, (int64_t)to.base);
    }
    node_put(n);
    return -1;
}

void evict_settle(struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id];
    if (s->flags & SLOT_COMPLETE && s->size <= SETTLE_MAX)
        move_file(c, id, tier_lasting(c));
    else
        evict_slot(c, id);
}

struct promotion {
    struct cache *c;
    uint32_t id;
    uint64_t path;
    int from, to; /* tiers */
};

/* Where a complete file should rather be; -1: it is fine where it is. What is hot moves up; what is
 * pinned leaves memory, once. */
static int better_place(const struct cache *c, const struct slot *s)
{
    if (s->flags & SLOT_PINNED)
        return c->tiers[s->tier].dir ? -1 : tier_lasting(c);
    bool hot = s->tier > 0 && s->unit.freq >= PROMOTE_HITS
        && to_pages(s->size) * 8 <= c->tiers[s->tier - 1].quota;
    return hot ? s->tier - 1 : -1;
}

static void run_promotion(void *arg)
{
    struct promotion *p = arg;
    struct cache *c = p->c;
    pthread_mutex_lock(&c->mu);
    struct slot *s = &c->slots[p->id];
    bool idle = s->kind == SLOT_FILE && s->path[0] == p->path && (s->flags & SLOT_COMPLETE)
        && s->tier == p->from && (!(s->flags & SLOT_PINNED) || c->tiers[p->to].dir)
        && !(s->flags & (SLOT_BUSY | SLOT_DEAD | SLOT_DROP)) && (!s->node || s->node->refs == 0);
    if (idle)
        move_file(c, p->id, p->to);
    else
        pthread_mutex_unlock(&c->mu);
    free(p);
}

void evict_promote(struct cache *c, uint32_t id)
{
    struct slot *s = &c->slots[id];
    int to = better_place(c, s);
    if (!c->pool || to < 0 || !(s->flags & SLOT_COMPLETE) || (s->flags & (SLOT_BUSY | SLOT_DEAD)))
        return;
    struct promotion *p = malloc(sizeof *p);
    if (!p)
        return;
    *p = (struct promotion){c, id, s->path[0], s->tier, to};
    s->unit.freq = 0;
    if (pool_add(c->pool, LANE_IDLE, run_promotion, p))
        free(p);
}

/* -- victims --------------------------------------------------------------------------------- */

/* A segment of a partial file, open or not. cache.mu is held on entry and on return. */
static bool evict_segment(
    struct cache *c, struct tier *t, uint32_t unit, uint32_t file, uint32_t seg)
{
    uint64_t key = slot_key(c, unit);
    bool small = c->slots[unit].unit.queue == S3F_SMALL;
    struct node *n = node_get(c, file);
    if (!n) {
        s3f_skip(&t->queue, unit);
        return false;
    }
    pthread_mutex_unlock(&c->mu);
    bool done = node_load(n, NULL) == 0 && block_evict_seg(n, seg) == 0;
    pthread_mutex_lock(&c->mu);
    const struct slot *s = &c->slots[unit];
    if (done && small)
        s3f_remember(&t->queue, key);
    else if (!done && s->kind != SLOT_FREE && slot_key(c, unit) == key)
        s3f_skip(&t->queue, unit);
    pthread_mutex_unlock(&c->mu);
    node_put(n);
    pthread_mutex_lock(&c->mu);
    return done;
}

/* An idle file goes down a tier if it is whole and there is one, else away. cache.mu is held on
 * entry, not on return. */
static void evict_idle(struct cache *c, int tier, uint32_t id)
{
    struct slot *s = &c->slots[id];
    uint64_t bytes = (uint64_t)s->pages * PAGE;
    bool down = (size_t)tier + 1 < c->ntiers && (s->flags & SLOT_COMPLETE)
        && s->pages < c->tiers[tier + 1].quota / 2;
    uint64_t path = s->path[0];
    if (down && move_file(c, id, tier + 1) == 0)
        return;
    if (down)
        pthread_mutex_lock(&c->mu);
    s = &c->slots[id];
    if (s->kind == SLOT_FILE && s->path[0] == path && s->tier == tier
        && !(s->flags & (SLOT_DEAD | SLOT_BUSY)) && (!s->node || s->node->refs == 0)) {
        s3f_evicted(&c->tiers[tier].queue, id, slot_key(c, id));
        atomic_fetch_add(&c->evicted_bytes, bytes);
        evict_slot(c, id);
    } else {
        pthread_mutex_unlock(&c->mu);
    }
}

/* A partial file of many segments that was not opened since the start: its segments become units of
 * the queue. cache.mu is held on entry and on return. */
static void spread(struct cache *c, struct tier *t, uint32_t id)
{
    struct node *n = node_get(c, id);
    if (!n) {
        s3f_skip(&t->queue, id);
        return;
    }
    pthread_mutex_unlock(&c->mu);
    node_load(n, NULL);
    node_put(n);
    pthread_mutex_lock(&c->mu);
}

bool evict_one(struct cache *c, int tier)
{
    struct tier *t = &c->tiers[tier];
    pthread_mutex_lock(&c->mu);
    for (int skips = 0; skips < SKIPS_MAX; skips++) {
        uint32_t id = s3f_victim(&t->queue);
        if (id == S3F_NONE)
            break;
        struct slot *s = &c->slots[id];
        uint32_t file = s->kind == SLOT_SEG ? s->owner : id, seg = s->kind == SLOT_SEG ? s->seg : 0;
        struct slot *f = &c->slots[file];
        bool open = f->node && f->node->refs > 0, whole = s->kind == SLOT_FILE;
        if (f->flags & SLOT_BUSY || (open && (f->flags & SLOT_COMPLETE))) {
            s3f_skip(&t->queue, id);
        } else if (whole && f->size > SEG_BYTES && !(f->flags & SLOT_COMPLETE)) {
            spread(c, t, id);
        } else if (whole && !open) {
            evict_idle(c, tier, id);
            return true;
        } else if (evict_segment(c, t, id, file, seg)) {
            pthread_mutex_unlock(&c->mu);
            return true;
        }
    }
    pthread_mutex_unlock(&c->mu);
    return false;
}

struct eviction {
    struct cache *c;
    int tier;
};

static void run_eviction(void *arg)
{
    struct eviction *v = arg;
    struct tier *t = &v->c->tiers[v->tier];
    for (bool more = true; more && !atomic_load(&v->c->cancel);) {
        pthread_mutex_lock(&v->c->mu);
        more = t->used > t->quota - t->quota / 10;
        pthread_mutex_unlock(&v->c->mu);
        more = more && evict_one(v->c, v->tier);
    }
    pthread_mutex_lock(&v->c->mu);
    t->evicting = false;
    pthread_mutex_unlock(&v->c->mu);
    free(v);
}

void evict_background(struct cache *c, int tier)
{
    struct eviction *v = malloc(sizeof *v);
    if (!v)
        return;
    *v = (struct eviction){c, tier};
    c->tiers[tier].evicting = true;
    if (pool_add(c->pool, LANE_IDLE, run_eviction, v)) {
        c->tiers[tier].evicting = false;
        free(v);
    }
}

int tier_reserve(struct cache *c, int tier, uint64_t pages)
{
    struct tier *t = &c->tiers[tier];
    for (int tries = 0; tries < RESERVE_TRIES; tries++) {
        pthread_mutex_lock(&c->mu);
        bool blocked = t->blocked_ns > clock_mono_ns();
        bool room = !blocked && t->used + pages <= t->quota;
        if (room)
            t->used += pages;
        if (room && t->used > tier_high_mark(t) && !t->evicting)
            evict_background(c, tier);
        pthread_mutex_unlock(&c->mu);
        if (room)
            return 0;
        if (blocked || pages > t->quota || !evict_one(c, tier))
            break;
    }
    atomic_fetch_add(&c->full, 1);
    return -1;
}

void tier_full(struct cache *c, int tier)
{
    struct tier *t = &c->tiers[tier];
    int64_t now = clock_mono_ns();
    atomic_fetch_add(&c->full, 1);
    pthread_mutex_lock(&c->mu);
    bool first = t->blocked_ns <= now;
    t->blocked_ns = now + BLOCKED_NS;
    pthread_mutex_unlock(&c->mu);
    if (!first)
        return;
    log_warn(
        "cache: no room left on %s although the quota is not used up: not caching there for %d s",
        t->dir ? t->dir : "the memory tier", (int)(BLOCKED_NS / NS_PER_S));
    /* so that there is something to come back to */
    for (int i = 0; i < 16 && evict_one(c, tier); i++)
        ;
}

/* All that is there of the file was written or verified by us: whoever opens it next need not do so
 * again. */
static bool trust_all(struct node *n, int64_t *mtime)
{
    if (n->fd < 0 || n->tier < 0 || !n->c->tiers[n->tier].dir)
        return false;
    for (uint32_t i = 0; i < n->nsegs; i++) {
        struct seg *s = n->segs[i];
        if (s && atomic_load(&s->trusted) != atomic_load(&s->valid))
            return false;
    }
    struct stat st;
    if (fstat(n->fd, &st))
        return false;
    *mtime = object_mtime(&st);
    return true;
}

void node_put(struct node *n)
{
    struct cache *c = n->c;
    uint32_t id = n->slot;
    int64_t mtime = 0;
    pthread_mutex_lock(&c->mu);
    if (n->refs > 1) {
        n->refs--;
        pthread_mutex_unlock(&c->mu);
        return;
    }
    bool complete = c->slots[id].flags & SLOT_COMPLETE, stale = !complete || !c->slots[id].place;
    pthread_mutex_unlock(&c->mu);
    bool trusted = stale && trust_all(n, &mtime); /* our ref is still held */

    pthread_mutex_lock(&c->mu);
    if (--n->refs) {
        pthread_mutex_unlock(&c->mu);
        return;
    }
    struct slot *s = &c->slots[id];
    if (trusted) {
        s->place = mtime;
        s->flags |= SLOT_TRUSTED;
    } else if (stale && n->own_fd) {
        s->flags &= (uint8_t)~SLOT_TRUSTED;
    }
    if (s->flags & (SLOT_DEAD | SLOT_DROP) || !s->valid) {
        evict_slot(c, id); /* unlocks */
        return;
    }
    evict_promote(c, id);
    if (n->resident) {
        pthread_mutex_unlock(&c->mu);
        return;
    }
    s->node = NULL;
    if (n->nblocks == 1 && n->segs[0]) /* NULL: it was never loaded */
        s->crc0 = n->segs[0]->crc[0];
    pthread_mutex_unlock(&c->mu);
    node_free(n);
    if (trusted && complete)
        slot_persist(c, id);
}

/* Takes the file out of sight: its bytes go now, or with its last reader. cache.mu is held on
 * entry, not on return. */
static void detach(struct cache *c, uint32_t id)
{
    struct slot *s = &c->slots[id];
    if (!s->node || s->node->refs == 0) {
        evict_slot(c, id);
        return;
    }
    keep_unpin(c, id);
    node_join_units(c, s->node);
    s = &c->slots[id];
    s3f_remove(&c->tiers[s->tier].queue, id);
    slot_unhash(c, id);
    s->flags |= SLOT_DEAD;
    pthread_mutex_unlock(&c->mu);
    slot_persist(c, id); /* a restart must not find it */
}

void cache_supersede(struct cache *c, uint32_t id)
{
    uint32_t other = NONE;
    do {
        pthread_mutex_lock(&c->mu);
        const struct slot *s = &c->slots[id];
        other = s->flags & SLOT_DEAD ? NONE : slot_find_but(c, s->path, NULL, id);
        /* opened after us: it is we who are old */
        if (other != NONE && (int32_t)(c->slots[other].born - s->born) > 0)
            other = c->slots[other].valid ? id : NONE;
        if (other != NONE)
            detach(c, other);
        else
            pthread_mutex_unlock(&c->mu);
    } while (other != NONE && other != id);
}
