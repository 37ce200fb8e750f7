/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_MIN 256u

static uint32_t bucket_of(const struct cache *c, const uint64_t path[2])
{
    return (uint32_t)path[0] & (c->nbuckets - 1);
}

uint32_t slot_find(const struct cache *c, const uint64_t path[2], const uint64_t *version)
{
    return slot_find_but(c, path, version, NONE);
}

uint32_t slot_find_but(
    const struct cache *c, const uint64_t path[2], const uint64_t *version, uint32_t but)
{
    for (uint32_t id = c->buckets[bucket_of(c, path)]; id != NONE; id = c->slots[id].chain) {
        const struct slot *s = &c->slots[id];
        if (s->path[0] == path[0] && s->path[1] == path[1] && (!version || s->version == *version)
            && id != but)
            return id;
    }
    return NONE;
}

uint32_t slot_new(struct cache *c, enum slot_kind kind)
{
    if (c->free_slots == NONE && c->nslots == c->cap_slots) {
        uint32_t cap = c->cap_slots ? c->cap_slots + c->cap_slots / 2 : SLOTS_MIN;
        struct slot *bigger = realloc(c->slots, (size_t)cap * sizeof *bigger);
        if (!bigger)
            return NONE;
        c->slots = bigger;
        c->cap_slots = cap;
    }
    uint32_t id = c->free_slots;
    if (id != NONE)
        c->free_slots = c->slots[id].chain;
    else
        id = c->nslots++;
    c->slots[id] = (struct slot){.kind = (uint8_t)kind, .chain = NONE, .owner = NONE};
    return id;
}

void slot_rehash(struct cache *c)
{
    uint32_t n = c->nbuckets ? c->nbuckets * 2 : SLOTS_MIN;
    uint32_t *buckets = malloc(n * sizeof *buckets);
    if (!buckets)
        return; /* longer chains are only slower; the first table is made by cache_new */
    for (uint32_t i = 0; i < n; i++)
        buckets[i] = NONE;
    uint32_t old_n = c->nbuckets, *old = c->buckets;
    c->buckets = buckets;
    c->nbuckets = n;
    for (uint32_t i = 0; i < old_n; i++)
        for (uint32_t id = old[i], next; id != NONE; id = next) {
            next = c->slots[id].chain;
            uint32_t b = bucket_of(c, c->slots[id].path);
            c->slots[id].chain = buckets[b];
            buckets[b] = id;
        }
    free(old);
}

void slot_hash(struct cache *c, uint32_t id)
{
    if (c->nfiles >= c->nbuckets)
        slot_rehash(c);
    uint32_t b = bucket_of(c, c->slots[id].path);
    c->slots[id].chain = c->buckets[b];
    c->buckets[b] = id;
    c->nfiles++;
}

void slot_unhash(struct cache *c, uint32_t id)
{
    for (uint32_t *at = &c->buckets[bucket_of(c, c->slots[id].path)]; *at != NONE;
         at = &c->slots[*at].chain)
        if (*at == id) {
            *at = c->slots[id].chain;
            c->nfiles--;
            return;
        }
}

void slot_free(struct cache *c, uint32_t id)
{
    c->slots[id].kind = SLOT_FREE;
    c->slots[id].chain = c->free_slots;
    c->free_slots = id;
}

uint64_t slot_key(const struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id];
    if (s->kind == SLOT_SEG)
        return hash64_mix(c->slots[s->owner].path[0], s->seg + UINT64_C(1));
    return s->path[0];
}

void slot_enqueue(struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id], *file = s->kind == SLOT_SEG ? &c->slots[s->owner] : s;
    if (!(file->flags & SLOT_PINNED))
        s3f_insert(&c->tiers[s->tier].queue, id, s->pages, slot_key(c, id));
}

uint32_t slot_seg_new(struct cache *c, uint32_t file, uint32_t seg, uint32_t pages)
{
    uint32_t id = slot_new(c, SLOT_SEG);
    if (id == NONE)
        return NONE;
    struct slot *f = &c->slots[file], *u = &c->slots[id];
    u->owner = file;
    u->seg = seg;
    u->tier = f->tier;
    u->pages = pages;
    u->chain = f->owner;
    f->owner = id;
    f->flags |= SLOT_SPLIT;
    slot_enqueue(c, id);
    return id;
}

void slot_seg_free(struct cache *c, uint32_t id)
{
    struct slot *u = &c->slots[id];
    s3f_remove(&c->tiers[u->tier].queue, id);
    for (uint32_t *at = &c->slots[u->owner].owner; *at != NONE; at = &c->slots[*at].chain)
        if (*at == id) {
            *at = u->chain;
            break;
        }
    slot_free(c, id);
}

struct meta_file slot_meta(const struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id];
    return (struct meta_file){
        .path = {s->path[0], s->path[1]},
        .version = s->version,
        .size = s->size,
        .mtime_ns = s->place,
        .valid = s->valid,
        .pages = s->pages,
        .crc0 = s->crc0,
        .medium = (uint8_t)c->tiers[s->tier].medium,
        .flags = s->flags & SLOT_PINNED,
    };
}

