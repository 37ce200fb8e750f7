/* SPDX-License-Identifier: Apache-2.0 */
/* dir_move — directories of stores that cannot rename one: all files are copied, then all are
 * deleted, so that one of the two directories is whole at any time. A journal beside the staged
 * files says how far that is: what a crash or the store has interrupted is undone while it copied,
 * and ended once it deletes. */
#ifndef MILLRACE_FUSE_FILE_DIR_MOVE_H
#define MILLRACE_FUSE_FILE_DIR_MOVE_H

#include "fuse/file/file.h"
#include "lib/base/progress.h"

/* What gets on while a journal is ended, and who waits for its end with it (lib/base/progress.h).
 * No inode. */
#define DIR_MOVE_JOURNALS (PROGRESS_ANY - 1)

struct moved; /* a file and its new version */

struct dir_move {
    struct files *fs;
    struct store *store; /* borrowed, as all pointers here */
    unsigned mount;
    uint64_t dir;
    const char *from, *to;
    struct moved *list; /* of dir_move_copy; dir_move_end frees it */
    size_t n, room;
};

/* files.rename_lock is held exclusively in both. */

/* Copies all that is in the store. -1: nothing has happened (or the journal undoes it). */
int dir_move_copy(struct dir_move *m, struct err *e);
/* The index has the new name now: tells it the versions. */
void dir_move_versions(struct dir_move *m);
/* Deletes what was copied. What cannot be deleted is left to dir_move_resume(). */
void dir_move_end(struct dir_move *m);
/* Ends or undoes, as far as the stores answer, what the journal has. What was written to either
 * name meanwhile stays: only files that are the same under both are removed. Takes the lock itself.
 */
void dir_move_resume(struct files *fs);
/* Before something is made at path: a journal that would delete it, as it cannot tell the same
 * content from what was copied, is done with first. -1: the store does not let it. The second one
 * has files.rename_lock held; *found: there was one. */
int dir_move_settle(struct files *fs, unsigned mount, const char *path, struct err *e);
int dir_move_settle_locked(
    struct files *fs, unsigned mount, const char *path, bool *found, struct err *e);

#endif
