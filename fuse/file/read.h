/* SPDX-License-Identifier: Apache-2.0 */
/* read — a file's bytes, from the cache or from its staging file, and what a user may ask for about
 * the cached ones. */
#ifndef MILLRACE_FUSE_FILE_READ_H
#define MILLRACE_FUSE_FILE_READ_H

#include "fuse/file/file.h"

/* Finds where its bytes are. f->data_lock is held exclusively. */
int file_attach(struct file *f, struct err *e);
/* The same; on success f->data_lock is held shared. reads: for a reader, not ahead of one. */
int file_lock_attached(struct file *f, bool reads, struct err *e);
/* Up to len bytes at off; fewer only at the end. */
ssize_t file_pread(struct file *f, void *buf, size_t len, uint64_t off, struct err *e);
/* Fetches that range before it is read. */
int file_fill(struct file *f, uint64_t off, uint64_t len, struct err *e);
/* The same, and pins the file first (cache_pin). EBUSY: it is staged; ESTALE: it was removed. */
int file_pin(struct file *f, uint64_t off, uint64_t len, struct err *e);
/* Drops what is cached of it, *freed bytes; nothing if it is pinned or staged. ESTALE: it was
 * removed, and must still be readable. */
int file_drop(struct file *f, uint64_t *freed, struct err *e);
/* Whatever version of it is pinned. */
int files_unpin(struct files *fs, uint64_t ino, struct err *e);
struct file_cache_state {
    uint64_t cached; /* bytes of the range; 0 if it is staged */
    bool pinned, staged;
};
int file_cache_state(
    struct file *f, uint64_t off, uint64_t len, struct file_cache_state *out, struct err *e);

#endif
