/* SPDX-License-Identifier: Apache-2.0 */
/* The free space that a disk keeps: what others write there takes its room from the cache, long
 * before kubelet would evict pods for it. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define STEP_PAGES  ((INT64_C(64) << 20) / PAGE)
#define STEP_SHARE  4 /* of what is missing: other caches of the disk give the rest */
#define SHORT_PAGES ((INT64_C(8) << 20) / PAGE)
#define INODE_SHARE 2 /* kubelet's thresholds: half as much of the inodes */

/* Pages that the disk may give until so many thousandths of it are left; negative: so many are
 * missing. */
static int64_t room_of(const struct statvfs *v, unsigned permille)
{
    int64_t pages = (int64_t)((uint64_t)v->f_bavail * v->f_frsize / PAGE);
    int64_t all = (int64_t)((uint64_t)v->f_blocks * v->f_frsize / PAGE);
    if (!all) /* a file system that does not tell */
        return INT64_MAX / PAGE;
    int64_t room = pages - all / 1000 * permille;
    bool few_inodes = v->f_files && v->f_favail < v->f_files / 1000 * permille / INODE_SHARE;
    return few_inodes ? MIN(room, -STEP_PAGES) : room;
}

static void look_at_tier(struct cache *c, int tier, int64_t now_ns)
{
    struct media *m = &c->media[tier];
    struct statvfs v;
    if (statvfs(m->dir, &v)) {
        log_debug("cache: statvfs of %s: %s", m->dir, strerror(errno));
        return;
    }
    int64_t room = room_of(&v, c->keep_free * 10);
    if (room < SHORT_PAGES && room < (int64_t)catalogue_room(c->catalogue, tier)) {
        int64_t before = atomic_exchange(&c->short_ns, now_ns);
        if (!before || now_ns - before > CACHE_LATELY_NS)
            log_warn("cache: %u %% of the disk of %s is kept free, and there is no more: what is "
                     "read replaces what was cached",
                c->keep_free, m->dir);
    }
    if (room < 0)
        room = MAX(room, MIN(room / STEP_SHARE, -STEP_PAGES));
    catalogue_limit(c->catalogue, tier, room);
    if (room >= 0)
        return;
    pthread_mutex_lock(&c->short_mu);
    if (c->on_short)
        c->on_short(c->on_short_user);
    pthread_mutex_unlock(&c->short_mu);
    evict_background(c, tier);
}

void cache_on_short(struct cache *c, void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&c->short_mu);
    c->on_short = fn;
    c->on_short_user = user;
    pthread_mutex_unlock(&c->short_mu);
}

void floor_look(struct cache *c)
{
    for (size_t i = 0; i < c->ntiers && c->keep_free; i++)
        if (c->media[i].dir)
            look_at_tier(c, (int)i, clock_mono_ns());
}

int64_t cache_disk_room(const char *dir, unsigned permille)
{
    struct statvfs v;
    return statvfs(dir, &v) ? INT64_MAX : room_of(&v, permille) * PAGE;
}

uint64_t cache_gives(struct cache *c, const char *dir)
{
    struct stat disk, own;
    uint64_t pages = 0;
    if (!c->keep_free || stat(dir, &disk))
        return 0;
    for (size_t i = 0; i < c->ntiers; i++)
        if (c->media[i].dir && stat(c->media[i].dir, &own) == 0 && own.st_dev == disk.st_dev)
            pages += catalogue_gives(c->catalogue, (int)i);
    return pages * PAGE;
}

void cache_want_room(struct cache *c) { task_wake(&c->maintenance); }
