/* SPDX-License-Identifier: Apache-2.0 */
/* walk — fetches the next files of a directory when a reader goes through it in the order of its
 * listing, and goes on with the directory after it. Small files only: what is large is read ahead
 * within itself. Readers in random order are sweep.h's.
 *
 * Threads: any; a thread of its own does the fetching. Locks: walk.mu, a leaf. */
#ifndef MILLRACE_FUSE_PREFETCH_SEQUENTIAL_H
#define MILLRACE_FUSE_PREFETCH_SEQUENTIAL_H

#include "fuse/cache/cache.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"

struct walk; /* opaque */
/* All borrowed. */
struct walk *walk_start(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e);
void walk_stop(struct walk *w); /* NULL is fine */
/* Somebody begins to read this file; here: all of it was in the cache. */
void walk_note(struct walk *w, const struct inode *n, bool here);

#endif
