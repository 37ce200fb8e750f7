/* SPDX-License-Identifier: Apache-2.0 */
/* remove — names that go. The store is changed first, the index after it: what fails in the store
 * has not happened. A file that is open stays readable until its last close. */
#ifndef MILLRACE_FUSE_FILE_REMOVE_H
#define MILLRACE_FUSE_FILE_REMOVE_H

#include "fuse/file/file.h"

/* Before a removal: if it is open, fetches all of it, so that its readers can go on.
 * f->state_lock is held. */
int file_preserve(struct file *f, struct err *e);
/* The store has it no more: what was fetched is staged, for a successor of this process as well.
 * f->state_lock is held. */
void file_keep_preserved(struct file *f);
/* resent: a process before this one may have done it already: that is success. */
int files_unlink(struct files *fs, uint64_t dir, const char *name, bool resent, struct err *e);
int files_rmdir(struct files *fs, uint64_t dir, const char *name, bool resent, struct err *e);
/* The same for a directory that was looked up. */
int files_remove_dir(struct files *fs, const struct inode *n, const char *name, struct err *e);

#endif
