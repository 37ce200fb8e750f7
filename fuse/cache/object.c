/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIDE_CHUNK 8192u /* records read at once */

static atomic_long own_memfds; /* of this process, all caches */

struct node *node_get(struct cache *c, uint32_t slot)
{
    struct slot *s = &c->slots[slot];
    if (s->node) {
        s->node->refs++;
        return s->node;
    }
    uint64_t blocks = s->size / CACHE_BLOCK + (s->size % CACHE_BLOCK != 0);
    uint32_t nsegs = (uint32_t)((blocks + SEG_BLOCKS - 1) / SEG_BLOCKS);
    struct node *n = calloc(1, sizeof *n + nsegs * sizeof n->segs[0]);
    if (!n)
        return NULL;
    n->c = c;
    n->slot = slot;
    n->refs = 1;
    n->id = slot_meta(c, slot);
    n->nblocks = (uint32_t)blocks;
    n->nsegs = nsegs;
    n->tier = s->valid ? s->tier : -1;
    n->was_trusted = s->flags & SLOT_TRUSTED;
    n->fd = -1;
    n->side_fd = -1;
    pthread_mutex_init(&n->mu, NULL);
    pthread_cond_init(&n->changed, NULL);
    s->node = n;
    return n;
}

void node_free(struct node *n)
{
    node_close_place(n->c, &(struct place){n->fd, n->side_fd, n->tier, n->own_fd, n->base});
    for (uint32_t i = 0; i < n->nsegs; i++)
        free(n->segs[i]);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->mu);
    free(n->path);
    free(n->version);
    free(n->failed);
    free(n);
}

struct seg *node_seg_make(struct node *n, uint32_t block)
{
    struct seg *s = node_seg(n, block);
    if (s)
        return s;
    uint32_t i = block / SEG_BLOCKS, blocks = MIN(SEG_BLOCKS, n->nblocks - i * SEG_BLOCKS);
    s = calloc(1, sizeof *s + blocks * sizeof s->crc[0]);
    if (!s)
        return NULL;
    s->unit = NONE;
    atomic_store(&n->segs[i], s);
    return s;
}

