/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_MIN  256u
#define LOAD_CHUNK (1u << 20)

static uint32_t bucket_of(const struct cache *c, const uint64_t path[2])
{
    return (uint32_t)path[0] & (c->nbuckets - 1);
}

uint32_t slot_find(const struct cache *c, const uint64_t path[2], const uint64_t *version)
{
    return slot_find_but(c, path, version, NONE);
}

uint32_t slot_find_but(
    const struct cache *c, const uint64_t path[2], const uint64_t *version, uint32_t but)
{
    for (uint32_t id = c->buckets[bucket_of(c, path)]; id != NONE; id = c->slots[id].chain) {
        const struct slot *s = &c->slots[id];
        if (s->path[0] == path[0] && s->path[1] == path[1] && (!version || s->version == *version)
            && id != but)
            return id;
    }
    return NONE;
}

uint32_t slot_new(struct cache *c, enum slot_kind kind)
{
    if (c->free_slots == NONE && c->nslots == c->cap_slots) {
        uint32_t cap = c->cap_slots ? c->cap_slots + c->cap_slots / 2 : SLOTS_MIN;
        struct slot *bigger = realloc(c->slots, (size_t)cap * sizeof *bigger);
        if (!bigger)
            return NONE;
        c->slots = bigger;
        c->cap_slots = cap;
    }
    uint32_t id = c->free_slots;
    if (id != NONE)
        c->free_slots = c->slots[id].chain;
    else
        id = c->nslots++;
    c->slots[id] = (struct slot){.kind = (uint8_t)kind, .chain = NONE, .owner = NONE};
    return id;
}

static void rehash(struct cache *c)
{
    uint32_t n = c->nbuckets ? c->nbuckets * 2 : SLOTS_MIN;
    uint32_t *buckets = malloc(n * sizeof *buckets);
    if (!buckets)
        return; /* longer chains are only slower; the first table is made by cache_new */
    for (uint32_t i = 0; i < n; i++)
        buckets[i] = NONE;
    uint32_t old_n = c->nbuckets, *old = c->buckets;
    c->buckets = buckets;
    c->nbuckets = n;
    for (uint32_t i = 0; i < old_n; i++)
        for (uint32_t id = old[i], next; id != NONE; id = next) {
            next = c->slots[id].chain;
            uint32_t b = bucket_of(c, c->slots[id].path);
            c->slots[id].chain = buckets[b];
            buckets[b] = id;
        }
    free(old);
}

void slot_hash(struct cache *c, uint32_t id)
{
    if (c->nfiles >= c->nbuckets)
        rehash(c);
    uint32_t b = bucket_of(c, c->slots[id].path);
    c->slots[id].chain = c->buckets[b];
    c->buckets[b] = id;
    c->nfiles++;
}

void slot_unhash(struct cache *c, uint32_t id)
{
    for (uint32_t *at = &c->buckets[bucket_of(c, c->slots[id].path)]; *at != NONE;
         at = &c->slots[*at].chain)
        if (*at == id) {
            *at = c->slots[id].chain;
            c->nfiles--;
            return;
        }
}

void slot_free(struct cache *c, uint32_t id)
{
    c->slots[id].kind = SLOT_FREE;
    c->slots[id].chain = c->free_slots;
    c->free_slots = id;
}

uint64_t slot_key(const struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id];
    if (s->kind == SLOT_SEG)
        return hash64_mix(c->slots[s->owner].path[0], s->seg + UINT64_C(1));
    return s->path[0];
}

void slot_enqueue(struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id], *file = s->kind == SLOT_SEG ? &c->slots[s->owner] : s;
    if (!(file->flags & SLOT_PINNED))
        s3f_insert(&c->tiers[s->tier].queue, id, s->pages, slot_key(c, id));
}

uint32_t slot_seg_new(struct cache *c, uint32_t file, uint32_t seg, uint32_t pages)
{
    uint32_t id = slot_new(c, SLOT_SEG);
    if (id == NONE)
        return NONE;
    struct slot *f = &c->slots[file], *u = &c->slots[id];
    u->owner = file;
    u->seg = seg;
    u->tier = f->tier;
    u->pages = pages;
    u->chain = f->owner;
    f->owner = id;
    f->flags |= SLOT_SPLIT;
    slot_enqueue(c, id);
    return id;
}

void slot_seg_free(struct cache *c, uint32_t id)
{
    struct slot *u = &c->slots[id];
    s3f_remove(&c->tiers[u->tier].queue, id);
    for (uint32_t *at = &c->slots[u->owner].owner; *at != NONE; at = &c->slots[*at].chain)
        if (*at == id) {
            *at = u->chain;
            break;
        }
    slot_free(c, id);
}

struct meta_file slot_meta(const struct cache *c, uint32_t id)
{
    const struct slot *s = &c->slots[id];
    return (struct meta_file){
        .path = {s->path[0], s->path[1]},
        .version = s->version,
        .size = s->size,
        .mtime_ns = s->place,
        .valid = s->valid,
        .pages = s->pages,
        .crc0 = s->crc0,
        .medium = (uint8_t)c->tiers[s->tier].medium,
        .flags = s->flags & SLOT_PINNED,
    };
}

