/* SPDX-License-Identifier: Apache-2.0 */
/* Scrubbing: what is here is read again, what is in use first and often, all else slowly. The
 * kernel reads complete files by itself and asks nobody for checksums: their bad blocks are not
 * taken away, which would leave its readers with them, but get the right bytes in place. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define CPU_SHARE    50                   /* one part in so many of a processor, at most */
#define DISK_BYTES_S (INT64_C(32) << 20)  /* of what the page cache does not have */
#define STEP_BLOCKS  16u                  /* with one reference */
#define COLD_NS      (60 * 60 * NS_PER_S) /* from one reading of all to the next, at least */
#define LOG_NS       (60 * NS_PER_S)

struct scrub_cursor {
    uint32_t entry, block;
    int64_t began_ns; /* this pass */
};

struct scrub {
    struct cache *c;
    struct scrub_cursor hot, cold;
    int64_t logged_ns;
    char *buf;
};

static int64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return clock_of_timespec(t);
}

/* Its bytes; *disk: some had to come from the disk. */
static bool scrub_read(const struct object *o, char *buf, uint32_t len, uint64_t off, bool *disk)
{
    struct iovec iov = {buf, len};
    *disk = preadv2(o->fd, &iov, 1, (off_t)off, RWF_NOWAIT) != (ssize_t)len;
    return !*disk || io_pread_exact(o->fd, buf, len, off) == 0;
}

enum finding { FOUND_NOTHING, FOUND_GOOD, FOUND_ROTTEN };

static enum finding look_at(struct scrub *s, struct object *o, uint32_t block, bool *disk)
{
    struct seg *seg = object_seg(o, block);
    uint64_t bit = block_bit(block), off = o->base + (uint64_t)block * CACHE_BLOCK;
    uint32_t len = block_len(o, block);
    *disk = false;
    if (!seg)
        return FOUND_NOTHING;
    atomic_fetch_add(&seg->readers, 1);
    bool here = atomic_load(&seg->valid) & bit;
    bool good = here && scrub_read(o, s->buf, len, off, disk)
        && crc32c(0, s->buf, len) == seg->crc[block % SEG_BLOCKS];
    if (good)
        atomic_fetch_or(&seg->trusted, bit);
    if (here && *disk) /* nobody else had it there */
        posix_fadvise(o->fd, (off_t)off, len, POSIX_FADV_DONTNEED);
    atomic_fetch_sub(&seg->readers, 1);
    if (here)
        atomic_fetch_add(&s->c->scrubbed_bytes, len);
    return !here ? FOUND_NOTHING : good ? FOUND_GOOD : FOUND_ROTTEN;
}

/* The source's bytes of a block, into s->buf. */
static int fetch_again(struct scrub *s, struct object *o, uint32_t block)
{
    struct cache *c = s->c;
    uint32_t len = block_len(o, block);
    struct cache_key key = {o->mount, o->path, o->version, o->id.size};
    struct sink_memory memory = {s->buf, len};
    struct cache_sink sink = {.take = sink_to_memory, .user = &memory, .is_ahead = true};
    struct err e = ERR_INIT;
    if (c->source.fetch(
            c->source.user, &key, (uint64_t)block * CACHE_BLOCK, len, &sink, &c->cancel, &e)) {
        log_kv(LOG_WARN, "a bad block in the cache could not be read again", "error", e.msg, NULL);
        return -1;
    }
    atomic_fetch_add(&c->fetched_bytes, len);
    return 0;
}

/* Writes s->buf over a block, if that is what was there. Its file's mtime stays: what else is in it
 * is as good as before. */
static void write_again(struct scrub *s, struct object *o, uint32_t block)
{
    uint32_t len = block_len(o, block), crc = crc32c(0, s->buf, len);
    struct stat st;
    pthread_mutex_lock(&o->mu);
    struct seg *seg = object_seg(o, block);
    bool here = atomic_load(&seg->valid) & block_bit(block);
    bool same = crc == seg->crc[block % SEG_BLOCKS];
    if (here && same && fstat(o->fd, &st) == 0) {
        if (io_pwrite(o->fd, s->buf, len, o->base + (uint64_t)block * CACHE_BLOCK) == 0)
            atomic_fetch_or(&seg->trusted, block_bit(block));
        futimens(o->fd, (struct timespec[]){st.st_atim, st.st_mtim});
    }
    pthread_mutex_unlock(&o->mu);
    if (!same)
        log_warn("cache: what the store has of block %u of %s has other bytes than it had", block,
            o->path);
}

