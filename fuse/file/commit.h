/* SPDX-License-Identifier: Apache-2.0 */
/* commit — what close() and fsync() promise, by the write type of a file's path. CacheThrough and
 * Through: the store has it, upload.h. AsyncThrough: it is on this node's disk, with a note by
 * which it comes to the store whatever happens to this process or machine (recover.h); the uploader
 * takes it there soon, and tries for ever. Meanwhile a rename, a removal or a change does not wait
 * for an upload: that is given up, unless all of it is on its way, and begins again. */
#ifndef MILLRACE_FUSE_FILE_COMMIT_H
#define MILLRACE_FUSE_FILE_COMMIT_H

#include "fuse/file/file.h"

/* May its upload wait? */
bool commit_may_wait(const struct file *f);
/* The same of that path within a mount's store. */
bool commit_waits_at(const struct conf *conf, unsigned mount, const char *path);
/* What was promised when it is closed is kept: the store's error, or the disk's. */
int file_save(struct file *f, struct err *e);
int file_save_locked(struct file *f, struct err *e); /* f->state_lock is held */
/* close and fsync; wrote: by a handle that may write. ESTALE: see file_lost(). */
int files_save(struct files *fs, uint64_t ino, bool wrote, struct err *e);
/* Is all of it on the disk, and was it long enough ago that it is not about to change again? */
bool commit_is_due(const struct file *f, int64_t now_ns);

#endif
