/* SPDX-License-Identifier: Apache-2.0 */
/* Whole ranges: what is here of one, to fetch or pin it in place, and a complete file as an fd. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <fcntl.h>

/* up to this size a file left by a restart is verified when it is opened */
#define VERIFY_NOW (4u << 20)
/* while other blocks are on their way: they have the room, and can make some when they are here */
#define FILL_TRIES    11
#define PATIENT_TRIES 9
#define ROOM_NS       (4 * NS_PER_MS) /* the first pause; all of them are eight seconds */

bool cache_complete(struct cache_file *f) { return object_is_complete(f->o); }

uint64_t cache_size(const struct cache_file *f) { return f->o->id.size; }

bool cache_is_cold(struct cache_file *f) { return f->o->cold; }

uint64_t cache_cached(struct cache_file *f, uint64_t off, uint64_t len)
{
    struct object *o = f->o;
    uint64_t sum = 0, end = off + MIN(len, o->id.size - MIN(off, o->id.size));
    for (uint64_t at = off; at < end;) {
        uint64_t next = MIN(end, at - at % CACHE_BLOCK + CACHE_BLOCK);
        if (object_has(o, (uint32_t)(at / CACHE_BLOCK)))
            sum += next - at;
        at = next;
    }
    return sum;
}

int cache_prefetch(struct cache_file *f, uint64_t off, uint64_t len, struct err *e)
{
    struct object *o = f->o;
    (void)e;
    if (off >= o->id.size || !len)
        return 0;
    len = MIN(len, o->id.size - off);
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + len - 1) / CACHE_BLOCK);
    fetch_ahead(o, first, last - first + 1, o->part, true);
    return 0;
}

/* is_patient: waits two seconds for room even if nothing is on its way: what was read a moment ago
 * may be closed late, and goes then. */
static int range_fill_block(struct object *o, uint32_t block, bool is_patient, struct err *e)
{
    for (int tries = 0; tries < FILL_TRIES; tries++) {
        struct seg *s = object_seg(o, block);
        if (object_has(o, block)
            && ((atomic_load(&s->trusted) & block_bit(block)) || block_verify(o, block) == 0))
            return 0;
        if (fetch_block(o, block, 1, NULL, 0, 0, e) < 0)
            return -1;
        pthread_mutex_lock(&o->mu);
        struct fetch *f;
        /* on its way, and not parked */
        while (!object_has(o, block) && (f = fetch_of(o, block)) && !f->parked)
            pthread_cond_wait(&o->changed, &o->mu);
        pthread_mutex_unlock(&o->mu);
        /* what has the room now can make some when it is here */
        bool waits = atomic_load(&o->c->filling) || (is_patient && tries < PATIENT_TRIES);
        if (!object_has(o, block) && waits)
            clock_sleep_ns(ROOM_NS << tries);
        fetch_fill_parked(o, block);
    }
    if (object_has(o, block))
        return 0;
    pthread_mutex_lock(&o->mu);
    bool fits = fill_may_grow(o);
    pthread_mutex_unlock(&o->mu);
    if (!fits)
        return pin_refuse(o->c, o->path, e);
    err_set(e, ERR_EXHAUSTED,
        "the cache has no room for %s: raise the quota of its tiers, or make room on their disk",
        o->path);
    if (e)
        e->sys = ENOSPC;
    return -1;
}

int cache_fill(struct cache_file *f, uint64_t off, uint64_t len, struct err *e)
{
    struct object *o = f->o;
    if (off >= o->id.size || !len)
        return 0;
    len = MIN(len, o->id.size - off);
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + len - 1) / CACHE_BLOCK);
    uint32_t ahead = first;
    for (uint32_t b = first; b <= last; b++) {
        /* a single block is fetched right here */
        if (first < last && ahead < b + 4 * o->part && ahead <= last)
            ahead = fetch_ahead(
                o, MAX(ahead, b), MIN(last + 1 - MAX(ahead, b), 8 * o->part), o->part, true);
        if (range_fill_block(o, b, true, e))
            return -1;
        progress_mark();
    }
    return 0;
}

