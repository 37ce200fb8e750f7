/* SPDX-License-Identifier: Apache-2.0 */
/* write — files being written: a staging file with full POSIX semantics on the local disk, uploaded
 * when close() or fsync() ask for it, so that these return the store's error. What could not be
 * uploaded stays staged, is readable here, and is tried again for ever, also by the next process. A
 * file that is held open and written now and then (an event log) is uploaded in between as well.
 *
 * <stage dir>/<inode>-<generation> holds the content, <…>.path where it belongs (side.h): with it
 * content that a crashed machine left behind still finds its place. */
#ifndef MILLRACE_FUSE_FILE_STAGE_H
#define MILLRACE_FUSE_FILE_STAGE_H

#include "fuse/file/file.h"

/* A new, empty file (its inode is INODE_LOCAL | INODE_STAGED | INODE_DIRTY). */
int write_create(struct ofile *f, struct err *e);
ssize_t write_data(struct ofile *f, const void *buf, size_t len, uint64_t off, struct err *e);
int write_truncate(struct ofile *f, uint64_t size, struct err *e); /* f->up is held */
/* Uploads what is not in the store yet; waits for an upload that is under way. The error is the
 * store's. */
int write_upload(struct ofile *f, struct err *e);
int write_upload_locked(struct ofile *f, struct err *e); /* f->up is held */
bool write_is_dirty(const struct ofile *f);
/* The last open is gone: content that the store has goes from staging into the cache. f->up is
 * held. */
void write_settle(struct ofile *f);
/* opens the staging file; f->io is held exclusively */
int write_attach(struct ofile *f, struct err *e);
void write_repath(struct ofile *f); /* its path changed */
/* it was removed: never upload; f->up is held */
void write_discard(struct ofile *f);

/* At start: `resume` keeps the staging files of the inodes that the index knows; otherwise content
 * that was left behind is uploaded by path, in the background. Starts the thread that uploads by
 * itself. */
struct writer; /* opaque */
struct writer *writer_start(struct ofiles *fs, struct store **stores, bool resume, struct err *e);
void writer_stop(struct writer *w); /* tries once more what is dirty */
struct writer_stats {
    uint64_t bytes, files, failed; /* uploaded; failed attempts */
    uint64_t pending;              /* files with content that the store does not have */
    bool disk_full;                /* the latest write to staging failed for lack of room */
};
void write_stats(struct writer_stats *out);
void write_count_pending(uint64_t n); /* the writer's */

#endif
