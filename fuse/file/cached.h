/* SPDX-License-Identifier: Apache-2.0 */
/* cached — the object of the cache that an inode's content is: its key, and the version that the
 * index names, opened. Threads: any. */
#ifndef MILLRACE_FUSE_FILE_CACHED_H
#define MILLRACE_FUSE_FILE_CACHED_H

#include "fuse/cache/cache.h"
#include "fuse/tree/tree.h"

/* key->path is in path, key->version in n. ENOENT, ESTALE: it has no name any more. */
int file_key(struct tree *tree, const struct inode *n, char path[INODE_PATH_MAX],
    struct cache_key *key, struct err *e);
/* cache_close() it. */
struct cache_file *file_cached(
    struct tree *tree, struct cache *cache, const struct inode *n, struct err *e);
/* Whatever version of it is pinned. Before its name goes: it can only be unpinned by that. */
void cached_unpin(struct cache *cache, unsigned mount, const char *path);

#endif
