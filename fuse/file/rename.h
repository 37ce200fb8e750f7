/* SPDX-License-Identifier: Apache-2.0 */
/* rename — files under another path. */
#ifndef MILLRACE_FUSE_FILE_RENAME_H
#define MILLRACE_FUSE_FILE_RENAME_H

#include "fuse/file/file.h"

/* Before a rename, so that file_renamed() has what to move. */
void file_attach_for_rename(struct file *f);
/* The inode's path or version changed: what is cached under the old one is cached under the new one
 * now. */
void file_renamed(struct file *f);

#endif
