/* SPDX-License-Identifier: Apache-2.0 */
/* An open object version: what is cached of it is looked up when it is opened, its files are
 * created when the first bytes come. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIDECAR_CHUNK 8192u /* records read at once */

static atomic_long own_memfds; /* of this process, all caches */

static struct object *object_new(struct cache *c, uint32_t entry, const struct catalogue_info *info)
{
    uint64_t size = info->meta.size, blocks = size / CACHE_BLOCK + (size % CACHE_BLOCK != 0);
    uint32_t nsegs = (uint32_t)((blocks + SEG_BLOCKS - 1) / SEG_BLOCKS);
    struct object *o = calloc(1, sizeof *o + nsegs * sizeof o->segs[0]);
    if (!o)
        return NULL;
    o->c = c;
    o->entry = entry;
    o->hits = info->hits;
    o->id = info->meta;
    o->nblocks = (uint32_t)blocks;
    o->nsegs = nsegs;
    o->tier = info->meta.valid ? info->tier : -1;
    o->was_trusted = info->is_trusted;
    o->fd = -1;
    o->sidecar_fd = -1;
    pthread_mutex_init(&o->mu, NULL);
    pthread_cond_init(&o->changed, NULL);
    return o;
}

struct object *object_get(
    struct cache *c, uint32_t entry, struct object *object, const struct catalogue_info *info)
{
    if (object)
        return object;
    struct catalogue_info now;
    if (!info)
        now = catalogue_info(c->catalogue, entry);
    struct object *o = object_new(c, entry, info ? info : &now);
    if (!o)
        return NULL;
    struct object *first = catalogue_attach(c->catalogue, entry, o);
    if (first != o)
        object_free(o);
    return first;
}

void object_free(struct object *o)
{
    struct location at = object_location(o);
    location_close(o->c, &at);
    for (uint32_t i = 0; i < o->nsegs; i++)
        free(o->segs[i]);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->mu);
    free(o->path);
    free(o->version);
    free(o->failed);
    free(o);
}

struct seg *object_seg_make(struct object *o, uint32_t block)
{
    mutex_assert_held(&o->mu);
    struct seg *s = object_seg(o, block);
    if (s)
        return s;
    uint32_t i = block / SEG_BLOCKS, blocks = MIN(SEG_BLOCKS, o->nblocks - i * SEG_BLOCKS);
    s = calloc(1, sizeof *s + blocks * sizeof s->crc[0]);
    if (s)
        atomic_store(&o->segs[i], s);
    return s;
}

static int64_t mtime_of(const struct stat *st) { return clock_of_timespec(st->st_mtim); }

int64_t location_mtime(int fd)
{
    struct stat st;
    return fstat(fd, &st) ? 0 : mtime_of(&st);
}

uint64_t object_pages(const struct object *o, uint64_t blocks)
{
    return MIN(blocks * (CACHE_BLOCK / PAGE), to_pages(o->id.size));
}

int object_write_sidecar(
    struct object *o, uint32_t block, const unsigned char record[META_SIDECAR_RECORD])
{
    if (o->sidecar_fd < 0)
        return 0;
    return io_pwrite(o->sidecar_fd, record, META_SIDECAR_RECORD,
        META_SIDECAR_HEADER + (uint64_t)block * META_SIDECAR_RECORD);
}

/* -- opening what is cached ------------------------------------------------------------------ */

static int load_sidecar(struct object *o, bool trusted)
{
    unsigned char header[META_SIDECAR_HEADER], chunk[SIDECAR_CHUNK];
    if (pread(o->sidecar_fd, header, sizeof header, 0) != (ssize_t)sizeof header
        || !meta_sidecar_header_get(header, &o->id))
        return -1;
    const uint32_t per = SIDECAR_CHUNK / META_SIDECAR_RECORD;
    for (uint32_t b = 0; b < o->nblocks; b += per) {
        ssize_t got = pread(o->sidecar_fd, chunk, sizeof chunk,
            META_SIDECAR_HEADER + (off_t)b * META_SIDECAR_RECORD);
        if (got <= 0)
            break;
        for (uint32_t i = 0;
             i < per && b + i < o->nblocks && (i + 1) * META_SIDECAR_RECORD <= (size_t)got; i++) {
            uint32_t crc;
            if (!meta_sidecar_get(chunk + i * META_SIDECAR_RECORD, &o->id, b + i, &crc))
                continue;
            struct seg *s = object_seg_make(o, b + i);
            if (!s)
                return -1;
            s->crc[(b + i) % SEG_BLOCKS] = crc;
            atomic_fetch_or(&s->valid, block_bit(b + i));
            if (trusted)
                atomic_fetch_or(&s->trusted, block_bit(b + i));
            atomic_fetch_add(&o->nvalid, 1);
        }
    }
    return 0;
}

