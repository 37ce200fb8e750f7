/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/dir_move.h"

#include "fuse/file/content.h"
#include "fuse/file/sidecar.h"
#include "lib/base/clock.h"
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

struct moved {
    uint64_t ino;
    char *path;          /* owned, as what follows; under the old name */
    char *was, *version; /* what was copied, and the copy */
    bool known;          /* `was` is what the index knows */
};

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

/* "to" first: without a "from" there is no journal. */
static int journal_begin(const struct dir_move *m, struct err *e)
{
    cleanup_free char *dir = journal_dir(m->fs);
    if (file_mkdirs(dir, 0700, e))
        return -1;
    return journal_note(m, TO, m->to, COPYING, e) || journal_note(m, FROM, m->from, COPYING, e) ? -1
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

/* -- names in a directory -------------------------------------------------------------------- */

struct dir_move_name {
    char *name; /* owned */
    struct store_stat st;
};

struct dir_move_names {
    struct dir_move_name *list;
    size_t n, room;
};

static int dir_move_add_name(void *user, const struct store_entry *entry)
{
    struct dir_move_names *l = user;
    if (l->n == l->room) {
        l->room = MAX(2 * l->room, (size_t)64);
        l->list = xrealloc(l->list, l->room * sizeof *l->list);
    }
    l->list[l->n++] = (struct dir_move_name){xstrdup(entry->name), entry->st};
    return 0;
}

static int by_move_name(const void *a, const void *b)
{
    const struct dir_move_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (int)x->st.is_dir - (int)y->st.is_dir;
}

static void dir_move_names_free(struct dir_move_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->list[i].name);
    free(l->list);
}

/* All names, sorted; none if there is no such directory. */
static int dir_move_list_names(
    struct store *s, const char *dir, struct dir_move_names *l, struct err *e)
{
    char *cursor = NULL;
    int rc;
    do
        rc = store_list(s, dir, &cursor, dir_move_add_name, l, e);
    while (rc == 0 && cursor);
    free(cursor);
    if (l->n)
        qsort(l->list, l->n, sizeof *l->list, by_move_name);
    return rc && e->cls != ERR_NOTFOUND ? -1 : 0;
}

/* Has the file at path, of that version, the content of the other one, and still that version? */
static int dir_move_same(struct store *s, const char *path, const struct store_stat *st,
    const char *other, const struct store_stat *twin, bool *same, struct err *e)
{
    uint32_t crc, twin_crc;
    struct store_stat now;
    *same = *st->version != '~' && strcmp(st->version, twin->version) == 0;
    if (*same)
        return 0;
    if (content_crc_stored(s, path, st, &crc, e) || content_crc_stored(s, other, twin, &twin_crc, e)
        || store_stat_path(s, path, &now, e))
        return -1;
    *same = crc == twin_crc && strcmp(st->version, now.version) == 0;
    return 0;
}

static int by_moved_path(const void *a, const void *b)
{
    return strcmp(((const struct moved *)a)->path, ((const struct moved *)b)->path);
}

/* One of the two directories goes, the other stays. */
struct purge {
    const struct dir_move
        *m; /* its list is sorted; NULL: the copies were made by a process before */
    struct store *store;
    bool undo;
};

/* The version of the file at path that was copied, or is the copy; NULL: there is a newer one, or
 * nobody knows. */
static int purge_version(const struct purge *p, const char *path, const struct store_stat *st,
    const char *other, const struct store_stat *twin, const char **version, struct err *e)
{
    const struct moved key = {.path = (char *)(p->undo ? other : path)},
                       *moved = p->m && p->m->n
        ? bsearch(&key, p->m->list, p->m->n, sizeof key, by_moved_path)
        : NULL;
    bool same = false, newer = !p->undo && st->mtime_ns > twin->mtime_ns;
    if (!moved && !newer && twin->size == st->size
        && dir_move_same(p->store, path, st, other, twin, &same, e))
        return -1;
    *version = moved ? (p->undo ? moved->version : moved->was) : same ? st->version : NULL;
    return 0;
}

static int dir_move_purge_file(const struct purge *p, const char *path, const struct store_stat *st,
    const char *other, const struct store_stat *twin, struct err *e)
{
    const char *version;
    int rc = purge_version(p, path, st, other, twin, &version, e);
    /* another node may write it at this moment */
    if (rc == 0 && version)
        rc = store_remove_version(p->store, path, version, e);
    return rc && e->cls != ERR_NOTFOUND && e->cls != ERR_CONFLICT ? -1 : 0;
}

/* Deletes what is in `victim` and was copied to, or from, `kept`. What is only there, or newer, has
 * come meanwhile, and stays. Depth is bounded by the length of a path. */
