/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/remove.h"

#include "fuse/file/read.h"

/* All of it, before the store has it no more. */
int file_preserve(struct file *f, unsigned own, struct err *e)
{
    struct inode n;
    if (inodes_get(file_conf(f)->inodes, f->ino, &n) || n.opens <= own || (n.flags & INODE_STAGED))
        return 0;
    if (file_lock_attached(f, false, e))
        return -1;
    int rc = f->cf && !cache_complete(f->cf)
            && (cache_prefetch(f->cf, 0, n.size, e) || cache_wait(f->cf, e))
        ? -1
        : 0;
    pthread_rwlock_unlock(&f->data_lock);
    if (rc == 0)
        atomic_store(&f->preserved, true);
    return rc;
}
