/* SPDX-License-Identifier: Apache-2.0 */
/* The index_regions of the index file, with disk blocks reserved before they are written to (a full
 * disk must be an error here, not a SIGBUS there), and the heap in one of them: names, and versions
 * that do not fit into their record. */
#include "fuse/index/format.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define GIB   (UINT64_C(1) << 30)
#define BLOCK UINT64_C(4096)
/* of the free room of the disk an index takes no more than such a part ahead of its need */
#define AHEAD_SHARE 64

const struct index_region index_regions[REGION_COUNT] = {
    [REGION_RECS] = {1 << 20, 24 * GIB - (1 << 20), 1 << 20, 8 << 20, "records"},
    [REGION_HEAP] = {24 * GIB, 32 * GIB, 256 << 10, 4 << 20, "names"},
    [REGION_BUCKETS] = {56 * GIB, GIB, 64 << 10, 512 << 10, "hash buckets"},
};

/* Some file systems do not reserve: zeros take the blocks there, or say that there are none. */
static int fill_with_zeros(int fd, uint64_t off, uint64_t len)
{
    static const char zeros[64 << 10];
    while (len) {
        ssize_t n = pwrite(fd, zeros, MIN(len, (uint64_t)sizeof zeros), (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        off += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

int index_blocks(int fd, uint64_t off, uint64_t len)
{
    if (fallocate(fd, 0, (off_t)off, (off_t)len) == 0)
        return 0;
    return errno == EOPNOTSUPP ? fill_with_zeros(fd, off, len) : -1;
}

static int region_grow(struct inodes *ix, enum region_id region, uint64_t want)
{
    const struct index_region *r = &index_regions[region];
    uint64_t have = ix->h->have[region];
    want = MIN(want, r->max);
    if (want > have && index_blocks(ix->fd, r->off + have, want - have))
        return -1;
    ix->h->have[region] = MAX(want, have);
    return 0;
}

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* Room for names that come while the disk is full. */
static uint64_t region_ahead(const struct inodes *ix, enum region_id region)
{
    struct statvfs v;
    if (fstatvfs(ix->fd, &v))
        return 0;
    return MIN(MAX(index_regions[region].ahead, ix->h->have[region] / 8),
        (uint64_t)v.f_bavail * v.f_frsize / AHEAD_SHARE);
}

int index_reserve(struct inodes *ix, enum region_id region, uint64_t bytes, struct err *e)
{
    const struct index_region *r = &index_regions[region];
    uint64_t have = ix->h->have[region];
    if (bytes > r->max)
        return err_set(e, ERR_EXHAUSTED, "the index is full: no room for more %s", r->what);
    if (bytes <= have && (bytes + r->ahead / 2 <= have || bytes < ix->again[region]))
        return 0;
    if (region_grow(ix, region, round_up(bytes + region_ahead(ix, region), r->chunk)) == 0
        || bytes <= have) {
        ix->again[region] = bytes + r->chunk / 4; /* not for each name, while the disk is full */
        return 0;
    }
    if (region_grow(ix, region, round_up(bytes, r->chunk)) == 0
        || region_grow(ix, region, round_up(bytes, BLOCK)) == 0)
        return 0;
    int why = errno;
    if (why != ENOSPC && why != EDQUOT)
        return err_sys(e, why, "grow the index");
    return err_sys(e, why,
        "the disk of the cache directory is full: names that are not known yet cannot be read until there is room on it, those that are known can");
}

uint32_t index_text_new(struct inodes *ix, const void *text, size_t len, struct err *e)
{
    struct index_head *h = ix->h;
    size_t units = index_units(len);
    uint32_t unit = h->heap_free[units];
    if (unit) {
        memcpy(&h->heap_free[units], index_text(ix, unit), sizeof unit);
    } else {
        if ((uint64_t)h->heap_units + units > UINT32_MAX
            || index_reserve(ix, REGION_HEAP, (h->heap_units + units) * 8, e))
            return 0;
        unit = h->heap_units;
        h->heap_units += (uint32_t)units;
    }
    memcpy(index_text(ix, unit), text, len);
    h->name_bytes += units * 8;
    return unit;
}

void index_text_free(struct inodes *ix, uint32_t unit, size_t len)
{
    size_t units = index_units(len);
    memcpy(index_text(ix, unit), &ix->h->heap_free[units], sizeof unit);
    ix->h->heap_free[units] = unit;
    ix->h->name_bytes -= units * 8;
}
