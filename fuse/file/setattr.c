/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/setattr.h"

#include "fuse/file/attr.h"
#include "fuse/file/commit.h"
#include "fuse/file/open.h"
#include "fuse/file/recache.h"
#include "fuse/file/stage.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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

static unsigned attr_of_fields(unsigned fields)
{
    return (fields & INODES_MODE ? STORE_MODE : 0) | (fields & INODES_OWNER ? STORE_OWNER : 0)
        | (fields & INODES_MTIME ? STORE_MTIME : 0);
}

/* In the index: from here on they hold, whatever the store says. */
static int setattr_index(struct files *fs, uint64_t ino, unsigned fields, const struct inode *to,
    struct inode *n, struct err *e)
{
    struct inodes *ix = files_config(fs)->inodes;
    struct inode set = *to;
    if (inodes_get(ix, ino, n))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (set.uid == SETATTR_KEEP)
        set.uid = n->uid;
    if (set.gid == SETATTR_KEEP)
        set.gid = n->gid;
    set.attr = (uint8_t)(n->attr | attr_of_fields(fields));
    set.untold = (uint8_t)(n->untold | attr_of_fields(fields));
    inodes_set(ix, ino, fields | INODES_ATTR, &set, INODE_ATTR, 0);
    return inodes_get(ix, ino, n) ? err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino) : 0;
}

/* Its mount is writable, so that it has a store. */
static bool store_takes_attr(const struct files *fs, const struct inode *n)
{
    return store_keeps_attr(tree_store(files_config(fs)->tree, n->mount));
}

/* What is not in the store yet, or was written to, has its attributes told with its content. Those
 * of a mount's own directory no mount would ask for again. */
static bool is_told_now(const struct files *fs, const struct inode *n)
{
    const unsigned later = INODE_LOCAL | INODE_DIRTY, never = INODE_UNLINKED | INODE_MOUNT;
    return !(n->flags & (later | never)) && store_takes_attr(fs, n);
}

/* No directory moves meanwhile: the path stays. */
static void setattr_tell(struct files *fs, struct inode *n)
{
    progress_rdlock(files_rename_lock(fs), PROGRESS_ANY);
    attr_tell(fs, n);
    pthread_rwlock_unlock(files_rename_lock(fs));
}

static int setattr_file(struct file *f, unsigned fields, const struct inode *to, struct err *e)
{
    char version[STORE_VERSION_MAX];
    struct inode n;
    file_attach_cached(f);
    file_lock_state(f);
    int rc = setattr_index(f->files, f->ino, fields, to, &n, e);
    if (rc == 0 && is_told_now(f->files, &n)) {
        memcpy(version, n.version, sizeof version);
        setattr_tell(f->files, &n);
        if (strcmp(version, n.version) != 0) /* all of it would be read */
            file_recache(f);
    }
    pthread_mutex_unlock(&f->state_lock);
    return rc;
}

static int setattr_known(
    struct files *fs, uint64_t ino, unsigned fields, const struct inode *to, struct err *e)
{
    struct inode n;
    if (inodes_get(files_config(fs)->inodes, ino, &n))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    bool now = is_told_now(fs, &n);
    if (now)
        files_will_block(fs);
    /* of what is no file, nothing is cached that would have to move along */
    if (!S_ISREG(n.mode) || !store_takes_attr(fs, &n)) {
        int rc = setattr_index(fs, ino, fields, to, &n, e);
        if (rc == 0 && now)
            setattr_tell(fs, &n);
        return rc;
    }
    struct file *f = files_get(fs, ino, e);
    int rc = f ? setattr_file(f, fields, to, e) : -1;
    if (f)
        files_put(f);
    return rc;
}

int files_setattr(struct files *fs, uint64_t ino, unsigned fields, const struct inode *to,
    bool open, struct inode *out, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    if (inodes_get(c->inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (!tree_writable(c->tree, out->mount))
        return err_sys(e, EROFS, "set attributes");
    if ((fields & INODES_SIZE) && truncate_file(fs, ino, to->size, open, e))
        return -1;
    fields &= ~(unsigned)INODES_SIZE;
    if (fields && setattr_known(fs, ino, fields, to, e))
        return -1;
    if (inodes_get(c->inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    return 0;
}
