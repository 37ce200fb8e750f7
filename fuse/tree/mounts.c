/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset's mounts in the index, and which store and path there an inode has. */
#include "fuse/tree/impl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLD_MAX 1000 /* names of a directory that the kernel is told one by one */

struct store *tree_store(const struct tree *t, unsigned mount) { return t->c.stores[mount]; }

bool tree_writable(const struct tree *t, unsigned mount)
{
    return mount < t->c.conf->nmounts && !t->c.conf->read_only
        && !t->c.conf->mounts[mount].read_only && t->c.stores[mount]
        && (store_caps(t->c.stores[mount]) & STORE_CAP_WRITE);
}

/* -- what becomes of directories when the dataset's mounts are others than before ------------- */

/* Is a mount of now at that path ("/a/b"), or below it? */
static bool has_mounts(const struct tree *t, const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < t->c.conf->nmounts; i++) {
        const char *at = t->c.conf->mounts[i].path;
        if (strncmp(at, path, len) == 0 && (at[len] == '/' || !at[len]))
            return true;
    }
    return false;
}

struct child_list {
    size_t n;
    struct {
        char *name;
        struct inode n;
    } * child;
};

static int add_child(void *user, const char *name, const struct inode *n, uint64_t cookie)
{
    struct child_list *l = user;
    (void)cookie;
    l->child = xrealloc(l->child, (l->n + 1) * sizeof *l->child);
    l->child[l->n].name = xstrdup(name);
    l->child[l->n++].n = *n;
    return 0;
}

/* A kernel that knows ids of before. */
static void tell(const struct tree *t, uint64_t dir, const char *name)
{
    if (t->c.resume)
        t->c.changed(t->c.user, dir, name);
}

/* Everything of a directory, where that is more names than can be told: with its own name go all
 * below it that the kernel knows. */
static void tell_all(const struct tree *t, uint64_t dir, const struct child_list *list)
{
    char name[INODE_NAME_MAX + 1];
    uint64_t up;
    tell(t, dir, "");
    if (list->n > TOLD_MAX && dir != INODE_ROOT && inodes_name(t->c.inodes, dir, name, &up) == 0)
        tell(t, up, name);
}

/* The mount that a directory at that path is in, when nothing is mounted on it itself. */
static unsigned mount_around(const struct tree *t, const char *path)
{
    unsigned found = INODE_NO_MOUNT;
    size_t most = 0;
    for (size_t i = 0; i < t->c.conf->nmounts; i++) {
        const char *at = t->c.conf->mounts[i].path;
        size_t len = strcmp(at, "/") == 0 ? 0 : strlen(at);
        if (strncmp(at, path, len) == 0 && path[len] == '/' && path[len + 1]
            && (found == INODE_NO_MOUNT || len > most)) {
            found = (unsigned)i;
            most = len;
        }
    }
    return found;
}

/* The directory belongs to another mount from now on, or to none: what it shows is not what it
 * showed. Mounts of now that are below stay as they are. The kernel is told first, and the
 * directory itself changes last, so that a process that comes after one that was killed meanwhile
 * does what is left. */
static void strip(struct tree *t, uint64_t dir, const char *path)
{
    struct child_list list = {0};
    inodes_children(t->c.inodes, dir, 0, false, add_child, &list);
    tell_all(t, dir, &list);
    for (size_t i = 0; i < list.n; i++) {
        const struct inode *n = &list.child[i].n;
        char *name = list.child[i].name;
        cleanup_free char *below = xasprintf("%s/%s", path, name);
        if (!(n->flags & INODE_DIR) || !has_mounts(t, below)) {
            tell(t, dir, name);
            inodes_abandon(t->c.inodes, n->ino);
        } else if (!(n->flags & INODE_MOUNT) || n->mount == INODE_NO_MOUNT) {
            strip(t, n->ino, below);
            inodes_unmount(t->c.inodes, n->ino, mount_around(t, below));
        }
        free(name);
    }
    free(list.child);
}

static bool full_path(const struct tree *t, uint64_t dir, char path[INODE_PATH_MAX + 1])
{
    char below[INODE_PATH_MAX];
    if (!inodes_path_below(t->c.inodes, dir, INODE_ROOT, below))
        return false;
    snprintf(path, INODE_PATH_MAX + 1, "/%s", below);
    return true;
}

/* Takes away the directories above a mount that were there for it alone; the store says whether it
 * has them, too. */
