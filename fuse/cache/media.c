/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int tier_init(struct cache *c, struct tier *t, const struct conf_tier *conf, struct err *e)
{
    static const char *const names[] = {[CONF_MEM] = "mem", [CONF_SSD] = "ssd", [CONF_HDD] = "hdd"};
    *t = (struct tier){.medium = conf->medium, .quota = (uint64_t)conf->quota / PAGE};
    for (int i = 0; i < ARENAS; i++)
        t->arenas[i] = -1;
    tier_queue_init(c, t);
    if (conf->medium == CONF_MEM)
        return 0;
    if (!c->dir)
        return err_set(e, ERR_INVALID, "a cache tier on disk needs a cache directory");
    t->dir = path_join(c->dir, names[conf->medium]);
    for (int i = 0; i < 256; i++) {
        char sub[8];
        snprintf(sub, sizeof sub, "%02x", (unsigned)i);
        cleanup_free char *path = path_join(t->dir, sub);
        if (file_mkdirs(path, 0700, e))
            return -1;
    }
    return 0;
}

void tier_fini(struct tier *t)
{
    s3f_fini(&t->queue);
    free(t->dir);
    for (int i = 0; i < ARENAS; i++)
        if (t->arenas[i] >= 0)
            close(t->arenas[i]);
}

int tier_of_medium(const struct cache *c, unsigned medium)
{
    for (size_t i = 0; i < c->ntiers; i++)
        if ((unsigned)c->tiers[i].medium == medium)
            return (int)i;
    return -1;
}

int tier_lasting(const struct cache *c)
{
    for (size_t i = 0; i < c->ntiers; i++)
        if (c->tiers[i].dir)
            return (int)i;
    return -1;
}

char *tier_path(const struct tier *t, const struct meta_file *f, uint32_t slot, const char *suffix)
{
    return xasprintf("%s/%02x/%016" PRIx64 "%08" PRIx32 ".%" PRIx32 "%s", t->dir,
        (unsigned)(f->path[0] & 0xff), f->path[1], (uint32_t)f->version, slot, suffix);
}

int tier_arena(struct tier *t, uint64_t hash, uint64_t size, uint64_t *off)
{
    unsigned a = (unsigned)(hash % ARENAS);
    *off = atomic_fetch_add(&t->arena_next[a], to_pages(size) * PAGE);
    return t->arenas[a];
}

void tier_remove(const struct tier *t, const struct meta_file *f, uint32_t slot, int64_t place)
{
    if (!t->dir) { /* in an arena; a memfd of its own goes with its node */
        unsigned a = (unsigned)(f->path[0] % ARENAS);
        fallocate(t->arenas[a], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place,
            (off_t)(to_pages(f->size) * PAGE));
        return;
    }
    cleanup_free char *data = tier_path(t, f, slot, "");
    unlink(data);
    if (f->size > CACHE_BLOCK) {
        cleanup_free char *side = tier_path(t, f, slot, ".m");
        unlink(side);
    }
}

/* -- what a crash left ----------------------------------------------------------------------- */

/* "<16 hex><8 hex>.<slot>" or the same with ".m". */
static bool named_by_slot(struct cache *c, int tier, const char *name)
{
    uint64_t hash;
    uint32_t version, id;
    char suffix[4] = "";
    int fields = sscanf(
        name, "%16" SCNx64 "%8" SCNx32 ".%" SCNx32 "%3s", &hash, &version, &id, suffix);
    if (fields < 3 || (suffix[0] && strcmp(suffix, ".m") != 0))
        return false;
    pthread_mutex_lock(&c->mu);
    bool used = id < c->nslots && c->slots[id].kind == SLOT_FILE && c->slots[id].path[1] == hash
        && (uint32_t)c->slots[id].version == version
        && (c->slots[id].tier == tier || (c->slots[id].flags & SLOT_BUSY));
    pthread_mutex_unlock(&c->mu);
    return used;
}

static void sweep_dir(struct cache *c, int tier, const char *path, int64_t before_ns)
{
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *de; (de = readdir(d)) && !atomic_load(&c->cancel);) {
        struct stat st;
        if (de->d_name[0] == '.' || named_by_slot(c, tier, de->d_name))
            continue;
        if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        /* younger than our start: another thread of ours is just making or deleting it */
        if (st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec < before_ns)
            unlinkat(dirfd(d), de->d_name, 0);
    }
    closedir(d);
}

void tier_sweep(struct cache *c)
{
    int64_t before = clock_real_ns() - NS_PER_S;
    for (size_t t = 0; t < c->ntiers; t++)
        for (unsigned i = 0; c->tiers[t].dir && i < 256 && !atomic_load(&c->cancel); i++) {
            char sub[8];
            snprintf(sub, sizeof sub, "%02x", i);
            cleanup_free char *path = path_join(c->tiers[t].dir, sub);
            sweep_dir(c, (int)t, path, before);
        }
}

/* pread and pwrite of all of it; -1: errno (EIO where the file ends early). */
int media_write(int fd, const void *data, size_t len, uint64_t off)
{
    const char *p = data;
    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC;
            return -1;
        }
        p += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

int media_read(int fd, void *data, size_t len, uint64_t off)
{
    char *p = data;
    while (len) {
        ssize_t n = pread(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        p += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}
