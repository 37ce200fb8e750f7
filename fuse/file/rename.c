/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/rename.h"

#include "fuse/file/cached.h"
#include "fuse/file/commit.h"
#include "fuse/file/dir_move.h"
#include "fuse/file/open.h"
#include "fuse/file/recache.h"
#include "fuse/file/remove.h"
#include "fuse/file/stage.h"
#include "fuse/file/stage_sync.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1u
#endif

/* Both ends of a rename. */
struct rename_job {
    struct files *fs;
    const struct files_conf *c;
    const struct rename_request *r;
    struct store *store;
    unsigned mount;
    char from[INODE_PATH_MAX], to[INODE_PATH_MAX];
    struct inode n, target; /* .ino 0: nothing is there */
};

/* In the store. A request that is sent again may find that the process before us had come that far.
 * *other: it is not the version that the index knows, as another node has replaced it. */
static int rename_stored(struct rename_job *m, const char *from, const char *to,
    const struct inode *n, struct store_stat *st, bool *other, struct err *e)
{
    const char *expect = *n->version ? n->version : NULL;
    int rc = store_rename(m->store, from, to, expect, st, e);
    *other = rc && expect && e->cls == ERR_CONFLICT;
    if (*other)
        rc = store_rename(m->store, from, to, NULL, st, e);
    if (rc == 0)
        return 0;
    struct err none = ERR_INIT;
    if (e->cls != ERR_NOTFOUND || !m->r->resent || store_stat_path(m->store, to, st, &none)
        || st->is_dir != !!(n->flags & INODE_DIR)
        || (!st->is_dir && st->size != n->size && !(n->flags & INODE_STAGED)))
        return -1;
    return 0;
}

/* Whoever looks the name up next asks the store: it has another file there than the index. */
static void forget_state(struct rename_job *m, uint64_t ino)
{
    static const struct inode unknown; /* never looked at */
    inodes_set(m->c->inodes, ino, INODES_SYNCED, &unknown, 0, 0);
}

/* -- files ----------------------------------------------------------------------------------- */

static void lock_one(struct file *f)
{
    file_want_state(f);
    progress_lock(&f->state_lock, f->ino);
    file_got_state(f);
}

/* Locks of f and (if any) of g, in the order of inodes. */
static void lock_both(struct file *f, struct file *g)
{
    bool g_first = g && g->ino < f->ino;
    if (g_first)
        lock_one(g);
    lock_one(f);
    if (g && !g_first)
        lock_one(g);
}

static bool has_name(const struct files_conf *c, uint64_t ino)
{
    struct inode n;
    return inodes_get(c->inodes, ino, &n) == 0 && !(n.flags & INODE_UNLINKED);
}

