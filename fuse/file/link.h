/* SPDX-License-Identifier: Apache-2.0 */
/* link — what a symbolic link says. Its target is what the store has as its content, and is cached
 * like a file's: a link that was read once is read without the store. Nobody here follows one. */
#ifndef MILLRACE_FUSE_FILE_LINK_H
#define MILLRACE_FUSE_FILE_LINK_H

#include "fuse/file/file.h"

/* EINVAL: it is no link; ESTALE: it has no name any more. */
int files_readlink(struct files *fs, uint64_t ino, char target[STORE_LINK_MAX + 1], struct err *e);

#endif
