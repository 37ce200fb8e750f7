/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/dir_purge.h"

#include "fuse/file/content.h"
#include "lib/base/each.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* -- names in a directory -------------------------------------------------------------------- */

struct dir_name {
    char *name; /* owned */
    struct store_stat st;
};

struct dir_names {
    struct dir_name *list;
    size_t n, room;
};

static int add_dir_name(void *user, const struct store_entry *entry)
{
    struct dir_names *l = user;
    if (l->n == l->room) {
        l->room = MAX(2 * l->room, (size_t)64);
        l->list = xrealloc(l->list, l->room * sizeof *l->list);
    }
    l->list[l->n++] = (struct dir_name){xstrdup(entry->name), entry->st};
    return 0;
}

static int by_dir_name(const void *a, const void *b)
{
    const struct dir_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (int)x->st.is_dir - (int)y->st.is_dir;
}

static void dir_names_free(struct dir_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->list[i].name);
    free(l->list);
}

/* All names, sorted; none if there is no such directory. */
static int list_dir_names(struct store *s, const char *dir, struct dir_names *l, struct err *e)
{
    char *cursor = NULL;
    int rc;
    do
        rc = store_list(s, dir, &cursor, add_dir_name, l, e);
    while (rc == 0 && cursor);
    free(cursor);
    if (l->n)
        qsort(l->list, l->n, sizeof *l->list, by_dir_name);
    return rc && e->cls != ERR_NOTFOUND ? -1 : 0;
}

/* -- files ----------------------------------------------------------------------------------- */

/* Has the file at path, of that version, the content of the other one, and still that version? */
static int is_copy(struct store *s, const char *path, const struct store_stat *st,
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

/* A file of both directories. */
struct victim {
    char *path, *other; /* owned */
    struct store_stat st, twin;
};

/* What was copied of it; NULL: it was not, or its answer did not come, or nobody knows. */
static const struct moved *find_moved(const struct dir_purge *p, const struct victim *v)
{
    const struct moved key = {.path = p->undo ? v->other : v->path},
                       *moved = p->n ? bsearch(&key, p->list, p->n, sizeof key, by_moved_path)
                                     : NULL;
    return moved && moved->version ? moved : NULL;
}

static int purge_file(const struct dir_purge *p, const struct victim *v, struct err *e)
{
    const struct moved *moved = find_moved(p, v);
    bool same = false, newer = !p->undo && v->st.mtime_ns > v->twin.mtime_ns;
    if (!moved && !newer && v->twin.size == v->st.size
        && is_copy(p->store, v->path, &v->st, v->other, &v->twin, &same, e))
        return e->cls == ERR_NOTFOUND || e->cls == ERR_CONFLICT ? 0 : -1;
    const char *version = moved ? (p->undo ? moved->version : moved->was)
        : same                  ? v->st.version
                                : NULL;
    /* another node may write it at this moment */
    return version && store_remove_version(p->store, v->path, version, e) && e->cls != ERR_NOTFOUND
            && e->cls != ERR_CONFLICT
        ? -1
        : 0;
}

/* -- directories ----------------------------------------------------------------------------- */

struct pair {
    char *victim, *kept; /* owned */
};

/* One depth of the tree. */
struct level {
    const struct dir_purge *p;
    struct pair *dir;
    size_t ndirs, rooms;
    struct level *below; /* .mu is this one's */
    pthread_mutex_t mu;
    struct victim *file; /* mu; in the directories of this level */
    size_t nfiles, room; /* mu */
};

static void add_victim_dir(struct level *l, char *victim_take, char *kept_take)
{
    if (l->ndirs == l->rooms) {
        l->rooms = MAX(2 * l->rooms, (size_t)16);
        l->dir = xrealloc(l->dir, l->rooms * sizeof *l->dir);
    }
    l->dir[l->ndirs++] = (struct pair){victim_take, kept_take};
}

static void add_victim(struct level *l, const struct victim *v)
{
    if (l->nfiles == l->room) {
        l->room = MAX(2 * l->room, (size_t)64);
        l->file = xrealloc(l->file, l->room * sizeof *l->file);
    }
    l->file[l->nfiles++] = *v;
}

static int look_into(void *user, size_t i, struct err *e)
{
    struct level *l = user;
    const struct pair *d = &l->dir[i];
    struct dir_names there = {0}, here = {0};
    int rc = list_dir_names(l->p->store, d->kept, &there, e)
            || list_dir_names(l->p->store, d->victim, &here, e)
        ? -1
        : 0;
    pthread_mutex_lock(&l->mu);
    for (size_t k = 0; k < here.n && rc == 0; k++) {
        const struct dir_name *n = &here.list[k],
                              *twin = there.n
            ? bsearch(n, there.list, there.n, sizeof *there.list, by_dir_name)
            : NULL;
        char *path = xasprintf("%s/%s", d->victim, n->name),
             *other = xasprintf("%s/%s", d->kept, n->name);
        if (n->st.is_dir) {
            add_victim_dir(l->below, path, other);
        } else if (twin) {
            add_victim(l, &(struct victim){path, other, n->st, twin->st});
        } else {
            free(path);
            free(other);
        }
    }
    pthread_mutex_unlock(&l->mu);
    dir_names_free(&here);
    dir_names_free(&there);
    return rc;
}

static int purge_one_file(void *user, size_t i, struct err *e)
{
    const struct level *l = user;
    return purge_file(l->p, &l->file[i], e);
}

static int remove_one_dir(void *user, size_t i, struct err *e)
{
    const struct level *l = user;
    return store_rmdir(l->p->store, l->dir[i].victim, e) && e->cls != ERR_NOTFOUND
            && e->cls != ERR_EXISTS
        ? -1
        : 0;
}

static void free_files(struct level *l)
{
    for (size_t i = 0; i < l->nfiles; i++) {
        free(l->file[i].path);
        free(l->file[i].other);
    }
    free(l->file);
}

static void free_dirs(struct level *l)
{
    for (size_t i = 0; i < l->ndirs; i++) {
        free(l->dir[i].victim);
        free(l->dir[i].kept);
    }
    free(l->dir);
}

/* The directories of a level, and all below. Depth is bounded by the length of a path. */
static int purge_level(struct level *l, struct err *e)
{
    struct level below = {.p = l->p};
    l->below = &below;
    pthread_mutex_init(&l->mu, NULL);
    int rc = each("purge", l->ndirs, DIR_MOVE_AT_ONCE, look_into, l, NULL, e)
            || each("purge", l->nfiles, DIR_MOVE_AT_ONCE, purge_one_file, l, NULL, e)
        ? -1
        : 0;
    free_files(l);
    pthread_mutex_destroy(&l->mu);
    if (rc == 0 && below.ndirs)
        rc = purge_level(&below, e);
    free_dirs(&below);
    return rc || each("purge", l->ndirs, DIR_MOVE_AT_ONCE, remove_one_dir, l, NULL, e) ? -1 : 0;
}

int dir_purge(const struct dir_purge *p, const char *victim, const char *kept, struct err *e)
{
    struct level top = {.p = p};
    if (p->n)
        qsort(p->list, p->n, sizeof *p->list, by_moved_path);
    add_victim_dir(&top, xstrdup(victim), xstrdup(kept));
    int rc = purge_level(&top, e);
    free_dirs(&top);
    return rc;
}
