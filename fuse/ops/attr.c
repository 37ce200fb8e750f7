/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/ops/ops.h"

#include "fuse/ops/pin.h"
#include "fuse/report/status.h"
#include "fuse/session/loop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define XATTR_ERROR "user.millrace.error"
/* of the root: what /status says, for `millrace stat`; not listed */
#define XATTR_STATUS "user.millrace.status"
#define STATUS_MAX   (60u << 10) /* the kernel allows 64 KiB */

void ops_fail(fuse_req_t req, uint64_t ino, const char *what, const struct err *e)
{
    int errnum = err_errno(e);
    switch (errnum) {
    case ENOENT:
    case EEXIST:
    case ENOTEMPTY:
    case ENOTDIR:
    case EISDIR:
    case EROFS:
    case EXDEV:
    case ENAMETOOLONG:
    case EOPNOTSUPP:
    case EINVAL:
    case ENOTTY:
    case EBUSY:
        if (strcmp(what, "lookup") != 0)
            log_kv(LOG_DEBUG, "a request was refused", "op", what, "error", e->msg, NULL);
        break; /* answers, not faults */
    case ESTALE:
        log_kv(LOG_DEBUG, "a request failed", "op", what, "error", e->msg, NULL);
        break;
    default:
        files_note_error(ops_fs(req)->files, ino, e);
        log_kv(LOG_ERROR, "a request failed", "op", what, "errno", strerror(errnum), "error",
            e->msg, NULL);
    }
    fuse_reply_err(req, errnum);
}

void ops_attr(const struct fs *fs, const struct inode *n, struct stat *st)
{
    (void)fs;
    memset(st, 0, sizeof *st);
    st->st_ino = n->ino;
    st->st_mode = n->mode;
    /* of a directory too: "cannot be told", see find(1) -noleaf */
    st->st_nlink = n->flags & INODE_UNLINKED ? 0 : 1;
    st->st_uid = n->uid;
    st->st_gid = n->gid;
    st->st_size = (off_t)n->size;
    st->st_blocks = (blkcnt_t)((n->size + 511) / 512);
    st->st_blksize = 4096;
    st->st_mtim.tv_sec = (time_t)(n->mtime_ns / NS_PER_S);
    st->st_mtim.tv_nsec = (long)(n->mtime_ns % NS_PER_S);
    st->st_atim = st->st_ctim = st->st_mtim;
}

void ops_fill_entry(struct fs *fs, const struct inode *n, struct fuse_entry_param *p)
{
    memset(p, 0, sizeof *p);
    p->ino = n->ino;
    p->generation = n->generation;
    p->attr_timeout = p->entry_timeout = tree_valid_for(fs->tree, n, fs->timeout);
    ops_attr(fs, n, &p->attr);
}

void ops_entry(fuse_req_t req, const struct inode *n)
{
    struct fs *fs = ops_fs(req);
    struct fuse_entry_param p;
    uint64_t ino = n->ino;
    ops_fill_entry(fs, n, &p);
    inodes_ref(fs->inodes, ino);
    /* the caller was interrupted: the kernel does not know it */
    if (fuse_reply_entry(req, &p) == -ENOENT)
        inodes_forget(fs->inodes, ino, 1);
}

int ops_may_change(struct fs *fs, const struct inode *dir)
{
    return tree_writable(fs->tree, dir->mount) ? 0 : EROFS;
}

static void op_init(void *user, struct fuse_conn_info *conn)
{
    (void)user;
    conn->max_write = 1 << 20;
    conn->max_background = 256;
    conn->congestion_threshold = 192;
    conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE
        | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_FLOCK_LOCKS
        | FUSE_CAP_POSIX_LOCKS);
    /* A version has its own inode, so what the kernel has of an inode is never out of date by
     * itself. */
    conn->want |= conn->capable
        & (unsigned)(FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS
            | FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO
            | FUSE_CAP_EXPORT_SUPPORT);
}

