/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/remove.h"

#include "fuse/file/cached.h"
#include "fuse/file/read.h"
#include "fuse/file/stage.h"
#include "fuse/file/stage_sync.h"
#include "fuse/file/upload.h"
#include "lib/base/log.h"

#include <errno.h>

/* All of it, before the store has it no more. */
int file_preserve(struct file *f, struct err *e)
{
    struct inode n;
    mutex_assert_held(&f->state_lock);
    if (inodes_get(file_conf(f)->inodes, f->ino, &n) || !n.opens || (n.flags & INODE_STAGED))
        return 0;
    if (file_lock_attached(f, false, e))
        return -1;
    int rc = f->cf && !cache_complete(f->cf)
            && (cache_prefetch(f->cf, 0, n.size, e) || cache_fill(f->cf, 0, n.size, e))
        ? -1
        : 0;
    pthread_rwlock_unlock(&f->data_lock);
    if (rc == 0)
        atomic_store(&f->preserved, true);
    return rc;
}

void file_keep_preserved(struct file *f)
{
    struct err e = ERR_INIT;
    mutex_assert_held(&f->state_lock);
    if (!atomic_load(&f->preserved))
        return;
    pthread_rwlock_wrlock(&f->data_lock);
    if (stage_preserve(f, &e) == 0)
        atomic_store(&f->preserved, false);
    else /* then for as long as this process lives */
        log_kv(LOG_DEBUG, "what is read of a removed file ends with this process", "error", e.msg,
            NULL);
    pthread_rwlock_unlock(&f->data_lock);
}

/* No upload is under way. */
static int unlink_locked(struct file *f, struct err *e)
{
    const struct files_conf *c = file_conf(f);
    struct inode n;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    struct err lost = ERR_INIT;
    mutex_assert_held(&f->state_lock);
    if (inodes_get(c->inodes, f->ino, &n) || tree_where(c->tree, f->ino, &store, &mount, path, e))
        return err_wrap(e, "unlink");
    if (file_preserve(f, &lost))
        log_kv(LOG_WARN, "a file is removed while it is open, and could not be read before", "path",
            path, "error", lost.msg, NULL);
    if ((n.flags & INODE_LOCAL) ? upload_take_back(f, store, path, e)
                                : store_remove(store, path, e) && e->cls != ERR_NOTFOUND)
        return -1;
    file_keep_preserved(f);
    cached_unpin(c->cache, mount, path);
    /* keeps the record until its staging file is dealt with */
    inodes_hold(c->inodes, f->ino);
    inodes_remove(c->inodes, f->ino);
    file_discard(f);
    inodes_release(c->inodes, f->ino);
    stage_sync_settle(files_stage_sync(f->files));
    return 0;
}

static int unlink_name(struct files *fs, uint64_t dir, const char *name, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct inode n;
    files_will_block(fs);
    if (tree_lookup(c->tree, dir, name, &n, e))
        return -1;
    if (n.flags & INODE_DIR)
        return err_sys(e, EISDIR, "unlink %s", name);
    if (!tree_writable(c->tree, n.mount))
        return err_sys(e, EROFS, "unlink %s", name);
    struct file *f = files_get(fs, n.ino, e);
    if (!f)
        return -1;
    file_lock_state(f);
    inodes_change(c->inodes, dir, name);
    int rc = unlink_locked(f, e);
    inodes_change_end(c->inodes, dir, name);
    if (rc == 0)
        files_dir_changed(fs, dir);
    pthread_mutex_unlock(&f->state_lock);
    files_put(f);
    return rc;
}

int files_unlink(struct files *fs, uint64_t dir, const char *name, bool resent, struct err *e)
{
    int rc = unlink_name(fs, dir, name, e);
    return rc && resent && err_errno(e) == ENOENT ? 0 : rc;
}

static int require_empty(const struct files_conf *c, const struct inode *d, struct err *e)
{
    struct inode now;
    if (d->flags & (INODE_MOUNT | INODE_MOUNTPOINT_DIR))
        return err_sys(e, EBUSY, "a mount is here");
    if (tree_fill_all(c->tree, d->ino, e) && e->cls != ERR_NOTFOUND)
        return -1;
    if (inodes_get(c->inodes, d->ino, &now))
        return err_sys(e, ESTALE, "directory");
    return now.nchildren ? err_sys(e, ENOTEMPTY, "directory") : 0;
}

int files_remove_dir(struct files *fs, const struct inode *n, const char *name, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    files_will_block(fs);
    if (!(n->flags & INODE_DIR))
        return err_sys(e, ENOTDIR, "rmdir %s", name);
    if (!tree_writable(c->tree, n->mount))
        return err_sys(e, EROFS, "rmdir %s", name);
    if (require_empty(c, n, e) || tree_where(c->tree, n->ino, &store, &mount, path, e))
        return err_wrap(e, "rmdir %s", name);
    inodes_change(c->inodes, n->parent, name);
    int rc = store_rmdir(store, path, e) && e->cls != ERR_NOTFOUND ? -1 : 0;
    if (rc)
        inodes_unlist(c->inodes, n->ino);
    else
        inodes_remove(c->inodes, n->ino);
    inodes_change_end(c->inodes, n->parent, name);
    if (rc == 0)
        files_dir_changed(fs, n->parent);
    return rc;
}

int files_rmdir(struct files *fs, uint64_t dir, const char *name, bool resent, struct err *e)
{
    struct inode n;
    int rc = tree_lookup(files_config(fs)->tree, dir, name, &n, e);
    if (rc == 0)
        rc = files_remove_dir(fs, &n, name, e);
    return rc && resent && err_errno(e) == ENOENT ? 0 : rc;
}
