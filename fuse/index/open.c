/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the index file, which is mapped whole and sparse: whether what is in it can be
 * used again, and the empty index that it is begun with otherwise. */
#include "fuse/index/format.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* records: it takes 0.3 s, and readers wait for that; of more the checksum has to do */
#define CHECKED_MAX   (1u << 20)
#define FILE_SIZE     (UINT64_C(57) << 30)
#define FIRST_BUCKETS 1024
#define UNREADABLE    "its disk cannot be read"
#define NONE          "there is none"

static uint32_t index_sum(const struct inodes *ix)
{
    struct index_head h = *ix->h;
    h.clean = h.sum = 0;
    uint32_t crc = crc32c(0, &h, offsetof(struct index_head, life));
    crc = crc32c(crc, ix->recs, (size_t)h.nrecs * sizeof *ix->recs);
    crc = crc32c(crc, ix->heap, (size_t)h.heap_units * 8);
    return crc32c(crc, ix->buckets, (size_t)h.nbuckets * sizeof *ix->buckets);
}

/* Brings a part of the file into memory; false: its disk has an I/O error there, and who looked at
 * it would be killed by SIGBUS. An older kernel is believed. */
static bool is_readable(const void *from, uint64_t bytes)
{
    uintptr_t first = (uintptr_t)from & ~(uintptr_t)4095;
    uintptr_t end = ((uintptr_t)from + bytes + 4095) & ~(uintptr_t)4095;
    return madvise((void *)first, end - first, MADV_POPULATE_READ) == 0 || errno == EINVAL;
}

/* Nothing was written to it; to read that where a tmpfs is full would kill us, too. */
static bool is_hole(const struct inodes *ix)
{
    struct stat st;
    return fstat(ix->fd, &st) == 0 && st.st_blocks == 0;
}

/* Why the file cannot be used, NULL if it can. */
static const char *why_distrusted(const struct inodes *ix, const struct inodes_conf *conf)
{
    const struct index_head *h = ix->h;
    char boot[sizeof h->boot];
    if (is_hole(ix))
        return NONE;
    if (!is_readable(h, sizeof *h))
        return UNREADABLE;
    if (h->magic == INDEX_MAGIC && h->version > INDEX_VERSION_EDITED)
        return "a newer release made it";
    if (h->magic != INDEX_MAGIC
        || (h->version != INDEX_VERSION && h->version != INDEX_VERSION_EDITED)
        || h->rec_size != sizeof(struct rec))
        return "its format is another one";
    if (h->identity != conf->identity && !(conf->resume && conf->mounts && h->nslots))
        return "it belongs to other mounts";
    if (!conf->resume && (h->version == INDEX_VERSION_EDITED || !index_slots_ok(ix)))
        return "its mounts were edited";
    if (h->nslots > INDEX_SLOTS_MAX)
        return "it is damaged";
    boot_id(boot, sizeof boot);
    if (!h->clean && strcmp(boot, h->boot) != 0)
        return "the machine went down while it was in use";
    if (!conf->resume && !h->clean)
        return "it was not closed in good order";
    for (int i = 0; i < REGION_COUNT; i++)
        if (h->have[i] > index_regions[i].max)
            return "it is damaged";
    if (h->nrecs < 2 || !h->heap_units
        || (uint64_t)h->nrecs * sizeof(struct rec) > h->have[REGION_RECS] || !h->nbuckets
        || (uint64_t)h->nbuckets * sizeof(uint32_t) > h->have[REGION_BUCKETS]
        || (uint64_t)h->heap_units * 8 > h->have[REGION_HEAP])
        return "it is damaged";
    if (!is_readable(ix->recs, (uint64_t)h->nrecs * sizeof(struct rec))
        || !is_readable(ix->heap, (uint64_t)h->heap_units * 8)
        || !is_readable(ix->buckets, (uint64_t)h->nbuckets * sizeof(uint32_t)))
        return UNREADABLE;
    if (h->clean && index_sum(ix) != h->sum)
        return "its checksum is wrong";
    return h->clean && atomic_load(&h->busy) ? "it is damaged" : NULL;
}

