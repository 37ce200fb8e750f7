/* SPDX-License-Identifier: Apache-2.0 */
/* Names and paths of inodes. */
#include "fuse/index/format.h"

#include <errno.h>
#include <string.h>

/* Puts a name before what is at path + *at. -1: there is no room. */
static int prepend(const struct inodes *ix, const struct rec *r, char *path, size_t *at)
{
    size_t len = r->name_len + (path[*at] ? 1u : 0u);
    if (len > *at)
        return -1;
    if (path[*at])
        path[--*at] = '/';
    *at -= r->name_len;
    memcpy(path + *at, index_text(ix, r->name), r->name_len);
    return 0;
}

int inodes_path(
    struct inodes *ix, uint64_t ino, char path[INODE_PATH_MAX], unsigned *mount, struct err *e)
{
    size_t at = INODE_PATH_MAX - 1;
    int rc = 0;
    path[at] = '\0';
    pthread_rwlock_rdlock(&ix->lock);
    const struct rec *r = index_rec(ix, ino);
    if (r && mount)
        *mount = ix->to_conf[r->mount];
    while (rc == 0 && r && !(r->flags & (INODE_MOUNT | INODE_UNLINKED))) {
        if (prepend(ix, r, path, &at))
            rc = err_sys(e, ENAMETOOLONG, "path of inode %llu", (unsigned long long)ino);
        r = index_rec(ix, r->parent);
    }
    if (rc == 0 && (!r || (r->flags & INODE_UNLINKED)))
        rc = err_sys(e, ESTALE, "inode %llu has no name any more", (unsigned long long)ino);
    pthread_rwlock_unlock(&ix->lock);
    if (rc == 0)
        memmove(path, path + at, INODE_PATH_MAX - at);
    return rc;
}

bool inodes_path_below(struct inodes *ix, uint64_t ino, uint64_t dir, char path[INODE_PATH_MAX])
{
    size_t at = INODE_PATH_MAX - 1;
    path[at] = '\0';
    pthread_rwlock_rdlock(&ix->lock);
    const struct rec *r = index_rec(ix, ino);
    while (r && index_ino(ix, r) != dir) {
        bool up = !(r->flags & INODE_UNLINKED) && index_ino(ix, r) != INODE_ROOT
            && prepend(ix, r, path, &at) == 0;
        r = up ? index_rec(ix, r->parent) : NULL;
    }
    pthread_rwlock_unlock(&ix->lock);
    memmove(path, path + at, INODE_PATH_MAX - at);
    return r != NULL;
}

bool inodes_below(struct inodes *ix, uint64_t ino, uint64_t dir)
{
    pthread_rwlock_rdlock(&ix->lock);
    const struct rec *r = index_rec(ix, ino);
    while (r && index_ino(ix, r) != dir && index_ino(ix, r) != INODE_ROOT
        && !(r->flags & INODE_UNLINKED))
        r = index_rec(ix, r->parent);
    bool below = r && index_ino(ix, r) == dir;
    pthread_rwlock_unlock(&ix->lock);
    return below;
}

int inodes_name(struct inodes *ix, uint64_t ino, char name[INODE_NAME_MAX + 1], uint64_t *dir)
{
    pthread_rwlock_rdlock(&ix->lock);
    const struct rec *r = index_rec(ix, ino);
    bool named = r && ino != INODE_ROOT && !(r->flags & INODE_UNLINKED);
    if (named) {
        memcpy(name, index_text(ix, r->name), r->name_len);
        name[r->name_len] = '\0';
        *dir = r->parent;
    }
    pthread_rwlock_unlock(&ix->lock);
    return named ? 0 : -1;
}
