/* SPDX-License-Identifier: Apache-2.0 */
/* allocate — fallocate(2) and the holes of a file: of what is staged. What a store has, has no
 * holes. */
#ifndef MILLRACE_FUSE_FILE_ALLOCATE_H
#define MILLRACE_FUSE_FILE_ALLOCATE_H

#include "fuse/file/file.h"

/* mode: 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE
 * with FALLOC_FL_KEEP_SIZE or without; others: EOPNOTSUPP. ENOSPC, and whatever else the disk
 * refuses it for before it has zeroed any of it: nothing has changed. */
int file_allocate(struct file *f, int mode, uint64_t off, uint64_t len, struct err *e);
/* whence: SEEK_DATA, SEEK_HOLE. ENXIO: there is none from there on. */
int64_t file_seek(struct file *f, uint64_t off, int whence, struct err *e);

#endif
