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

/* The slot of that version, new if need be. cache.mu is held. */
static uint32_t slot_for(struct cache *c, const uint64_t path[2], uint64_t version, uint64_t size)
{
    uint32_t id = slot_find(c, path, &version);
    if (id != NONE)
        return id;
    id = slot_new(c, SLOT_FILE);
    if (id == NONE)
        return NONE;
    struct slot *s = &c->slots[id];
    s->path[0] = path[0];
    s->path[1] = path[1];
    s->version = version;
    s->size = size;
    s->born = ++c->births;
    slot_hash(c, id);
    return id;
}

struct node *cache_open_object(
    struct cache *c, const struct cache_key *key, bool handle, struct err *e)
{
    if (key->size > SIZE_MAX_OBJECT) {
        err_set(e, ERR_INVALID, "%s is larger than the 16 TiB that the cache can hold", key->path);
        return NULL;
    }
    uint64_t path[2];
    cache_hash_key(c, key, path);
    char *name = strdup(key->path), *version = strdup(key->version);
    pthread_mutex_lock(&c->mu);
    uint32_t id = name && version ? slot_for(c, path, cache_sized_version(key), key->size) : NONE;
    struct node *n = id != NONE ? node_get(c, id) : NULL;
    if (n) {
        if (!n->path) { /* new, or opened for eviction only */
            n->mount = key->mount;
            n->path = steal(&name);
            n->version = steal(&version);
        }
        n->handles += handle;
        struct slot *s = &c->slots[id];
        if (s->valid && s->unit.queue != S3F_OUT)
            s3f_touch(&c->tiers[s->tier].queue, id, 1);
    } else if (id != NONE && !c->slots[id].valid) {
        slot_unhash(c, id);
        slot_free(c, id);
    }
    pthread_mutex_unlock(&c->mu);
    free(name);
    free(version);
    if (!n)
        err_sys(e, ENOMEM, "open %s", key->path);
    else if (node_load(n, e)) {
        pthread_mutex_lock(&c->mu);
        n->handles -= handle;
        pthread_mutex_unlock(&c->mu);
        node_put(n);
        n = NULL;
    }
    return n;
}

struct cache_file *cache_open(struct cache *c, const struct cache_key *key, struct err *e)
{
    struct cache_file *f = calloc(1, sizeof *f);
    if (!f) {
        err_sys(e, ENOMEM, "open %s", key->path);
        return NULL;
    }
    f->n = cache_open_object(c, key, true, e);
    if (!f->n) {
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
    struct node *n = f->n;
    struct cache *c = n->c;
    pthread_mutex_lock(&c->mu);
    bool last = --n->handles == 0;
    pthread_mutex_unlock(&c->mu);
    if (last)
        fetch_cancel_queued(n);
    node_put(n);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

/* cache.mu is held on entry, not on return. */
static void drop_slot(struct cache *c, uint32_t id)
{
    struct slot *s = &c->slots[id];
    if (!s->node || s->node->refs == 0) {
        evict_slot(c, id);
        return;
    }
    keep_unpin(c, id);
    struct node *n = s->node;
    bool complete = s->flags & SLOT_COMPLETE;
    n->refs++;
    if (complete)
        s->flags |= SLOT_DROP;
    pthread_mutex_unlock(&c->mu);
    for (uint32_t i = 0; i < n->nsegs && !complete; i++)
        block_evict_seg(n, i);
    slot_persist(c, id);
    node_put(n);
}

void cache_drop(struct cache *c, const struct cache_key *key)
{
    uint64_t path[2], version = key->version ? cache_sized_version(key) : 0;
    cache_hash_key(c, key, path);
    for (uint32_t before = NONE;;) { /* an open version stays in sight: it is met twice */
        pthread_mutex_lock(&c->mu);
        uint32_t id = slot_find_but(c, path, key->version ? &version : NULL, before);
        if (id == NONE)
            break;
        drop_slot(c, id);
        if (before != NONE)
            return;
        before = id;
    }
    pthread_mutex_unlock(&c->mu);
}
