/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/dir_move.h"

#include "fuse/file/dir_purge.h"
#include "fuse/file/sidecar.h"
#include "lib/base/clock.h"
#include "lib/base/each.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a journal's first note says, in the place of why something is kept. */
#define COPYING  "copying"
#define DELETING "deleting"
#define FROM     ".from"
#define TO       ".to"

/* -- the journal: two notes, each with a path ------------------------------------------------ */

static char *journal_dir(const struct files *fs)
{
    return xasprintf("%s/moves", files_config(fs)->stage_dir);
}

static char *journal_file(const struct dir_move *m, const char *end)
{
    cleanup_free char *dir = journal_dir(m->fs);
    return xasprintf("%s/%016" PRIx64 "%s", dir, hash64(m->from, strlen(m->from)), end);
}

static int journal_note(
    const struct dir_move *m, const char *end, const char *path, const char *state, struct err *e)
{
    struct sidecar note = {0};
    cleanup_free char *file = journal_file(m, end);
    sidecar_set_mount(&note, &files_config(m->fs)->conf->mounts[m->mount]);
    snprintf(note.path, sizeof note.path, "%s", path);
    snprintf(note.why, sizeof note.why, "%s", state);
    return sidecar_write(file, &note, true, e);
}

/* The names of its notes are on the disk before the store is told anything: after a power cut, one
 * of before would undo what is half deleted. */
static int journal_sync(const struct dir_move *m, struct err *e)
{
    cleanup_free char *dir = journal_dir(m->fs);
    return file_sync_dir(dir, e);
}

/* "to" first: without a "from" there is no journal. */
static int journal_begin(const struct dir_move *m, struct err *e)
{
    cleanup_free char *dir = journal_dir(m->fs);
    return file_mkdirs(dir, 0700, e) || file_sync_dir(files_config(m->fs)->stage_dir, e)
            || journal_note(m, TO, m->to, COPYING, e) || journal_note(m, FROM, m->from, COPYING, e)
            || journal_sync(m, e)
        ? -1
        : 0;
}

static void journal_end(const struct dir_move *m)
{
    cleanup_free char *dir = journal_dir(m->fs), *from = journal_file(m, FROM),
                      *to = journal_file(m, TO);
    unlink(from);
    unlink(to);
    rmdir(dir); /* if that was the last */
}

/* -- copies ---------------------------------------------------------------------------------- */

/* Right after the copies were made. */
static int purge_copied(struct dir_move *m, bool undo, struct err *e)
{
    const struct dir_purge p = {.store = m->store, .list = m->list, .n = m->n, .undo = undo};
    return dir_purge(&p, undo ? m->to : m->from, undo ? m->from : m->to, e);
}

static void moved_add(struct dir_move *m, const struct inode *n, char *path_take)
{
    if (m->n == m->room) {
        m->room = MAX(2 * m->room, (size_t)64);
        m->list = xrealloc(m->list, m->room * sizeof *m->list);
    }
    m->list[m->n++] = (struct moved){.ino = n->ino,
        .path = path_take,
        .is_dir = n->flags & INODE_DIR,
        .was = *n->version ? xstrdup(n->version) : NULL,
        .known = *n->version};
}

struct gathering {
    struct dir_move *m;
    const char *dir; /* whose children are told */
};

static int gather_child(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)cookie;
    const struct gathering *g = user;
    if (!(child->flags & INODE_LOCAL) || (child->flags & INODE_DIR)) /* else not in the store */
        moved_add(g->m, child, xasprintf("%s/%s", g->dir, name));
    return 0;
}

/* All names below it: those of a directory stand behind it in the list. */
static int gather_moved(struct dir_move *m, struct err *e)
{
    const struct files_conf *c = files_config(m->fs);
    moved_add(m, &(struct inode){.ino = m->dir, .flags = INODE_DIR}, xstrdup(m->from));
    for (size_t i = 0; i < m->n; i++) {
        const struct gathering g = {m, m->list[i].path};
        uint64_t dir = m->list[i].ino;
        if (!m->list[i].is_dir)
            continue;
        inodes_unlist(c->inodes, dir); /* other nodes may have put something there just now */
        if (tree_fill_all(c->tree, dir, e) && e->cls != ERR_NOTFOUND)
            return -1;
        inodes_children(c->inodes, dir, 0, false, gather_child, (void *)&g);
    }
    return 0;
}

