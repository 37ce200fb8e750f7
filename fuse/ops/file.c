/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about regular files. fi->fh is 1 for a handle that may write: it means the same to a
 * process that takes the session over. */
#include "fuse/ops/ops.h"

#include "fuse/file/open.h"
#include "fuse/file/read.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "fuse/report/stall.h"
#include "fuse/session/loop.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static bool wants_write(const struct fuse_file_info *fi)
{
    return (fi->flags & O_ACCMODE) != O_RDONLY;
}

/* Opens an inode; on success the open is counted. */
static int open_inode(struct fs *fs, uint64_t ino, struct fuse_file_info *fi, struct err *e)
{
    bool write = wants_write(fi);
    int32_t backing = 0;
    struct inode n;
    if (tree_refresh(fs->tree, ino, &n, e))
        return -1;
    if (write && !tree_writable(fs->tree, n.mount))
        return err_sys(e, EROFS, "open for writing");
    if (write)
        loop_will_block();
    if (write || !(backing = files_reopen(fs->files, ino))) {
        struct file *f = files_get(fs->files, ino, e);
        if (!f)
            return -1;
        int rc = file_open(f, write, write && (fi->flags & O_TRUNC), &backing, e);
        files_put(f);
        if (rc)
            return -1;
    }
    fi->fh = write;
    fi->noflush = !write;
    fi->keep_cache = 1; /* another version would be another inode */
    session_pass_through(backing);
    return 0;
}

static void closed(struct fs *fs, uint64_t ino)
{
    struct err e = ERR_INIT;
    if (files_reclosed(fs->files, ino))
        return;
    struct file *f = files_get(fs->files, ino, &e);
    if (!f)
        return;
    file_closed(f);
    files_put(f);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    if (fs->sealed && !wants_write(fi)) {
        fuse_reply_err(req, ENOSYS); /* the kernel does not ask again, for any file */
        return;
    }
    if (open_inode(fs, ino, fi, &e)) {
        ops_fail(req, ino, "open", &e);
        return;
    }
    hints_seen(fs->hints, ino);
    if (fuse_reply_open(req, fi) == -ENOENT) /* interrupted: no release will come */
        closed(fs, ino);
}

/* The name, and its file open for writing. */
static int create_file(struct fs *fs, const struct fuse_ctx *ctx, uint64_t dir, const char *name,
    mode_t mode, struct inode *n, struct err *e)
{
    struct inode d;
    if (inodes_get(fs->inodes, dir, &d))
        return err_sys(e, ESTALE, "create %s", name);
    if (ops_may_change(fs, &d))
        return err_sys(e, EROFS, "create %s", name);
    struct inode like = {.flags = INODE_LOCAL | INODE_STAGED | INODE_DIRTY,
        .mode = S_IFREG | fs->file_mode | (mode & 0111),
        .uid = ctx->uid,
        .gid = ctx->gid,
        .mount = d.mount,
        .mtime_ns = clock_real_ns()};
    like.synced_s = (uint32_t)(like.mtime_ns / NS_PER_S);
    if (inodes_create(fs->inodes, dir, name, &like, n, e))
        return -1;
    inodes_opened(fs->inodes, n->ino, 1);
    struct file *f = files_get(fs->files, n->ino, e);
    int rc = f ? stage_create(f, e) : -1;
    if (rc) {
        inodes_remove(fs->inodes, n->ino);
        if (f)
            upload_discard(f);
        inodes_opened(fs->inodes, n->ino, -1);
    }
    if (f)
        files_put(f);
    return rc;
}

void op_create(
    fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    struct inode n;
    struct fuse_entry_param p;
    int rc = create_file(fs, fuse_req_ctx(req), dir, name, mode, &n, &e);
    if (rc && err_errno(&e) == EEXIST && (!(fi->flags & O_EXCL) || session_resent())
        && inodes_find(fs->inodes, dir, name, &n) && !(n.flags & INODE_DIR))
        rc = open_inode(fs, n.ino, fi, &e);
    if (rc) {
        ops_fail(req, dir, "create", &e);
        return;
    }
    session_pass_through(0);
    uint64_t ino = n.ino;
    fi->fh = wants_write(fi);
    fi->keep_cache = 1;
    inodes_get(fs->inodes, ino, &n);
    ops_fill_entry(fs, &n, &p);
    inodes_ref(fs->inodes, ino);
    if (fuse_reply_create(req, &p, fi) == -ENOENT) {
        inodes_forget(fs->inodes, ino, 1);
        closed(fs, ino);
    }
}

