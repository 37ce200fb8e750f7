/* SPDX-License-Identifier: Apache-2.0 */
/* dir_purge — the end of a directory that was copied: of the two, one stays, and what the other has
 * of it is deleted. */
#ifndef MILLRACE_FUSE_FILE_DIR_PURGE_H
#define MILLRACE_FUSE_FILE_DIR_PURGE_H

#include "fuse/store/store.h"

#define DIR_MOVE_AT_ONCE 32 /* calls of the store */

/* What was copied, or is to be. */
struct moved {
    uint64_t ino;
    char *path; /* owned, as what follows; under the old name */
    bool is_dir;
    char *was, *version; /* of a file: what was copied, and the copy; NULL: it was not */
    bool known;          /* `was` is what the index knows */
};

struct dir_purge {
    struct store *store;
    /* n of them, which this sorts; none: the copies were made by a process before this one */
    struct moved *list;
    size_t n;
    bool undo; /* the copies are what is deleted */
};

/* Deletes what is in `victim` and was copied to, or from, `kept`. What is only there, or newer, has
 * come meanwhile, and stays. */
int dir_purge(const struct dir_purge *p, const char *victim, const char *kept, struct err *e);

#endif