/* A sealed mount's kernel lists a directory from what it has read: from time to time it must come
 * and ask us. It is told once for each listing that has become old: what it then knows of the
 * directory is void, and telling it with each answer would keep it so. */
static void let_it_ask(struct fs *fs, const struct inode *n)
{
    static _Atomic uint64_t told[64];
    uint64_t listing = n->ino << 32 | n->listed_s;
    if (fs->sealed && tree_is_old(fs->tree, n)
        && atomic_exchange(&told[n->ino % 64], listing) != listing) {
        loop_will_block();
        session_inval_dir(fs->session, n->ino);
    }
}

static void op_lookup(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    struct fs *fs = ops_fs(req);
    struct inode n;
    struct err e = ERR_INIT;
    /* a file server asks for what it has only an id of */
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        struct inode d;
        if (inodes_get(fs->inodes, dir, &d) || inodes_get(fs->inodes, name[1] ? d.parent : dir, &n))
            fuse_reply_err(req, ESTALE);
        else
            ops_entry(req, &n);
        return;
    }
    if (tree_lookup(fs->tree, dir, name, &n, &e) == 0) {
        let_it_ask(fs, &n);
        if (!(n.flags & INODE_DIR))
            habit_looked(&fs->habit, dir);
        ops_entry(req, &n);
        return;
    }
    if (err_errno(&e) == ENOENT && fs->absence > 0) {
        struct fuse_entry_param p = {
            .entry_timeout = tree_absence_valid_for(fs->tree, dir, fs->absence)};
        fuse_reply_entry(req, &p);
        return;
    }
    ops_fail(req, dir, "lookup", &e);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
    inodes_forget(ops_fs(req)->inodes, ino, n);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        inodes_forget(ops_fs(req)->inodes, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    struct fs *fs = ops_fs(req);
    struct inode n;
    struct stat st;
    struct err e = ERR_INIT;
    /* Whoever has it open sees what he opened, whatever became of the name. */
    if (tree_refresh(fs->tree, ino, &n, &e) && inodes_get(fs->inodes, ino, &n)) {
        ops_fail(req, ino, "getattr", &e);
        return;
    }
    let_it_ask(fs, &n);
    ops_attr(fs, &n, &st);
    fuse_reply_attr(
        req, &st, n.flags & INODE_UNLINKED ? 0 : tree_valid_for(fs->tree, &n, fs->timeout));
}

static int64_t ns_of(const struct timespec *ts) { return ts->tv_sec * NS_PER_S + ts->tv_nsec; }

static void op_setattr(
    fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct inode n, set = {0};
    struct stat st;
    struct err e = ERR_INIT;
    unsigned fields = 0;
    if (inodes_get(fs->inodes, ino, &n)) {
        fuse_reply_err(req, ESTALE);
        return;
    }
    if (ops_may_change(fs, &n)) {
        fuse_reply_err(req, EROFS);
        return;
    }
    if ((to_set & FUSE_SET_ATTR_SIZE)
        && ops_resize(fs, ino, (uint64_t)attr->st_size, fi != NULL, &e)) {
        ops_fail(req, ino, "truncate", &e);
        return;
    }
    if (to_set & FUSE_SET_ATTR_MODE)
        fields |= INODES_MODE, set.mode = attr->st_mode;
    if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
        fields |= INODES_OWNER;
        set.uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : n.uid;
        set.gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : n.gid;
    }
    if (to_set & FUSE_SET_ATTR_MTIME)
        fields |= INODES_MTIME,
            set.mtime_ns = to_set & FUSE_SET_ATTR_MTIME_NOW ? clock_real_ns()
                                                            : ns_of(&attr->st_mtim);
    if (fields)
        inodes_set(fs->inodes, ino, fields, &set, INODE_ATTR, 0);
    if (inodes_get(fs->inodes, ino, &n)) {
        fuse_reply_err(req, ESTALE);
        return;
    }
    ops_attr(fs, &n, &st);
    fuse_reply_attr(req, &st, tree_valid_for(fs->tree, &n, fs->timeout));
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    (void)ino;
    fuse_reply_err(req, EINVAL);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    (void)ino;
    /* A store has no end that we could tell: an exbibyte, all of it free. */
    struct statvfs st = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = INODE_NAME_MAX};
    struct inodes_stats s;
    inodes_stats(ops_fs(req)->inodes, &s);
    st.f_blocks = st.f_bfree = st.f_bavail = UINT64_C(1) << 48;
    st.f_files = UINT32_MAX;
    st.f_ffree = st.f_favail = UINT32_MAX - s.inodes;
    fuse_reply_statfs(req, &st);
}

