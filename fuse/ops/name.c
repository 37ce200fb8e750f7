/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that change names. The store is changed first, the index after it: what fails in the
 * store has not happened. A request that is sent again after a crash finds its work done: that is
 * success, not an error. */
#include "fuse/ops/ops.h"

#include "fuse/file/open.h"
#include "fuse/file/remove.h"
#include "fuse/file/rename.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1u
#endif

void op_symlink(fuse_req_t req, const char *link, fuse_ino_t dir, const char *name)
{
    (void)link;
    (void)dir;
    (void)name;
    fuse_reply_err(req, EOPNOTSUPP); /* stores know no links */
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir, const char *name)
{
    (void)ino;
    (void)dir;
    (void)name;
    fuse_reply_err(req, EOPNOTSUPP);
}

static int make_dir(struct fs *fs, const struct fuse_ctx *ctx, uint64_t dir, const char *name,
    mode_t mode, struct inode *n, struct err *e)
{
    struct inode d;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (inodes_get(fs->inodes, dir, &d))
        return err_sys(e, ESTALE, "mkdir %s", name);
    if (ops_may_change(fs, &d))
        return err_sys(e, EROFS, "mkdir %s", name);
    if (inodes_find(fs->inodes, dir, name, n))
        return err_sys(e, EEXIST, "mkdir %s", name);
    if (tree_where_child(fs->tree, dir, name, &store, &mount, path, e))
        return -1;
    if (store_mkdir(store, path, e) && !(e->cls == ERR_EXISTS && session_resent()))
        return -1;
    int64_t now = clock_real_ns();
    struct inode like = {.flags = INODE_DIR | INODE_LISTED,
        .mode = S_IFDIR | fs->dir_mode | (mode & S_ISVTX),
        .uid = ctx->uid,
        .gid = ctx->gid,
        .mount = mount,
        .mtime_ns = now,
        .synced_s = (uint32_t)(now / NS_PER_S)};
    return inodes_create(fs->inodes, dir, name, &like, n, e);
}

void op_mkdir(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode)
{
    struct fs *fs = ops_fs(req);
    struct inode n;
    struct err e = ERR_INIT;
    int rc = make_dir(fs, fuse_req_ctx(req), dir, name, mode, &n, &e);
    if (rc && err_errno(&e) == EEXIST && session_resent())
        rc = tree_lookup(fs->tree, dir, name, &n, &e);
    if (rc)
        ops_fail(req, dir, "mkdir", &e);
    else
        ops_entry(req, &n);
}

/* What has no name cannot be unpinned by it. */
static void unpin(struct fs *fs, unsigned mount, const char *path)
{
    cache_unkeep(files_config(fs->files)->cache, &(struct cache_key){.mount = mount, .path = path});
}

/* f->state_lock is held: no upload is under way. */
static int unlink_locked(struct fs *fs, struct file *f, uint64_t ino, struct err *e)
{
    struct inode n;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    struct err pin = ERR_INIT;
    if (inodes_get(fs->inodes, ino, &n) || tree_where(fs->tree, ino, &store, &mount, path, e))
        return err_wrap(e, "unlink");
    if (file_preserve(f, 0, &pin))
        log_kv(LOG_WARN, "a file is removed while it is open, and could not be read before", "path",
            path, "error", pin.msg, NULL);
    if (!(n.flags & INODE_LOCAL) && store_remove(store, path, e) && e->cls != ERR_NOTFOUND)
        return -1;
    unpin(fs, mount, path);
    inodes_opened(fs->inodes, ino, 1); /* keeps the record until its staging file is dealt with */
    inodes_remove(fs->inodes, ino);
    inodes_opened(fs->inodes, ino, -1);
    upload_discard(f);
    return 0;
}

static int unlink_name(struct fs *fs, uint64_t dir, const char *name, struct err *e)
{
    struct inode n;
    if (tree_lookup(fs->tree, dir, name, &n, e))
        return -1;
    if (n.flags & INODE_DIR)
        return err_sys(e, EISDIR, "unlink %s", name);
    if (ops_may_change(fs, &n))
        return err_sys(e, EROFS, "unlink %s", name);
    struct file *f = files_get(fs->files, n.ino, e);
    if (!f)
        return -1;
    pthread_mutex_lock(&f->state_lock);
    int rc = unlink_locked(fs, f, n.ino, e);
    pthread_mutex_unlock(&f->state_lock);
    files_put(f);
    return rc;
}

