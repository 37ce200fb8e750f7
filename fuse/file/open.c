/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/open.h"

#include "fuse/file/commit.h"
#include "fuse/file/read.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <sys/stat.h>

#define PASS_BYTES CACHE_BLOCK /* smaller files that can be written are not passed through */

/* May its readers want to see what is written to it meanwhile? Most files that grow while they are
 * read are small, or were made here. */
static bool may_be_shared(const struct tree *t, const struct inode *n)
{
    return tree_writable(t, n->mount) && (n->size < PASS_BYTES || (n->flags & INODE_ATTR));
}

/* Opens a complete cached file for the kernel to read by itself, and counts that: its backing id,
 * one for an inode as long as it has any open; or 0. */
static int32_t open_backing(struct file *f, const struct inode *n)
{
    const struct files_conf *c = file_conf(f);
    struct err e = ERR_INIT;
    mutex_assert_held(&f->state_lock);
    if (!c->backings || f->no_backing || (n->flags & INODE_STAGED) || may_be_shared(c->tree, n))
        return 0;
    if (file_lock_attached(f, true, &e))
        return 0;
    cleanup_fd int fd = f->cf && !(backings_disk_only(c->backings) && cache_in_memory(f->cf))
        ? cache_complete_fd(f->cf)
        : -1;
    pthread_rwlock_unlock(&f->data_lock);
    if (fd < 0)
        return 0;
    int32_t id = backings_register(c->backings, f->ino, fd, &e);
    if (!id && e.cls) {
        log_kv(LOG_DEBUG, "no passthrough for a file", "error", e.msg, NULL);
        f->no_backing = e.cls != ERR_RETRY;
    }
    return id;
}

/* The short way for files that the kernel reads by itself: opens one again and returns its backing
 * id, 0 if it has none; and counts a close of one, false if it is none. */
static int32_t files_reopen(struct files *fs, uint64_t ino)
{
    return files_config(fs)->backings ? backings_reopen(files_config(fs)->backings, ino) : 0;
}

static bool files_reclosed(struct files *fs, uint64_t ino)
{
    struct inode n;
    if (!files_config(fs)->backings || inodes_get(files_config(fs)->inodes, ino, &n)
        || !(n.flags & INODE_PASSTHROUGH) || n.opens == 0 || n.backing <= 0)
        return false;
    if (inodes_opened(files_config(fs)->inodes, ino, -1) == 0)
        backings_idle(files_config(fs)->backings, &n);
    return true;
}

/* The kernel takes all opens of an inode in one way: through the backing file, or through us.
 * Readers of the backing file keep the version that they opened; a writer gets another inode
 * when the kernel looks the name up again, as it does after ESTALE. */
static int leave_to_readers(struct file *f, struct err *e)
{
    if (inodes_renew(file_conf(f)->inodes, f->ino, e))
        return -1; /* ESTALE, too, where another one has the name already */
    return err_sys(e, ESTALE, "inode %llu is for its readers only", (unsigned long long)f->ino);
}

static bool has_content(struct file *f)
{
    pthread_rwlock_rdlock(&f->data_lock);
    bool has = f->cf || f->stage_fd >= 0;
    pthread_rwlock_unlock(&f->data_lock);
    return has;
}

static int open_locked(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e)
{
    struct inodes *ix = file_conf(f)->inodes;
    struct inode n;
    if (!write && (*backing = files_reopen(f->files, f->ino)))
        return 0;
    if (write && file_conf(f)->backings && !backings_drop(file_conf(f)->backings, f->ino))
        return leave_to_readers(f, e);
    if (file_inode(f, &n, e))
        return -1;
    if (!write && n.opens == 0 && (*backing = open_backing(f, &n)))
        return 0;
    if ((n.flags & INODE_ORPHANED) && (write || !has_content(f)))
        return err_sys(e, ESTALE, "inode %llu has no name any more", (unsigned long long)f->ino);
    if (truncate && stage_truncate(f, 0, e))
        return -1;
    inodes_set(ix, f->ino, 0, NULL, 0, INODE_PASSTHROUGH);
    inodes_opened(ix, f->ino, 1);
    return 0;
}

/* What is staged is read from the staging file, whatever becomes of it in the store: who only reads
 * it does not wait for its upload, which has state_lock for as long as it takes. Counts an open of
 * it, or a close (delta); *opens: how many there are after that. False: not staged, or it is just
 * becoming so, or nobody knows how many there are. */
