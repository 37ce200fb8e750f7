/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar — the note beside a staged file: where its content belongs, for a successor that does not
 * know the inode. "source-place\nversion\npath\n"; source and place are the mount, whatever its
 * number is by then; version is the one that the content began from ("" for a new file), path is
 * below the mount's root and may have line ends in it. */
#ifndef MILLRACE_FUSE_FILE_SIDECAR_H
#define MILLRACE_FUSE_FILE_SIDECAR_H

#include "fuse/index/index.h"
#include "lib/conf/conf.h"

#define SIDECAR_MAX (INODE_PATH_MAX + STORE_VERSION_MAX + 40) /* bytes of the longest */

struct sidecar {
    uint64_t source, place; /* hash64 of the mount's mountPoint, of its path */
    char version[STORE_VERSION_MAX];
    char path[INODE_PATH_MAX];
};

void sidecar_set_mount(struct sidecar *s, const struct conf_mount *m);
/* The mount of that source at that place, or else the only one of that source; -1: none. */
int sidecar_find_mount(const struct sidecar *s, const struct conf *conf);
char *sidecar_format(const struct sidecar *s); /* caller frees */
/* INVALID: it is not one; `what` names it in the message. */
int sidecar_parse(
    const char *text, size_t len, const char *what, struct sidecar *out, struct err *e);

#endif
