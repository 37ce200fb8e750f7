/* SPDX-License-Identifier: Apache-2.0 */
/* Where tiers keep their bytes: files in directories, or memfds that many small files share. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
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

static int init_memory(struct media *m, struct err *e)
{
    for (int i = 0; i < ARENAS; i++) {
        m->arenas[i] = memfd_create("millrace-cache-small", MFD_CLOEXEC);
        if (m->arenas[i] < 0)
            return err_sys(e, errno, "create the memory tier");
    }
    return 0;
}

static int init_disk(const struct cache *c, struct media *m, struct err *e)
{
    static const char *const names[] = {[CONF_MEM] = "mem", [CONF_SSD] = "ssd", [CONF_HDD] = "hdd"};
    if (!c->dir)
        return err_set(e, ERR_INVALID, "a cache tier on disk needs a cache directory");
    m->dir = path_join(c->dir, names[m->medium]);
    if (file_mkdirs(m->dir, 0700, e))
        return -1;
    for (int i = 0; i < 256; i++) {
        char sub[8];
        snprintf(sub, sizeof sub, "%02x", (unsigned)i);
        cleanup_free char *path = path_join(m->dir, sub);
        if (mkdir(path, 0700) && errno != EEXIST)
            return err_sys(e, errno, "mkdir %s", path);
    }
    return 0;
}

int media_init(struct cache *c, const struct conf_tier *conf, struct err *e)
{
    struct media *m = &c->media[c->ntiers++]; /* also a half made one is taken down */
    m->medium = conf->medium;
    m->quota = (uint64_t)conf->quota;
    for (int i = 0; i < ARENAS; i++)
        m->arenas[i] = -1;
    return conf->medium == CONF_MEM ? init_memory(m, e) : init_disk(c, m, e);
}

void media_fini(struct media *m)
{
    free(m->dir);
    for (int i = 0; i < ARENAS; i++)
        if (m->arenas[i] >= 0)
            close(m->arenas[i]);
}

int media_of(const struct cache *c, enum conf_medium medium)
{
    for (size_t i = 0; i < c->ntiers; i++)
        if (c->media[i].medium == medium)
            return (int)i;
    return -1;
}

char *media_path(
    const struct media *m, const struct meta_file *f, uint32_t entry, const char *suffix)
{
    return xasprintf("%s/%02x/%016" PRIx64 "%08" PRIx32 ".%" PRIx32 "%s", m->dir,
        (unsigned)(f->path[0] & 0xff), f->path[1], (uint32_t)f->version, entry, suffix);
}

int media_arena(struct media *m, uint64_t hash, uint64_t size, uint64_t *off)
{
    unsigned a = (unsigned)(hash % ARENAS);
    *off = atomic_fetch_add(&m->arena_next[a], to_pages(size) * PAGE);
    return m->arenas[a];
}

void media_remove(
    const struct media *m, const struct meta_file *f, uint32_t entry, int64_t location)
{
    if (!m->dir) { /* in an arena; a memfd of its own goes with its object */
        unsigned a = (unsigned)(f->path[0] % ARENAS);
        fallocate(m->arenas[a], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, location,
            (off_t)(to_pages(f->size) * PAGE));
        return;
    }
    cleanup_free char *data = media_path(m, f, entry, "");
    unlink(data);
    if (f->size > CACHE_BLOCK) {
        cleanup_free char *sidecar = media_path(m, f, entry, ".m");
        unlink(sidecar);
    }
}

/* -- what a crash left ----------------------------------------------------------------------- */

/* "<16 hex><8 hex>.<entry>" or the same with ".m". */
static bool is_named(struct cache *c, int tier, const char *name)
{
    uint64_t hash;
    uint32_t version, id;
    char suffix[4] = "";
    int fields = sscanf(
        name, "%16" SCNx64 "%8" SCNx32 ".%" SCNx32 "%3s", &hash, &version, &id, suffix);
    if (fields < 3 || (suffix[0] && strcmp(suffix, ".m") != 0))
        return false;
    return catalogue_has_file(c->catalogue, tier, id, hash, version);
}

static void remove_orphans_in(struct cache *c, int tier, const char *path, int64_t before_ns)
{
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *de; (de = readdir(d)) && !atomic_load(&c->cancel);) {
        struct stat st;
        if (de->d_name[0] == '.' || is_named(c, tier, de->d_name))
            continue;
        if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        /* younger than our start: another thread of ours is just making or deleting it */
        if (clock_of_timespec(st.st_ctim) < before_ns)
            unlinkat(dirfd(d), de->d_name, 0);
    }
    closedir(d);
}

void media_remove_orphans(struct cache *c)
{
    int64_t before = clock_real_ns() - NS_PER_S;
    for (size_t t = 0; t < c->ntiers; t++)
        for (unsigned i = 0; c->media[t].dir && i < 256 && !atomic_load(&c->cancel); i++) {
            char sub[8];
            snprintf(sub, sizeof sub, "%02x", i);
            cleanup_free char *path = path_join(c->media[t].dir, sub);
            remove_orphans_in(c, (int)t, path, before);
        }
}