void op_unlink(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    struct err e = ERR_INIT;
    if (unlink_name(ops_fs(req), dir, name, &e) == 0
        || (err_errno(&e) == ENOENT && session_resent()))
        fuse_reply_err(req, 0);
    else
        ops_fail(req, dir, "unlink", &e);
}

static int require_empty(struct fs *fs, const struct inode *d, struct err *e)
{
    struct inode now;
    if (d->flags & (INODE_MOUNT | INODE_MOUNTPOINT_DIR))
        return err_sys(e, EBUSY, "a mount is here");
    if (tree_fill_all(fs->tree, d->ino, e) && e->cls != ERR_NOTFOUND)
        return -1;
    if (inodes_get(fs->inodes, d->ino, &now))
        return err_sys(e, ESTALE, "directory");
    return now.nchildren ? err_sys(e, ENOTEMPTY, "directory") : 0;
}

static int remove_dir(struct fs *fs, const struct inode *n, const char *name, struct err *e)
{
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (!(n->flags & INODE_DIR))
        return err_sys(e, ENOTDIR, "rmdir %s", name);
    if (ops_may_change(fs, n))
        return err_sys(e, EROFS, "rmdir %s", name);
    if (require_empty(fs, n, e) || tree_where(fs->tree, n->ino, &store, &mount, path, e))
        return err_wrap(e, "rmdir %s", name);
    if (store_rmdir(store, path, e) && e->cls != ERR_NOTFOUND) {
        inodes_unlist(fs->inodes, n->ino);
        return -1;
    }
    inodes_remove(fs->inodes, n->ino);
    return 0;
}

void op_rmdir(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    struct fs *fs = ops_fs(req);
    struct inode n;
    struct err e = ERR_INIT;
    int rc = tree_lookup(fs->tree, dir, name, &n, &e);
    if (rc == 0)
        rc = remove_dir(fs, &n, name, &e);
    if (rc == 0 || (err_errno(&e) == ENOENT && session_resent()))
        fuse_reply_err(req, 0);
    else
        ops_fail(req, dir, "rmdir", &e);
}

/* Both ends of a rename. */
struct move {
    struct fs *fs;
    struct store *store;
    unsigned mount;
    char from[INODE_PATH_MAX], to[INODE_PATH_MAX];
    struct inode n, target; /* .ino 0: nothing is there */
    uint64_t newdir;
    const char *newname;
};

/* In the store. A request that is sent again may find that the process before us had come that far.
 */
static int rename_stored(struct store *store, const char *from, const char *to,
    const struct inode *n, struct store_stat *st, struct err *e)
{
    if (store_rename(store, from, to, st, e) == 0)
        return 0;
    struct err none = ERR_INIT;
    if (e->cls != ERR_NOTFOUND || !session_resent() || store_stat_path(store, to, st, &none)
        || st->is_dir != !!(n->flags & INODE_DIR)
        || (!st->is_dir && st->size != n->size && !(n->flags & INODE_STAGED)))
        return -1;
    return 0;
}

/* Locks of f and (if any) of g, in the order of inodes. */
static void lock_both(struct file *f, struct file *g)
{
    if (g && g->ino < f->ino) {
        pthread_mutex_lock(&g->state_lock);
        pthread_mutex_lock(&f->state_lock);
        return;
    }
    pthread_mutex_lock(&f->state_lock);
    if (g)
        pthread_mutex_lock(&g->state_lock);
}

static bool has_name(struct fs *fs, uint64_t ino)
{
    struct inode n;
    return inodes_get(fs->inodes, ino, &n) == 0 && !(n.flags & INODE_UNLINKED);
}

