/* SPDX-License-Identifier: Apache-2.0 */
/* attr — what users set of a file or directory, told to its store. What a store does not take stays
 * on this node: no caller fails of it. Threads: any. */
#ifndef MILLRACE_FUSE_FILE_ATTR_H
#define MILLRACE_FUSE_FILE_ATTR_H

#include "fuse/file/file.h"

/* All that is set of it. */
void attr_of_inode(const struct inode *n, struct store_attr *out);
/* The store says what it has now. */
void attr_told(struct inodes *ix, uint64_t ino, const struct store_stat *st);
/* Tells the store what it was not told of n, which is named in it, and of which nothing is staged
 * that it does not have; *n: how it is then. Of a file with its state lock. */
void attr_tell(struct files *fs, struct inode *n);

#endif
