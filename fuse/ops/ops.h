/* SPDX-License-Identifier: Apache-2.0 */
/* ops — what the files of FUSE operations share. Each request is answered exactly once, and no lock
 * is held meanwhile. */
#ifndef MILLRACE_FUSE_OPS_OPS_H
#define MILLRACE_FUSE_OPS_OPS_H

#define FUSE_USE_VERSION 314
#include "fuse/file/create.h"
#include "fuse/ops/fs.h"

#include <fuse3/fuse_lowlevel.h>

static inline struct fs *ops_fs(fuse_req_t req) { return fuse_req_userdata(req); }

/* logs what a user should know of */
void ops_fail(fuse_req_t req, uint64_t ino, const char *what, const struct err *e);
void ops_attr(const struct fs *fs, const struct inode *n, struct stat *st);
/* answers with a name's inode, counted as known to the kernel */
void ops_entry(fuse_req_t req, const struct inode *n);
void ops_fill_entry(struct fs *fs, const struct inode *n, struct fuse_entry_param *p);
/* rc 0: success without anything to tell; else why not */
void ops_done(fuse_req_t req, uint64_t ino, const char *what, int rc, const struct err *e);
/* what a caller wants to make */
struct new_name ops_new_name(fuse_req_t req, uint64_t dir, const char *name, mode_t mode);

void op_lookup(fuse_req_t req, fuse_ino_t dir, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(
    fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_statfs(fuse_req_t req, fuse_ino_t ino);

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_setxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi,
    unsigned flags, const void *in, size_t in_size, size_t out_size);

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_create(
    fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, struct fuse_file_info *fi);
void op_mknod(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, dev_t rdev);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
    struct fuse_file_info *fi);
void op_fallocate(
    fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

void op_mkdir(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode);
void op_unlink(fuse_req_t req, fuse_ino_t dir, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t dir, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t newdir,
    const char *newname, unsigned flags);
void op_symlink(fuse_req_t req, const char *link, fuse_ino_t dir, const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir, const char *name);

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdirplus(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

#endif
