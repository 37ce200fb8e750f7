/* SPDX-License-Identifier: Apache-2.0 */
/* The index_regions of the index file, with disk blocks reserved before they are written to (a full
 * disk must be an error here, not a SIGBUS there), and the heap in one of them: names, and versions
 * that do not fit into their record. */
#include "fuse/index/format.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
const struct index_region index_regions[REGION_COUNT] = {
    [REGION_RECS] = {1 << 20, 24 * GIB - (1 << 20), 1 << 20, "records"},
    [REGION_HEAP] = {24 * GIB, 32 * GIB, 256 << 10, "names"},
    [REGION_BUCKETS] = {56 * GIB, GIB, 64 << 10, "hash buckets"},
};

int index_reserve(struct inodes *ix, enum region_id region, uint64_t bytes, struct err *e)
{
    uint64_t have = ix->h->have[region];
    if (bytes <= have)
        return 0;
    if (bytes > index_regions[region].max)
        return err_set(
            e, ERR_EXHAUSTED, "the index is full: no room for more %s", index_regions[region].what);
    uint64_t chunk = MAX(
        index_regions[region].chunk, have / 8 & ~(index_regions[region].chunk - 1));
    uint64_t want = MIN(
        MAX(have + chunk, (bytes + chunk - 1) / chunk * chunk), index_regions[region].max);
    if (fallocate(ix->fd, 0, (off_t)(index_regions[region].off + have), (off_t)(want - have))
        && errno != EOPNOTSUPP)
        return err_sys(e, errno, "grow the index by %llu bytes", (unsigned long long)(want - have));
    ix->h->have[region] = want;
    return 0;
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