static int dir_move_purge(
    const struct purge *p, const char *victim, const char *kept, struct err *e)
{
    struct dir_move_names there = {0}, here = {0};
    int rc = dir_move_list_names(p->store, kept, &there, e)
            || dir_move_list_names(p->store, victim, &here, e)
        ? -1
        : 0;
    for (size_t i = 0; i < here.n && rc == 0; i++) {
        const struct dir_move_name *n = &here.list[i],
                                   *twin = there.n
            ? bsearch(n, there.list, there.n, sizeof *there.list, by_move_name)
            : NULL;
        cleanup_free char *path = xasprintf("%s/%s", victim, n->name),
                          *other = xasprintf("%s/%s", kept, n->name);
        if (n->st.is_dir)
            rc = dir_move_purge(p, path, other, e);
        else if (twin)
            rc = dir_move_purge_file(p, path, &n->st, other, &twin->st, e);
    }
    dir_move_names_free(&here);
    dir_move_names_free(&there);
    if (rc == 0 && store_rmdir(p->store, victim, e) && e->cls != ERR_NOTFOUND
        && e->cls != ERR_EXISTS)
        rc = -1;
    return rc;
}

/* The same, right after the copies were made. */
static int purge_copied(struct dir_move *m, bool undo, struct err *e)
{
    const struct purge p = {m, m->store, undo};
    if (m->n)
        qsort(m->list, m->n, sizeof *m->list, by_moved_path);
    return dir_move_purge(&p, undo ? m->to : m->from, undo ? m->from : m->to, e);
}

/* -- copies ---------------------------------------------------------------------------------- */

struct child_names {
    struct inode *list;
    char **name; /* owned */
    size_t n, room;
};

static int dir_move_add_child(
    void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)cookie;
    struct child_names *l = user;
    if (l->n == l->room) {
        l->room = MAX(2 * l->room, (size_t)64);
        l->list = xrealloc(l->list, l->room * sizeof *l->list);
        l->name = xrealloc(l->name, l->room * sizeof *l->name);
    }
    l->list[l->n] = *child;
    l->name[l->n++] = xstrdup(name);
    return 0;
}

static int dir_move_copy_file(
    struct dir_move *m, const struct inode *n, const char *from, const char *to, struct err *e)
{
    struct store_stat st, source = {0};
    snprintf(source.version, sizeof source.version, "%s", n->version);
    bool known = *n->version;
    int rc = known ? store_copy(m->store, from, to, source.version, &st, e) : 0;
    if (!known || (rc && e->cls == ERR_CONFLICT)) { /* another node has replaced it */
        known = false;
        rc = store_stat_path(m->store, from, &source, e)
            || store_copy(m->store, from, to, source.version, &st, e);
    }
    if (rc)
        return -1;
    if (m->n == m->room) {
        m->room = MAX(2 * m->room, (size_t)64);
        m->list = xrealloc(m->list, m->room * sizeof *m->list);
    }
    m->list[m->n++] = (struct moved){
        n->ino, xstrdup(from), xstrdup(source.version), xstrdup(st.version), known};
    return 0;
}

/* Depth is bounded by the length of a path. */
static int dir_move_copy_dir(
    struct dir_move *m, uint64_t dir, const char *from, const char *to, struct err *e)
{
    const struct files_conf *c = files_config(m->fs);
    struct child_names l = {0};
    int rc = tree_fill_all(c->tree, dir, e) && e->cls != ERR_NOTFOUND ? -1 : 0;
    if (rc == 0 && store_mkdir(m->store, to, 0, e) && e->cls != ERR_EXISTS)
        rc = -1;
    if (rc == 0)
        inodes_children(c->inodes, dir, 0, false, dir_move_add_child, &l);
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        cleanup_free char *a = xasprintf("%s/%s", from, l.name[i]),
                          *b = xasprintf("%s/%s", to, l.name[i]);
        if (l.list[i].flags & INODE_DIR)
            rc = dir_move_copy_dir(m, l.list[i].ino, a, b, e);
        else if (!(l.list[i].flags & INODE_LOCAL)) /* that is not in the store */
            rc = dir_move_copy_file(m, &l.list[i], a, b, e);
    }
    for (size_t i = 0; i < l.n; i++)
        free(l.name[i]);
    free(l.name);
    free(l.list);
    return rc;
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
    if (dir_move_copy_dir(m, m->dir, m->from, m->to, e) == 0
        && journal_note(m, FROM, m->from, DELETING, e) == 0)
        return 0;
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
    if (dir_move_purge(&(struct purge){NULL, store, undo}, victim, kept, e))
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
