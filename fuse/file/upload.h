/* SPDX-License-Identifier: Apache-2.0 */
/* upload — staged content goes to the store when close() or fsync() ask for it, so that these
 * return the store's error, or by itself where they do not wait for that (commit.h). What could not
 * be uploaded stays staged, is readable here, and is tried again for ever (uploader.h), also by the
 * next process. */
#ifndef MILLRACE_FUSE_FILE_UPLOAD_H
#define MILLRACE_FUSE_FILE_UPLOAD_H

#include "fuse/file/file.h"

/* Uploads what is not in the store yet; waits for an upload that is under way. The error is the
 * store's. */
int file_upload(struct file *f, struct err *e);
int file_upload_locked(struct file *f, struct err *e); /* f->state_lock is held */
/* The same in the background: ECANCELED, and nothing has happened, where a thread waits for the
 * file or a directory is about to move. */
int file_upload_behind(struct file *f, struct err *e); /* f->state_lock is held */
/* Is what the store has at that path what a failed attempt to upload it put there? 1: yes; 0: no;
 * -1: the store does not answer now. f->state_lock is held. */
int upload_was_sent(
    struct file *f, struct store *s, const char *path, const struct store_stat *st, struct err *e);
/* It is not in the store, but for an upload whose answer was lost: that goes from there. Anything
 * else is another node's. f->state_lock is held. */
int upload_take_back(struct file *f, struct store *s, const char *path, struct err *e);
/* The last open is gone: content that the store has goes from staging into the cache.
 * f->state_lock is held. */
void file_finish(struct file *f);
/* It was removed: never upload. f->state_lock is held. */
void file_discard(struct file *f);

struct upload_stats {
    uint64_t bytes, files, failed; /* uploaded; failed attempts */
    uint64_t pending;              /* files with content that the store does not have */
    bool disk_full;                /* the latest write to staging failed for lack of room */
};
void upload_stats(struct upload_stats *out);
void upload_count_pending(uint64_t n); /* the uploader's */

#endif