static int copy_moved_file(const struct dir_move *m, struct moved *f, const char *to, struct err *e)
{
    struct store_stat st, source;
    int rc = f->known ? store_copy(m->store, f->path, to, f->was, &st, e) : 0;
    if (!f->known || (rc && e->cls == ERR_CONFLICT)) { /* another node has replaced it */
        f->known = false;
        rc = store_stat_path(m->store, f->path, &source, e)
            || store_copy(m->store, f->path, to, source.version, &st, e);
        if (rc == 0) {
            free(f->was);
            f->was = xstrdup(source.version);
        }
    }
    if (rc == 0)
        f->version = xstrdup(st.version);
    return rc ? -1 : 0;
}

static int copy_moved(void *user, size_t i, struct err *e)
{
    const struct dir_move *m = user;
    struct moved *f = &m->list[i];
    cleanup_free char *to = xasprintf("%s%s", m->to, f->path + strlen(m->from));
    if (f->is_dir)
        return store_mkdir(m->store, to, 0, e) && e->cls != ERR_EXISTS ? -1 : 0;
    return copy_moved_file(m, f, to, e);
}

static void dir_move_list_free(struct dir_move *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->list[i].path);
        free(m->list[i].was);
        free(m->list[i].version);
    }
    free(m->list);
    m->list = NULL;
    m->n = m->room = 0;
}

/* -- from outside ---------------------------------------------------------------------------- */

int dir_move_copy(struct dir_move *m, struct err *e)
{
    struct err none = ERR_INIT;
    if (journal_begin(m, e))
        return -1;
    if (gather_moved(m, e) == 0
        && each("copies", m->n, DIR_MOVE_AT_ONCE, copy_moved, m, NULL, e) == 0
        && journal_note(m, FROM, m->from, DELETING, e) == 0 && journal_sync(m, e) == 0)
        return 0;
    journal_note(m, FROM, m->from, COPYING, &none); /* it may say otherwise by now */
    if (purge_copied(m, true, &none) == 0)
        journal_end(m);
    else
        log_kv(LOG_WARN,
            "a directory that could not be renamed is half copied; that is undone later", "path",
            m->to, "error", none.msg, NULL);
    dir_move_list_free(m);
    return -1;
}