/* Without waiting for the disk where the kernel still knows the way; if not, *cold. */
static int open_file(const struct cache *c, const char *path, bool *cold)
{
    struct open_how how = {.flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW, .resolve = RESOLVE_CACHED};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd >= 0 || errno == ENOENT)
        return fd;
    cache_will_block(c);
    *cold = true;
    return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

/* Disk: the files of an idle entry. -1: they are not what the entry says. */
static int load_disk(struct object *o)
{
    struct cache *c = o->c;
    struct stat st;
    cleanup_free char *path = media_path(&c->media[o->tier], &o->id, o->entry, "");
    int fd = open_file(c, path, &o->cold);
    if (fd < 0)
        return -1;
    o->own_fd = true;
    atomic_store(&o->fd, fd);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != o->id.size)
        return -1;
    bool same = o->id.mtime_ns && o->id.mtime_ns == mtime_of(&st)
        && (o->id.valid == o->nblocks || o->was_trusted);
    if (o->nblocks == 1) {
        struct seg *s = object_seg_make(o, 0);
        if (!s)
            return -1;
        if (o->cold) /* its bytes begin to come while the answer is on its way */
            posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
        s->crc[0] = o->id.crc0;
        atomic_store(&s->trusted, same);
        atomic_store(&s->valid, 1);
        atomic_store(&o->nvalid, 1);
        return 0;
    }
    cleanup_free char *sidecar = media_path(&c->media[o->tier], &o->id, o->entry, ".m");
    cache_will_block(c);
    o->sidecar_fd = open_file(c, sidecar, &o->cold);
    return o->sidecar_fd < 0 ? -1 : load_sidecar(o, same);
}

/* Memory, one block: the rest is resident. */
static int load_memory(struct object *o)
{
    struct seg *s = object_seg_make(o, 0);
    if (!s)
        return -1;
    o->base = (uint64_t)o->id.mtime_ns;
    s->crc[0] = o->id.crc0;
    atomic_store(&s->trusted, 1);
    atomic_store(&s->valid, 1);
    atomic_store(&o->nvalid, 1);
    atomic_store(&o->fd, o->c->media[o->tier].arenas[o->id.path[0] % ARENAS]);
    return 0;
}

static uint32_t seg_pages(struct object *o, uint32_t i)
{
    struct seg *s = o->segs[i];
    uint64_t valid = s ? atomic_load(&s->valid) : 0;
    uint64_t bytes = (uint64_t)__builtin_popcountll(valid) * CACHE_BLOCK;
    uint32_t last = o->nblocks - 1;
    if (i == last / SEG_BLOCKS && (valid & block_bit(last)))
        bytes -= CACHE_BLOCK - block_len(o, last);
    return (uint32_t)to_pages(bytes);
}

/* As if nothing had been opened. */
static void unload(struct object *o)
{
    struct location at = object_location(o);
    location_close(o->c, &at);
    object_locate(o, &(struct location){.fd = -1, .sidecar_fd = -1, .tier = o->tier});
    atomic_store(&o->nvalid, 0);
    for (uint32_t i = 0; i < o->nsegs; i++) {
        free(o->segs[i]);
        o->segs[i] = NULL;
    }
}

static int load(struct object *o, struct err *e)
{
    struct cache *c = o->c;
    if (o->tier < 0)
        return 0;
    const struct media *m = &c->media[o->tier];
    if (!m->dir)
        return load_memory(o) ? err_sys(e, ENOMEM, "open a cached file") : 0;
    cleanup_free uint32_t *pages = calloc(o->nsegs, sizeof *pages);
    if (!pages)
        return err_sys(e, ENOMEM, "open a cached file");
    if (load_disk(o)) {
        int why = errno;
        unload(o);
        if (why == EMFILE || why == ENFILE)
            return err_sys(e, why, "open a cached file: raise the limit of open files");
        log_info("cache: a file in %s is not what the table says; it is fetched again", m->dir);
        media_remove(m, &o->id, o->entry, 0);
        catalogue_forget(c->catalogue, o->entry);
        o->tier = -1;
        return 0;
    }
    for (uint32_t i = 0; i < o->nsegs; i++)
        pages[i] = seg_pages(o, i);
    /* the table may be behind the sidecar, or the sidecar damaged: what was found counts */
    catalogue_reconcile(c->catalogue, o->entry, atomic_load(&o->nvalid), pages);
    return 0;
}

