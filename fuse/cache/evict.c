/* SPDX-License-Identifier: Apache-2.0 */
/* Room: what leaves a tier when new bytes come, what moves to another one, and what happens when
 * the last reference to an object is given back. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKED_NS      (10 * NS_PER_S)
#define RESERVE_TRIES   256
#define SKIPS_MAX       512
#define DISK_FULL_FREES 16

/* -- the last reference ---------------------------------------------------------------------- */

void evict_gone(struct cache *c, const struct catalogue_gone *gone)
{
    struct object *o = gone->object;
    const struct media *m = &c->media[gone->tier];
    bool has_file = gone->meta.valid || (o && o->fd >= 0), own_memory = o && o->own_fd && !m->dir;
    if (o)
        object_free(o);
    if (has_file && m->dir)
        table_persist(c, gone->id);
    if (has_file && !own_memory)
        media_remove(m, &gone->meta, gone->id, gone->meta.mtime_ns);
    catalogue_recycle(c->catalogue, gone->id);
}

/* All that is there of the file was written or verified by us: the next to open it need not do so
 * again. */
static bool is_all_trusted(struct object *o)
{
    if (o->fd < 0 || o->tier < 0 || !object_is_on_disk(o))
        return false;
    for (uint32_t i = 0; i < o->nsegs; i++) {
        struct seg *s = o->segs[i];
        if (s && atomic_load(&s->trusted) != atomic_load(&s->valid))
            return false;
    }
    return true;
}

static void promote(struct cache *c, const struct catalogue_move *move);

void evict_put(struct cache *c, uint32_t entry, struct object *o)
{
    struct catalogue_closing closing = {.may_move = c->pool};
    struct catalogue_left left;
    enum catalogue_end end = catalogue_close(c->catalogue, entry, &closing, &left);
    if (end == CATALOGUE_CHECK) {
        closing.is_checked = true;
        closing.mtime_ns = o && is_all_trusted(o) ? location_mtime(o->fd) : 0;
        closing.is_trusted = closing.mtime_ns;
        closing.is_distrusted = o && !closing.is_trusted && o->own_fd;
        end = catalogue_close(c->catalogue, entry, &closing, &left);
    }
    if (end != CATALOGUE_LEFT)
        return;
    if (left.gone.is_removed) {
        evict_gone(c, &left.gone);
        return;
    }
    if (left.moves)
        promote(c, &left.move);
    if (!left.gone.object)
        return;
    object_free(left.gone.object);
    if (closing.is_trusted && left.gone.is_complete)
        table_persist(c, entry);
}

void evict_supersede(struct cache *c, uint32_t entry)
{
    struct catalogue_gone gone;
    while (catalogue_supersede(c->catalogue, entry, &gone)) {
        if (gone.is_removed)
            evict_gone(c, &gone);
        else
            table_persist(c, gone.id); /* a restart must not find it */
    }
}

/* -- between tiers --------------------------------------------------------------------------- */

/* The object is ours alone still? Then `to` becomes its location, and *old is what it was. */
static bool commit_move(struct object *o, const struct catalogue_victim *moved,
    const struct location *to, struct location *old)
{
    struct cache *c = o->c;
    int64_t key = c->media[to->tier].dir ? location_mtime(to->fd) : (int64_t)to->base;
    pthread_mutex_lock(&o->mu);
    bool alone = catalogue_move_end(c->catalogue, moved, key, location_is_resident(o, to));
    if (alone) {
        *old = object_location(o);
        object_locate(o, to);
        for (uint32_t i = 0; i < o->nsegs; i++)
            atomic_store(&o->segs[i]->trusted, atomic_load(&o->segs[i]->valid));
    }
    pthread_mutex_unlock(&o->mu);
    return alone;
}

/* Deletes what a move copied, or what it copied from. */
static void discard(struct object *o, const struct location *at)
{
    const struct media *m = &o->c->media[at->tier];
    location_close(o->c, at);
    if (m->dir || !at->own_fd)
        media_remove(m, &o->id, o->entry, (int64_t)at->base);
}

/* Moves an idle complete file on which there is a reference for it, which is given back. -1: it
 * stays where it is. */
static int move_file(struct cache *c, const struct catalogue_victim *v)
{
    uint32_t entry = v->move.id;
    int tier = v->move.to;
    struct object *o = object_get(c, entry, v->object, NULL);
    struct location to, old;
    bool reserved = o && evict_reserve(c, tier, v->pages) == 0;
    bool created = reserved && object_load(o, NULL) == 0 && object_is_complete(o)
        && object_create(o, tier, &to) == 0;
    bool moved = created && move_copy(o, &to) == 0 && commit_move(o, v, &to, &old);
    if (moved) {
        discard(o, &old);
        atomic_fetch_add(&c->moved_bytes, o->id.size);
        table_persist(c, entry);
    } else {
        catalogue_move_fail(c->catalogue, v);
        if (reserved)
            catalogue_release(c->catalogue, tier, v->pages);
        if (created)
            discard(o, &to);
    }
    evict_put(c, entry, o);
    return moved ? 0 : -1;
}