void dir_move_versions(struct dir_move *m)
{
    struct inodes *ix = files_config(m->fs)->inodes;
    for (size_t i = 0; i < m->n; i++) {
        if (m->list[i].is_dir)
            continue;
        struct inode set = {.synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
        static const struct inode unknown; /* never looked at */
        if (m->list[i].known)
            snprintf(set.version, sizeof set.version, "%s", m->list[i].version);
        inodes_set(ix, m->list[i].ino, INODES_SYNCED | (m->list[i].known ? INODES_VERSION : 0),
            m->list[i].known ? &set : &unknown, 0, 0);
    }
}

void dir_move_end(struct dir_move *m)
{
    struct err e = ERR_INIT;
    if (purge_copied(m, false, &e) == 0)
        journal_end(m);
    else
        log_kv(LOG_WARN,
            "a renamed directory is still there under its old name, too; that ends later", "path",
            m->from, "error", e.msg, NULL);
    dir_move_list_free(m);
}

/* One journal of the directory: 0: it is done with. */
static int dir_move_resume_one(struct files *fs, const char *file, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct sidecar from, to;
    cleanup_free char *other = xasprintf("%.*s" TO, (int)(strlen(file) - strlen(FROM)), file);
    if (sidecar_read(file, &from, e) || sidecar_read(other, &to, e))
        return -1;
    int mount = sidecar_find_mount(&from, c->conf);
    struct store *store = mount < 0 ? NULL : tree_store(c->tree, (unsigned)mount);
    if (!store)
        return err_set(e, ERR_RETRY, "the store of \"%s\" cannot be used", from.path);
    bool undo = strcmp(from.why, DELETING) != 0;
    const char *victim = undo ? to.path : from.path, *kept = undo ? from.path : to.path;
    if (dir_purge(&(struct dir_purge){.store = store, .undo = undo}, victim, kept, e))
        return -1;
    log_kv(LOG_INFO,
        undo ? "a directory's rename that was interrupted is undone"
             : "a directory's rename that was interrupted is done",
        "from", from.path, "to", to.path, NULL);
    unlink(file);
    unlink(other);
    return 0;
}

/* What is at `path`, if it is not NULL, may be deleted for that journal. */
static bool journal_concerns(struct files *fs, const char *file, unsigned mount, const char *path)
{
    struct sidecar from, to;
    struct err e = ERR_INIT;
    cleanup_free char *other = xasprintf("%.*s" TO, (int)(strlen(file) - strlen(FROM)), file);
    if (!path)
        return true;
    if (sidecar_read(file, &from, &e) || sidecar_read(other, &to, &e)
        || sidecar_find_mount(&from, files_config(fs)->conf) != (int)mount)
        return false;
    const char *victim = strcmp(from.why, DELETING) == 0 ? from.path : to.path;
    size_t len = strlen(victim);
    return strncmp(path, victim, len) == 0 && (path[len] == '/' || !path[len]);
}

/* The journals that concern that path, or all; *found: there were such. -1: one is not done with.
 */
static int resume_journals(
    struct files *fs, unsigned mount, const char *path, bool *found, struct err *e)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    int rc = 0;
    cleanup_free char *dir = journal_dir(fs);
    *found = false;
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    for (struct dirent *de; (de = readdir(d));) {
        struct err failed = ERR_INIT;
        size_t len = strlen(de->d_name), end = strlen(FROM);
        cleanup_free char *file = path_join(dir, de->d_name);
        if (len <= end || strcmp(de->d_name + len - end, FROM) != 0
            || !journal_concerns(fs, file, mount, path))
            continue;
        *found = true;
        progress_lock(&one_at_a_time, DIR_MOVE_JOURNALS);
        progress_also(DIR_MOVE_JOURNALS);
        /* another thread may be done with it by now */
        if (access(file, F_OK) == 0 && dir_move_resume_one(fs, file, &failed)) {
            log_kv(LOG_WARN, "a directory's rename that was interrupted is not mended yet", "error",
                failed.msg, NULL);
            *e = failed;
            rc = -1;
        }
        progress_also(0);
        pthread_mutex_unlock(&one_at_a_time);
    }
    closedir(d);
    rmdir(dir);
    return rc;
}

void dir_move_resume(struct files *fs)
{
    struct err e = ERR_INIT;
    bool found;
    pthread_rwlock_rdlock(files_rename_lock(fs)); /* may take long: uploads go on */
    resume_journals(fs, 0, NULL, &found, &e);
    pthread_rwlock_unlock(files_rename_lock(fs));
}

int dir_move_settle_locked(
    struct files *fs, unsigned mount, const char *path, bool *found, struct err *e)
{
    return resume_journals(fs, mount, path, found, e)
        ? err_wrap(e, "a directory's rename has left something at %s, which must go first", path)
        : 0;
}

/* Without the lock, which who moves a large directory has for long. */
static bool is_concerned(struct files *fs, unsigned mount, const char *path)
{
    bool is = false;
    cleanup_free char *dir = journal_dir(fs);
    DIR *d = opendir(dir);
    for (struct dirent *de; d && !is && (de = readdir(d));) {
        size_t len = strlen(de->d_name), end = strlen(FROM);
        cleanup_free char *file = path_join(dir, de->d_name);
        is = len > end && strcmp(de->d_name + len - end, FROM) == 0
            && journal_concerns(fs, file, mount, path);
    }
    if (d)
        closedir(d);
    return is;
}

int dir_move_settle(struct files *fs, unsigned mount, const char *path, struct err *e)
{
    bool found;
    if (!is_concerned(fs, mount, path))
        return 0;
    progress_rdlock(files_rename_lock(fs), PROGRESS_ANY);
    int rc = dir_move_settle_locked(fs, mount, path, &found, e);
    pthread_rwlock_unlock(files_rename_lock(fs));
    return rc;
}
