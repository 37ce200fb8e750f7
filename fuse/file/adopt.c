/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/adopt.h"

#include "fuse/file/stage_name.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *note_of(const char *dir, const char *name)
{
    return xasprintf("%s/%s" STAGE_NOTE, dir, name);
}

int stage_move(const char *dir, const char *from, const char *to)
{
    cleanup_free char *a = path_join(dir, from), *b = path_join(dir, to), *na = note_of(dir, from),
                      *nb = note_of(dir, to);
    if ((link(na, nb) && errno != ENOENT && errno != EEXIST) || rename(a, b))
        return -1;
    unlink(na);
    return 0;
}

void stage_drop(const char *dir, const char *name)
{
    cleanup_free char *a = path_join(dir, name), *na = note_of(dir, name);
    unlink(a);
    unlink(na);
}

/* A directory that is there, or is made in the index alone: the store has it, or will be asked. */
static int adopt_dir(const struct files_conf *c, uint64_t dir, const char *name, unsigned mount,
    struct inode *n, struct err *e)
{
    struct inode up;
    if (inodes_find(c->inodes, dir, name, n)) /* another mount may be there by now */
        return (n->flags & INODE_DIR) && n->mount == mount ? 0 : err_sys(e, ENOTDIR, "%s", name);
    if (inodes_get(c->inodes, dir, &up))
        return err_sys(e, ESTALE, "%s", name);
    struct inode like = {.flags = INODE_DIR,
        .mode = S_IFDIR | c->dir_mode,
        .uid = up.uid,
        .gid = up.gid,
        .mount = mount,
        .mtime_ns = clock_real_ns()};
    return inodes_create(c->inodes, dir, name, &like, n, e);
}

/* The directory of a path below another one; *name is the path's last part. */
static int adopt_dirs(const struct files_conf *c, uint64_t *dir, char *path, unsigned mount,
    const char **name, struct err *e)
{
    struct inode n;
    for (char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        *slash = '\0';
        if (*path && adopt_dir(c, *dir, path, mount, &n, e))
            return -1;
        if (*path)
            *dir = n.ino;
    }
    *name = path;
    return 0;
}

static int mount_root(const struct files_conf *c, unsigned mount, uint64_t *dir, struct err *e)
{
    cleanup_free char *path = xstrdup(c->conf->mounts[mount].path);
    char *rest = path;
    *dir = INODE_ROOT;
    for (char *name; (name = strsep(&rest, "/"));) {
        struct inode n;
        if (*name && !inodes_find(c->inodes, *dir, name, &n))
            return err_sys(e, ENOENT, "mount %s", c->conf->mounts[mount].path);
        if (*name)
            *dir = n.ino;
    }
    return 0;
}

static bool is_staged(const struct files_conf *c, const struct inode *n)
{
    char name[STAGE_NAME_MAX];
    stage_name_format(&(struct stage_name){inodes_epoch(c->inodes), n->ino, n->generation}, name);
    cleanup_free char *file = path_join(c->stage_dir, name);
    return access(file, F_OK) == 0;
}

/* The inode of the name: staged and dirty from now on. */
static int adopt_inode(const struct files_conf *c, uint64_t dir, const char *name, unsigned mount,
    const struct sidecar *note, const struct stat *st, struct inode *n, struct err *e)
{
    const unsigned ours = INODE_LOCAL | INODE_STAGED | INODE_DIRTY;
    unsigned flags = INODE_STAGED | INODE_DIRTY | (*note->version ? 0 : INODE_LOCAL);
    struct inode set = {.flags = flags,
        .size = (uint64_t)st->st_size,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec,
        .mode = S_IFREG | c->file_mode,
        .mount = mount};
    snprintf(set.version, sizeof set.version, "%s", note->version);
    bool found = inodes_find(c->inodes, dir, name, n);
    /* one of ours without content: who was adopting before us was killed */
    if (found && ((n->flags & INODE_DIR) || ((n->flags & ours) && is_staged(c, n))))
        return err_sys(e, EEXIST, "%s", name);
    bool link = found && S_ISLNK(n->mode);
    if (found && (n->opens || link)) { /* its readers keep what they opened */
        if (inodes_renew(c->inodes, n->ino, e) || !inodes_find(c->inodes, dir, name, n))
            return -1;
    } else if (!found) {
        struct inode up;
        if (inodes_get(c->inodes, dir, &up))
            return err_sys(e, ESTALE, "%s", name);
        set.uid = up.uid;
        set.gid = up.gid;
        if (inodes_create(c->inodes, dir, name, &set, n, e))
            return -1;
    }
    inodes_set(c->inodes, n->ino,
        INODES_SIZE | INODES_MTIME | INODES_VERSION | (link ? INODES_MODE : 0), &set, flags,
        INODE_ATTR | INODE_UNASKED);
    return inodes_get(c->inodes, n->ino, n) ? err_sys(e, ESTALE, "%s", name) : 0;
}

int adopt_file(struct files *fs, unsigned mount, const char *name, const struct sidecar *note,
    const struct stat *st, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    cleanup_free char *path = xstrdup(note->path), *note_file = note_of(c->stage_dir, name);
    struct sidecar now = *note;
    char staged[STAGE_NAME_MAX];
    const char *leaf;
    struct inode n;
    uint64_t dir;
    boot_id(now.boot, sizeof now.boot);
    sidecar_set_mount(&now, &c->conf->mounts[mount]);
    *now.why = '\0';
    if (mount_root(c, mount, &dir, e) || adopt_dirs(c, &dir, path, mount, &leaf, e)
        || sidecar_write(note_file, &now, now.asked, e)
        || adopt_inode(c, dir, leaf, mount, note, st, &n, e))
        return -1;
    stage_name_format(&(struct stage_name){inodes_epoch(c->inodes), n.ino, n.generation}, staged);
    struct file *f = stage_move(c->stage_dir, name, staged) ? NULL : files_get(fs, n.ino, e);
    if (f) { /* dirty: it stays in the table until it is uploaded */
        files_put(f);
        return 0;
    }
    inodes_set(c->inodes, n.ino, 0, NULL, 0, INODE_STAGED | INODE_DIRTY | INODE_LOCAL);
    inodes_remove(c->inodes, n.ino);
    return err_sys(e, errno, "stage %s", leaf);
}