uint64_t tier_high_mark(const struct tier *t) { return t->quota - t->quota / 20; }

static struct s3f_unit *unit_at(void *user, uint32_t id)
{
    struct cache *c = user;
    return &c->slots[id].unit;
}

/* Hits that readers counted in the segment since the last look. */
static unsigned unit_touched(void *user, uint32_t id)
{
    struct cache *c = user;
    const struct slot *s = &c->slots[id];
    bool whole = s->kind == SLOT_FILE;
    struct node *n = whole ? s->node : c->slots[s->owner].node;
    if (!n)
        return 0;
    unsigned hits = 0;
    for (uint32_t i = whole ? 0 : s->seg; i < (whole ? n->nsegs : s->seg + 1); i++) {
        struct seg *seg = atomic_load(&n->segs[i]);
        if (seg)
            hits += atomic_exchange(&seg->touched, 0);
    }
    return hits;
}

/* The fastest tier with free room for the whole file, else the slowest: new bytes push nothing out
 * of a faster tier; what turns out to be used again moves up (evict_promote). A pin survives the
 * process, so pinned bytes go to disk. */
int tier_choose(struct cache *c, uint32_t slot)
{
    int64_t now = clock_mono_ns();
    int best = -1;
    pthread_mutex_lock(&c->mu);
    uint64_t pages = to_pages(c->slots[slot].size);
    bool lasts = c->slots[slot].flags & SLOT_PINNED && tier_lasting(c) >= 0;
    for (size_t i = 0; i < c->ntiers; i++) {
        const struct tier *t = &c->tiers[i];
        if (!t->quota || t->blocked_ns > now || (lasts && !t->dir))
            continue;
        best = (int)i;
        if (t->used + pages <= tier_high_mark(t))
            break;
    }
    pthread_mutex_unlock(&c->mu);
    return best;
}

void tier_release(struct cache *c, int tier, uint64_t pages)
{
    pthread_mutex_lock(&c->mu);
    c->tiers[tier].used -= pages;
    pthread_mutex_unlock(&c->mu);
}

/* The queue's units of a partial file of many segments are its segments; cache.mu is held. The
 * first unit of an idle file stood for all of it. */
void catalogue_split(struct cache *c, struct node *n)
{
    struct slot *s = &c->slots[n->slot];
    struct tier *t = &c->tiers[s->tier];
    s3f_remove(&t->queue, n->slot);
    uint64_t pages = 0;
    for (uint32_t i = 0; i < n->nsegs; i++) {
        struct seg *seg = n->segs[i];
        uint64_t bytes = object_bytes(n, i, i + 1);
        if (!bytes)
            continue;
        uint32_t id = slot_seg_new(c, n->slot, i, (uint32_t)to_pages(bytes));
        if (id == NONE)
            continue; /* not evictable until it is opened again */
        pages += to_pages(bytes);
        seg->unit = id;
    }
    s = &c->slots[n->slot];
    t->used += pages - s->pages; /* a kill -9 may have left the count behind by a block or two */
    s->pages = 0;
    s->valid = atomic_load(&n->nvalid);
    s->flags |= SLOT_SPLIT;
}

/* The file was open before: its segments are in the queue. cache.mu is held. */
void catalogue_find_units(struct cache *c, struct node *n)
{
    for (uint32_t id = c->slots[n->slot].owner, next; id != NONE; id = next) {
        next = c->slots[id].chain;
        struct seg *seg = n->segs[c->slots[id].seg];
        if (seg) {
            seg->unit = id;
            continue;
        }
        /* its records are gone from the sidecar */
        c->tiers[c->slots[id].tier].used -= c->slots[id].pages;
        slot_seg_free(c, id);
    }
    c->slots[n->slot].valid = atomic_load(&n->nvalid);
}

static void account_seg(struct cache *c, struct node *n, uint32_t seg, int64_t pages)
{
    struct seg *sg = n->segs[seg];
    if (sg->unit == NONE && pages > 0)
        sg->unit = slot_seg_new(c, n->slot, seg, 0);
    if (sg->unit == NONE) { /* no memory for a unit: counted, but not evictable alone */
        c->slots[n->slot].pages = (uint32_t)((int64_t)c->slots[n->slot].pages + pages);
        return;
    }
    struct slot *u = &c->slots[sg->unit];
    u->pages = (uint32_t)((int64_t)u->pages + pages);
    s3f_weigh(&c->tiers[u->tier].queue, sg->unit, u->pages);
    if (u->pages == 0) {
        slot_seg_free(c, sg->unit);
        sg->unit = NONE;
    }
}

