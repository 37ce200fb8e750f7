/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/cache.h"

#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LATELY_NS       (50 * NS_PER_S) /* longer than who asks takes to come again */
#define THREADS_DEFAULT 16
#define SIZE_MAX_OBJECT (UINT64_C(1) << 44) /* 16 TiB */
#define HELD_NS         (3 * NS_PER_S)
#define LOCK_NS         (5 * NS_PER_S)

/* -- lifecycle ------------------------------------------------------------------------------- */

static void *keep(void *arg)
{
    struct cache *c = arg;
    tier_sweep(c);
    pthread_mutex_lock(&c->mu);
    while (!c->stopping) {
        clock_cond_wait(&c->keeper_wake, &c->mu, clock_mono_ns() + NS_PER_S);
        pthread_mutex_unlock(&c->mu);
        int64_t now = clock_mono_ns();
        fetch_trim_held(c, INT64_MAX, now - HELD_NS);
        budget_trim(&c->budget, now - 2 * NS_PER_S);
        pthread_mutex_lock(&c->mu);
    }
    pthread_mutex_unlock(&c->mu);
    return NULL;
}

static int open_dir(struct cache *c, const char *dir, struct err *e)
{
    if (file_mkdirs(dir, 0700, e))
        return -1;
    c->dir = xstrdup(dir);
    cleanup_free char *lock = path_join(dir, "lock");
    c->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->lock_fd < 0)
        return err_sys(e, errno, "open %s", lock);
    int64_t deadline = clock_mono_ns() + LOCK_NS; /* a predecessor may be about to end */
    int held;
    while ((held = flock(c->lock_fd, LOCK_EX | LOCK_NB)) && clock_mono_ns() < deadline)
        clock_sleep_ns(20 * NS_PER_MS);
    if (held)
        return err_set(e, ERR_CONFLICT, "the cache directory %s is in use by another process", dir);
    cleanup_free char *table = path_join(dir, "table");
    c->table_fd = open(table, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return c->table_fd < 0 ? err_sys(e, errno, "open %s", table) : 0;
}

static int open_tiers(struct cache *c, const struct cache_conf *conf, struct err *e)
{
    if (conf->ntiers > MAX_TIERS)
        return err_set(e, ERR_INVALID, "%zu cache tiers: at most %d, one of each medium",
            conf->ntiers, MAX_TIERS);
    /* slots of no bytes name it */
    if (!conf->ntiers && tier_init(c, &c->tiers[0], &(struct conf_tier){CONF_MEM, 0}, e))
        return -1;
    for (size_t i = 0; i < conf->ntiers; i++) {
        if (conf->tiers[i].quota < 0)
            return err_set(e, ERR_INVALID, "the quota of cache tier %zu is negative", i);
        if (tier_of_medium(c, conf->tiers[i].medium) >= 0)
            return err_set(e, ERR_INVALID, "two cache tiers of the same medium: give one of each");
        c->ntiers++; /* before tier_init, so that a half made one is taken down */
        if (tier_init(c, &c->tiers[i], &conf->tiers[i], e))
            return -1;
        if (c->tiers[i].dir)
            continue;
        for (int a = 0; a < ARENAS; a++) {
            int fd = memfd_create("millrace-cache-small", MFD_CLOEXEC);
            if (fd < 0)
                return err_sys(e, errno, "create the memory tier");
            c->tiers[i].arenas[a] = fd;
        }
    }
    return 0;
}

static int start(struct cache *c, const struct cache_conf *conf, struct err *e)
{
    if (conf->dir && open_dir(c, conf->dir, e))
        return -1;
    if (open_tiers(c, conf, e) || slot_load(c, e))
        return -1;
    c->pool = pool_new(c->threads);
    if (!c->pool)
        return err_sys(e, ENOMEM, "start the cache");
    c->has_keeper = pthread_create(&c->keeper, NULL, keep, c) == 0;
    if (!c->has_keeper)
        return err_set(e, ERR_EXHAUSTED, "start a thread of the cache");
    return 0;
}

/* Where it is and who serves it: two servers may have a bucket of the same name. */
static char *mount_name(const struct conf_mount *m)
{
    for (size_t i = 0; i < m->noptions; i++)
        if (strcmp(m->options[i].key, "endpoint") == 0)
            return xasprintf("%s %s", m->mount_point, m->options[i].value);
    return xstrdup(m->mount_point);
}

