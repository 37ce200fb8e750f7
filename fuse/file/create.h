/* SPDX-License-Identifier: Apache-2.0 */
/* create — names that are made here: files, which only exist locally until they are uploaded, and
 * directories, which the store has first. */
#ifndef MILLRACE_FUSE_FILE_CREATE_H
#define MILLRACE_FUSE_FILE_CREATE_H

#include "fuse/file/file.h"

struct new_name {
    uint64_t dir;
    const char *name;
    uint32_t mode; /* permission bits that the caller wants, without those of its umask */
    uint32_t umask;
    uint32_t uid, gid;
    uint64_t request; /* the kernel's number of it */
    bool resent;      /* a process before this one may have done it already: that is success */
};

/* open(2) with O_CREAT: flags may have O_EXCL, O_TRUNC, O_ACCMODE. The open is counted, and is not
 * passed through. */
int files_create(
    struct files *fs, const struct new_name *w, int flags, struct inode *n, struct err *e);
/* An empty file, in the store when this returns. *n: what it is about, also if it fails. */
int files_mknod(struct files *fs, const struct new_name *w, struct inode *n, struct err *e);
/* A symbolic link, in the store when this returns. EEXIST, EOPNOTSUPP. */
int files_symlink(
    struct files *fs, const struct new_name *w, const char *target, struct inode *n, struct err *e);
int files_mkdir(struct files *fs, const struct new_name *w, struct inode *n, struct err *e);

#endif
