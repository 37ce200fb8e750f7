/* SPDX-License-Identifier: Apache-2.0 */
/* Copies an idle complete file to another tier. */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"

int move_copy(struct object *o, const struct location *to)
{
    struct cache *c = o->c;
    char *buf = budget_buffer(&c->budget, CACHE_BLOCK);
    int rc = buf ? 0 : -1;
    for (uint32_t b = 0; b < o->nblocks && rc == 0; b++) {
        uint32_t len = block_len(o, b);
        uint64_t off = (uint64_t)b * CACHE_BLOCK;
        uint32_t crc = object_seg(o, b)->crc[b % SEG_BLOCKS];
        if (io_pread_exact(o->fd, buf, len, o->base + off) || crc32c(0, buf, len) != crc)
            rc = -1;
        else
            rc = io_pwrite(to->fd, buf, len, to->base + off);
        if (rc == 0 && to->sidecar_fd >= 0) {
            unsigned char record[META_SIDECAR_RECORD];
            meta_sidecar_put(record, &o->id, b, crc);
            rc = io_pwrite(to->sidecar_fd, record, sizeof record,
                META_SIDECAR_HEADER + (uint64_t)b * META_SIDECAR_RECORD);
        }
    }
    budget_buffer_put(&c->budget, buf, CACHE_BLOCK);
    return rc;
}