static void scrub_tell(struct scrub *s, const struct object *o, uint32_t block)
{
    int64_t now = clock_mono_ns();
    if (s->logged_ns && now - s->logged_ns < LOG_NS)
        return;
    s->logged_ns = now;
    log_warn("cache: block %u of %s has other bytes than were written: the disk or the memory of "
             "this node has lost some; it is read again from the store",
        block, o->path ? o->path : "a file");
}

static void mend(struct scrub *s, struct object *o, uint32_t block)
{
    struct seg *seg = object_seg(o, block);
    scrub_tell(s, o, block);
    atomic_fetch_add(&s->c->rotten_blocks, 1);
    if (!object_is_complete(o) || open_find_names(o)) {
        block_invalidate(o, block, false);
        return;
    }
    atomic_fetch_and(&seg->trusted, ~block_bit(block));
    atomic_fetch_add(&s->c->corrupt_blocks, 1);
    if (fetch_again(s, o, block) == 0)
        write_again(s, o, block);
}

/* true: stop */
static bool scrub_block(struct scrub *s, struct object *o, uint32_t block)
{
    bool disk;
    int64_t began = clock_mono_ns(), cpu = thread_ns();
    enum finding found = look_at(s, o, block, &disk);
    if (found == FOUND_NOTHING)
        return atomic_load(&s->c->scrub.stop);
    if (found == FOUND_ROTTEN)
        mend(s, o, block);
    int64_t rest = (thread_ns() - cpu) * CPU_SHARE;
    if (disk)
        rest = MAX(rest, block_len(o, block) * NS_PER_S / DISK_BYTES_S);
    return task_wait(&s->c->scrub, began + rest);
}

/* The next blocks. */
static void scrub_step(struct scrub *s, struct scrub_cursor *at, bool in_use)
{
    struct cache *c = s->c;
    struct catalogue_info info;
    uint32_t from = at->entry, id = catalogue_visit(c->catalogue, &from, in_use, &info);
    if (id == NO_ENTRY) {
        at->entry = from;
        at->block = 0;
        return;
    }
    if (id != at->entry)
        at->block = 0;
    at->entry = id;
    struct object *o = object_get(c, id, info.object, &info);
    bool there = o && object_load(o, NULL) == 0 && o->tier >= 0 && object_is_on_disk(o);
    uint32_t end = there ? MIN(o->nblocks, at->block + STEP_BLOCKS) : 0;
    while (at->block < end && !scrub_block(s, o, at->block++))
        ;
    bool more = there && end < o->nblocks;
    at->entry = more ? id : from;
    at->block = more ? end : 0;
    evict_put(c, id, o);
}

/* A pass began, or one goes on. */
static bool is_due(struct scrub_cursor *at, int64_t every_ns)
{
    int64_t now = clock_mono_ns();
    if (at->entry == NO_ENTRY && now - at->began_ns < every_ns)
        return false;
    if (at->entry == NO_ENTRY)
        *at = (struct scrub_cursor){.began_ns = now};
    return true;
}

void scrub_run(void *user)
{
    struct cache *c = user;
    struct scrub s = {.c = c,
        .hot = {.entry = NO_ENTRY, .began_ns = INT64_MIN / 2},
        .cold = {.entry = NO_ENTRY, .began_ns = INT64_MIN / 2}};
    s.buf = malloc(CACHE_BLOCK);
    while (s.buf && !atomic_load(&c->scrub.stop)) {
        if (is_due(&s.hot, c->scrub_ns))
            scrub_step(&s, &s.hot, true);
        else if (is_due(&s.cold, COLD_NS))
            scrub_step(&s, &s.cold, false);
        else if (task_wait(&c->scrub, s.hot.began_ns + c->scrub_ns))
            break;
    }
    free(s.buf);
}
