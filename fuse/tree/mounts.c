/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset's mounts in the index, and which store and path there an inode has. */
#include "fuse/tree/impl.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct store *tree_store(const struct tree *t, unsigned mount) { return t->c.stores[mount]; }

bool tree_writable(const struct tree *t, unsigned mount)
{
    return mount < t->c.conf->nmounts && !t->c.conf->read_only
        && !t->c.conf->mounts[mount].read_only && t->c.stores[mount]
        && (store_caps(t->c.stores[mount]) & STORE_CAP_WRITE);
}

/* Directories down to a mount's root, and that root. */
static int add_mount(struct tree *t, unsigned mount, struct err *e)
{
    uint64_t dir = INODE_ROOT;
    const char *p = t->c.conf->mounts[mount].path;
    struct inode root, n;
    if (inodes_get(t->c.inodes, INODE_ROOT, &root))
        return err_set(e, ERR_FATAL, "the index has no root");
    while (*p == '/')
        p++;
    while (*p) {
        char name[INODE_NAME_MAX + 1];
        size_t len = strcspn(p, "/");
        snprintf(name, sizeof name, "%.*s", (int)len, p);
        if (!inodes_find(t->c.inodes, dir, name, &n)) {
            struct inode above = root;
            inodes_get(t->c.inodes, dir, &above);
            struct inode like = {.flags = INODE_DIR | INODE_MOUNTPOINT_DIR,
                .mode = root.mode,
                .uid = root.uid,
                .gid = root.gid,
                .mtime_ns = clock_real_ns(),
                .mount = above.mount};
            if (inodes_create(t->c.inodes, dir, name, &like, &n, e))
                return err_wrap(e, "mount %s", t->c.conf->mounts[mount].path);
        }
        dir = n.ino;
        p += len;
        while (*p == '/')
            p++;
    }
    return inodes_mount(t->c.inodes, dir, mount);
}

/* Outer ones first: a directory on the way to an inner one belongs to the mount it is in. */
int tree_add_mounts(struct tree *t, struct err *e)
{
    for (size_t len = 1, next; len; len = next) {
        next = 0;
        for (size_t i = 0; i < t->c.conf->nmounts; i++) {
            size_t n = strlen(t->c.conf->mounts[i].path);
            if (n == len && add_mount(t, (unsigned)i, e))
                return -1;
            if (n > len && (!next || n < next))
                next = n;
        }
    }
    return 0;
}

static int mount_store(struct tree *t, unsigned m, const char *path, struct store **store,
    unsigned *mount, struct err *e)
{
    if (m >= t->c.conf->nmounts)
        return err_sys(e, EROFS, "\"%s\" is above the dataset's mounts", path);
    if (!t->c.stores[m])
        return err_sys(e, EIO, "the store %s cannot be used", t->c.conf->mounts[m].mount_point);
    *store = t->c.stores[m];
    *mount = m;
    return 0;
}

int tree_where(struct tree *t, uint64_t ino, struct store **store, unsigned *mount,
    char path[INODE_PATH_MAX], struct err *e)
{
    unsigned m;
    if (inodes_path(t->c.inodes, ino, path, &m, e))
        return -1;
    return mount_store(t, m, path, store, mount, e);
}

int tree_where_child(struct tree *t, uint64_t dir, const char *name, struct store **store,
    unsigned *mount, char path[INODE_PATH_MAX], struct err *e)
{
    unsigned m;
    if (inodes_path(t->c.inodes, dir, path, &m, e))
        return -1;
    size_t len = strlen(path), add = strlen(name);
    if (len + 1 + add >= INODE_PATH_MAX || add > INODE_NAME_MAX)
        return err_sys(e, ENAMETOOLONG, "%s/%.40s", path, name);
    if (len)
        path[len++] = '/';
    memcpy(path + len, name, add + 1);
    return mount_store(t, m, path, store, mount, e);
}
