/* SPDX-License-Identifier: Apache-2.0 */
/* Adopts a file that was just written and uploaded as the cached copy of its new version. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the written file itself the cached one where the tier is on the same file system. o is new
 * and ours. */
static int link_in(struct object *o, int tier, int fd)
{
    struct media *m = &o->c->media[tier];
    struct location at;
    if (!m->dir || object_create(o, tier, &at))
        return -1;
    cleanup_free char *path = media_path(m, &o->id, o->entry, "");
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    int linked = -1;
    unlink(path);
    if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        linked = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (linked < 0) {
        location_close(o->c, &at);
        media_remove(m, &o->id, o->entry, 0);
        return -1;
    }
    close(at.fd);
    at.fd = linked;
    object_place(o, &at);
    return 0;
}

static int no_room(const char *path, struct err *e)
{
    err_set(e, ERR_EXHAUSTED, "keep %s: no room in the cache", path);
    e->sys = ENOSPC;
    return -1;
}

static int adopt_blocks(struct object *o, int fd, bool stored, struct err *e)
{
    char *buf = budget_buffer(&o->c->budget, CACHE_BLOCK);
    int rc = buf ? 0 : err_sys(e, ENOMEM, "keep %s", o->path);
    for (uint32_t b = 0; b < o->nblocks && rc == 0; b++) {
        uint32_t len = block_len(o, b);
        progress_mark();
        ssize_t got = pread(fd, buf, len, (off_t)b * CACHE_BLOCK);
        if (got != (ssize_t)len)
            rc = err_sys(e, got < 0 ? errno : EIO, "keep %s", o->path);
        else if (fill_block(o, b, buf, stored ? FILL_STORED : FILL_WRITE))
            rc = no_room(o->path, e);
    }
    budget_buffer_put(&o->c->budget, buf, CACHE_BLOCK);
    return rc;
}

/* All of the file, or nothing: the room of a part cannot be given back as long as the file has
 * another name. */
static int adopt_whole(struct object *o, int fd, bool linked, struct err *e)
{
    atomic_store(&o->adopting, true);
    int rc = adopt_blocks(o, fd, linked, e);
    atomic_store(&o->adopting, false);
    if (rc == 0)
        return 0;
    for (uint32_t i = 0; i < o->nsegs && !object_is_complete(o); i++)
        block_evict_seg(o, i);
    table_persist(o->c, o->entry);
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
    struct object *o = cache_open_object(c, key, false, e);
    if (!o)
        return -1;
    int tier = catalogue_choose(c->catalogue, o->entry, clock_mono_ns());
    if (tier >= 0 && !catalogue_can_have(c->catalogue, tier, to_pages(key->size))) {
        object_put(o);
        return no_room(key->path, e);
    }
    pthread_mutex_lock(&o->mu);
    /* else the blocks are copied */
    bool linked = tier >= 0 && o->tier < 0 && o->nblocks && link_in(o, tier, fd) == 0;
    pthread_mutex_unlock(&o->mu);
    int rc = adopt_whole(o, fd, linked, e);
    object_put(o);
    return rc;
}