static int move_file_locked(struct move *m, struct file *f, struct file *g, struct err *e)
{
    struct fs *fs = m->fs;
    struct store_stat st = {0};
    struct err pin = ERR_INIT;
    struct inode set = {.synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
    /* An upload may have ended meanwhile, or a writer have got another inode. */
    if (inodes_get(fs->inodes, m->n.ino, &m->n) || (m->n.flags & INODE_UNLINKED)
        || (g && !has_name(fs, g->ino)))
        return err_sys(e, ESTALE, "rename");
    /* What is only here may take a free name without the store; what the store has under that name
     * can only be replaced there. */
    if ((m->n.flags & INODE_LOCAL) && m->target.ino && !(m->target.flags & INODE_LOCAL)
        && (file_upload_locked(f, e) || inodes_get(fs->inodes, m->n.ino, &m->n)))
        return -1;
    bool local = m->n.flags & INODE_LOCAL;
    if (g && file_preserve(g, 1, &pin))
        log_kv(LOG_WARN, "a file is replaced while it is open, and could not be read before",
            "path", m->to, "error", pin.msg, NULL);
    if (!local && rename_stored(m->store, m->from, m->to, &m->n, &st, e))
        return -1;
    unpin(fs, m->mount, m->from);
    unpin(fs, m->mount, m->to);
    if (inodes_rename(fs->inodes, m->n.ino, m->newdir, m->newname, e))
        return -1;
    if (g)
        upload_discard(g);
    if (local) {
        stage_repath(f);
        return 0;
    }
    snprintf(set.version, sizeof set.version, "%s", st.version);
    set.mtime_ns = st.mtime_ns;
    bool keep_time = (m->n.flags & (INODE_ATTR | INODE_DIRTY)) || !st.mtime_ns;
    inodes_set(fs->inodes, m->n.ino,
        INODES_VERSION | INODES_SYNCED | (keep_time ? 0 : INODES_MTIME), &set, 0, 0);
    stage_repath(f);
    file_renamed(f);
    return 0;
}

static int move_file(struct move *m, struct err *e)
{
    struct file *f = files_get(m->fs->files, m->n.ino, e);
    struct file *g = f && m->target.ino ? files_get(m->fs->files, m->target.ino, e) : NULL;
    int rc = -1;
    if (f && (g || !m->target.ino)) {
        if (g)
            /* its record stays until upload_discard() has seen it */
            inodes_opened(m->fs->inodes, g->ino, 1);
        file_attach_for_rename(f);
        lock_both(f, g);
        rc = move_file_locked(m, f, g, e);
        if (g)
            pthread_mutex_unlock(&g->state_lock);
        pthread_mutex_unlock(&f->state_lock);
        if (g)
            file_closed(g);
    }
    if (g)
        files_put(g);
    if (f)
        files_put(f);
    return rc;
}

/* What is open below a directory that has moved. */
static void repath(void *user, struct file *f)
{
    const struct move *m = user;
    if (!inodes_below(m->fs->inodes, f->ino, m->n.ino))
        return;
    pthread_mutex_lock(&f->state_lock);
    stage_repath(f);
    file_renamed(f);
    pthread_mutex_unlock(&f->state_lock);
}

struct names {
    struct inode *list;
    char (*name)[INODE_NAME_MAX + 1];
    size_t n, cap;
    bool failed;
};

static int collect(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)cookie;
    struct names *s = user;
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct inode *list = realloc(s->list, cap * sizeof *list);
        if (list)
            s->list = list;
        void *text = realloc(s->name, cap * sizeof *s->name);
        if (text)
            s->name = text;
        if (!list || !text) {
            s->failed = true;
            return 1;
        }
        s->cap = cap;
    }
    s->list[s->n] = *child;
    memcpy(s->name[s->n++], name, strlen(name) + 1);
    return 0;
}

/* For stores that cannot move a directory: everything in it, one by one. The new one is made first,
 * the old one removed last; if it fails in the middle, both are there and nothing is lost. Depth is
 * bounded by the length of a path. */