int object_load(struct object *o, struct err *e)
{
    pthread_mutex_lock(&o->mu);
    int rc = 0;
    if (!o->loaded) {
        rc = load(o, e);
        o->loaded = rc == 0;
    }
    pthread_mutex_unlock(&o->mu);
    return rc;
}

/* -- creating -------------------------------------------------------------------------------- */

static bool memfd_allowed(void)
{
    struct rlimit lim;
    long most = getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 1u << 20
        ? (long)lim.rlim_cur / 4
        : 1 << 18;
    return atomic_load(&own_memfds) < most;
}

/* Memory: large files get a memfd of their own (it can be handed out for passthrough), small ones
 * share an arena. */
static int create_memory(struct object *o, struct media *m, struct location *out)
{
    if (o->nblocks > 1 && memfd_allowed()) {
        out->fd = memfd_create("millrace-cache", MFD_CLOEXEC);
        if (out->fd < 0)
            return -1;
        if (ftruncate(out->fd, (off_t)o->id.size)) {
            close(out->fd);
            return -1;
        }
        atomic_fetch_add(&own_memfds, 1);
        out->own_fd = true;
        return 0;
    }
    out->fd = media_arena(m, o->id.path[0], o->id.size, &out->base);
    return out->fd < 0 ? -1 : 0;
}

static int create_disk(struct object *o, struct media *m, struct location *out)
{
    cleanup_free char *path = media_path(m, &o->id, o->entry, "");
    cleanup_free char *sidecar = media_path(m, &o->id, o->entry, ".m");
    out->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out->fd < 0)
        return -1;
    if (o->nblocks > 1) { /* one block is written in one go, which gives the file its size */
        if (ftruncate(out->fd, (off_t)o->id.size))
            goto failed;
        unsigned char header[META_SIDECAR_HEADER];
        const char *mount = o->mount < o->c->nmounts ? o->c->mounts[o->mount] : "";
        meta_sidecar_header_put(
            header, &o->id, mount, o->path ? o->path : "", o->version ? o->version : "");
        out->sidecar_fd = open(sidecar, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (out->sidecar_fd < 0)
            goto failed;
        errno = ENOSPC;
        if (pwrite(out->sidecar_fd, header, sizeof header, 0) != (ssize_t)sizeof header)
            goto failed;
    }
    out->own_fd = true;
    return 0;
failed:;
    int saved = errno;
    unlink(path);
    if (out->sidecar_fd >= 0) {
        unlink(sidecar);
        close(out->sidecar_fd);
    }
    close(out->fd);
    errno = saved;
    return -1;
}

int object_create(struct object *o, int tier, struct location *out)
{
    struct media *m = &o->c->media[tier];
    *out = (struct location){.fd = -1, .sidecar_fd = -1, .tier = tier};
    return m->dir ? create_disk(o, m, out) : create_memory(o, m, out);
}

struct location object_location(const struct object *o)
{
    return (struct location){o->fd, o->sidecar_fd, o->tier, o->own_fd, o->base};
}

void object_locate(struct object *o, const struct location *at)
{
    o->tier = at->tier;
    o->sidecar_fd = at->sidecar_fd;
    o->own_fd = at->own_fd;
    o->base = at->base;
    atomic_store(&o->fd, at->fd);
}

void object_place(struct object *o, const struct location *at)
{
    mutex_assert_held(&o->mu);
    catalogue_place(
        o->c->catalogue, o->entry, at->tier, location_key(o->c, at), location_is_resident(o, at));
    object_locate(o, at);
}

bool location_is_resident(const struct object *o, const struct location *at)
{
    return !o->c->media[at->tier].dir && o->nblocks > 1;
}

int64_t location_key(const struct cache *c, const struct location *at)
{
    return c->media[at->tier].dir ? 0 : (int64_t)at->base;
}

void location_close(struct cache *c, const struct location *at)
{
    if (at->own_fd) {
        close(at->fd);
        if (!c->media[at->tier].dir)
            atomic_fetch_sub(&own_memfds, 1);
    }
    if (at->sidecar_fd >= 0)
        close(at->sidecar_fd);
}

int object_open_data(struct object *o, int tier)
{
    struct location at;
    if (object_create(o, tier, &at))
        return -1;
    object_place(o, &at);
    return 0;
}
