/* SPDX-License-Identifier: Apache-2.0 */
/* Records that this process holds without an open, and what one that was killed while it did
 * leaves. */
#include "fuse/index/format.h"
#include "lib/base/mem.h"

void inodes_hold(struct inodes *ix, uint64_t ino)
{
    pthread_rwlock_wrlock(&ix->lock);
    if (ix->nheld == ix->held_room) {
        ix->held_room = MAX(2 * ix->held_room, (size_t)16);
        ix->held = xrealloc(ix->held, ix->held_room * sizeof *ix->held);
    }
    ix->held[ix->nheld++] = (uint32_t)ino;
    pthread_rwlock_unlock(&ix->lock);
}

unsigned inodes_release(struct inodes *ix, uint64_t ino)
{
    pthread_rwlock_wrlock(&ix->lock);
    for (size_t i = ix->nheld; i-- > 0;)
        if (ix->held[i] == ino) {
            ix->held[i] = ix->held[--ix->nheld];
            break;
        }
    pthread_rwlock_unlock(&ix->lock);
    return inodes_opened(ix, ino, 0);
}

void inodes_reclaim(struct inodes *ix)
{
    uint32_t left = ix->h->unlinked;
    for (uint32_t i = INODE_ROOT + 1; left && i < ix->h->nrecs; i++) {
        const struct rec *r = index_rec(ix, i);
        if (r && (r->flags & INODE_UNLINKED)) {
            left--;
            inodes_opened(ix, i, 0);
        }
    }
}
