/* SPDX-License-Identifier: Apache-2.0 */
/* recover — staged content that a crash left behind. What inodes of this index know goes on as it
 * was. All other gets an inode again, by its note: written to and not saved, like that of a living
 * process, so that readers see it, writers go on from it, and it is uploaded under the same rules.
 * What nobody asked to save and a power cut may have torn is kept aside (kept.h), as is what has no
 * place in this dataset. */
#ifndef MILLRACE_FUSE_FILE_RECOVER_H
#define MILLRACE_FUSE_FILE_RECOVER_H

#include "fuse/file/file.h"

/* At the start, before the mount is served. Reads what it is to trust after a power cut; asks no
 * store. */
void recover_begin(struct files *fs);

#endif
