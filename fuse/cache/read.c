/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: hits without a lock, and what is missing by fetch.c. */
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

#define WRITTEN_S 60 /* the kernel writes what is older than 30 s, every 5 s */

/* -- hits ------------------------------------------------------------------------------------ */

enum hit read_grab(struct seg *s, uint64_t bits)
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
static bool read_tier(const struct object *o, char *dst, uint32_t len, uint64_t off)
{
    bool disk = object_is_on_disk(o);
    int flags = disk ? RWF_NOWAIT : 0;
    int64_t began = 0;
    for (uint32_t done = 0; done < len;) {
        struct iovec iov = {dst + done, len - done};
        ssize_t got = preadv2(o->fd, &iov, 1, (off_t)(off + done), flags);
        /* also file systems that can't tell */
        if (flags && (got < 0 || got < (ssize_t)iov.iov_len)) {
            flags = 0;
            cache_will_block(o->c);
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
    const struct object *o, const struct seg *s, uint32_t block, const char *data, uint32_t len)
{
    return !object_is_on_disk(o) || len < block_len(o, block)
        || crc32c(0, data, len) == s->crc[block % SEG_BLOCKS];
}

/* The kernel has written it by now. What it has not cannot leave memory, and the reader would wait
 * for it. */
static bool is_on_disk(const struct object *o)
{
    struct stat st;
    return fstat(o->fd, &st) == 0 && clock_real_ns() / NS_PER_S - st.st_mtim.tv_sec > WRITTEN_S;
}

static enum hit read_hit(struct cache_file *f, uint32_t block, char *dst, uint32_t in, uint32_t len)
{
    struct object *o = f->o;
    struct seg *s = object_seg(o, block);
    enum hit h = read_grab(s, block_bit(block));
    if (h != HIT)
        return h;
    uint64_t off = o->base + (uint64_t)block * CACHE_BLOCK + in;
    if (!read_tier(o, dst, len, off)) {
        h = BROKEN;
    } else if (!is_sound(o, s, block, dst, len)) {
        atomic_fetch_and(&s->trusted, ~block_bit(block));
        h = UNTRUSTED;
    }
    /* the reader's own page cache has it now */
    if (h == HIT && o->c->drop_behind && in + len == block_len(o, block) && object_is_on_disk(o)
        && is_on_disk(o))
        posix_fadvise(o->fd, (off_t)(o->base + (uint64_t)block * CACHE_BLOCK), CACHE_BLOCK,
            POSIX_FADV_DONTNEED);
    uint32_t seg = block / SEG_BLOCKS + 1; /* one hit a visit, not one a read */
    if (atomic_load_explicit(&f->last_seg, memory_order_relaxed) != seg
        || (in == 0 && block % SEG_BLOCKS == 0)) {
        atomic_store_explicit(&f->last_seg, seg, memory_order_relaxed);
        atomic_fetch_add_explicit(&o->hits[block / SEG_BLOCKS], 1, memory_order_relaxed);
    }
    atomic_fetch_sub(&s->readers, 1);
    return h;
}

/* The block could not be read from the tier although it is said to be there. */
static void broken(struct object *o, uint32_t block)
{
    if (block_invalidate(o, block, false))
        log_warn("cache: block %u of %s can't be read from the cache; it is fetched again", block,
            o->path);
}

static void count_hit(struct object *o, uint32_t block, uint32_t in, uint32_t len)
{
    struct seg *s = object_seg(o, block);
    uint64_t bit = block_bit(block);
    if (!(atomic_load_explicit(&s->fresh, memory_order_relaxed) & bit))
        atomic_fetch_add_explicit(&o->c->hit_bytes, len, memory_order_relaxed);
    else if (in + len == block_len(o, block))
        atomic_fetch_and_explicit(&s->fresh, ~bit, memory_order_relaxed);
}

static int read_block(struct cache_file *f, uint32_t block, uint32_t more, char *dst, uint32_t in,
    uint32_t len, struct err *e)
{
    struct object *o = f->o;
    for (int tries = 0; tries < BUSY_TRIES; tries++) {
        switch (read_hit(f, block, dst, in, len)) {
        case HIT:
            count_hit(o, block, in, len);
            return 0;
        case UNTRUSTED:
            cache_will_block(o->c);
            block_verify(o, block);
            continue;
        case BROKEN:
            broken(o, block);
            continue;
        case MISS:
            break;
        }
        /* what a miss brings in is no hit */
        atomic_store_explicit(&f->last_seg, block / SEG_BLOCKS + 1, memory_order_relaxed);
        int64_t began = clock_mono_ns();
        cache_will_block(o->c);
        fetch_origin = 0;
        int rc = fetch_block(o, block, more, dst, in, len, e);
        stall.source_ns[fetch_origin] += clock_mono_ns() - began;
        if (rc <= 0)
            return rc;
    }
    return err_set(e, ERR_RETRY, "read %s: block %u comes and goes in the cache", o->path, block);
}

ssize_t cache_read(struct cache_file *f, void *buf, size_t len, uint64_t off, struct err *e)
{
    struct object *o = f->o;
    if (off >= o->id.size || !len)
        return 0;
    len = (size_t)MIN((uint64_t)len, o->id.size - off);
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
