/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/setattr.h"

#include "fuse/file/commit.h"
#include "fuse/file/open.h"
#include "fuse/file/stage.h"

#include <errno.h>

static int truncate_file(struct files *fs, uint64_t ino, uint64_t size, bool open, struct err *e)
{
    int32_t backing = 0;
    struct inode n;
    if (!open) /* it is uploaded at once */
        files_will_block(fs);
    if (!open && tree_revalidate(files_config(fs)->tree, ino, &n, e))
        return -1;
    struct file *f = files_get(fs, ino, e);
    if (!f)
        return -1;
    int rc = open ? 0 : file_open(f, true, false, &backing, e);
    if (rc == 0) {
        file_lock_state(f);
        rc = stage_truncate(f, size, e);
        if (rc == 0 && !open)
            rc = file_save_locked(f, e);
        pthread_mutex_unlock(&f->state_lock);
        if (!open)
            file_closed(f);
    }
    files_put(f);
    return rc;
}

int files_setattr(struct files *fs, uint64_t ino, unsigned fields, const struct inode *to,
    bool open, struct inode *out, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct inode set = *to;
    if (inodes_get(c->inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (!tree_writable(c->tree, out->mount))
        return err_sys(e, EROFS, "set attributes");
    if ((fields & INODES_SIZE) && truncate_file(fs, ino, to->size, open, e))
        return -1;
    fields &= ~(unsigned)INODES_SIZE;
    if (set.uid == SETATTR_KEEP)
        set.uid = out->uid;
    if (set.gid == SETATTR_KEEP)
        set.gid = out->gid;
    if (fields)
        inodes_set(c->inodes, ino, fields, &set, INODE_ATTR, 0);
    if (inodes_get(c->inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    return 0;
}
