/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* pread and pwrite of all of it; -1: errno (EIO where the file ends early). */
static int write_all(int fd, const void *data, size_t len, uint64_t off)
{
    const char *p = data;
    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC;
            return -1;
        }
        p += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

static int read_all(int fd, void *data, size_t len, uint64_t off)
{
    char *p = data;
    while (len) {
        ssize_t n = pread(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        p += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

static int write_side(struct node *n, uint32_t block, const unsigned char record[META_SIDE_RECORD])
{
    if (n->side_fd < 0)
        return 0;
    return write_all(n->side_fd, record, META_SIDE_RECORD,
        META_SIDE_HEADER + (uint64_t)block * META_SIDE_RECORD);
}

/* Marks the block as being written. The segment, or NULL: it is here already (*here) or there is no
 * memory, file or pin for it. */
static struct seg *mark_landing(struct node *n, uint32_t block, int tier, bool *here)
{
    struct seg *s = NULL;
    int failed = 0;
    pthread_mutex_lock(&n->mu);
    *here = node_has(n, block);
    bool may = !*here && keep_grow(n);
    if (may && atomic_load(&n->fd) < 0 && node_open_data(n, tier))
        failed = errno;
    if (may && !failed && n->tier == tier && (s = node_seg_make(n, block))) {
        s->landing++;
        n->landing++;
    }
    pthread_mutex_unlock(&n->mu);
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG)
        tier_full(n->c, tier);
    else if (failed)
        log_warn("cache: can't create a file: %s", strerror(failed));
    return s;
}

int landing_begin(struct landing *l, struct node *n, uint32_t block)
{
    struct cache *c = n->c;
    *l = (struct landing){.n = n, .block = block, .len = block_len(n, block)};
    pthread_mutex_lock(&n->mu);
    l->tier = n->tier;
    l->here = node_has(n, block);
    pthread_mutex_unlock(&n->mu);
    if (l->here)
        return 0;
    if (l->tier < 0 && (l->tier = tier_choose(c, n->slot)) < 0)
        return -1;
    uint64_t pages = to_pages(l->len);
    if (tier_reserve(c, l->tier, pages))
        return -1;
    l->s = mark_landing(n, block, l->tier, &l->here);
    if (l->s) {
        atomic_fetch_add(&c->landing, 1);
        return 0;
    }
    tier_release(c, l->tier, pages);
    return l->here ? 0 : -1;
}

int landing_write(struct landing *l, const void *data, size_t len)
{
    uint64_t off = l->n->base + (uint64_t)l->block * CACHE_BLOCK + l->done;
    l->done += (uint32_t)len;
    if (l->here)
        return 0;
    l->crc = crc32c(l->crc, data, len);
    if (!l->stored && write_all(l->n->fd, data, len, off))
        l->failed = errno;
    return l->failed ? -1 : 0;
}

/* The block is here now. n->mu is held. */
static void arrived(const struct landing *l, bool fresh)
{
    struct node *n = l->n;
    uint64_t bit = block_bit(l->block);
    l->s->crc[l->block % SEG_BLOCKS] = l->crc;
    if (fresh)
        atomic_fetch_or(&l->s->fresh, bit);
    else
        atomic_fetch_and(&l->s->fresh, ~bit);
    atomic_fetch_or(&l->s->trusted, bit);
    atomic_fetch_or(&l->s->valid, bit);
    uint32_t valid = atomic_fetch_add(&n->nvalid, 1) + 1;
    node_account(n, l->block / SEG_BLOCKS, 1, (int64_t)to_pages(l->len));
    if (valid == n->nblocks)
        node_finished(n);
}

int landing_end(struct landing *l, bool fresh)
{
    struct node *n = l->n;
    struct cache *c = n->c;
    if (!l->s)
        return 0;
    unsigned char record[META_SIDE_RECORD];
    meta_side_put(record, &n->id, l->block, l->crc);
    bool whole = l->done == l->len && !l->failed;
    if (whole && write_side(n, l->block, record)) {
        l->failed = errno;
        whole = false;
    }
    pthread_mutex_lock(&n->mu);
    l->s->landing--;
    n->landing--;
    /* another fetch of it landed meanwhile, with the same bytes */
    bool here = atomic_load(&l->s->valid) & block_bit(l->block);
    bool first = whole && !here && atomic_load(&n->nvalid) == 0;
    if (whole && !here)
        arrived(l, fresh);
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->mu);
    atomic_fetch_sub(&c->landing, 1);
    if (!whole || here)
        tier_release(c, l->tier, to_pages(l->len));
    else
        slot_persist(c, n->slot);
    if (first)
        cache_supersede(c, n->slot);
    int why = l->failed;
    if (why == ENOSPC || why == EDQUOT || why == EFBIG || why == ENOMEM)
        tier_full(c, l->tier);
    else if (why)
        log_warn("cache: writing to %s: %s",
            c->tiers[l->tier].dir ? c->tiers[l->tier].dir : "memory", strerror(why));
    return whole || here ? 0 : -1;
}

int block_land(struct node *n, uint32_t block, const char *data, enum land how)
{
    struct landing l;
    if (landing_begin(&l, n, block))
        return -1;
    l.stored = how == LAND_STORED;
    landing_write(&l, data, l.len);
    return landing_end(&l, how == LAND_FRESH);
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
        write_side(n, block, none);
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
    bool good = still && read_all(n->fd, buf, len, n->base + (uint64_t)block * CACHE_BLOCK) == 0
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
        write_all(n->side_fd, none, span * META_SIDE_RECORD,
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
