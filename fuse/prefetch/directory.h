/* SPDX-License-Identifier: Apache-2.0 */
/* sweep — brings in the rest of a directory once a good part of it was read in whatever order: who
 * has read an eighth of its files, in random order as training does, is likely to come to the
 * others too. What was not in the cache is fetched, into room that is free only: nothing goes out
 * for it; what is on its disk comes into memory, if all that is cached fits there twice. Small
 * files (prefetch_is_small).
 *
 * Threads: any; up to 16 of its own, which yield to those who serve readers, made when there is
 * something to do. Locks: sweep.mu, under which those of inodes and cache may be taken; never
 * across I/O. */
#ifndef MILLRACE_FUSE_PREFETCH_DIRECTORY_H
#define MILLRACE_FUSE_PREFETCH_DIRECTORY_H

#include "fuse/cache/cache.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"

struct sweep; /* opaque */
/* All borrowed. */
struct sweep *sweep_new(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e);
void sweep_free(struct sweep *s); /* ends its threads; NULL is fine */
/* Somebody begins to read this file, and it was not in the cache, or cold (cache_is_cold). */
void sweep_note(struct sweep *s, const struct inode *n);

#endif
