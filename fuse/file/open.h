/* SPDX-License-Identifier: Apache-2.0 */
/* open — how each open of a file is served, by the kernel itself from the cached copy or by us, and
 * how many opens there are. */
#ifndef MILLRACE_FUSE_FILE_OPEN_H
#define MILLRACE_FUSE_FILE_OPEN_H

#include "fuse/file/file.h"

/* The short way for files that the kernel reads by itself: opens one again and returns its backing
 * id, 0 if it has none; and counts a close of one, false if it is none. */
int32_t files_reopen(struct files *fs, uint64_t ino);
bool files_reclosed(struct files *fs, uint64_t ino);
/* Decides how this open is served. *backing: passthrough id or 0. ESTALE: the inode is gone, or for
 * its readers only: look the name up again. Counts the open; file_closed() counts it off again. */
int file_open(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e);
void file_closed(struct file *f);

#endif
