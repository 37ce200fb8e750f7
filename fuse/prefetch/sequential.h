/* SPDX-License-Identifier: Apache-2.0 */
/* sequential — fetches the next files of a directory for a reader that goes through it in the order
 * of its listing, and goes on with the directory after it. Small files only: a large one is read
 * ahead within itself. For readers in random order there is directory.h.
 *
 * Threads: any; a thread of its own does the fetching. Locks: sequential_prefetch.mu, a leaf. */
#ifndef MILLRACE_FUSE_PREFETCH_SEQUENTIAL_H
#define MILLRACE_FUSE_PREFETCH_SEQUENTIAL_H

#include "fuse/cache/cache.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"

struct sequential_prefetch; /* opaque */
/* All borrowed. */
struct sequential_prefetch *sequential_prefetch_start(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e);
void sequential_prefetch_stop(struct sequential_prefetch *w); /* NULL is fine */
/* A reader begins with this file; here: all of it was in the cache. */
void sequential_prefetch_observe(struct sequential_prefetch *w, const struct inode *n, bool here);

#endif