struct cache *cache_new(const struct cache_conf *conf, struct err *e)
{
    struct cache *c = xcalloc(1, sizeof *c);
    c->table_fd = c->lock_fd = -1;
    c->free_slots = NONE;
    c->held_tail = &c->held;
    c->source = conf->source;
    c->drop_behind = conf->drop_behind;
    c->will_block = conf->will_block;
    c->threads = conf->fetch_threads ? conf->fetch_threads : THREADS_DEFAULT;
    pthread_mutex_init(&c->mu, NULL);
    pthread_mutex_init(&c->table_mu, NULL);
    clock_cond_init(&c->keeper_wake);
    int64_t memory = 0;
    for (size_t i = 0; i < conf->ntiers; i++)
        memory += conf->tiers[i].medium == CONF_MEM ? conf->tiers[i].quota : 0;
    budget_init(&c->budget, conf->buffer_budget ? conf->buffer_budget : budget_detect(memory));
    if (conf->mounts) {
        c->nmounts = conf->nmounts;
        c->mounts = xcalloc(c->nmounts + 1, sizeof *c->mounts);
        for (size_t i = 0; i < c->nmounts; i++)
            c->mounts[i] = mount_name(&conf->mounts[i]);
    }
    if (start(c, conf, e) == 0)
        return c;
    cache_free(c);
    return NULL;
}

static void free_nodes(struct cache *c)
{
    for (uint32_t id = 0; id < c->nslots; id++) {
        struct slot *s = &c->slots[id];
        if (s->kind == SLOT_FILE && s->node) {
            struct node *n = s->node;
            s->node = NULL;
            node_free(n);
        }
    }
}

void cache_cancel(struct cache *c) { atomic_store(&c->cancel, true); }

void cache_free(struct cache *c)
{
    if (!c)
        return;
    cache_cancel(c);
    if (c->has_keeper) {
        pthread_mutex_lock(&c->mu);
        c->stopping = true;
        pthread_cond_broadcast(&c->keeper_wake);
        pthread_mutex_unlock(&c->mu);
        pthread_join(c->keeper, NULL);
    }
    pool_free(c->pool);
    c->pool = NULL;
    fetch_trim_held(c, -1, INT64_MAX);
    free_nodes(c);
    for (size_t i = 0; i < c->ntiers; i++)
        tier_fini(&c->tiers[i]);
    for (size_t i = 0; i < c->nmounts; i++)
        free(c->mounts[i]);
    free(c->mounts);
    free(c->slots);
    free(c->buckets);
    free(c->dir);
    if (c->table_fd >= 0)
        close(c->table_fd);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    budget_fini(&c->budget);
    pthread_cond_destroy(&c->keeper_wake);
    pthread_mutex_destroy(&c->mu);
    pthread_mutex_destroy(&c->table_mu);
    free(c);
}

/* -- files ----------------------------------------------------------------------------------- */

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

/* Takes the file out of sight: its bytes go now, or with its last reader. cache.mu is held on
 * entry, not on return. */
static void detach(struct cache *c, uint32_t id)
{
    struct slot *s = &c->slots[id];
    if (!s->node || s->node->refs == 0) {
        evict_slot(c, id);
        return;
    }
    keep_unpin(c, id);
    node_join_units(c, s->node);
    s = &c->slots[id];
    s3f_remove(&c->tiers[s->tier].queue, id);
    slot_unhash(c, id);
    s->flags |= SLOT_DEAD;
    pthread_mutex_unlock(&c->mu);
    slot_persist(c, id); /* a restart must not find it */
}