static void reply_xattr(fuse_req_t req, const char *value, size_t len, size_t size)
{
    if (size == 0)
        fuse_reply_xattr(req, len);
    else if (size < len)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, value, len);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    char text[LAST_ERROR_MAX];
    if (ino == FUSE_ROOT_ID && strcmp(name, XATTR_STATUS) == 0) {
        cleanup_buf struct buf status = BUF_INIT(STATUS_MAX);
        status_json(ops_fs(req)->status, &status);
        reply_xattr(req, buf_str(&status), status.len, size);
    } else if (strcmp(name, XATTR_ERROR) == 0 && files_last_error(ops_fs(req)->files, ino, text)) {
        reply_xattr(req, text, strlen(text), size);
    } else {
        fuse_reply_err(req, ENODATA);
    }
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    char text[LAST_ERROR_MAX];
    size_t len = files_last_error(ops_fs(req)->files, ino, text) ? sizeof XATTR_ERROR : 0;
    reply_xattr(req, XATTR_ERROR, len, size);
}

static void op_setxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
    (void)ino;
    (void)name;
    (void)value;
    (void)size;
    (void)flags;
    fuse_reply_err(req, EOPNOTSUPP);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    (void)ino;
    (void)name;
    fuse_reply_err(req, ENODATA);
}

static void pin(fuse_req_t req, uint64_t ino, bool dir, const struct pin_msg *in)
{
    struct err e = ERR_INIT;
    struct pin_msg m = *in;
    int rc = pin_do(ops_fs(req), &ino, dir, &m, &e);
    /* an answer: whoever has the mount may ask for more than there is */
    if (rc && err_errno(&e) == ENOSPC) {
        log_kv(LOG_DEBUG, "a request was refused", "op", "pin", "error", e.msg, NULL);
        fuse_reply_err(req, ENOSPC);
    } else if (rc)
        ops_fail(req, ino, "pin", &e);
    else
        fuse_reply_ioctl(req, 0, &m, sizeof m);
}

static void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
    struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size, size_t out_size)
{
    (void)arg;
    (void)fi;
    struct err e = ERR_INIT;
    if (cmd == PIN_IOCTL && in_size == sizeof(struct pin_msg) && out_size == sizeof(struct pin_msg))
        pin(req, ino, flags & FUSE_IOCTL_DIR, in);
    else if (cmd != HINT_IOCTL || !(flags & FUSE_IOCTL_DIR) || in_size != sizeof(struct hint_msg))
        fuse_reply_err(req, ENOTTY);
    else if (hints_add(ops_fs(req)->hints, ino, in, &e))
        ops_fail(req, ino, "hint", &e);
    else
        fuse_reply_ioctl(req, 0, NULL, 0);
}

/* flock, fcntl locks, access, lseek, fallocate, copy_file_range are left out: the kernel does them,
 * or their fallback, better. */
const struct fuse_lowlevel_ops fs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .open = op_open,
    .read = op_read,
    .write = op_write,
    .flush = op_flush,
    .release = op_release,
    .fsync = op_fsync,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .statfs = op_statfs,
    .setxattr = op_setxattr,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .removexattr = op_removexattr,
    .create = op_create,
    .ioctl = op_ioctl,
};