void op_mknod(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, dev_t rdev)
{
    (void)rdev;
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    struct inode n;
    if (!S_ISREG(mode)) {
        fuse_reply_err(req, EOPNOTSUPP); /* a store has files and directories, nothing else */
        return;
    }
    if (create_file(fs, fuse_req_ctx(req), dir, name, mode, &n, &e)) {
        if (err_errno(&e) == EEXIST && session_resent() && inodes_find(fs->inodes, dir, name, &n))
            ops_entry(req, &n);
        else
            ops_fail(req, dir, "mknod", &e);
        return;
    }
    struct file *f = files_get(fs->files, n.ino, &e);
    int rc = f ? file_upload(f, &e) : -1;
    if (f) {
        file_closed(f);
        files_put(f);
    }
    if (rc)
        ops_fail(req, n.ino, "mknod", &e);
    else
        ops_entry(req, &n);
}

struct buffer {
    size_t size;
    char data[];
};
static pthread_key_t buffer_key;

static void buffer_make_key(void) { pthread_key_create(&buffer_key, free); }

/* One for a thread, as large as its largest request: malloc would give the pages back to the kernel
 * after each. */
static char *thread_buffer(size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, buffer_make_key);
    struct buffer *b = pthread_getspecific(buffer_key);
    if (b && b->size >= size)
        return b->data;
    free(b);
    size_t want = MAX(size, (size_t)128 << 10);
    b = malloc(sizeof *b + want);
    if (b)
        b->size = want;
    pthread_setspecific(buffer_key, b);
    return b ? b->data : NULL;
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    char *buf = thread_buffer(size);
    if (fs->sealed) /* there it is never opened */
        hints_seen(fs->hints, ino);
    struct file *f = buf ? files_get(fs->files, ino, &e) : NULL;
    if (!f) {
        if (!buf)
            err_sys(&e, ENOMEM, "read");
        ops_fail(req, ino, "read", &e);
        return;
    }
    struct stall_caller *caller = stalls_begin(fs->stalls, fuse_req_ctx(req)->pid);
    ssize_t n = file_pread(f, buf, size, (uint64_t)off, &e);
    stalls_end(fs->stalls, caller);
    files_put(f);
    if (n < 0)
        ops_fail(req, ino, "read", &e);
    else
        fuse_reply_buf(req, buf, (size_t)n);
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
    struct fuse_file_info *fi)
{
    (void)fi;
    struct err e = ERR_INIT;
    struct file *f = files_get(ops_fs(req)->files, ino, &e);
    ssize_t n = f ? file_pwrite(f, buf, size, (uint64_t)off, &e) : -1;
    if (f)
        files_put(f);
    if (n < 0)
        ops_fail(req, ino, "write", &e);
    else
        fuse_reply_write(req, (size_t)n);
}

static void save(fuse_req_t req, uint64_t ino, const struct fuse_file_info *fi, const char *what)
{
    struct err e = ERR_INIT;
    if (!fi->fh) {
        fuse_reply_err(req, 0);
        return;
    }
    struct file *f = files_get(ops_fs(req)->files, ino, &e);
    int rc = f ? file_upload(f, &e) : -1;
    if (f)
        files_put(f);
    if (rc)
        ops_fail(req, ino, what, &e);
    else
        fuse_reply_err(req, 0);
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (ops_fs(req)->sealed)
        /* a file that was opened without us has nothing to save: the kernel does not ask again */
        fuse_reply_err(req, ENOSYS);
    else
        save(req, ino, fi, "close");
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    save(req, ino, fi, "fsync");
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct err e = ERR_INIT;
    /* It may have been counted off already. Once too few is a file that stays as it is until the
     * next mount; once too many would be one that is thought closed, and is served in another way
     * than those who have it open: the kernel fails such opens. */
    if (!fi->fh && session_resent()) {
        fuse_reply_err(req, 0);
        return;
    }
    if (!fi->fh && files_reclosed(ops_fs(req)->files, ino)) {
        fuse_reply_err(req, 0);
        return;
    }
    if (fi->fh)
        loop_will_block();
    struct file *f = files_get(ops_fs(req)->files, ino, &e);
    if (f) {
        /* Written through a mapping after the last close(): there is nobody to tell of an error,
         * the uploader goes on trying. */
        if (fi->fh && file_is_dirty(f) && !atomic_load(&f->retry_ns))
            file_upload(f, &e);
        file_closed(f);
        files_put(f);
    }
    fuse_reply_err(req, 0);
}

int ops_resize(struct fs *fs, uint64_t ino, uint64_t size, bool open, struct err *e)
{
    int32_t backing = 0;
    struct file *f = files_get(fs->files, ino, e);
    if (!f)
        return -1;
    int rc = open ? 0 : file_open(f, true, false, &backing, e);
    if (rc == 0) {
        pthread_mutex_lock(&f->state_lock);
        rc = stage_truncate(f, size, e);
        if (rc == 0 && !open)
            rc = file_upload_locked(f, e);
        pthread_mutex_unlock(&f->state_lock);
        if (!open)
            file_closed(f);
    }
    files_put(f);
    return rc;
}