int64_t object_mtime(const struct stat *st)
{
    return st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

/* -- opening what is cached ------------------------------------------------------------------ */

static int load_side(struct node *n, bool trusted)
{
    unsigned char header[META_SIDE_HEADER], chunk[SIDE_CHUNK];
    if (pread(n->side_fd, header, sizeof header, 0) != (ssize_t)sizeof header
        || !meta_side_header_get(header, &n->id))
        return -1;
    const uint32_t per = SIDE_CHUNK / META_SIDE_RECORD;
    for (uint32_t b = 0; b < n->nblocks; b += per) {
        ssize_t got = pread(
            n->side_fd, chunk, sizeof chunk, META_SIDE_HEADER + (off_t)b * META_SIDE_RECORD);
        if (got <= 0)
            break;
        for (uint32_t i = 0;
             i < per && b + i < n->nblocks && (i + 1) * META_SIDE_RECORD <= (size_t)got; i++) {
            uint32_t crc;
            if (!meta_side_get(chunk + i * META_SIDE_RECORD, &n->id, b + i, &crc))
                continue;
            struct seg *s = node_seg_make(n, b + i);
            if (!s)
                return -1;
            s->crc[(b + i) % SEG_BLOCKS] = crc;
            atomic_fetch_or(&s->valid, block_bit(b + i));
            if (trusted)
                atomic_fetch_or(&s->trusted, block_bit(b + i));
            atomic_fetch_add(&n->nvalid, 1);
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

/* Disk: the files of an idle slot. -1: they are not what the slot says. */
static int load_disk(struct node *n)
{
    struct cache *c = n->c;
    struct stat st;
    cleanup_free char *path = tier_path(&c->tiers[n->tier], &n->id, n->slot, "");
    int fd = open_file(c, path, &n->cold);
    if (fd < 0)
        return -1;
    n->own_fd = true;
    atomic_store(&n->fd, fd);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != n->id.size)
        return -1;
    bool same = n->id.mtime_ns && n->id.mtime_ns == object_mtime(&st)
        && (n->id.valid == n->nblocks || n->was_trusted);
    if (n->nblocks == 1) {
        struct seg *s = node_seg_make(n, 0);
        if (!s)
            return -1;
        if (n->cold) /* its bytes begin to come while the answer is on its way */
            posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
        s->crc[0] = n->id.crc0;
        atomic_store(&s->trusted, same);
        atomic_store(&s->valid, 1);
        atomic_store(&n->nvalid, 1);
        return 0;
    }
    cleanup_free char *side = tier_path(&c->tiers[n->tier], &n->id, n->slot, ".m");
    cache_will_block(c);
    n->side_fd = open_file(c, side, &n->cold);
    return n->side_fd < 0 ? -1 : load_side(n, same);
}

/* Bytes that are here of segments [first, end). */
uint64_t object_bytes(struct node *n, uint32_t first, uint32_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = first; i < end; i++) {
        struct seg *seg = n->segs[i];
        uint64_t valid = seg ? atomic_load(&seg->valid) : 0;
        bytes += (uint64_t)__builtin_popcountll(valid) * CACHE_BLOCK;
        uint32_t last = n->nblocks - 1;
        if (i == last / SEG_BLOCKS && (valid & block_bit(last)))
            bytes -= CACHE_BLOCK - block_len(n, last);
    }
    return bytes;
}

/* The table may be behind the sidecar (or the sidecar damaged): what was found is what counts. */
static void reconcile(struct cache *c, struct node *n)
{
    pthread_mutex_lock(&c->mu);
    struct slot *s = &c->slots[n->slot];
    bool complete = node_complete(n), was = s->flags & SLOT_COMPLETE;
    uint32_t nvalid = atomic_load(&n->nvalid);
    if (complete && !was) {
        s->flags |= SLOT_COMPLETE;
        s->place = 0; /* not verified */
        c->ncomplete++;
    } else if (was && !complete) {
        s->flags &= (uint8_t)~SLOT_COMPLETE;
        c->ncomplete--;
    }
    if (!nvalid && s->valid)
        c->nwith_data--;
    if (complete && s->flags & SLOT_SPLIT)
        node_join_units(c, n);
    bool dead = s->flags & SLOT_DEAD; /* in no queue, and stays out */
    if (n->nsegs > 1 && !complete && s->flags & SLOT_SPLIT) {
        catalogue_find_units(c, n);
    } else if (n->nsegs > 1 && !complete && !dead) {
        catalogue_split(c, n);
    } else {
        struct tier *t = &c->tiers[s->tier];
        uint64_t pages = to_pages(object_bytes(n, 0, n->nsegs));
        t->used += pages - s->pages;
        s->pages = (uint32_t)pages;
        if (s->unit.queue == S3F_OUT && pages && !dead)
            slot_enqueue(c, n->slot);
        s3f_weigh(&t->queue, n->slot, s->pages);
    }
    c->slots[n->slot].valid = nvalid;
    pthread_mutex_unlock(&c->mu);
}

static void forget_loaded(struct node *n)
{
    struct cache *c = n->c;
    atomic_store(&n->nvalid, 0);
    if (n->own_fd)
        close(n->fd);
    if (n->side_fd >= 0)
        close(n->side_fd);
    atomic_store(&n->fd, -1);
    n->side_fd = -1;
    n->own_fd = false;
    tier_remove(&c->tiers[n->tier], &n->id, n->slot, 0);
    pthread_mutex_lock(&c->mu);
    for (uint32_t i = 0; i < n->nsegs; i++) { /* under the lock: the queue looks into segments */
        free(n->segs[i]);
        n->segs[i] = NULL;
    }
    while (c->slots[n->slot].owner != NONE) {
        uint32_t id = c->slots[n->slot].owner;
        c->tiers[c->slots[id].tier].used -= c->slots[id].pages;
        slot_seg_free(c, id);
    }
    struct slot *s = &c->slots[n->slot];
    struct tier *t = &c->tiers[s->tier];
    s3f_remove(&t->queue, n->slot);
    t->used -= s->pages;
    s->flags &= (uint8_t)~SLOT_SPLIT;
    if (s->flags & SLOT_COMPLETE)
        c->ncomplete--;
    c->nwith_data--;
    s->flags &= (uint8_t)~SLOT_COMPLETE;
    s->pages = s->valid = 0;
    pthread_mutex_unlock(&c->mu);
    n->tier = -1;
}

/* n->mu is held. */
static int load(struct node *n, struct err *e)
{
    struct cache *c = n->c;
    if (n->tier < 0)
        return 0;
    struct tier *t = &c->tiers[n->tier];
    if (!t->dir) { /* memory, one block: the rest is resident */
        struct seg *s = node_seg_make(n, 0);
        if (!s)
            return err_sys(e, ENOMEM, "open a cached file");
        n->base = (uint64_t)n->id.mtime_ns;
        s->crc[0] = n->id.crc0;
        atomic_store(&s->trusted, 1);
        atomic_store(&s->valid, 1);
        atomic_store(&n->nvalid, 1);
        atomic_store(&n->fd, t->arenas[n->id.path[0] % ARENAS]);
        return 0;
    }
    if (load_disk(n)) {
        if (errno == EMFILE || errno == ENFILE)
            return err_sys(e, errno, "open a cached file: raise the limit of open files");
        log_info("cache: a file in %s is not what the table says; it is fetched again", t->dir);
        forget_loaded(n);
        return 0;
    }
    reconcile(c, n);
    return 0;
}

int node_load(struct node *n, struct err *e)
{
    pthread_mutex_lock(&n->mu);
    int rc = 0;
    if (!n->loaded) {
        rc = load(n, e);
        n->loaded = rc == 0;
    }
    pthread_mutex_unlock(&n->mu);
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
static int create_memory(struct node *n, struct tier *t, struct place *out)
{
    if (n->nblocks > 1 && memfd_allowed()) {
        out->fd = memfd_create("millrace-cache", MFD_CLOEXEC);
        if (out->fd < 0)
            return -1;
        if (ftruncate(out->fd, (off_t)n->id.size)) {
            close(out->fd);
            return -1;
        }
        atomic_fetch_add(&own_memfds, 1);
        out->own_fd = true;
        return 0;
    }
    out->fd = tier_arena(t, n->id.path[0], n->id.size, &out->base);
    return out->fd < 0 ? -1 : 0;
}

static int create_disk(struct node *n, struct tier *t, struct place *out)
{
    cleanup_free char *path = tier_path(t, &n->id, n->slot, "");
    cleanup_free char *side = tier_path(t, &n->id, n->slot, ".m");
    out->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out->fd < 0)
        return -1;
    if (n->nblocks > 1) { /* one block is written in one go, which gives the file its size */
        if (ftruncate(out->fd, (off_t)n->id.size))
            goto failed;
        unsigned char header[META_SIDE_HEADER];
        const char *mount = n->mount < n->c->nmounts ? n->c->mounts[n->mount] : "";
        meta_side_header_put(
            header, &n->id, mount, n->path ? n->path : "", n->version ? n->version : "");
        out->side_fd = open(side, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (out->side_fd < 0)
            goto failed;
        errno = ENOSPC;
        if (pwrite(out->side_fd, header, sizeof header, 0) != (ssize_t)sizeof header)
            goto failed;
    }
    out->own_fd = true;
    return 0;
failed:;
    int saved = errno;
    unlink(path);
    if (out->side_fd >= 0) {
        unlink(side);
        close(out->side_fd);
    }
    close(out->fd);
    errno = saved;
    return -1;
}

int node_create(struct node *n, int tier, struct place *out)
{
    struct tier *t = &n->c->tiers[tier];
    *out = (struct place){.fd = -1, .side_fd = -1, .tier = tier};
    return t->dir ? create_disk(n, t, out) : create_memory(n, t, out);
}

void node_place(struct node *n, const struct place *p)
{
    struct slot *s = &n->c->slots[n->slot];
    bool memory = !n->c->tiers[p->tier].dir;
    n->tier = p->tier;
    n->side_fd = p->side_fd;
    n->own_fd = p->own_fd;
    n->base = p->base;
    n->resident = memory && n->nblocks > 1;
    atomic_store(&n->fd, p->fd);
    s->tier = (uint8_t)p->tier;
    s->place = memory ? (int64_t)p->base : 0;
}

void node_close_place(struct cache *c, const struct place *p)
{
    if (p->own_fd) {
        close(p->fd);
        if (!c->tiers[p->tier].dir)
            atomic_fetch_sub(&own_memfds, 1);
    }
    if (p->side_fd >= 0)
        close(p->side_fd);
}

int node_open_data(struct node *n, int tier)
{
    struct place p;
    if (node_create(n, tier, &p))
        return -1;
    pthread_mutex_lock(&n->c->mu);
    node_place(n, &p);
    pthread_mutex_unlock(&n->c->mu);
    return 0;
}

/* -- the end --------------------------------------------------------------------------------- */

void node_ref(struct node *n)
{
    pthread_mutex_lock(&n->c->mu);
    n->refs++;
    pthread_mutex_unlock(&n->c->mu);
}
