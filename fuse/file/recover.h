/* SPDX-License-Identifier: Apache-2.0 */
/* recover — staged content that a crash left behind, of inodes that the index does not know any
 * more: its sidecar says where it belongs. */
#ifndef MILLRACE_FUSE_FILE_RECOVER_H
#define MILLRACE_FUSE_FILE_RECOVER_H

#include "fuse/file/file.h"

/* At the start, before anything is staged: sets such content aside, and removes what was never
 * finished. */
void recover_begin(struct files *fs);
/* Uploads them where they belong; one that was changed in the store since goes to <stage dir>/lost.
 * Returns how many could not be dealt with yet. */
size_t recover_all(struct files *fs, struct store **stores);

#endif