static int move_tree(struct fs *fs, struct store *store, uint64_t dir, const char *from,
    const char *to, struct err *e)
{
    struct names s = {0};
    int rc = tree_fill_all(fs->tree, dir, e) && e->cls != ERR_NOTFOUND ? -1 : 0;
    if (rc == 0 && store_mkdir(store, to, e) && e->cls != ERR_EXISTS)
        rc = -1;
    if (rc == 0)
        inodes_children(fs->inodes, dir, 0, false, collect, &s);
    if (s.failed)
        rc = err_sys(e, ENOMEM, "move %s", from);
    for (size_t i = 0; i < s.n && rc == 0; i++) {
        cleanup_free char *a = xasprintf("%s/%s", from, s.name[i]),
                          *b = xasprintf("%s/%s", to, s.name[i]);
        struct inode set = {.synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
        struct store_stat st = {0};
        if (s.list[i].flags & INODE_DIR)
            rc = move_tree(fs, store, s.list[i].ino, a, b, e);
        else if (!(s.list[i].flags & INODE_LOCAL)
            && (rc = rename_stored(store, a, b, &s.list[i], &st, e)) == 0) {
            snprintf(set.version, sizeof set.version, "%s", st.version);
            inodes_set(fs->inodes, s.list[i].ino, INODES_VERSION | INODES_SYNCED, &set, 0, 0);
        }
    }
    free(s.list);
    free(s.name);
    if (rc == 0 && store_rmdir(store, from, e) && e->cls != ERR_NOTFOUND)
        rc = -1;
    if (rc)
        inodes_unlist(fs->inodes, dir);
    return rc;
}

/* files.rename_lock is held: no upload goes to a path that is about to end. */
static int move_dir_locked(struct move *m, struct err *e)
{
    struct fs *fs = m->fs;
    struct store_stat st = {0};
    if (m->n.flags & (INODE_MOUNT | INODE_MOUNTPOINT_DIR))
        return err_sys(e, EBUSY, "rename of a mount");
    if (m->target.ino && remove_dir(fs, &m->target, m->newname, e))
        return -1;
    if (store_caps(m->store) & STORE_CAP_RENAME_DIR) {
        if (rename_stored(m->store, m->from, m->to, &m->n, &st, e))
            return -1;
    } else if (move_tree(fs, m->store, m->n.ino, m->from, m->to, e)) {
        inodes_unlist(fs->inodes, m->newdir);
        return -1;
    }
    if (inodes_rename(fs->inodes, m->n.ino, m->newdir, m->newname, e))
        return -1;
    return 0;
}

static int move_dir(struct move *m, struct err *e)
{
    pthread_rwlock_wrlock(files_rename_lock(m->fs->files));
    int rc = move_dir_locked(m, e);
    pthread_rwlock_unlock(files_rename_lock(m->fs->files));
    if (rc == 0)
        files_each(m->fs->files, repath, m);
    return rc;
}

static int move(struct fs *fs, uint64_t dir, const char *name, uint64_t newdir, const char *newname,
    unsigned flags, struct err *e)
{
    struct move *m = malloc(sizeof *m);
    if (!m)
        return err_sys(e, ENOMEM, "rename");
    *m = (struct move){.fs = fs, .newdir = newdir, .newname = newname};
    struct store *to_store;
    unsigned to_mount;
    int rc = -1;
    struct err none = ERR_INIT;
    if (flags & ~RENAME_NOREPLACE) {
        err_sys(e, EINVAL, "exchange of two names");
    } else if (tree_lookup(fs->tree, dir, name, &m->n, e)) {
        rc = -1;
    } else if (ops_may_change(fs, &m->n)) {
        err_sys(e, EROFS, "rename %s", name);
    } else if (tree_lookup(fs->tree, newdir, newname, &m->target, &none)
        && none.cls != ERR_NOTFOUND) {
        *e = none;
    } else if (none.cls == ERR_NONE && m->target.ino == m->n.ino) {
        rc = 0;
    } else if (none.cls == ERR_NONE && (flags & RENAME_NOREPLACE)) {
        err_sys(e, EEXIST, "rename to %s", newname);
    } else if (tree_where(fs->tree, m->n.ino, &m->store, &m->mount, m->from, e)
        || tree_where_child(fs->tree, newdir, newname, &to_store, &to_mount, m->to, e)) {
        rc = -1;
    } else if (to_mount != m->mount) {
        err_sys(e, EXDEV, "rename %s to another mount", name);
    } else {
        bool is_dir = m->n.flags & INODE_DIR, target = none.cls == ERR_NONE,
             target_dir = target && (m->target.flags & INODE_DIR);
        if (!target)
            m->target.ino = 0;
        if (target && is_dir != target_dir)
            err_sys(e, is_dir ? ENOTDIR : EISDIR, "rename %s to %s", name, newname);
        else
            rc = is_dir ? move_dir(m, e) : move_file(m, e);
    }
    free(m);
    return rc;
}

/* The old name is gone: did the process before us do it? It may have come as far as the store, and
 * not have told the index. */
static bool was_renamed(struct fs *fs, uint64_t newdir, const char *newname)
{
    static const struct inode unknown; /* never looked at */
    struct inode n;
    struct err e = ERR_INIT;
    if (!session_resent())
        return false;
    if (inodes_find(fs->inodes, newdir, newname, &n)) {
        if (n.flags & (INODE_DIR | INODE_LOCAL | INODE_STAGED))
            return true;
        inodes_set(fs->inodes, n.ino, INODES_SYNCED, &unknown, 0, 0);
    }
    return tree_lookup(fs->tree, newdir, newname, &n, &e) == 0;
}

void op_rename(fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t newdir,
    const char *newname, unsigned flags)
{
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    if (move(fs, dir, name, newdir, newname, flags, &e) == 0
        || (err_errno(&e) == ENOENT && was_renamed(fs, newdir, newname)))
        fuse_reply_err(req, 0);
    else
        ops_fail(req, dir, "rename", &e);
}