/* False: index_rebuild() has to come first, as a process was killed in the middle of a change or
 * something was damaged. */
static bool index_is_sound(const struct inodes *ix)
{
    return !atomic_load(&ix->h->busy) && (ix->h->nrecs > CHECKED_MAX || index_check(ix));
}

static int make_empty(struct inodes *ix, const struct inodes_conf *conf, struct err *e)
{
    if (ftruncate(ix->fd, 0) || ftruncate(ix->fd, (off_t)FILE_SIZE)
        || index_blocks(ix->fd, 0, 4096))
        return err_sys(e, errno, "make the index %s", conf->path);
    struct index_head *h = ix->h;
    memset(h, 0, sizeof *h);
    h->magic = INDEX_MAGIC;
    h->version = INDEX_VERSION;
    h->rec_size = sizeof(struct rec);
    h->identity = conf->identity;
    h->nrecs = 2;
    h->nbuckets = FIRST_BUCKETS;
    h->heap_units = 1; /* unit 0 is none */
    h->epoch = 1;
    h->live = 1;
    if (index_reserve(ix, REGION_RECS, 2 * sizeof(struct rec), e)
        || index_reserve(ix, REGION_HEAP, 8, e)
        || index_reserve(ix, REGION_BUCKETS, FIRST_BUCKETS * sizeof(uint32_t), e))
        return -1;
    struct rec *root = &ix->recs[INODE_ROOT];
    memset(root, 0, sizeof *root);
    root->parent = INODE_ROOT;
    root->generation = 1;
    root->flags = INODE_USED | INODE_DIR | INODE_MOUNT;
    root->mode = (uint16_t)(S_IFDIR | conf->dir_mode);
    root->uid = conf->uid;
    root->gid = conf->gid;
    root->mount = INODE_NO_MOUNT;
    root->epoch = 1;
    root->mtime_ns = clock_real_ns();
    return 0;
}

/* Index of the last mount, used again: ids of names without an inode in the kernel are not needed
 * any more. */
static void next_epoch(struct inodes *ix)
{
    struct index_head *h = ix->h;
    h->epoch++;
    for (uint32_t i = 1; i < h->nrecs && (h->unlinked || h->epoch == 0); i++) {
        struct rec *r = &ix->recs[i];
        if (h->epoch == 0)
            r->epoch = 0; /* wrapped: none may have the epoch that comes */
        if (!(r->flags & INODE_UNLINKED))
            continue;
        if (!(r->flags & INODE_DROPPED)) /* that has no name */
            index_text_free(ix, r->name, r->name_len);
        if (!(r->flags & INODE_DIR))
            index_version_clear(ix, r);
        r->flags = 0;
        r->generation++;
        r->next = h->free_rec;
        h->free_rec = i;
        h->unlinked--;
        h->live--;
    }
    if (h->epoch == 0)
        h->epoch = 1;
}

/* A number that no other index on this disk has had: content is staged under names with it. */
static int begin_life(struct index_head *h, struct err *e)
{
    while (!h->life)
        if (getrandom(&h->life, sizeof h->life, 0) != sizeof h->life)
            return err_sys(e, errno, "get a random number");
    return 0;
}

static int map_file(struct inodes *ix, const char *path, struct err *e)
{
    struct stat st;
    ix->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ix->fd < 0)
        return err_sys(e, errno, "open the index %s", path);
    if (fstat(ix->fd, &st)
        || ((uint64_t)st.st_size != FILE_SIZE && ftruncate(ix->fd, (off_t)FILE_SIZE)))
        return err_sys(e, errno, "size the index %s", path);
    ix->base = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, ix->fd, 0);
    if (ix->base == MAP_FAILED) {
        ix->base = NULL;
        return err_sys(e, errno, "map the index %s", path);
    }
    ix->h = (struct index_head *)ix->base;
    ix->recs = (struct rec *)(ix->base + index_regions[REGION_RECS].off);
    ix->heap = ix->base + index_regions[REGION_HEAP].off;
    ix->buckets = (uint32_t *)(ix->base + index_regions[REGION_BUCKETS].off);
    return 0;
}