void node_account(struct node *n, uint32_t seg, int32_t blocks, int64_t pages)
{
    struct cache *c = n->c;
    pthread_mutex_lock(&c->mu);
    struct slot *f = &c->slots[n->slot];
    struct tier *t = &c->tiers[f->tier];
    bool had = f->valid > 0;
    f->valid = (uint32_t)((int64_t)f->valid + blocks);
    if (had != (f->valid > 0))
        c->nwith_data += f->valid ? 1 : (uint64_t)-1;
    if (f->flags & SLOT_DEAD) {
        f->pages = (uint32_t)((int64_t)f->pages + pages);
    } else if (n->nsegs > 1 && !(f->flags & SLOT_COMPLETE)) {
        account_seg(c, n, seg, pages);
    } else {
        f->pages = (uint32_t)((int64_t)f->pages + pages);
        if (f->unit.queue == S3F_OUT && f->pages)
            slot_enqueue(c, n->slot);
        else if (!f->pages)
            s3f_remove(&t->queue, n->slot);
        else
            s3f_weigh(&t->queue, n->slot, f->pages);
        if (n->nblocks == 1 && f->valid)
            f->crc0 = n->segs[0]->crc[0];
    }
    pthread_mutex_unlock(&c->mu);
}

void node_join_units(struct cache *c, struct node *n)
{
    uint64_t pages = 0;
    while (c->slots[n->slot].owner != NONE) {
        uint32_t id = c->slots[n->slot].owner;
        pages += c->slots[id].pages;
        struct seg *sg = n->segs[c->slots[id].seg];
        if (sg)
            sg->unit = NONE;
        slot_seg_free(c, id);
    }
    struct slot *f = &c->slots[n->slot];
    f->pages = (uint32_t)(f->pages + pages);
    f->flags &= (uint8_t)~SLOT_SPLIT;
}

void node_finished(struct node *n)
{
    struct cache *c = n->c;
    struct stat st;
    int64_t mtime = fstat(n->fd, &st) ? 0 : object_mtime(&st);
    pthread_mutex_lock(&c->mu);
    struct slot *f = &c->slots[n->slot];
    struct tier *t = &c->tiers[f->tier];
    if (n->nsegs > 1 && !(f->flags & SLOT_COMPLETE)) {
        node_join_units(c, n);
        if (!(f->flags & SLOT_DEAD))
            slot_enqueue(c, n->slot);
    }
    if (t->dir)
        f->place = mtime;
    if (!(f->flags & SLOT_COMPLETE)) {
        f->flags |= SLOT_COMPLETE;
        c->ncomplete++;
    }
    pthread_mutex_unlock(&c->mu);
}

void node_unfinished(struct node *n)
{
    struct cache *c = n->c;
    pthread_mutex_lock(&c->mu);
    struct slot *f = &c->slots[n->slot];
    if (f->flags & SLOT_COMPLETE) {
        f->flags &= (uint8_t)~SLOT_COMPLETE;
        c->ncomplete--;
        if (n->nsegs > 1 && !(f->flags & SLOT_DEAD))
            catalogue_split(c, n);
    }
    pthread_mutex_unlock(&c->mu);
}

/* Half of the disk; of memory, where there is nothing else. */
uint64_t keep_most(const struct cache *c)
{
    uint64_t sum = 0;
    bool lasts = tier_lasting(c) >= 0;
    for (size_t i = 0; i < c->ntiers; i++)
        sum += lasts && !c->tiers[i].dir ? 0 : c->tiers[i].quota;
    return sum / 2;
}

/* Takes the units of a file out of their queue, or puts them in. */
static void dequeue(struct cache *c, uint32_t id)
{
    struct s3f *queue = &c->tiers[c->slots[id].tier].queue;
    s3f_remove(queue, id);
    for (uint32_t seg = c->slots[id].owner; seg != NONE; seg = c->slots[seg].chain)
        s3f_remove(queue, seg);
}

static void enqueue(struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id];
    for (uint32_t seg = s->owner; seg != NONE; seg = c->slots[seg].chain)
        slot_enqueue(c, seg);
    if (!(s->flags & SLOT_SPLIT) && s->pages)
        slot_enqueue(c, id);
}

bool keep_pin(struct cache *c, uint32_t id, uint64_t pages)
{
    struct slot *s = &c->slots[id];
    bool was = s->flags & SLOT_PINNED;
    uint64_t had = was ? s->reserved : 0;
    if (was && pages <= had)
        return true;
    if (c->pin_pages - had + pages > keep_most(c))
        return false;
    c->pin_pages += pages - had;
    s->reserved = (uint32_t)pages;
    if (was)
        return true;
    c->npinned++;
    s->flags |= SLOT_PINNED;
    dequeue(c, id);
    return true;
}

void keep_unpin(struct cache *c, uint32_t id)
{
    struct slot *s = &c->slots[id];
    if (!(s->flags & SLOT_PINNED))
        return;
    c->pin_pages -= s->reserved;
    c->npinned--;
    s->flags &= (uint8_t)~SLOT_PINNED;
    enqueue(c, id);
}

void tier_queue_init(struct cache *c, struct tier *t)
{
    struct s3f_ops ops = {unit_at, unit_touched, c};
    s3f_init(&t->queue, t->quota, &ops);
}
