/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/small.h"

#define SMALL_BYTES (4u << 20)

bool prefetch_is_small(const struct inode *n)
{
    return !(n->flags & (INODE_DIR | INODE_STAGED | INODE_UNLINKED)) && n->size > 0
        && n->size <= SMALL_BYTES;
}