static void unmap_file(struct inodes *ix)
{
    if (ix->base)
        munmap(ix->base, FILE_SIZE);
    if (ix->fd >= 0)
        close(ix->fd);
    pthread_rwlock_destroy(&ix->lock);
    local_changes_free(ix->changes);
    free(ix->held);
    free(ix);
}

struct inodes *inodes_open(const struct inodes_conf *conf, bool *fresh, struct err *e)
{
    struct inodes *ix = calloc(1, sizeof *ix);
    if (!ix || !(ix->changes = local_changes_new())) {
        free(ix);
        err_set(e, ERR_EXHAUSTED, "no memory for the index");
        return NULL;
    }
    ix->fd = -1;
    ix->conf = *conf;
    ix->conf.path = NULL;
    pthread_rwlock_init(&ix->lock, NULL);
    const char *why;
    if (map_file(ix, conf->path, e))
        goto fail;
    why = why_distrusted(ix, conf);
    bool sound = why || index_is_sound(ix);
    if (!sound && !conf->resume)
        why = "it is damaged";
    *fresh = why != NULL;
    if (why && conf->resume) {
        err_set(e, ERR_FATAL, "cannot go on with the index %s: %s", conf->path, why);
        goto fail;
    }
    if (why && strcmp(why, UNREADABLE) == 0)
        log_kv(LOG_ERROR, "the index is made anew", "why", why, NULL);
    else if (why && strcmp(why, NONE) != 0 && ix->h->magic)
        log_kv(LOG_INFO, "the index is made anew", "why", why, NULL);
    if (why && make_empty(ix, conf, e))
        goto fail;
    if (index_slots_open(ix, why != NULL, e))
        goto fail;
    ix->h->identity = conf->identity;
    if (!why && !sound
        && (index_rebuild(ix, e)
            || (!index_check(ix) && err_set(e, ERR_FATAL, "the index is damaged"))))
        goto fail;
    if (!why && !conf->resume)
        next_epoch(ix);
    if (begin_life(ix->h, e))
        goto fail;
    ix->h->clean = 0;
    boot_id(ix->h->boot, sizeof ix->h->boot);
    ix->conf.mounts = NULL;
    ix->conf.servers = NULL;
    return ix;
fail:
    unmap_file(ix);
    return NULL;
}

void inodes_close(struct inodes *ix, bool clean)
{
    if (!ix)
        return;
    if (clean && !ix->h->dirty) {
        ix->h->sum = index_sum(ix);
        if (fsync(ix->fd) == 0) { /* what is on disk is whole before it is said to be */
            ix->h->clean = 1;
            fsync(ix->fd);
        }
    }
    unmap_file(ix);
}

uint64_t inodes_epoch(const struct inodes *ix) { return ix->h->life; }

uint64_t inodes_unique(const struct inodes *ix, uint64_t number)
{
    uint64_t unique = hash64_mix(hash64_mix(ix->h->life, ix->h->epoch), number);
    return unique ? unique : 1;
}

void inodes_stats(struct inodes *ix, struct inodes_stats *out)
{
    pthread_rwlock_rdlock(&ix->lock);
    out->inodes = ix->h->live;
    out->records = ix->h->nrecs - 1;
    out->name_bytes = ix->h->name_bytes;
    out->file_bytes = 4096;
    for (int i = 0; i < REGION_COUNT; i++)
        out->file_bytes += ix->h->have[i];
    pthread_rwlock_unlock(&ix->lock);
}
