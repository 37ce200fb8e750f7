/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int block_write_side(struct node *n, uint32_t block, const unsigned char record[META_SIDE_RECORD])
{
    if (n->side_fd < 0)
        return 0;
    return media_write(n->side_fd, record, META_SIDE_RECORD,
        META_SIDE_HEADER + (uint64_t)block * META_SIDE_RECORD);
}

bool block_invalidate(struct node *n, uint32_t block, bool if_untrusted)
{
    static const unsigned char none[META_SIDE_RECORD];
    struct cache *c = n->c;
    uint64_t pages = to_pages(block_len(n, block));
    pthread_mutex_lock(&n->mu);
    struct seg *s = node_seg(n, block);
    /* somebody was faster, and it is new */
    bool spared = s && if_untrusted && (atomic_load(&s->trusted) & block_bit(block));
    bool was = s && !spared && (atomic_fetch_and(&s->valid, ~block_bit(block)) & block_bit(block));
    if (was) {
        atomic_fetch_add(&c->corrupt_blocks, 1);
        atomic_fetch_and(&s->trusted, ~block_bit(block));
        atomic_fetch_sub(&n->nvalid, 1);
        block_write_side(n, block, none);
        node_account(n, block / SEG_BLOCKS, -1, -(int64_t)pages);
        /* afterwards: it counts what is left of a complete file by its segments */
        node_unfinished(n);
    }
    int tier = n->tier;
    pthread_mutex_unlock(&n->mu);
    if (!was)
        return false;
    tier_release(c, tier, pages);
    slot_persist(c, n->slot);
    return true;
}

int block_verify(struct node *n, uint32_t block)
{
    struct seg *s = node_seg(n, block);
    uint32_t len = block_len(n, block);
    uint64_t bit = block_bit(block);
    char *buf = budget_buffer(&n->c->budget, len);
    if (!s || !buf) {
        budget_buffer_put(&n->c->budget, buf, len);
        return -1;
    }
    atomic_fetch_add(&s->readers, 1);
    bool still = atomic_load(&s->valid) & bit;
    bool good = still && media_read(n->fd, buf, len, n->base + (uint64_t)block * CACHE_BLOCK) == 0
        && crc32c(0, buf, len) == s->crc[block % SEG_BLOCKS];
    if (good)
        atomic_fetch_or(&s->trusted, bit);
    atomic_fetch_sub(&s->readers, 1);
    budget_buffer_put(&n->c->budget, buf, len);
    if (still && !good && block_invalidate(n, block, true))
        log_warn("cache: block %u of %s is corrupt in the cache; it is fetched again", block,
            n->path ? n->path : "a file");
    return good ? 0 : -1;
}

/* Clears all bits of the segment; 0 if somebody reads or writes there (then nothing changed). n->mu
 * is held. */
static uint64_t take_segment(struct seg *s)
{
    if (s->landing)
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

int block_evict_seg(struct node *n, uint32_t seg)
{
    struct cache *c = n->c;
    pthread_mutex_lock(&n->mu);
    struct seg *s = n->segs[seg];
    pthread_mutex_lock(&c->mu);
    bool pinned = c->slots[n->slot].flags & SLOT_PINNED; /* since it was chosen */
    pthread_mutex_unlock(&c->mu);
    uint64_t taken = s && !pinned && !node_complete(n) ? take_segment(s) : 0;
    if (!taken) {
        pthread_mutex_unlock(&n->mu);
        return -1;
    }
    uint32_t first = seg * SEG_BLOCKS, blocks = (uint32_t)__builtin_popcountll(taken),
             span = MIN(SEG_BLOCKS, n->nblocks - first);
    uint64_t bytes = (uint64_t)blocks * CACHE_BLOCK, off = (uint64_t)first * CACHE_BLOCK;
    if (first + span == n->nblocks && (taken & block_bit(n->nblocks - 1)))
        bytes -= CACHE_BLOCK - block_len(n, n->nblocks - 1);
    if (n->side_fd >= 0) {
        static const unsigned char none[SEG_BLOCKS * META_SIDE_RECORD];
        media_write(n->side_fd, none, span * META_SIDE_RECORD,
            META_SIDE_HEADER + (uint64_t)first * META_SIDE_RECORD);
    }
    uint64_t end = MIN(off + SEG_BYTES, n->id.size);
    if (fallocate(n->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(n->base + off),
            (off_t)(to_pages(end - off) * PAGE)))
        log_warn("cache: can't give back the space of a part of a file: %s", strerror(errno));
    atomic_fetch_sub(&n->nvalid, blocks);
    uint64_t pages = to_pages(bytes);
    node_account(n, seg, -(int32_t)blocks, -(int64_t)pages);
    int tier = n->tier;
    pthread_mutex_unlock(&n->mu);
    tier_release(c, tier, pages);
    atomic_fetch_add(&c->evicted_bytes, bytes);
    slot_persist(c, n->slot);
    return 0;
}
