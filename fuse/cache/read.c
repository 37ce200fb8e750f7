/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* up to this size a file left by a restart is verified when it is opened */
#define VERIFY_NOW (4u << 20)
#define BUSY_TRIES 8
#define ROOM_NS    (4 * NS_PER_MS) /* the first pause; all of them are a second */
#define WRITTEN_S  60              /* the kernel writes what is older than 30 s, every 5 s */

/* -- hits ------------------------------------------------------------------------------------ */

enum hit { HIT, MISS, UNTRUSTED, BROKEN };

/* Holds the segment against eviction if its blocks of `bits` are here and trusted. */
static enum hit grab(struct seg *s, uint64_t bits)
{
    if (!s)
        return MISS;
    atomic_fetch_add(&s->readers, 1);
    enum hit h = (atomic_load(&s->valid) & bits) != bits ? MISS
        : (atomic_load(&s->trusted) & bits) != bits      ? UNTRUSTED
                                                         : HIT;
    if (h != HIT)
        atomic_fetch_sub(&s->readers, 1);
    return h;
}

static __thread struct cache_stall stall;

void cache_stall(struct cache_stall *out)
{
    *out = stall;
    stall = (struct cache_stall){0};
}

/* len bytes from a tier. What the page cache has comes without waiting; only the rest is a wait for
 * the disk. */
static bool read_tier(const struct node *n, char *dst, uint32_t len, uint64_t off)
{
    bool disk = n->c->tiers[n->tier].dir;
    int flags = disk ? RWF_NOWAIT : 0;
    int64_t began = 0;
    for (uint32_t done = 0; done < len;) {
        struct iovec iov = {dst + done, len - done};
        ssize_t got = preadv2(n->fd, &iov, 1, (off_t)(off + done), flags);
        /* also file systems that can't tell */
        if (flags && (got < 0 || got < (ssize_t)iov.iov_len)) {
            flags = 0;
            cache_will_block(n->c);
            began = clock_mono_ns();
        } else if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        done += got > 0 ? (uint32_t)got : 0;
    }
    if (began)
        stall.disk_ns += clock_mono_ns() - began;
    return true;
}

/* A whole block from a disk: are its bytes what they were when it was written there? */
static bool is_sound(
    const struct node *n, const struct seg *s, uint32_t block, const char *data, uint32_t len)
{
    return !n->c->tiers[n->tier].dir || len < block_len(n, block)
        || crc32c(0, data, len) == s->crc[block % SEG_BLOCKS];
}

/* The kernel has written it by now. What it has not cannot leave memory, and the reader would wait
 * for it. */
static bool is_on_disk(const struct node *n)
{
    struct stat st;
    return fstat(n->fd, &st) == 0 && clock_real_ns() / NS_PER_S - st.st_mtim.tv_sec > WRITTEN_S;
}

static enum hit read_hit(struct cache_file *f, uint32_t block, char *dst, uint32_t in, uint32_t len)
{
    struct node *n = f->n;
    struct seg *s = node_seg(n, block);
    enum hit h = grab(s, block_bit(block));
    if (h != HIT)
        return h;
    uint64_t off = n->base + (uint64_t)block * CACHE_BLOCK + in;
    if (!read_tier(n, dst, len, off)) {
        h = BROKEN;
    } else if (!is_sound(n, s, block, dst, len)) {
        atomic_fetch_and(&s->trusted, ~block_bit(block));
        h = UNTRUSTED;
    }
    /* the reader's own page cache has it now */
    if (h == HIT && n->c->drop_behind && in + len == block_len(n, block) && n->c->tiers[n->tier].dir
        && is_on_disk(n))
        posix_fadvise(n->fd, (off_t)(n->base + (uint64_t)block * CACHE_BLOCK), CACHE_BLOCK,
            POSIX_FADV_DONTNEED);
    uint32_t seg = block / SEG_BLOCKS + 1; /* one hit a visit, not one a read */
    if (atomic_load_explicit(&f->last_seg, memory_order_relaxed) != seg
        || (in == 0 && block % SEG_BLOCKS == 0)) {
        atomic_store_explicit(&f->last_seg, seg, memory_order_relaxed);
        atomic_fetch_add_explicit(&s->touched, 1, memory_order_relaxed);
    }
    atomic_fetch_sub(&s->readers, 1);
    return h;
}

/* The block could not be read from the tier although it is said to be there. */
static void broken(struct node *n, uint32_t block)
{
    if (block_invalidate(n, block, false))
        log_warn("cache: block %u of %s can't be read from the cache; it is fetched again", block,
            n->path);
}

