/* SPDX-License-Identifier: Apache-2.0 */
/* The table of cached files on disk: a record a file, written as it changes, read at start-up. */
#include "fuse/cache/priv.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD_CHUNK (1u << 20)

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
    slot_rehash(c);
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
