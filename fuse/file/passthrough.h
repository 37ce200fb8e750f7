/* SPDX-License-Identifier: Apache-2.0 */
/* backing — which inodes the kernel reads from a backing file (passthrough), and how many such
 * files it holds open. An id stays with its inode after the last close, so that a file that is
 * opened again costs no registration; the least recently used go when there are too many: each
 * keeps some 1.7 KB of the kernel's memory, and the cached file on its disk even when the cache has
 * removed it.
 *
 * Threads: any. Locks: one mutex, taken before the index's; not held while an id is made or given
 * back. */
#ifndef MILLRACE_FUSE_FILE_PASSTHROUGH_H
#define MILLRACE_FUSE_FILE_PASSTHROUGH_H

#include "fuse/index/index.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gives the kernel a file to read from by itself. */
struct backing_ops {
    int (*open)(void *user, int fd, int32_t *id, struct err *e);
    void (*close)(void *user, int32_t id);
    void *user;
    bool disk_only; /* it takes files of the cache's directory, none of a memory tier */
};

struct backings; /* opaque */
/* inodes: borrowed. max: ids of inodes without an open; 0: 16000. max_bytes: of their files.
 * NULL: no memory. */
struct backings *backings_new(
    const struct backing_ops *ops, struct inodes *inodes, size_t max, uint64_t max_bytes);
/* Takes up the ids that a process before this one has left idle. Gives none back: there may be no
 * session yet. */
void backings_resume(struct backings *b);
/* releases the ids of closed inodes; before the session ends */
void backings_free(struct backings *b);
/* The ids that inodes have, as often as they have them; *ids: the caller frees them. */
size_t backings_ids(struct backings *b, int32_t **ids);

/* Opens an inode that has an id and no opens but such that are passed through: counts it and
 * returns the id; else 0, and nothing is counted. The one place where an id that is there is used
 * again: two opens at the same time get the same. */
int32_t backings_reopen(struct backings *b, uint64_t ino);
/* Registers fd for the inode, which has no id and no open, and opens it like backings_reopen(). The
 * caller keeps others from registering at the same time, but not from opening and closing it once
 * there is an id. 0: refused, why in e; or, without an error, so many came and went meanwhile that
 * the id is gone again. */
int32_t backings_register(struct backings *b, uint64_t ino, int fd, struct err *e);
/* The inode's last open was closed; was: as it was before that. */
void backings_idle(struct backings *b, const struct inode *was);
/* Releases the id of an inode without an open: the next open gets the file that is cached then.
 * False: the kernel reads it by itself now, and goes on until the last of its opens is closed. */
bool backings_drop(struct backings *b, uint64_t ino);
/* Releases the ids of all inodes without an open: their files' room on the disk is wanted. */
void backings_shrink(struct backings *b);
#define BACKINGS_REFUSAL_MAX 512
/* Why the kernel took none of the files that it was given; "" where it took one, or was given none.
 */
void backings_refusal(struct backings *b, char out[BACKINGS_REFUSAL_MAX]);
bool backings_disk_only(const struct backings *b); /* as in backing_ops */
size_t backings_count(struct backings *b);         /* of inodes without an open */

#endif