static void count_hit(struct node *n, uint32_t block, uint32_t in, uint32_t len)
{
    struct seg *s = node_seg(n, block);
    uint64_t bit = block_bit(block);
    if (!(atomic_load_explicit(&s->fresh, memory_order_relaxed) & bit))
        atomic_fetch_add_explicit(&n->c->hit_bytes, len, memory_order_relaxed);
    else if (in + len == block_len(n, block))
        atomic_fetch_and_explicit(&s->fresh, ~bit, memory_order_relaxed);
}

static int read_block(struct cache_file *f, uint32_t block, uint32_t more, char *dst, uint32_t in,
    uint32_t len, struct err *e)
{
    struct node *n = f->n;
    for (int tries = 0; tries < BUSY_TRIES; tries++) {
        switch (read_hit(f, block, dst, in, len)) {
        case HIT:
            count_hit(n, block, in, len);
            return 0;
        case UNTRUSTED:
            cache_will_block(n->c);
            block_verify(n, block);
            continue;
        case BROKEN:
            broken(n, block);
            continue;
        case MISS:
            break;
        }
        /* what a miss brings in is no hit */
        atomic_store_explicit(&f->last_seg, block / SEG_BLOCKS + 1, memory_order_relaxed);
        int64_t began = clock_mono_ns();
        cache_will_block(n->c);
        fetch_origin = 0;
        int rc = fetch_block(n, block, more, dst, in, len, e);
        stall.source_ns[fetch_origin] += clock_mono_ns() - began;
        if (rc <= 0)
            return rc;
    }
    return err_set(e, ERR_RETRY, "read %s: block %u comes and goes in the cache", n->path, block);
}

ssize_t cache_read(struct cache_file *f, void *buf, size_t len, uint64_t off, struct err *e)
{
    struct node *n = f->n;
    if (off >= n->id.size || !len)
        return 0;
    len = (size_t)MIN((uint64_t)len, n->id.size - off);
    readahead_note(f, off, len);
    char *dst = buf;
    for (size_t done = 0; done < len;) {
        uint64_t at = off + done;
        uint32_t block = (uint32_t)(at / CACHE_BLOCK), in = (uint32_t)(at % CACHE_BLOCK);
        uint32_t part = (uint32_t)MIN((size_t)(CACHE_BLOCK - in), len - done);
        uint32_t more = (uint32_t)((in + (len - done) + CACHE_BLOCK - 1) / CACHE_BLOCK);
        if (read_block(f, block, more, dst + done, in, part, e))
            return -1;
        done += part;
    }
    return (ssize_t)len;
}

/* -- whole ranges ---------------------------------------------------------------------------- */

bool cache_complete(struct cache_file *f) { return node_complete(f->n); }

uint64_t cache_size(const struct cache_file *f) { return f->n->id.size; }

bool cache_is_cold(struct cache_file *f) { return f->n->cold; }

uint64_t cache_cached(struct cache_file *f, uint64_t off, uint64_t len)
{
    struct node *n = f->n;
    uint64_t sum = 0, end = off + MIN(len, n->id.size - MIN(off, n->id.size));
    for (uint64_t at = off; at < end;) {
        uint64_t next = MIN(end, at - at % CACHE_BLOCK + CACHE_BLOCK);
        if (node_has(n, (uint32_t)(at / CACHE_BLOCK)))
            sum += next - at;
        at = next;
    }
    return sum;
}

int cache_prefetch(struct cache_file *f, uint64_t off, uint64_t len, struct err *e)
{
    struct node *n = f->n;
    (void)e;
    if (off >= n->id.size || !len)
        return 0;
    len = MIN(len, n->id.size - off);
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + len - 1) / CACHE_BLOCK);
    fetch_ahead(n, first, last - first + 1, PART_BLOCKS, true);
    return 0;
}

static int fill_block(struct node *n, uint32_t block, struct err *e)
{
    for (int tries = 0; tries < BUSY_TRIES; tries++) {
        struct seg *s = node_seg(n, block);
        if (node_has(n, block)
            && ((atomic_load(&s->trusted) & block_bit(block)) || block_verify(n, block) == 0))
            return 0;
        if (fetch_block(n, block, 1, NULL, 0, 0, e) < 0)
            return -1;
        pthread_mutex_lock(&n->mu);
        struct fetch *f;
        /* on its way, and not lost to the held buffers */
        while (!node_has(n, block) && (f = fetch_of(n, block)) && !f->kept)
            pthread_cond_wait(&n->changed, &n->mu);
        pthread_mutex_unlock(&n->mu);
        /* what has the room now can make some when it is here */
        if (!node_has(n, block) && atomic_load(&n->c->landing))
            clock_sleep_ns(ROOM_NS << tries);
    }
    if (node_has(n, block))
        return 0;
    pthread_mutex_lock(&n->mu);
    bool fits = keep_grow(n);
    pthread_mutex_unlock(&n->mu);
    if (!fits)
        return keep_refuse(n->c, n->path, e);
    err_set(
        e, ERR_EXHAUSTED, "the cache has no room for %s: raise the quota of its tiers", n->path);
    if (e)
        e->sys = ENOSPC;
    return -1;
}