void slot_persist(struct cache *c, uint32_t id)
{
    if (c->table_fd < 0)
        return;
    unsigned char record[META_RECORD] = {0};
    pthread_mutex_lock(&c->table_mu);
    pthread_mutex_lock(&c->mu);
    const struct slot *s = &c->slots[id];
    bool keep = s->kind == SLOT_FILE && s->valid && !(s->flags & (SLOT_DEAD | SLOT_DROP))
        && c->tiers[s->tier].dir;
    if (keep) {
        struct meta_file f = slot_meta(c, id);
        uint64_t pages = to_pages(s->size);
        if (s->flags & SLOT_SPLIT)
            f.pages = (uint32_t)MIN((uint64_t)s->valid * (CACHE_BLOCK / PAGE), pages);
        meta_record_put(record, &f);
    }
    pthread_mutex_unlock(&c->mu);
    if (pwrite(c->table_fd, record, sizeof record, (off_t)(id + UINT64_C(1)) * META_RECORD)
        != (ssize_t)sizeof record)
        log_debug("cache: a record of the table could not be written: %s", strerror(errno));
    pthread_mutex_unlock(&c->table_mu);
}

/* -- start-up -------------------------------------------------------------------------------- */

static void read_boot_id(char boot[META_BOOT_LEN])
{
    cleanup_free char *text = file_read("/proc/sys/kernel/random/boot_id", 256, NULL, NULL);
    memset(boot, 0, META_BOOT_LEN);
    if (text)
        memcpy(boot, text, strnlen(text, META_BOOT_LEN - 1));
}

static void adopt_record(
    struct cache *c, uint32_t id, const struct meta_file *f, bool same_boot, unsigned *unpinned)
{
    struct slot *s = &c->slots[id];
    int tier = tier_of_medium(c, f->medium);
    if (tier < 0 || !c->tiers[tier].dir || slot_find(c, f->path, NULL) != NONE)
        return; /* the file itself is swept later */
    *s = (struct slot){.kind = SLOT_FILE,
        .path = {f->path[0], f->path[1]},
        .version = f->version,
        .size = f->size,
        .place = same_boot ? f->mtime_ns : 0,
        .valid = f->valid,
        .pages = f->pages,
        .crc0 = f->crc0,
        .owner = NONE,
        .tier = (uint8_t)tier};
    uint64_t blocks = s->size / CACHE_BLOCK + (s->size % CACHE_BLOCK != 0);
    if (s->valid == blocks) {
        s->flags |= SLOT_COMPLETE;
        c->ncomplete++;
    }
    c->nwith_data++;
    slot_hash(c, id);
    c->tiers[tier].used += s->pages;
    if (f->flags & SLOT_PINNED && !keep_pin(c, id, s->pages))
        ++*unpinned;
    slot_enqueue(c, id);
}

/* The rest of the table, records from `first` on: slots get the numbers of their records. */
static int load_records(struct cache *c, bool same_boot, struct err *e)
{
    cleanup_free unsigned char *chunk = malloc(LOAD_CHUNK);
    if (!chunk)
        return err_sys(e, ENOMEM, "read the cache's table");
    unsigned unpinned = 0;
    for (off_t off = META_RECORD;;) {
        ssize_t n = pread(c->table_fd, chunk, LOAD_CHUNK, off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read the cache's table in %s", c->dir);
        n -= n % (ssize_t)META_RECORD;
        if (n == 0)
            break;
        for (ssize_t i = 0; i < n; i += META_RECORD) {
            /* numbers are handed out in order while none is free */
            uint32_t id = slot_new(c, SLOT_FREE);
            if (id == NONE)
                return err_sys(e, ENOMEM, "read the cache's table");
            struct meta_file f;
            if (meta_record_get(chunk + i, &f))
                adopt_record(c, id, &f, same_boot, &unpinned);
        }
        off += n;
    }
    for (uint32_t id = 0; id < c->nslots; id++)
        if (c->slots[id].kind == SLOT_FREE)
            slot_free(c, id);
    if (unpinned)
        log_warn("cache: the quota is smaller than it was: %u files are pinned no more", unpinned);
    return 0;
}

int slot_load(struct cache *c, struct err *e)
{
    c->free_slots = NONE;
    rehash(c);
    if (!c->buckets)
        return err_sys(e, ENOMEM, "start the cache");
    if (c->table_fd < 0)
        return 0;
    char boot[META_BOOT_LEN], was[META_BOOT_LEN];
    read_boot_id(boot);
    unsigned char header[META_RECORD];
    bool ours = pread(c->table_fd, header, sizeof header, 0) == (ssize_t)sizeof header
        && meta_header_get(header, was);
    if (ours) {
        if (load_records(c, boot[0] && strcmp(boot, was) == 0, e))
            return -1;
    } else if (ftruncate(c->table_fd, 0)) {
        return err_sys(e, errno, "reset the cache's table in %s", c->dir);
    }
    meta_header_put(header, boot);
    if (pwrite(c->table_fd, header, sizeof header, 0) != (ssize_t)sizeof header && errno != ENOSPC)
        return err_sys(e, errno, "write the cache's table in %s", c->dir);
    return 0;
}
