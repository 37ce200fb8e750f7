/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar — the note beside a staged file: where its content belongs, for a successor that does not
 * know the inode, and what was asked for it, for one that comes after a power cut.
 *
 *   millrace-staged 4
 *   <source>-<place>                 the mount, whatever its number is by then
 *   <boot id>                        of the machine when this was written
 *   none | save <bytes> <crc32c>     a close or fsync asked for that content
 *   none | sent <bytes> <crc32c>     the store may have that of us at the path, without our knowing
 *   - | <why>                        of what is kept aside: kept.h
 *   <version>                        that the content began from, "" for a new file
 *   <path>                           below the mount's root; may have line ends in it
 *
 * The third version had no line of what was sent; the second knew a mount by its endpoint only
 * where that had its first name; the first wrote the second line and the last two only. They take
 * this for damaged, and keep the content without uploading it. */
#ifndef MILLRACE_FUSE_FILE_SIDECAR_H
#define MILLRACE_FUSE_FILE_SIDECAR_H

#include "fuse/index/index.h"
#include "lib/base/file.h"
#include "lib/conf/conf.h"

#define SIDECAR_WHY_MAX 16
#define SIDECAR_MAX     (INODE_PATH_MAX + STORE_VERSION_MAX + 200) /* bytes of the longest */

struct sidecar {
    uint64_t source, place; /* hash64 of the mount's conf_mount_id(), of its path */
    bool earlier;           /* by the first or second version */
    char boot[BOOT_ID_LEN]; /* "": by an earlier version, which did not say */
    bool asked;             /* to save so many bytes with that CRC32C */
    uint64_t asked_len;
    uint32_t asked_crc;
    bool sent; /* the same of what an upload may have brought to the store before that */
    uint64_t sent_len;
    uint32_t sent_crc;
    char why[SIDECAR_WHY_MAX]; /* letters; "": it is not kept aside */
    char version[STORE_VERSION_MAX];
    char path[INODE_PATH_MAX];
};

void sidecar_set_mount(struct sidecar *s, const struct conf_mount *m);
/* The mount of that source at that place, or else the only one of that source; -1: none. Notes of
 * earlier versions do not say on which server it was: they are of mounts that name none. */
int sidecar_find_mount(const struct sidecar *s, const struct conf *conf);
char *sidecar_format(const struct sidecar *s); /* caller frees */
/* INVALID: it is not one; `what` names it in the message. */
int sidecar_parse(
    const char *text, size_t len, const char *what, struct sidecar *out, struct err *e);
int sidecar_read(const char *file, struct sidecar *out, struct err *e);
/* Replaces the file. durable: and waits until it is on the disk. */
int sidecar_write(const char *file, const struct sidecar *s, bool durable, struct err *e);

#endif
