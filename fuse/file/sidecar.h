/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar — the note beside a staged file: where its content belongs, for a successor that does not
 * know the inode. "mount\nversion\npath\n"; version is the one that the content began from ("" for
 * a new file), path is below the mount's root and may have line ends in it. */
#ifndef MILLRACE_FUSE_FILE_SIDECAR_H
#define MILLRACE_FUSE_FILE_SIDECAR_H

#include "fuse/index/index.h"

#define SIDECAR_MAX (INODE_PATH_MAX + STORE_VERSION_MAX + 16) /* bytes of the longest */

struct sidecar {
    unsigned mount;
    char version[STORE_VERSION_MAX];
    char path[INODE_PATH_MAX];
};

char *sidecar_format(const struct sidecar *s); /* caller frees */
/* INVALID: it is not one, or not of these mounts; `what` names it in the message. */
int sidecar_parse(const char *text, size_t len, size_t nmounts, const char *what,
    struct sidecar *out, struct err *e);

#endif
