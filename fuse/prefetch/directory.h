/* SPDX-License-Identifier: Apache-2.0 */
/* directory — prefetches the rest of a directory once a good part of it was read in whatever order:
 * a reader of an eighth of its files, in random order as training does, is likely to read the
 * others too. Files that are not in the cache are fetched into free room only: nothing is evicted
 * for them. Those on its disk are read into memory, if all that is cached fits there twice. Small
 * files (prefetch_is_small).
 *
 * Threads: any; up to 16 of its own, which yield to those that serve readers, made when there is
 * something to do. Locks: directory_prefetch.mu, under which those of inodes and cache may be
 * taken; never across I/O. */
#ifndef MILLRACE_FUSE_PREFETCH_DIRECTORY_H
#define MILLRACE_FUSE_PREFETCH_DIRECTORY_H

#include "fuse/cache/cache.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"

struct directory_prefetch; /* opaque */
/* All borrowed. */
struct directory_prefetch *directory_prefetch_new(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e);
void directory_prefetch_free(struct directory_prefetch *s); /* ends its threads; NULL is fine */
/* A reader begins with this file, and it was not in the cache, or cold (cache_is_cold). */
void directory_prefetch_observe(struct directory_prefetch *s, const struct inode *n);

#endif
