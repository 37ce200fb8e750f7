/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that change names. A request that is sent again after a crash finds its work done: that
 * is success, not an error. */
#include "fuse/ops/ops.h"

#include "fuse/file/remove.h"
#include "fuse/file/rename.h"
#include "fuse/session/loop.h"
#include "fuse/session/session.h"

#include <errno.h>
#include <sys/stat.h>

void op_symlink(fuse_req_t req, const char *link, fuse_ino_t dir, const char *name)
{
    struct err e = ERR_INIT;
    struct inode n;
    const struct new_name w = ops_new_name(req, dir, name, 0);
    if (files_symlink(ops_fs(req)->files, &w, link, &n, &e))
        ops_fail(req, dir, "symlink", &e);
    else
        ops_entry(req, &n);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir, const char *name)
{
    (void)ino;
    (void)dir;
    (void)name;
    fuse_reply_err(req, EOPNOTSUPP);
}

void op_mknod(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, dev_t rdev)
{
    (void)rdev;
    struct err e = ERR_INIT;
    struct inode n;
    const struct new_name w = ops_new_name(req, dir, name, mode);
    if (!S_ISREG(mode))
        fuse_reply_err(req, EOPNOTSUPP); /* a store has files and directories, nothing else */
    else if (files_mknod(ops_fs(req)->files, &w, &n, &e))
        ops_fail(req, n.ino, "mknod", &e);
    else
        ops_entry(req, &n);
}

void op_mkdir(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode)
{
    struct err e = ERR_INIT;
    struct inode n;
    const struct new_name w = ops_new_name(req, dir, name, mode);
    if (files_mkdir(ops_fs(req)->files, &w, &n, &e))
        ops_fail(req, dir, "mkdir", &e);
    else
        ops_entry(req, &n);
}

void op_unlink(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    struct err e = ERR_INIT;
    ops_done(
        req, dir, "unlink", files_unlink(ops_fs(req)->files, dir, name, session_resent(), &e), &e);
}

void op_rmdir(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    struct err e = ERR_INIT;
    ops_done(
        req, dir, "rmdir", files_rmdir(ops_fs(req)->files, dir, name, session_resent(), &e), &e);
}

void op_rename(fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t newdir,
    const char *newname, unsigned flags)
{
    struct err e = ERR_INIT;
    const struct rename_request r = {dir, name, newdir, newname, flags, session_resent()};
    loop_will_block();
    ops_done(req, dir, "rename", files_rename(ops_fs(req)->files, &r, &e), &e);
}
