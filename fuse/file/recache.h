/* SPDX-License-Identifier: Apache-2.0 */
/* recache — what is cached of a file whose path or version is about to change, though its content
 * is not. Threads: any. */
#ifndef MILLRACE_FUSE_FILE_RECACHE_H
#define MILLRACE_FUSE_FILE_RECACHE_H

#include "fuse/file/file.h"

/* Before: so that there is something to take along. */
void file_attach_cached(struct file *f);
/* After, f->state_lock: what is cached under the old one is cached under the new one now. */
void file_recache(struct file *f);

#endif
