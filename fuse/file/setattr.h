/* SPDX-License-Identifier: Apache-2.0 */
/* setattr — attributes that users set: kept here, and told to the store (attr.h). */
#ifndef MILLRACE_FUSE_FILE_SETATTR_H
#define MILLRACE_FUSE_FILE_SETATTR_H

#include "fuse/file/file.h"

#define SETATTR_KEEP UINT32_MAX /* of an owner's two ids: not this one */

/* fields: INODES_SIZE (truncates), INODES_MODE, INODES_OWNER, INODES_MTIME, from *to. open: by
 * ftruncate(2), the upload comes with a later close; else the store has the new size when this
 * returns. ESTALE, EROFS. */
int files_setattr(struct files *fs, uint64_t ino, unsigned fields, const struct inode *to,
    bool open, struct inode *out, struct err *e);

#endif
