/* SPDX-License-Identifier: Apache-2.0 */
/* rename — files and directories under another name. The store is changed first, the index after
 * it: what fails in the store has not happened. */
#ifndef MILLRACE_FUSE_FILE_RENAME_H
#define MILLRACE_FUSE_FILE_RENAME_H

#include "fuse/file/file.h"

struct rename_request {
    uint64_t dir;
    const char *name;
    uint64_t newdir;
    const char *newname;
    unsigned flags; /* RENAME_NOREPLACE; others: EINVAL */
    bool resent;    /* a process before this one may have done it already: that is success */
};
int files_rename(struct files *fs, const struct rename_request *r, struct err *e);

#endif
