/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about regular files. fi->fh is 1 for a handle that may write: it means the same to a
 * process that takes the session over. */
#include "fuse/ops/ops.h"

#include "fuse/file/allocate.h"
#include "fuse/file/commit.h"
#include "fuse/file/open.h"
#include "fuse/file/read.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "fuse/report/stall.h"
#include "fuse/session/session.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>

/* What the kernel is told of an open. */
static void set_open(struct fuse_file_info *fi, int32_t backing)
{
    fi->fh = open_writes(fi->flags);
    fi->noflush = !fi->fh;
    fi->keep_cache = 1; /* another version would be another inode */
    session_pass_through(backing);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    int32_t backing;
    if (fs->sealed && !open_writes(fi->flags)) {
        fuse_reply_err(req, ENOSYS); /* the kernel does not ask again, for any file */
        return;
    }
    if (session_resent())
        files_open_resent(fs->files, ino);
    if (files_open(fs->files, ino, fi->flags, &backing, &e)) {
        ops_fail(req, ino, "open", &e);
        return;
    }
    hints_seen(fs->hints, ino);
    set_open(fi, backing);
    if (fuse_reply_open(req, fi) == -ENOENT) /* interrupted: no release will come */
        files_close(fs->files, ino, false, false);
}

void op_create(
    fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    struct inode n;
    struct fuse_entry_param p;
    const struct new_name w = ops_new_name(req, dir, name, mode);
    if (files_create(fs->files, &w, fi->flags, &n, &e)) {
        ops_fail(req, dir, "create", &e);
        return;
    }
    set_open(fi, 0);
    ops_fill_entry(fs, &n, &p);
    inodes_ref(fs->inodes, p.ino);
    if (fuse_reply_create(req, &p, fi) == -ENOENT) {
        inodes_forget(fs->inodes, p.ino, 1);
        files_close(fs->files, p.ino, false, false);
    }
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

/* Counted with the waits of the caller. */
static ssize_t read_for_caller(
    fuse_req_t req, uint64_t ino, char *buf, size_t size, uint64_t off, struct err *e)
{
    struct fs *fs = ops_fs(req);
    struct file *f = buf ? files_get(fs->files, ino, e) : NULL;
    if (!f)
        return buf ? -1 : err_sys(e, ENOMEM, "read");
    struct stall_caller *caller = stalls_begin(fs->stalls, fuse_req_ctx(req)->pid);
    ssize_t n = file_pread(f, buf, size, off, e);
    stalls_end(fs->stalls, caller);
    files_put(f);
    return n;
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    struct err e = ERR_INIT;
    char *buf = thread_buffer(size);
    if (ops_fs(req)->sealed) /* there it is never opened */
        hints_seen(ops_fs(req)->hints, ino);
    ssize_t n = read_for_caller(req, ino, buf, size, (uint64_t)off, &e);
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

void op_fallocate(
    fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
    (void)fi;
    struct err e = ERR_INIT;
    struct file *f = files_get(ops_fs(req)->files, ino, &e);
    int rc = f ? file_allocate(f, mode, (uint64_t)off, (uint64_t)len, &e) : -1;
    if (f)
        files_put(f);
    ops_done(req, ino, "fallocate", rc, &e);
}

/* SEEK_DATA and SEEK_HOLE; the kernel does the others. */
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
    (void)fi;
    struct err e = ERR_INIT;
    if (ops_fs(req)->sealed) { /* no holes there: the kernel does not ask again */
        fuse_reply_err(req, ENOSYS);
        return;
    }
    struct file *f = files_get(ops_fs(req)->files, ino, &e);
    int64_t at = f ? file_seek(f, (uint64_t)off, whence, &e) : -1;
    if (f)
        files_put(f);
    if (at < 0)
        ops_fail(req, ino, "lseek", &e);
    else
        fuse_reply_lseek(req, at);
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct err e = ERR_INIT;
    if (ops_fs(req)->sealed)
        /* a file that was opened without us has nothing to save: the kernel does not ask again */
        fuse_reply_err(req, ENOSYS);
    else
        ops_done(req, ino, "close", fi->fh ? files_save(ops_fs(req)->files, ino, true, &e) : 0, &e);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    struct err e = ERR_INIT;
    ops_done(req, ino, "fsync", files_save(ops_fs(req)->files, ino, fi->fh, &e), &e);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    files_close(ops_fs(req)->files, ino, fi->fh, session_resent());
    fuse_reply_err(req, 0);
}