int cache_fill(struct cache_file *f, uint64_t off, uint64_t len, struct err *e)
{
    struct node *n = f->n;
    if (off >= n->id.size || !len)
        return 0;
    len = MIN(len, n->id.size - off);
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + len - 1) / CACHE_BLOCK);
    uint32_t ahead = first;
    for (uint32_t b = first; b <= last; b++) {
        /* a single block is fetched right here */
        if (first < last && ahead < b + 4 * PART_BLOCKS && ahead <= last)
            ahead = fetch_ahead(n, MAX(ahead, b), MIN(last + 1 - MAX(ahead, b), 8 * PART_BLOCKS),
                PART_BLOCKS, true);
        if (fill_block(n, b, e))
            return -1;
    }
    return 0;
}

void cache_warm(struct cache_file *f, uint64_t off, uint64_t len)
{
    struct node *n = f->n;
    int fd = atomic_load(&n->fd);
    if (fd >= 0 && off < n->id.size && len && n->c->tiers[n->tier].dir)
        posix_fadvise(
            fd, (off_t)(n->base + off), (off_t)MIN(len, n->id.size - off), POSIX_FADV_WILLNEED);
}

int cache_wait(struct cache_file *f, struct err *e) { return cache_fill(f, 0, f->n->id.size, e); }

int cache_pin_span(
    struct cache_file *f, uint64_t off, size_t len, struct cache_span *span, struct err *e)
{
    struct node *n = f->n;
    if (off >= n->id.size || !len) {
        err_set(e, ERR_INVALID, "read %s past its end", n->path);
        return -1;
    }
    len = (size_t)MIN(MIN((uint64_t)len, n->id.size - off), SEG_BYTES - off % SEG_BYTES);
    uint32_t first = (uint32_t)(off / CACHE_BLOCK),
             last = (uint32_t)((off + len - 1) / CACHE_BLOCK);
    uint64_t bits = 0;
    for (uint32_t b = first; b <= last; b++)
        bits |= block_bit(b);
    for (int tries = 0; tries < BUSY_TRIES; tries++) {
        struct seg *s = node_seg(n, first);
        enum hit h = grab(s, bits);
        if (h == HIT) {
            if (tries == 0)
                atomic_fetch_add_explicit(&n->c->hit_bytes, len, memory_order_relaxed);
            node_ref(n);
            *span = (struct cache_span){n->fd, n->base + off, len, s, n};
            return 1;
        }
        for (uint32_t b = first; b <= last; b++) {
            struct err why = ERR_INIT;
            if (b == first && h == MISS)
                fetch_ahead(n, first, last - first + 1, PART_BLOCKS, true);
            if (fill_block(n, b, &why) == 0)
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

void cache_unpin(struct cache_span *span)
{
    struct seg *s = span->pin;
    struct node *n = span->node;
    if (!n)
        return;
    atomic_fetch_sub(&s->readers, 1);
    span->node = NULL;
    node_put(n);
}

static void verify_all(void *arg) /* takes over one ref of the node */
{
    struct node *n = arg;
    for (uint32_t b = 0; b < n->nblocks && !atomic_load(&n->c->cancel); b++) {
        struct seg *s = node_seg(n, b);
        if (s && (atomic_load(&s->valid) & block_bit(b))
            && !(atomic_load(&s->trusted) & block_bit(b)))
            block_verify(n, b);
    }
    pthread_mutex_lock(&n->mu);
    n->verifying = false;
    pthread_mutex_unlock(&n->mu);
    node_put(n);
}

static bool all_trusted(struct node *n)
{
    if (!node_complete(n))
        return false;
    for (uint32_t i = 0; i < n->nsegs; i++) {
        struct seg *s = atomic_load(&n->segs[i]);
        if (!s || atomic_load(&s->trusted) != atomic_load(&s->valid))
            return false;
    }
    return true;
}

/* What a restart left and could not be trusted at once: small files now, others in the background.
 */
static bool make_trusted(struct node *n)
{
    if (all_trusted(n))
        return true;
    pthread_mutex_lock(&n->mu);
    bool begin = !n->verifying;
    n->verifying = true;
    pthread_mutex_unlock(&n->mu);
    if (!begin)
        return false;
    node_ref(n);
    if (n->id.size <= VERIFY_NOW || pool_add(n->c->pool, LANE_IDLE, verify_all, n))
        verify_all(n);
    return all_trusted(n);
}

int cache_complete_fd(struct cache_file *f)
{
    struct node *n = f->n;
    if (!n->nblocks || !node_complete(n) || !n->own_fd || !make_trusted(n))
        return -1;
    return fcntl(n->fd, F_DUPFD_CLOEXEC, 3);
}
