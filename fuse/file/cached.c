/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/cached.h"

int file_key(struct tree *tree, const struct inode *n, char path[INODE_PATH_MAX],
    struct cache_key *key, struct err *e)
{
    struct store *store;
    unsigned mount;
    if (tree_where(tree, n->ino, &store, &mount, path, e))
        return -1;
    *key = (struct cache_key){.mount = mount, .path = path, .version = n->version, .size = n->size};
    return 0;
}

struct cache_file *file_cached(
    struct tree *tree, struct cache *cache, const struct inode *n, struct err *e)
{
    char path[INODE_PATH_MAX];
    struct cache_key key;
    return file_key(tree, n, path, &key, e) ? NULL : cache_open(cache, &key, e);
}

void cached_unpin(struct cache *cache, unsigned mount, const char *path)
{
    cache_unpin(cache, &(struct cache_key){.mount = mount, .path = path});
}
