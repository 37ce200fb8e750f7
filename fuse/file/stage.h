/* SPDX-License-Identifier: Apache-2.0 */
/* write — files being written: a staging file with full POSIX semantics on the local disk, uploaded
 * when close() or fsync() ask for it, so that these return the store's error. What could not be
 * uploaded stays staged, is readable here, and is tried again for ever, also by the next process. A
 * file that is held open and written now and then (an event log) is uploaded in between as well.
 *
 * <stage dir>/<inode>-<generation> holds the content, <…>.path where it belongs (sidecar.h): with
 * it content that a crashed machine left behind still finds its place. */
#ifndef MILLRACE_FUSE_FILE_STAGE_H
#define MILLRACE_FUSE_FILE_STAGE_H

#include "fuse/file/file.h"

/* A new, empty file (its inode is INODE_LOCAL | INODE_STAGED | INODE_DIRTY). */
int stage_create(struct file *f, struct err *e);
ssize_t file_pwrite(struct file *f, const void *buf, size_t len, uint64_t off, struct err *e);
int stage_truncate(struct file *f, uint64_t size, struct err *e); /* f->state_lock is held */
/* Uploads what is not in the store yet; waits for an upload that is under way. The error is the
 * store's. */
int file_upload(struct file *f, struct err *e);
int file_upload_locked(struct file *f, struct err *e); /* f->state_lock is held */
bool file_is_dirty(const struct file *f);
/* The last open is gone: content that the store has goes from staging into the cache. f->up is
 * held. */
void upload_finish(struct file *f);
/* opens the staging file; f->data_lock is held exclusively */
int stage_attach(struct file *f, struct err *e);
void stage_repath(struct file *f); /* its path changed */
/* it was removed: never upload; f->state_lock is held */
void upload_discard(struct file *f);

/* At start: `resume` keeps the staging files of the inodes that the index knows; otherwise content
 * that was left behind is uploaded by path, in the background. Starts the thread that uploads by
 * itself. */
struct uploader; /* opaque */
struct uploader *uploader_start(
    struct files *fs, struct store **stores, bool resume, struct err *e);
void uploader_stop(struct uploader *w); /* tries once more what is dirty */
struct upload_stats {
    uint64_t bytes, files, failed; /* uploaded; failed attempts */
    uint64_t pending;              /* files with content that the store does not have */
    bool disk_full;                /* the latest write to staging failed for lack of room */
};
void upload_stats(struct upload_stats *out);
void upload_count_pending(uint64_t n); /* the uploader's */

#endif
