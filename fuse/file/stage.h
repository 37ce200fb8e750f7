/* SPDX-License-Identifier: Apache-2.0 */
/* stage — files being written: a staging file with full POSIX semantics on the local disk.
 *
 * One file of a name of its own (stage_name.h) holds the content, a note beside it where it belongs
 * (sidecar.h): with it content that a crashed machine left behind still finds its place. */
#ifndef MILLRACE_FUSE_FILE_STAGE_H
#define MILLRACE_FUSE_FILE_STAGE_H

#include "fuse/file/file.h"
#include "fuse/file/sidecar.h"
#include "fuse/file/stage_name.h"

/* A new, empty file (its inode is INODE_LOCAL | INODE_STAGED | INODE_DIRTY). */
int stage_create(struct file *f, struct err *e);
/* Before its content changes, from there on, by so many bytes more on the disk at most:
 * f->data_lock is held shared on success, until stage_changed(). */
int stage_change(struct file *f, uint64_t off, uint64_t bytes, struct err *e);
/* The file has its content up to there at least; it may be longer. */
void stage_changed(struct file *f, uint64_t end);
/* The same as stage_change() for a change that the disk may refuse: with f->data_lock held
 * exclusively, until stage_changed(), or stage_unchanged(): nothing has been changed. */
int stage_change_alone(struct file *f, uint64_t bytes, struct err *e);
void stage_unchanged(struct file *f);
/* Of its content, or with STAGE_NOTE of its note; caller frees. */
char *stage_path(const struct file *f, const char *suffix);
/* Why its content could not be changed: for the writer; for others; and an error that is told is
 * the writer's. */
int stage_error(struct err *e, int errnum, const char *what);
int stage_tell(struct err *e, int errnum, const char *what);
int stage_refuse(const struct err *e);
void stage_has_room(void); /* a writer was not refused */
ssize_t file_pwrite(struct file *f, const void *buf, size_t len, uint64_t off, struct err *e);
int stage_truncate(struct file *f, uint64_t size, struct err *e); /* f->state_lock is held */
/* Opens the staging file. f->data_lock is held exclusively. */
int stage_attach(struct file *f, struct err *e);
/* Its name goes while it is open: the cached version, all of which is here, becomes a staging file,
 * which a successor of this process finds without the name. f->data_lock is held exclusively. */
int stage_preserve(struct file *f, struct err *e);
/* Where the content belongs, for a successor without this index. */
int stage_write_sidecar(struct file *f, struct err *e);
/* Its writer asked to save its first `size` bytes, of fd: a note says so from now on, which is on
 * the disk, as they are, after a stage_sync() of fd and *note (the caller closes it). Until then,
 * what an earlier one said is. begun: an upload of that may have come to the store.
 * f->mark_lock is held. */
int stage_mark(struct file *f, int fd, uint64_t size, bool begun, int *note, struct err *e);
/* It is known what the store has of us: the note says nothing of it any more. f->mark_lock is held.
 */
int stage_know_sent(struct file *f, struct err *e);
/* As stage_mark(), for a mark that is there. */
int stage_open_note(const struct file *f, struct err *e);
int stage_read_note(struct file *f, struct sidecar *note, struct err *e);
/* Its content goes aside, see kept.h, under that name; who has it open reads on. f->state_lock is
 * held. */
int stage_keep(struct file *f, const char *why, char kept[STAGE_NAME_MAX], struct err *e);
void stage_remove_sidecar(struct file *f);
void stage_remove_files(struct file *f); /* content and sidecar */
/* Its path changed. over: of the note of what it replaces there, which the store may have got; or
 * NULL. On the disk when it returns, if a caller asked to save it. */
void stage_repath(struct file *f, const struct sidecar *over);
/* The store has what the index says that it has; all: and no change since. over: nor was more asked
 * to be saved: the note that said so is over. f->data_lock is held exclusively. */
void stage_saved(struct file *f, bool all, bool over);
bool stage_disk_full(void); /* the latest write to staging failed for lack of room */

#endif