void cache_supersede(struct cache *c, uint32_t id)
{
    uint32_t other = NONE;
    do {
        pthread_mutex_lock(&c->mu);
        const struct slot *s = &c->slots[id];
        other = s->flags & SLOT_DEAD ? NONE : slot_find_but(c, s->path, NULL, id);
        /* opened after us: it is we who are old */
        if (other != NONE && (int32_t)(c->slots[other].born - s->born) > 0)
            other = c->slots[other].valid ? id : NONE;
        if (other != NONE)
            detach(c, other);
        else
            pthread_mutex_unlock(&c->mu);
    } while (other != NONE && other != id);
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

static struct node *open_node(
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
    f->n = open_node(c, key, true, e);
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

/* -- adopt ----------------------------------------------------------------------------------- */

/* Makes the written file itself the cached one where the tier is on the same file system. n is new
 * and ours. */
static int link_in(struct node *n, int tier, int fd)
{
    struct tier *t = &n->c->tiers[tier];
    struct place p;
    if (!t->dir || node_create(n, tier, &p))
        return -1;
    cleanup_free char *path = tier_path(t, &n->id, n->slot, "");
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    int linked = -1;
    unlink(path);
    if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        linked = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (linked < 0) {
        node_close_place(n->c, &p);
        tier_remove(t, &n->id, n->slot, 0);
        return -1;
    }
    close(p.fd);
    p.fd = linked;
    pthread_mutex_lock(&n->c->mu);
    node_place(n, &p);
    pthread_mutex_unlock(&n->c->mu);
    return 0;
}

static int adopt_blocks(struct node *n, int fd, bool stored, struct err *e)
{
    char *buf = budget_buffer(&n->c->budget, CACHE_BLOCK);
    int rc = buf ? 0 : err_sys(e, ENOMEM, "keep %s", n->path);
    for (uint32_t b = 0; b < n->nblocks && rc == 0; b++) {
        uint32_t len = block_len(n, b);
        ssize_t got = pread(fd, buf, len, (off_t)b * CACHE_BLOCK);
        if (got != (ssize_t)len)
            rc = err_sys(e, got < 0 ? errno : EIO, "keep %s", n->path);
        else if (block_land(n, b, buf, stored ? LAND_STORED : LAND_WRITE)) {
            rc = err_set(e, ERR_EXHAUSTED, "keep %s: no room in the cache", n->path);
            e->sys = ENOSPC;
        }
    }
    budget_buffer_put(&n->c->budget, buf, CACHE_BLOCK);
    return rc;
}

int cache_adopt(struct cache *c, const struct cache_key *key, int fd, struct err *e)
{
    struct err none = ERR_INIT;
    e = e ? e : &none;
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(e, errno, "keep %s", key->path);
    if ((uint64_t)st.st_size != key->size)
        return err_set(e, ERR_INVALID, "keep %s: the file has %lld bytes, not %" PRIu64, key->path,
            (long long)st.st_size, key->size);
    struct node *n = open_node(c, key, false, e);
    if (!n)
        return -1;
    int tier = tier_choose(c, n->slot);
    pthread_mutex_lock(&n->mu);
    /* else the blocks are copied */
    bool linked = tier >= 0 && n->tier < 0 && n->nblocks && link_in(n, tier, fd) == 0;
    pthread_mutex_unlock(&n->mu);
    int rc = adopt_blocks(n, fd, linked, e);
    node_put(n);
    return rc;
}

void cache_stats(struct cache *c, struct cache_stats *out)
{
    int64_t now = clock_mono_ns();
    *out = (struct cache_stats){.hit_bytes = c->hit_bytes,
        .fetched_bytes = c->fetched_bytes,
        .evicted_bytes = c->evicted_bytes,
        .corrupt_blocks = c->corrupt_blocks,
        .full = c->full,
        .moved_bytes = c->moved_bytes,
        .buffer_bytes = (uint64_t)atomic_load(&c->budget.used),
        .buffer_peak = (uint64_t)atomic_load(&c->budget.peak)};
    pthread_mutex_lock(&c->mu);
    for (size_t i = 0; i < c->ntiers; i++) {
        out->used_bytes += c->tiers[i].used * PAGE;
        out->capacity_bytes += c->tiers[i].quota * PAGE;
        out->disk_full |= c->tiers[i].dir && c->tiers[i].blocked_ns
            && now - c->tiers[i].blocked_ns < LATELY_NS;
    }
    out->files = c->nwith_data;
    out->pinned_bytes = c->pin_pages * PAGE;
    out->pinned_most = keep_most(c) * PAGE;
    out->pinned_files = c->npinned;
    out->complete_files = c->ncomplete;
    pthread_mutex_unlock(&c->mu);
}