void cache_warm(struct cache_file *f, uint64_t off, uint64_t len)
{
    struct object *o = f->o;
    int fd = atomic_load(&o->fd);
    if (fd >= 0 && off < o->id.size && len && object_is_on_disk(o))
        posix_fadvise(
            fd, (off_t)(o->base + off), (off_t)MIN(len, o->id.size - off), POSIX_FADV_WILLNEED);
}

int cache_hold_span(
    struct cache_file *f, uint64_t off, size_t len, struct cache_span *span, struct err *e)
{
    struct object *o = f->o;
    if (off >= o->id.size || !len) {
        err_set(e, ERR_INVALID, "read %s past its end", o->path);
        return -1;
    }
    len = (size_t)MIN(MIN((uint64_t)len, o->id.size - off), SEG_BYTES - off % SEG_BYTES);
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + len - 1) / CACHE_BLOCK);
    uint64_t bits = 0;
    for (uint32_t b = first; b <= last; b++)
        bits |= block_bit(b);
    for (int tries = 0; tries < BUSY_TRIES; tries++) {
        struct seg *s = object_seg(o, first);
        enum hit h = read_grab(s, bits);
        if (h == HIT) {
            if (tries == 0)
                atomic_fetch_add_explicit(&o->c->hit_bytes, len, memory_order_relaxed);
            object_ref(o);
            *span = (struct cache_span){
                o->fd, o->base + off, len, &s->crc[first % SEG_BLOCKS], s, o};
            return 1;
        }
        for (uint32_t b = first; b <= last; b++) {
            struct err why = ERR_INIT;
            if (b == first && h == MISS)
                fetch_ahead(o, first, last - first + 1, o->part, true);
            if (range_fill_block(o, b, false, &why) == 0)
                continue;
            if (why.cls == ERR_EXHAUSTED && why.sys == ENOSPC)
                return 0;
            if (e)
                *e = why;
            return -1;
        }
    }
    return 0;
}

void cache_release_span(struct cache_span *span)
{
    struct seg *s = span->seg;
    struct object *o = span->object;
    if (!o)
        return;
    atomic_fetch_sub(&s->readers, 1);
    span->object = NULL;
    object_put(o);
}

static void verify_all(void *arg) /* takes over one reference */
{
    struct object *o = arg;
    for (uint32_t b = 0; b < o->nblocks && !atomic_load(&o->c->cancel); b++) {
        struct seg *s = object_seg(o, b);
        if (s && (atomic_load(&s->valid) & block_bit(b))
            && !(atomic_load(&s->trusted) & block_bit(b)))
            block_verify(o, b);
    }
    pthread_mutex_lock(&o->mu);
    o->verifying = false;
    pthread_mutex_unlock(&o->mu);
    object_put(o);
}

static bool all_trusted(struct object *o)
{
    if (!object_is_complete(o))
        return false;
    for (uint32_t i = 0; i < o->nsegs; i++) {
        struct seg *s = atomic_load(&o->segs[i]);
        if (!s || atomic_load(&s->trusted) != atomic_load(&s->valid))
            return false;
    }
    return true;
}

/* What a restart left and could not be trusted at once: small files now, others in the background.
 */
static bool make_trusted(struct object *o)
{
    if (all_trusted(o))
        return true;
    pthread_mutex_lock(&o->mu);
    bool begin = !o->verifying;
    o->verifying = true;
    pthread_mutex_unlock(&o->mu);
    if (!begin)
        return false;
    object_ref(o);
    if (o->id.size <= VERIFY_NOW || pool_add(o->c->pool, LANE_IDLE, verify_all, o))
        verify_all(o);
    return all_trusted(o);
}

int cache_complete_fd(struct cache_file *f)
{
    struct object *o = f->o;
    atomic_store(&o->handed_out, true);
    if (!o->nblocks || !object_is_complete(o) || !o->own_fd || !make_trusted(o))
        return -1;
    return fcntl(o->fd, F_DUPFD_CLOEXEC, 3);
}

bool cache_in_memory(struct cache_file *f)
{
    struct object *o = f->o;
    pthread_mutex_lock(&o->mu);
    bool memory = o->tier >= 0 && !o->c->media[o->tier].dir;
    pthread_mutex_unlock(&o->mu);
    return memory;
}
