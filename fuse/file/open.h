/* SPDX-License-Identifier: Apache-2.0 */
/* open — how each open of a file is served, by the kernel itself from the cached copy or by us, and
 * how many opens there are. */
#ifndef MILLRACE_FUSE_FILE_OPEN_H
#define MILLRACE_FUSE_FILE_OPEN_H

#include "fuse/file/file.h"

#include <fcntl.h>

/* Does an open with these flags change the file, or may it? */
static inline bool open_writes(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
}
/* open(2) of an inode: flags may have O_ACCMODE, O_TRUNC. The open is counted. EROFS. */
int files_open(struct files *fs, uint64_t ino, int flags, int32_t *backing, struct err *e);
/* Before that, if the kernel sends it again: the process before this one may have counted it. */
void files_open_resent(struct files *fs, uint64_t ino);
/* The close of one, and its upload if it was written. resent: it may have been counted already. */
void files_close(struct files *fs, uint64_t ino, bool written, bool resent);

/* Decides how this open is served. *backing: passthrough id or 0. ESTALE: the inode is gone, or for
 * its readers only: look the name up again. Counts the open; file_closed() counts it off again. */
int file_open(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e);
void file_closed(struct file *f);
/* The end of inodes_hold(), like the close of one. */
void file_release(struct file *f);

#endif
