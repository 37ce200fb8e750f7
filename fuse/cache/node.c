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

static int64_t mtime_of(const struct stat *st)
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
    bool same = n->id.mtime_ns && n->id.mtime_ns == mtime_of(&st)
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
static uint64_t valid_bytes(struct node *n, uint32_t first, uint32_t end)
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

/* The queue's units of a partial file of many segments are its segments; cache.mu is held. The
 * first unit of an idle file stood for all of it. */
static void split_units(struct cache *c, struct node *n)
{
    struct slot *s = &c->slots[n->slot];
    struct tier *t = &c->tiers[s->tier];
    s3f_remove(&t->queue, n->slot);
    uint64_t pages = 0;
    for (uint32_t i = 0; i < n->nsegs; i++) {
        struct seg *seg = n->segs[i];
        uint64_t bytes = valid_bytes(n, i, i + 1);
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
static void find_units(struct cache *c, struct node *n)
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
        find_units(c, n);
    } else if (n->nsegs > 1 && !complete && !dead) {
        split_units(c, n);
    } else {
        struct tier *t = &c->tiers[s->tier];
        uint64_t pages = to_pages(valid_bytes(n, 0, n->nsegs));
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

/* -- counting -------------------------------------------------------------------------------- */

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
    int64_t mtime = fstat(n->fd, &st) ? 0 : mtime_of(&st);
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
            split_units(c, n);
    }
    pthread_mutex_unlock(&c->mu);
}

/* -- the end --------------------------------------------------------------------------------- */

void node_ref(struct node *n)
{
    pthread_mutex_lock(&n->c->mu);
    n->refs++;
    pthread_mutex_unlock(&n->c->mu);
}

/* All that is there of the file was written or verified by us: whoever opens it next need not do so
 * again. */
static bool trust_all(struct node *n, int64_t *mtime)
{
    if (n->fd < 0 || n->tier < 0 || !n->c->tiers[n->tier].dir)
        return false;
    for (uint32_t i = 0; i < n->nsegs; i++) {
        struct seg *s = n->segs[i];
        if (s && atomic_load(&s->trusted) != atomic_load(&s->valid))
            return false;
    }
    struct stat st;
    if (fstat(n->fd, &st))
        return false;
    *mtime = mtime_of(&st);
    return true;
}

void node_put(struct node *n)
{
    struct cache *c = n->c;
    uint32_t id = n->slot;
    int64_t mtime = 0;
    pthread_mutex_lock(&c->mu);
    if (n->refs > 1) {
        n->refs--;
        pthread_mutex_unlock(&c->mu);
        return;
    }
    bool complete = c->slots[id].flags & SLOT_COMPLETE, stale = !complete || !c->slots[id].place;
    pthread_mutex_unlock(&c->mu);
    bool trusted = stale && trust_all(n, &mtime); /* our ref is still held */

    pthread_mutex_lock(&c->mu);
    if (--n->refs) {
        pthread_mutex_unlock(&c->mu);
        return;
    }
    struct slot *s = &c->slots[id];
    if (trusted) {
        s->place = mtime;
        s->flags |= SLOT_TRUSTED;
    } else if (stale && n->own_fd) {
        s->flags &= (uint8_t)~SLOT_TRUSTED;
    }
    if (s->flags & (SLOT_DEAD | SLOT_DROP) || !s->valid) {
        evict_slot(c, id); /* unlocks */
        return;
    }
    evict_promote(c, id);
    if (n->resident) {
        pthread_mutex_unlock(&c->mu);
        return;
    }
    s->node = NULL;
    if (n->nblocks == 1 && n->segs[0]) /* NULL: it was never loaded */
        s->crc0 = n->segs[0]->crc[0];
    pthread_mutex_unlock(&c->mu);
    node_free(n);
    if (trusted && complete)
        slot_persist(c, id);
}
