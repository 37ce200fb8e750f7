/* SPDX-License-Identifier: Apache-2.0 */
/* Copies an idle complete file to another tier. */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"

#include <unistd.h>

static int write_exactly(int fd, const void *data, size_t len, uint64_t off)
{
    /* a short write means a full disk: not worth a retry */
    return pwrite(fd, data, len, (off_t)off) == (ssize_t)len ? 0 : -1;
}

int move_copy(struct node *n, const struct place *to)
{
    struct cache *c = n->c;
    char *buf = budget_buffer(&c->budget, CACHE_BLOCK);
    int rc = buf ? 0 : -1;
    for (uint32_t b = 0; b < n->nblocks && rc == 0; b++) {
        uint32_t len = block_len(n, b);
        uint64_t off = (uint64_t)b * CACHE_BLOCK;
        uint32_t crc = node_seg(n, b)->crc[b % SEG_BLOCKS];
        if (pread(n->fd, buf, len, (off_t)(n->base + off)) != (ssize_t)len
            || crc32c(0, buf, len) != crc)
            rc = -1;
        else
            rc = write_exactly(to->fd, buf, len, to->base + off);
        if (rc == 0 && to->side_fd >= 0) {
            unsigned char record[META_SIDE_RECORD];
            meta_side_put(record, &n->id, b, crc);
            rc = write_exactly(to->side_fd, record, sizeof record,
                META_SIDE_HEADER + (uint64_t)b * META_SIDE_RECORD);
        }
    }
    budget_buffer_put(&c->budget, buf, CACHE_BLOCK);
    return rc;
}
