/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of an object that are here: verified, forgotten, evicted. */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool block_invalidate(struct object *o, uint32_t block, bool if_untrusted)
{
    static const unsigned char none[META_SIDECAR_RECORD];
    struct cache *c = o->c;
    uint64_t pages = to_pages(block_len(o, block));
    pthread_mutex_lock(&o->mu);
    struct seg *s = object_seg(o, block);
    /* another thread was faster, and it is new */
    bool spared = s && if_untrusted && (atomic_load(&s->trusted) & block_bit(block));
    bool was = s && !spared && (atomic_fetch_and(&s->valid, ~block_bit(block)) & block_bit(block));
    if (was) {
        atomic_fetch_add(&c->corrupt_blocks, 1);
        atomic_fetch_and(&s->trusted, ~block_bit(block));
        atomic_fetch_sub(&o->nvalid, 1);
        object_write_sidecar(o, block, none);
        catalogue_account(c->catalogue, o->entry, block / SEG_BLOCKS, -1, -(int64_t)pages, 0);
        /* afterwards: it counts what is left of a complete file by its segments */
        catalogue_unfinish(c->catalogue, o->entry, block / SEG_BLOCKS, pages);
    }
    int tier = o->tier;
    pthread_mutex_unlock(&o->mu);
    if (!was)
        return false;
    catalogue_release(c->catalogue, tier, pages);
    table_persist(c, o->entry);
    return true;
}

int block_verify(struct object *o, uint32_t block)
{
    struct seg *s = object_seg(o, block);
    uint32_t len = block_len(o, block);
    uint64_t bit = block_bit(block);
    char *buf = budget_buffer(&o->c->budget, len);
    if (!s || !buf) {
        budget_buffer_put(&o->c->budget, buf, len);
        return -1;
    }
    atomic_fetch_add(&s->readers, 1);
    bool still = atomic_load(&s->valid) & bit;
    bool good = still
        && io_pread_exact(o->fd, buf, len, o->base + (uint64_t)block * CACHE_BLOCK) == 0
        && crc32c(0, buf, len) == s->crc[block % SEG_BLOCKS];
    if (good)
        atomic_fetch_or(&s->trusted, bit);
    atomic_fetch_sub(&s->readers, 1);
    budget_buffer_put(&o->c->budget, buf, len);
    if (still && !good && block_invalidate(o, block, true))
        log_warn("cache: block %u of %s is corrupt in the cache; it is fetched again", block,
            o->path ? o->path : "a file");
    return good ? 0 : -1;
}

/* Clears all bits of the segment; 0 if there are readers or writers (then nothing changed). n->mu
 * is held. */
static uint64_t take_segment(struct seg *s)
{
    if (s->filling)
        return 0;
    uint64_t valid = atomic_exchange(&s->valid, 0);
    if (!valid)
        return 0;
    uint64_t trusted = atomic_exchange(&s->trusted, 0);
    if (atomic_load(&s->readers) == 0)
        return valid;
    atomic_store(&s->trusted, trusted);
    atomic_store(&s->valid, valid);
    return 0;
}

void block_count_evicted(struct cache *c, uint64_t bytes, bool is_loaded)
{
    atomic_fetch_add(&c->evicted_bytes, bytes);
    if (is_loaded)
        atomic_fetch_add(&c->evicted_loaded_bytes, bytes);
}

/* It was adopted, and another name has the same bytes. */
static bool is_shared(const struct object *o)
{
    struct stat st;
    return fstat(o->fd, &st) == 0 && st.st_nlink > 1;
}

int block_evict_seg(struct object *o, uint32_t seg)
{
    struct cache *c = o->c;
    pthread_mutex_lock(&o->mu);
    struct seg *s = o->segs[seg];
    struct catalogue_info info = catalogue_info(c->catalogue, o->entry);
    bool spared = info.is_pinned /* since it was chosen */ || object_is_complete(o)
        || atomic_load(&o->handed_out) || atomic_load(&o->adopting);
    uint64_t taken = s && !spared ? take_segment(s) : 0;
    if (!taken) {
        pthread_mutex_unlock(&o->mu);
        return -1;
    }
    uint32_t first = seg * SEG_BLOCKS, blocks = (uint32_t)__builtin_popcountll(taken),
             span = MIN(SEG_BLOCKS, o->nblocks - first);
    uint64_t bytes = (uint64_t)blocks * CACHE_BLOCK, off = (uint64_t)first * CACHE_BLOCK;
    if (first + span == o->nblocks && (taken & block_bit(o->nblocks - 1)))
        bytes -= CACHE_BLOCK - block_len(o, o->nblocks - 1);
    if (o->sidecar_fd >= 0) {
        static const unsigned char none[SEG_BLOCKS * META_SIDECAR_RECORD];
        io_pwrite(o->sidecar_fd, none, span * META_SIDECAR_RECORD,
            META_SIDECAR_HEADER + (uint64_t)first * META_SIDECAR_RECORD);
    }
    uint64_t end = MIN(off + SEG_BYTES, o->id.size);
    if (!is_shared(o)
        && fallocate(o->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(o->base + off),
            (off_t)(to_pages(end - off) * PAGE)))
        log_warn("cache: can't give back the space of a part of a file: %s", strerror(errno));
    atomic_fetch_sub(&o->nvalid, blocks);
    uint64_t pages = to_pages(bytes);
    catalogue_account(c->catalogue, o->entry, seg, -(int32_t)blocks, -(int64_t)pages, 0);
    int tier = o->tier;
    pthread_mutex_unlock(&o->mu);
    catalogue_release(c->catalogue, tier, pages);
    block_count_evicted(c, bytes, info.is_loaded);
    table_persist(c, o->entry);
    return 0;
}
