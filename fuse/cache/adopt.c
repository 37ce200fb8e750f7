/* SPDX-License-Identifier: Apache-2.0 */
/* Adopts a file that was just written and uploaded as the cached copy of its new version. */
#include "fuse/cache/priv.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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
    struct node *n = cache_open_object(c, key, false, e);
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