/* The renamed object has another version in the store. */
static void set_version(struct rename_job *m, const struct store_stat *st)
{
    struct inode set = {
        .mtime_ns = st->mtime_ns, .synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
    snprintf(set.version, sizeof set.version, "%s", st->version);
    bool keep_time = (m->n.flags & (INODE_ATTR | INODE_DIRTY)) || !st->mtime_ns;
    inodes_set(m->c->inodes, m->n.ino,
        INODES_VERSION | INODES_SYNCED | (keep_time ? 0 : INODES_MTIME), &set, 0, 0);
}

/* Can the new name be taken without the store? It cannot if that has a file of that name, or may
 * have. */
static bool is_free(const struct rename_job *m, const struct file *g)
{
    return !m->target.ino || ((m->target.flags & INODE_LOCAL) && !(g && atomic_load(&g->begun)));
}

/* What was written to f waits for its upload, and takes the place of what the store has there when
 * it comes to that: nobody waits for the store now. */
static bool rename_may_wait(const struct rename_job *m, struct file *f, const struct file *g)
{
    struct inode n;
    return (m->n.flags & INODE_LOCAL) && (m->n.flags & INODE_STAGED) && file_is_dirty(f) && g
        && !atomic_load(&g->preserved) && commit_waits_at(m->c->conf, m->mount, m->to)
        && inodes_get(m->c->inodes, g->ino, &n) == 0 && ((n.flags & INODE_LOCAL) || *n.version);
}

/* What the store has at the new name, or may have, is what f's upload is to replace. */
static void rename_over(struct rename_job *m, struct file *f, const struct inode *was,
    const struct sidecar *note, bool begun)
{
    struct inode set = {0};
    memcpy(set.version, was->version, sizeof set.version);
    inodes_set(m->c->inodes, f->ino, INODES_VERSION, &set, was->flags & INODE_LOCAL,
        was->flags & INODE_LOCAL ? 0 : INODE_LOCAL);
    atomic_store(&f->begun, begun);
    stage_repath(f, begun ? note : NULL);
}

/* g: has the new name so far, if any. */
static int rename_file_locked(struct rename_job *m, struct file *f, struct file *g, struct err *e)
{
    struct inodes *ix = m->c->inodes;
    struct store_stat st = {0};
    struct err lost = ERR_INIT;
    struct inode was = {0};
    struct sidecar note = {0};
    bool other = false;
    mutex_assert_held(&f->state_lock);
    /* An upload may have ended meanwhile, or a writer have got another inode. */
    if (inodes_get(ix, m->n.ino, &m->n) || (m->n.flags & INODE_UNLINKED)
        || (g && !has_name(m->c, g->ino)))
        return err_sys(e, ESTALE, "rename");
    /* A local file may take a free name without the store; a name that the store has can only be
     * replaced there, now or later. */
    bool over = !is_free(m, g) && rename_may_wait(m, f, g);
    if (over && stage_read_note(g, &note, &lost))
        note.asked = false;
    /* else nothing tells what the store may have of it from what others put there */
    over = over && (note.asked || !atomic_load(&g->begun));
    if (over && inodes_get(ix, g->ino, &was))
        return err_sys(e, ESTALE, "rename");
    if ((m->n.flags & INODE_LOCAL) && !is_free(m, g) && !over
        && (file_upload_locked(f, e) || inodes_get(ix, m->n.ino, &m->n)))
        return -1;
    bool local = m->n.flags & INODE_LOCAL;
    if (g && file_preserve(g, &lost))
        log_kv(LOG_WARN, "a file is replaced while it is open, and could not be read before",
            "path", m->to, "error", lost.msg, NULL);
    if (!local && rename_stored(m, m->from, m->to, &m->n, &st, &other, e))
        return -1;
    if (local && upload_take_back(f, m->store, m->from, e))
        return -1;
    if (g)
        file_keep_preserved(g);
    if (local) /* else what an upload may have brought there has moved along */
        atomic_store(&f->begun, false);
    cached_unpin(m->c->cache, m->mount, m->from);
    cached_unpin(m->c->cache, m->mount, m->to);
    if (inodes_rename(ix, m->n.ino, m->r->newdir, m->r->newname, e))
        return -1;
    if (other)
        forget_state(m, m->n.ino);
    else if (!local)
        set_version(m, &st);
    /* before g's goes: a power cut leaves one that says what the name has */
    if (over)
        rename_over(m, f, &was, &note, atomic_load(&g->begun));
    else
        stage_repath(f, NULL);
    if (g)
        file_discard(g);
    if (!local && !other)
        file_recache(f);
    stage_sync_settle(files_stage_sync(m->fs));
    return 0;
}

static int rename_file(struct rename_job *m, struct err *e)
{
    struct file *f = files_get(m->fs, m->n.ino, e);
    struct file *g = f && m->target.ino ? files_get(m->fs, m->target.ino, e) : NULL;
    int rc = -1;
    if (f && (g || !m->target.ino)) {
        if (g) /* its record stays until file_discard() has seen it */
            inodes_hold(m->c->inodes, g->ino);
        progress_of(f->ino, g ? g->ino : f->ino); /* either may be busy for long */
        file_attach_cached(f);
        lock_both(f, g);
        rc = rename_file_locked(m, f, g, e);
        if (g)
            pthread_mutex_unlock(&g->state_lock);
        pthread_mutex_unlock(&f->state_lock);
        if (g)
            file_release(g);
    }
    if (g)
        files_put(g);
    if (f)
        files_put(f);
    return rc;
}

/* -- directories ----------------------------------------------------------------------------- */

static int set_flag(void *user, const struct store_entry *entry)
{
    (void)entry;
    *(bool *)user = true;
    return 1;
}

/* Copies would replace what another node has there since we looked. Not asked again for what the
 * process before us may have begun. */
static int require_nothing_there(struct rename_job *m, struct err *e)
{
    cleanup_free char *cursor = NULL;
    struct err none = ERR_INIT;
    bool any = false;
    if (m->r->resent)
        return 0;
    if (store_list(m->store, m->to, &cursor, set_flag, &any, &none) && !any
        && none.cls != ERR_NOTFOUND) {
        *e = none;
        return -1;
    }
    if (!any)
        return 0;
    inodes_unlist(m->c->inodes, m->r->newdir);
    return err_sys(e, ENOTEMPTY, "rename to %s", m->r->newname);
}

/* files.rename_lock is held exclusively: no upload goes to a path that is about to end. */
static int rename_dir_locked(struct rename_job *m, struct err *e)
{
    struct inodes *ix = m->c->inodes;
    struct store_stat st = {0};
    bool other;
    if (m->n.flags & (INODE_MOUNT | INODE_MOUNTPOINT_DIR))
        return err_sys(e, EBUSY, "rename of a mount");
    if (m->target.ino && files_remove_dir(m->fs, &m->target, m->r->newname, e))
        return -1;
    if (store_caps(m->store) & STORE_CAP_RENAME_DIR) {
        inodes_change(ix, m->n.ino, "");
        int rc = rename_stored(m, m->from, m->to, &m->n, &st, &other, e);
        if (rc == 0)
            rc = inodes_rename(ix, m->n.ino, m->r->newdir, m->r->newname, e);
        inodes_change_end(ix, m->n.ino, "");
        return rc;
    }
    if (require_nothing_there(m, e))
        return -1;
    struct dir_move move = {.fs = m->fs,
        .store = m->store,
        .mount = m->mount,
        .dir = m->n.ino,
        .from = m->from,
        .to = m->to};
    if (dir_move_copy(&move, e)) {
        inodes_unlist(ix, m->r->newdir);
        return -1;
    }
    inodes_change(ix, m->n.ino, "");
    int rc = inodes_rename(ix, m->n.ino, m->r->newdir, m->r->newname, e);
    dir_move_versions(&move);
    inodes_change_end(ix, m->n.ino, "");
    if (rc) { /* the store has it under the new name */
        inodes_unlist(ix, m->r->dir);
        inodes_unlist(ix, m->r->newdir);
    }
    dir_move_end(&move);
    return rc;
}

/* For open files below a directory that was renamed. */
static void repath(void *user, struct file *f)
{
    const struct rename_job *m = user;
    if (!inodes_below(m->c->inodes, f->ino, m->n.ino))
        return;
    lock_one(f);
    stage_repath(f, NULL);
    file_recache(f);
    pthread_mutex_unlock(&f->state_lock);
}

static int rename_dir(struct rename_job *m, struct err *e)
{
    progress_of(PROGRESS_ANY, PROGRESS_ANY);
    files_hold_uploads(m->fs);
    pthread_rwlock_wrlock(files_rename_lock(m->fs));
    int rc = rename_dir_locked(m, e);
    pthread_rwlock_unlock(files_rename_lock(m->fs));
    files_let_uploads(m->fs);
    if (rc == 0)
        files_each(m->fs, repath, m);
    return rc;
}

/* -- both ------------------------------------------------------------------------------------ */

/* RENAME_NOREPLACE: the name may have been taken by another node since we looked. Not asked again
 * for what the process before us may have done. */
static int require_free(struct rename_job *m, struct err *e)
{
    struct store_stat st;
    struct err none = ERR_INIT;
    if (!(m->r->flags & RENAME_NOREPLACE) || m->r->resent)
        return 0;
    if (store_stat_path(m->store, m->to, &st, &none) == 0) {
        inodes_unlist(m->c->inodes, m->r->newdir);
        return err_sys(e, EEXIST, "rename to %s", m->r->newname);
    }
    if (none.cls == ERR_NOTFOUND)
        return 0;
    *e = none;
    return -1;
}

/* Finds both ends and whether the one may become the other. *same: there is nothing to do. */
static int find_ends(struct rename_job *m, bool *same, struct err *e)
{
    const struct rename_request *r = m->r;
    struct store *to_store;
    unsigned to_mount;
    struct err none = ERR_INIT;
    if (r->flags & ~RENAME_NOREPLACE)
        return err_sys(e, EINVAL, "exchange of two names");
    if (tree_lookup(m->c->tree, r->dir, r->name, &m->n, e))
        return -1;
    if (!tree_writable(m->c->tree, m->n.mount))
        return err_sys(e, EROFS, "rename %s", r->name);
    /* the process before us may have copied half of a directory there, and been asked for it again
     */
    if (tree_where_child(m->c->tree, r->newdir, r->newname, &to_store, &to_mount, m->to, e)
        || dir_move_settle(m->fs, to_mount, m->to, e))
        return -1;
    bool target = tree_lookup(m->c->tree, r->newdir, r->newname, &m->target, &none) == 0;
    if (!target && none.cls != ERR_NOTFOUND) {
        *e = none;
        return -1;
    }
    if (!target)
        m->target.ino = 0;
    if ((*same = target && m->target.ino == m->n.ino))
        return 0;
    if (target && (r->flags & RENAME_NOREPLACE))
        return err_sys(e, EEXIST, "rename to %s", r->newname);
    if (tree_where(m->c->tree, m->n.ino, &m->store, &m->mount, m->from, e))
        return -1;
    if (to_mount != m->mount)
        return err_sys(e, EXDEV, "rename %s to another mount", r->name);
    if (store_check_hidden(m->store, m->to, e))
        return -1;
    if (target && ((m->n.flags ^ m->target.flags) & INODE_DIR))
        return err_sys(
            e, m->n.flags & INODE_DIR ? ENOTDIR : EISDIR, "rename %s to %s", r->name, r->newname);
    return require_free(m, e);
}

/* The old name is gone: did the process before us do it? It may have come as far as the store, and
 * not have told the index. */
static bool was_renamed(struct rename_job *m)
{
    const struct rename_request *r = m->r;
    struct inode n;
    struct err e = ERR_INIT;
    if (!r->resent)
        return false;
    if (inodes_find(m->c->inodes, r->newdir, r->newname, &n)) {
        if (n.flags & (INODE_DIR | INODE_LOCAL | INODE_STAGED))
            return true;
        forget_state(m, n.ino);
    }
    return tree_lookup(m->c->tree, r->newdir, r->newname, &n, &e) == 0;
}

int files_rename(struct files *fs, const struct rename_request *r, struct err *e)
{
    cleanup_free struct rename_job *m = malloc(sizeof *m);
    bool same = false;
    if (!m)
        return err_sys(e, ENOMEM, "rename");
    *m = (struct rename_job){.fs = fs, .c = files_config(fs), .r = r};
    int rc = find_ends(m, &same, e);
    if (rc == 0 && !same) {
        inodes_change(m->c->inodes, r->dir, r->name);
        inodes_change(m->c->inodes, r->newdir, r->newname);
        rc = m->n.flags & INODE_DIR ? rename_dir(m, e) : rename_file(m, e);
        inodes_change_end(m->c->inodes, r->newdir, r->newname);
        inodes_change_end(m->c->inodes, r->dir, r->name);
        if (rc == 0) {
            files_dir_changed(fs, r->dir);
            files_dir_changed(fs, r->newdir);
        }
    }
    return rc && err_errno(e) == ENOENT && was_renamed(m) ? 0 : rc;
}