static bool opened_staged(struct file *f, int delta, unsigned *opens)
{
    struct inode n;
    if (pthread_rwlock_tryrdlock(&f->data_lock))
        return false;
    bool staged = f->stage_fd >= 0 && file_inode(f, &n, NULL) == 0 && (n.flags & INODE_STAGED)
        && !(n.flags & (INODE_ORPHANED | INODE_PASSTHROUGH | INODE_MISCOUNTED));
    if (staged)
        *opens = inodes_opened(file_conf(f)->inodes, f->ino, delta);
    pthread_rwlock_unlock(&f->data_lock);
    return staged;
}

int file_open(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e)
{
    unsigned opens;
    *backing = 0;
    /* a writer who may begin from what is being uploaded in the background does not wait either */
    if (!truncate && (!write || atomic_load(&f->sending)) && opened_staged(f, 1, &opens))
        return 0;
    file_lock_state(f);
    int rc = open_locked(f, write, truncate, backing, e);
    pthread_mutex_unlock(&f->state_lock);
    return rc;
}

/* The latest of what kept it open has ended, or its record is not held any more. */
static void closed_locked(struct file *f, const struct inode *was, unsigned opens)
{
    struct backings *b = file_conf(f)->backings;
    mutex_assert_held(&f->state_lock);
    if (b && !opens)
        backings_idle(b, was);
    if (!opens)
        atomic_store(&f->preserved, false);
    file_finish(f); /* unless it is open, or was opened since */
}

void file_closed(struct file *f)
{
    struct inode was = {0};
    unsigned opens;
    bool counted = opened_staged(f, -1, &opens);
    /* who uploads it in the background looks for that when it is done: file_uploaded() */
    if (counted && (opens || atomic_load(&f->sending)))
        return;
    file_lock_state(f);
    if (!counted) {
        if (file_conf(f)->backings)
            inodes_get(file_conf(f)->inodes, f->ino, &was);
        opens = inodes_opened(file_conf(f)->inodes, f->ino, -1);
    }
    closed_locked(f, &was, opens);
    pthread_mutex_unlock(&f->state_lock);
}

void file_release(struct file *f)
{
    struct inode was = {0};
    file_lock_state(f);
    if (file_conf(f)->backings)
        inodes_get(file_conf(f)->inodes, f->ino, &was);
    closed_locked(f, &was, inodes_release(file_conf(f)->inodes, f->ino));
    pthread_mutex_unlock(&f->state_lock);
}

int files_open(struct files *fs, uint64_t ino, int flags, int32_t *backing, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    bool write = open_writes(flags);
    struct inode n;
    *backing = 0;
    if (write ? tree_revalidate(c->tree, ino, &n, e) : tree_refresh(c->tree, ino, &n, e))
        return -1;
    if (S_ISLNK(n.mode)) /* the kernel follows links by itself */
        return err_sys(e, ELOOP, "open a symbolic link");
    if (write && !tree_writable(c->tree, n.mount))
        return err_sys(e, EROFS, "open for writing");
    if (write)
        files_will_block(fs);
    if (!write && (*backing = files_reopen(fs, ino)))
        return 0;
    struct file *f = files_get(fs, ino, e);
    if (!f)
        return -1;
    int rc = file_open(f, write, flags & O_TRUNC, backing, e);
    files_put(f);
    return rc;
}

void files_open_resent(struct files *fs, uint64_t ino)
{
    inodes_set(files_config(fs)->inodes, ino, 0, NULL, INODE_MISCOUNTED, 0);
}

/* A reader's, which is not counted. */
static void close_resent(struct files *fs, uint64_t ino)
{
    struct err e = ERR_INIT;
    struct inode n;
    files_open_resent(fs, ino);
    if (inodes_get(files_config(fs)->inodes, ino, &n) || !(n.flags & INODE_STAGED))
        return;
    struct file *f = files_get(fs, ino, &e);
    if (!f)
        return;
    file_lock_state(f);
    file_finish(f);
    pthread_mutex_unlock(&f->state_lock);
    files_put(f);
}

void files_close(struct files *fs, uint64_t ino, bool written, bool resent)
{
    struct err e = ERR_INIT;
    /* The process before this one may have counted it off. Counting one too few leaves the file as
     * it is until the next mount; one too many would make it look closed, and the next open would
     * be served in another way than those that exist: the kernel fails such opens. */
    if (!written && resent) {
        close_resent(fs, ino);
        return;
    }
    if (!written && files_reclosed(fs, ino))
        return;
    if (written)
        files_will_block(fs);
    struct file *f = files_get(fs, ino, &e);
    if (!f)
        return;
    /* Written through a mapping after the last close(2): there is no caller to tell of an error,
     * the uploader goes on trying. */
    if (written && file_is_dirty(f) && !atomic_load(&f->retry_ns))
        file_save(f, &e);
    file_closed(f);
    files_put(f);
}
