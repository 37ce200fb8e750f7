/* SPDX-License-Identifier: Apache-2.0 */
/* adopt — gives staged content that no inode knows an inode: by name, without asking the store. */
#ifndef MILLRACE_FUSE_FILE_ADOPT_H
#define MILLRACE_FUSE_FILE_ADOPT_H

#include "fuse/file/file.h"
#include "fuse/file/sidecar.h"

#include <sys/stat.h>

/* <stage dir>/name with its note, whose content is st's, becomes the staged content of the file
 * that the note names. On failure it is where it was. */
int adopt_file(struct files *fs, unsigned mount, const char *name, const struct sidecar *note,
    const struct stat *st, struct err *e);
/* Content and its note get another name in the directory; at no time one is without the other. */
int stage_move(const char *dir, const char *from, const char *to);
void stage_drop(const char *dir, const char *name); /* both */

#endif