static void tidy_above(struct tree *t, uint64_t dir)
{
    struct inode n;
    char path[INODE_PATH_MAX + 1], name[INODE_NAME_MAX + 1];
    uint64_t up;
    while (dir != INODE_ROOT && inodes_get(t->c.inodes, dir, &n) == 0
        && n.flags & INODE_MOUNTPOINT_DIR && full_path(t, dir, path) && !has_mounts(t, path)
        && inodes_name(t->c.inodes, dir, name, &up) == 0) {
        if (n.nchildren) { /* it does */
            inodes_set(t->c.inodes, dir, 0, &n, 0, INODE_MOUNTPOINT_DIR);
            break;
        }
        tell(t, up, name);
        inodes_abandon(t->c.inodes, dir);
        dir = up;
    }
    inodes_unlist(t->c.inodes, dir);
    tell(t, dir, "");
}

/* Of a mount that the dataset does not have any more. */
static void remove_mount(struct tree *t, uint64_t dir)
{
    char path[INODE_PATH_MAX + 1] = "/", name[INODE_NAME_MAX + 1];
    uint64_t up;
    if (dir == INODE_ROOT) {
        strip(t, dir, "");
        inodes_unmount(t->c.inodes, dir, INODE_NO_MOUNT);
    } else if (!full_path(t, dir, path)) {
        return; /* it was below another one that is gone */
    } else if (has_mounts(t, path)) {
        strip(t, dir, path);
        inodes_unmount(t->c.inodes, dir, mount_around(t, path));
    } else if (inodes_name(t->c.inodes, dir, name, &up) == 0) {
        tell(t, up, name);
        inodes_abandon(t->c.inodes, dir);
        tidy_above(t, up);
    }
    log_kv(
        LOG_INFO, "a mount is gone; who has files of it open is told ESTALE", "path", path, NULL);
}

static void remove_gone_mounts(struct tree *t)
{
    uint64_t *dirs;
    size_t n = inodes_gone_mounts(t->c.inodes, &dirs);
    for (size_t i = 0; i < n; i++)
        remove_mount(t, dirs[i]);
    free(dirs);
}

/* -- the mounts of now ------------------------------------------------------------------------ */

/* The directory of that name on the way to a mount. */
static int add_above(struct tree *t, uint64_t dir, const char *name, const struct inode *root,
    struct inode *out, struct err *e)
{
    if (inodes_find(t->c.inodes, dir, name, out)) {
        if (out->flags & INODE_DIR)
            return 0;
        tell(t, dir, name);
        inodes_abandon(t->c.inodes, out->ino); /* a mount that came hides the file */
    }
    struct inode above = *root;
    inodes_get(t->c.inodes, dir, &above);
    struct inode like = {.flags = INODE_DIR | INODE_MOUNTPOINT_DIR,
        .mode = root->mode,
        .uid = root->uid,
        .gid = root->gid,
        .mtime_ns = clock_real_ns(),
        .mount = above.mount};
    tell(t, dir, name);
    tell(t, dir, "");
    return inodes_create(t->c.inodes, dir, name, &like, out, e);
}

/* Directories down to a mount's root, and that root. */
static int add_mount(struct tree *t, unsigned mount, struct err *e)
{
    const char *path = t->c.conf->mounts[mount].path, *p = path;
    struct inode root, n;
    if (inodes_get(t->c.inodes, INODE_ROOT, &root))
        return err_set(e, ERR_FATAL, "the index has no root");
    n = root;
    while (*p == '/')
        p++;
    while (*p) {
        char name[INODE_NAME_MAX + 1];
        size_t len = strcspn(p, "/");
        snprintf(name, sizeof name, "%.*s", (int)len, p);
        if (add_above(t, n.ino, name, &root, &n, e))
            return err_wrap(e, "mount %s", path);
        p += len;
        while (*p == '/')
            p++;
    }
    if (n.flags & INODE_MOUNT && n.mount == mount)
        return 0;
    strip(t, n.ino, strcmp(path, "/") == 0 ? "" : path);
    inodes_unlist(t->c.inodes, n.ino);
    return inodes_mount(t->c.inodes, n.ino, mount);
}

/* Outer ones first: a directory on the way to an inner one belongs to the mount it is in. */
int tree_add_mounts(struct tree *t, struct err *e)
{
    remove_gone_mounts(t);
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
