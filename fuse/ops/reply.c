/* SPDX-License-Identifier: Apache-2.0 */
/* How requests are answered: errors, attributes, entries. */
#include "fuse/ops/ops.h"

#include "fuse/session/session.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define FAULTS_EVERY_NS (10 * NS_PER_S)
#define FAULTS_MAX      50 /* in the log meanwhile: a dead store has as many as it has readers */

static bool may_log_fault(void)
{
    static atomic_int_fast64_t since_ns;
    static atomic_uint n;
    int64_t now = clock_mono_ns(), since = atomic_load(&since_ns);
    if ((!since || now - since >= FAULTS_EVERY_NS)
        && atomic_compare_exchange_strong(&since_ns, &since, now))
        atomic_store(&n, 0);
    unsigned before = atomic_fetch_add(&n, 1);
    if (before == FAULTS_MAX)
        log_kv(LOG_ERROR, "more requests fail than are told here", NULL);
    return before < FAULTS_MAX;
}

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
    case ENXIO:
        if (strcmp(what, "lookup") != 0)
            log_kv(LOG_DEBUG, "a request was refused", "op", what, "error", e->msg, NULL);
        break; /* answers, not faults */
    case ESTALE:
        log_kv(LOG_DEBUG, "a request failed", "op", what, "error", e->msg, NULL);
        break;
    default:
        files_note_error(ops_fs(req)->files, ino, e);
        log_kv(may_log_fault() ? LOG_ERROR : LOG_DEBUG, "a request failed", "op", what, "errno",
            strerror(errnum), "error", e->msg, NULL);
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

void ops_done(fuse_req_t req, uint64_t ino, const char *what, int rc, const struct err *e)
{
    if (rc)
        ops_fail(req, ino, what, e);
    else
        fuse_reply_err(req, 0);
}

struct new_name ops_new_name(fuse_req_t req, uint64_t dir, const char *name, mode_t mode)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    return (struct new_name){.dir = dir,
        .name = name,
        .mode = mode,
        .umask = ctx->umask,
        .uid = ctx->uid,
        .gid = ctx->gid,
        .request = session_request(),
        .resent = session_resent()};
}
