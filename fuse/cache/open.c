/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes object versions, and drops them. */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_MAX_OBJECT (UINT64_C(1) << 44) /* 16 TiB */

void cache_hash_key(const struct cache *c, const struct cache_key *key, uint64_t path[2])
{
    char number[16];
    const char *mount = number;
    if (key->mount < c->nmounts)
        mount = c->mounts[key->mount];
    else
        snprintf(number, sizeof number, "%" PRIu32, key->mount);
    meta_hash_path(mount, key->path, path);
}

/* Two sizes under one version would be two objects. */
uint64_t cache_sized_version(const struct cache_key *key)
{
    return hash64_mix(meta_hash_version(key->version), key->size);
}

_Static_assert(BUDGET_BUFFER_MAX >= CACHE_PART_MAX, "a buffer has room for the largest part");

/* Of little memory, parts are what they were without a wish: one that is larger than the budget
 * could never be fetched ahead. */
static uint32_t part_blocks(const struct cache *c, uint32_t mount)
{
    size_t bytes = c->source.part ? c->source.part(c->source.user, mount) : 0,
           most = MAX(CACHE_PART, MIN(CACHE_PART_MAX, (size_t)c->budget.limit / 2));
    uint32_t blocks = 1;
    while (blocks * (size_t)CACHE_BLOCK < MIN(bytes ? bytes : CACHE_PART, most))
        blocks *= 2;
    return blocks;
}

/* Its names, which what was opened for eviction alone has not; -1: no memory. */
static int set_names(struct object *o, const struct cache_key *key)
{
    uint32_t part = part_blocks(o->c, key->mount);
    pthread_mutex_lock(&o->mu);
    if (!o->path) {
        o->mount = key->mount;
        o->part = part;
        o->path = strdup(key->path);
        o->version = strdup(key->version);
        if (!o->path || !o->version) {
            free(o->path);
            free(o->version);
            o->path = o->version = NULL;
        }
    }
    int rc = o->path ? 0 : -1;
    pthread_mutex_unlock(&o->mu);
    return rc;
}

/* The mount of that name; -1: it is none of ours any more. */
static int find_mount(const struct cache *c, const char *name)
{
    for (size_t i = 0; i < c->nmounts; i++)
        if (strcmp(c->mounts[i], name) == 0)
            return (int)i;
    return -1;
}

static bool names_fit(const struct object *o, const struct cache_key *key)
{
    uint64_t path[2];
    meta_hash_path(o->c->mounts[key->mount], key->path, path);
    return path[0] == o->id.path[0] && path[1] == o->id.path[1]
        && cache_sized_version(key) == o->id.version;
}

int open_find_names(struct object *o)
{
    unsigned char header[META_SIDECAR_HEADER];
    struct cache_key key = {.size = o->id.size};
    const char *mount;
    int at = -1;
    pthread_mutex_lock(&o->mu);
    bool named = o->path;
    if (!named && o->sidecar_fd >= 0
        && pread(o->sidecar_fd, header, sizeof header, 0) == (ssize_t)sizeof header
        && meta_sidecar_header_get(header, &o->id)
        && meta_sidecar_names(header, &mount, &key.version, &key.path))
        at = find_mount(o->c, mount);
    pthread_mutex_unlock(&o->mu);
    key.mount = (uint32_t)at;
    if (named || at < 0)
        return named ? 0 : -1;
    return names_fit(o, &key) ? set_names(o, &key) : -1;
}

struct object *cache_open_object(
    struct cache *c, const struct cache_key *key, bool handle, struct err *e)
{
    if (key->size > SIZE_MAX_OBJECT) {
        err_set(e, ERR_INVALID, "%s is larger than the 16 TiB that the cache can hold", key->path);
        return NULL;
    }
    uint64_t path[2];
    cache_hash_key(c, key, path);
    struct catalogue_info info;
    uint32_t entry = catalogue_open(
        c->catalogue, path, cache_sized_version(key), key->size, handle, &info);
    struct object *o = entry == NO_ENTRY ? NULL : object_get(c, entry, info.object, &info);
    if (!o || set_names(o, key))
        err_sys(e, ENOMEM, "open %s", key->path);
    else if (object_load(o, e) == 0)
        return o;
    if (entry == NO_ENTRY)
        return NULL;
    if (handle)
        catalogue_close_handle(c->catalogue, entry);
    evict_put(c, entry, o);
    return NULL;
}

struct cache_file *cache_open(struct cache *c, const struct cache_key *key, struct err *e)
{
    struct cache_file *f = calloc(1, sizeof *f);
    if (!f) {
        err_sys(e, ENOMEM, "open %s", key->path);
        return NULL;
    }
    f->o = cache_open_object(c, key, true, e);
    if (!f->o) {
        free(f);
        return NULL;
    }
    pthread_mutex_init(&f->mu, NULL);
    return f;
}

void cache_close(struct cache_file *f)
{
    if (!f)
        return;
    struct object *o = f->o;
    if (catalogue_close_handle(o->c->catalogue, o->entry))
        fetch_cancel_queued(o);
    object_put(o);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

/* What is there of an open version; there is a reference for it, which is given back. */
static void drop_open(struct cache *c, const struct catalogue_gone *gone)
{
    struct object *o = gone->object;
    for (uint32_t i = 0; o && i < o->nsegs && !gone->is_complete; i++)
        block_evict_seg(o, i);
    table_persist(c, gone->id);
    evict_put(c, gone->id, o);
}

void cache_drop(struct cache *c, const struct cache_key *key)
{
    uint64_t path[2], version = key->version ? cache_sized_version(key) : 0;
    cache_hash_key(c, key, path);
    struct catalogue_gone gone = {.id = NO_ENTRY};
    /* an open version stays in sight, and there are two at most */
    for (int i = 0; i < 2
         && catalogue_drop(c->catalogue, path, key->version ? &version : NULL, gone.id, &gone);
         i++)
        if (gone.is_removed)
            evict_gone(c, &gone);
        else
            drop_open(c, &gone);
}