bool evict_settle(struct cache *c, const uint64_t path[2], uint64_t version, uint64_t pages)
{
    struct catalogue_victim v;
    catalogue_settle(c->catalogue, path, version, pages, &v);
    if (v.what == CATALOGUE_MOVE)
        move_file(c, &v);
    else if (v.what == CATALOGUE_REMOVED)
        evict_gone(c, &v.gone);
    return v.what != CATALOGUE_WAIT;
}

struct promotion {
    struct cache *c;
    struct catalogue_move move;
};

static void promotion_job(void *arg)
{
    struct promotion *p = arg;
    struct catalogue_victim v;
    if (catalogue_move_begin(p->c->catalogue, &p->move, &v))
        move_file(p->c, &v);
    free(p);
}

static void promote(struct cache *c, const struct catalogue_move *move)
{
    struct promotion *p = malloc(sizeof *p);
    if (!p)
        return;
    *p = (struct promotion){c, *move};
    if (pool_add(c->pool, LANE_IDLE, promotion_job, p))
        free(p);
}

/* -- victims --------------------------------------------------------------------------------- */

/* An idle file that was to go down a tier; if it can't, it goes away. */
static void evict_down(struct cache *c, const struct catalogue_victim *v)
{
    struct catalogue_gone gone;
    if (move_file(c, v) == 0 || !catalogue_remove(c->catalogue, v, &gone))
        return;
    block_count_evicted(c, v->pages * PAGE, gone.is_loaded);
    evict_gone(c, &gone);
}

/* A segment of a partial file, open or not. */
static bool evict_segment(struct cache *c, const struct catalogue_victim *v)
{
    struct object *o = object_get(c, v->move.id, v->object, NULL);
    bool done = o && object_load(o, NULL) == 0 && block_evict_seg(o, v->seg) == 0;
    catalogue_evicted(c->catalogue, v, done);
    evict_put(c, v->move.id, o);
    return done;
}

/* A partial file of many segments that was not opened since the start: its segments become units of
 * the queue. */
static void evict_split(struct cache *c, const struct catalogue_victim *v)
{
    struct object *o = object_get(c, v->move.id, v->object, NULL);
    if (o)
        object_load(o, NULL);
    evict_put(c, v->move.id, o);
}

/* false: nothing may go */
static bool evict_one(struct cache *c, int tier)
{
    for (unsigned skips = SKIPS_MAX;;) {
        struct catalogue_victim v;
        catalogue_victim(c->catalogue, tier, &skips, &v);
        switch (v.what) {
        case CATALOGUE_NOTHING:
        case CATALOGUE_WAIT:
            return false;
        case CATALOGUE_REMOVED:
            block_count_evicted(c, (uint64_t)v.gone.meta.pages * PAGE, v.gone.is_loaded);
            evict_gone(c, &v.gone);
            return true;
        case CATALOGUE_MOVE:
            evict_down(c, &v);
            return true;
        case CATALOGUE_SPLIT:
            evict_split(c, &v);
            break;
        case CATALOGUE_SEGMENT:
            if (evict_segment(c, &v))
                return true;
            break;
        }
    }
}

struct eviction {
    struct cache *c;
    int tier;
};

static void eviction_job(void *arg)
{
    struct eviction *v = arg;
    struct cache *c = v->c;
    while (!atomic_load(&c->cancel) && catalogue_is_low(c->catalogue, v->tier)
        && evict_one(c, v->tier))
        ;
    atomic_store(&c->media[v->tier].evicting, false);
    free(v);
}

void evict_background(struct cache *c, int tier)
{
    atomic_bool *evicting = &c->media[tier].evicting;
    if (atomic_load(evicting) || atomic_exchange(evicting, true))
        return;
    struct eviction *v = malloc(sizeof *v);
    if (v)
        *v = (struct eviction){c, tier};
    if (v && pool_add(c->pool, LANE_IDLE, eviction_job, v) == 0)
        return;
    atomic_store(evicting, false);
    free(v);
}

int evict_reserve(struct cache *c, int tier, uint64_t pages)
{
    for (int tries = 0; tries < RESERVE_TRIES; tries++) {
        switch (catalogue_reserve(c->catalogue, tier, pages, clock_mono_ns())) {
        case CATALOGUE_ROOM_LOW:
            evict_background(c, tier);
            return 0;
        case CATALOGUE_ROOM:
            return 0;
        case CATALOGUE_NO_ROOM:
            if (evict_one(c, tier))
                continue;
            break;
        case CATALOGUE_REFUSED:
            break;
        }
        break;
    }
    atomic_fetch_add(&c->full, 1);
    return -1;
}

void evict_disk_full(struct cache *c, int tier)
{
    const struct media *m = &c->media[tier];
    int64_t now = clock_mono_ns();
    atomic_fetch_add(&c->full, 1);
    if (!catalogue_block(c->catalogue, tier, now, now + BLOCKED_NS))
        return;
    log_warn(
        "cache: no room left on %s although the quota is not used up: not caching there for %d s",
        m->dir ? m->dir : "the memory tier", (int)(BLOCKED_NS / NS_PER_S));
    /* so that there is something to come back to */
    for (int i = 0; i < DISK_FULL_FREES && evict_one(c, tier); i++)
        ;
}
