/* SPDX-License-Identifier: Apache-2.0 */
/* mkdir and rm. */
#include "fuse/cli/rm.h"
#include "fuse/cli/place.h"
#include "fuse/cli/progress.h"
#include "fuse/cli/shown.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define THREADS   16
#define QUEUE_MAX 256

/* -- mkdir ----------------------------------------------------------------------------------- */

/* file:///a/b/c → /a/b/c; NULL: of another store */
static const char *local_of(const char *said)
{
    return !is_url(said) ? said : strncmp(said, "file://", 7) == 0 ? said + 7 : NULL;
}

static int mkdir_one(const struct args *a, const char *said, bool parents, struct err *e)
{
    cleanup_place struct cli_place p = {0};
    const char *local = local_of(said);
    if (place_open(&p, a, said, false, e))
        return -1;
    if (parents && local)
        return file_mkdirs(local, 0777, e);
    if (place_mkdir(&p, "", e) == 0 || (parents && e->cls == ERR_EXISTS))
        return 0;
    return e->cls == ERR_NOTFOUND && local && !parents
        ? err_wrap(e, "the directory above is not there (--parents makes it)")
        : -1;
}

int verb_mkdir(const struct verb *v, int argc, char **argv)
{
    bool parents = false;
    const struct opt table[] = {{"parents", OPT_BOOL, &parents, NULL,
        "make the directories above it, too; no error if it is there (-p)"}};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    rc = CLI_DONE;
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        if (mkdir_one(&a, a.pos[i], parents, &e))
            rc = cli_failed(&e);
    }
    return rc;
}

/* -- rm -------------------------------------------------------------------------------------- */

struct rm {
    struct cli_place *at;
    const struct map *only; /* NULL: all */
    struct progress *progress;
    struct pool *pool;
};

struct rm_job {
    struct rm *rm;
    char *name; /* owned */
    uint64_t size;
    struct rm_job *next;
};

static void rm_job_run(void *arg)
{
    struct rm_job *j = arg;
    struct err e = ERR_INIT;
    if (place_remove(j->rm->at, j->name, &e) && e.cls != ERR_NOTFOUND)
        progress_failed(j->rm->progress, &e);
    else
        progress_add(j->rm->progress, 1, j->size);
    free(j->name);
    free(j);
}

static void rm_start(struct rm_job *j)
{
    if (pool_add(j->rm->pool, 0, rm_job_run, j))
        rm_job_run(j);
}

/* Directories, in the order in which they were found: those above come first. Of a path the files,
 * too: a directory that loses names while it is read may not show all of them. */
struct rm_found {
    struct rm *rm;
    struct rm_job *later;
    char **dirs;
    size_t n, cap;
};

static void add_dir(struct rm_found *f, const char *name, size_t len)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 64;
        f->dirs = xrealloc(f->dirs, f->cap * sizeof *f->dirs);
    }
    f->dirs[f->n++] = xstrndup(name, len);
}

static bool rm_may(const struct rm *r, const struct place_entry *entry)
{
    const char *version = r->only ? map_get(r->only, entry->name) : entry->st.version;
    /* a file's time on a mount becomes the store's when it is saved: there, the size has to do */
    size_t n = r->at->point ? strcspn(entry->st.version, "-") + 1 : sizeof entry->st.version;
    if (version && strncmp(version, entry->st.version, n) == 0)
        return true;
    struct err e = ERR_INIT;
    err_set(&e, ERR_CONFLICT, "%s: it stays, as it was made or changed meanwhile", entry->name);
    progress_failed(r->progress, &e);
    return false;
}

static int rm_found_one(void *user, const struct place_entry *entry)
{
    struct rm_found *f = user;
    if (entry->st.is_dir) {
        add_dir(f, entry->name, strlen(entry->name));
        return 0;
    }
    if (!rm_may(f->rm, entry))
        return 0;
    struct rm_job *j = xcalloc(1, sizeof *j);
    *j = (struct rm_job){f->rm, xstrdup(entry->name), entry->st.size, NULL};
    progress_found(f->rm->progress, 1, entry->st.size);
    if (f->rm->at->url) {
        rm_start(j);
    } else {
        j->next = f->later;
        f->later = j;
    }
    return 0;
}

static void rm_unreadable(void *user, const struct err *e)
{
    struct rm_found *f = user;
    progress_failed(f->rm->progress, e);
}

static int list_dirs(struct rm *r, const char *name, struct rm_found *f, struct err *e);

struct rm_level {
    struct rm_found below; /* of this directory alone */
    const char *name;
};

static int add_if_dir(void *user, const struct store_entry *entry)
{
    struct rm_level *l = user;
    cleanup_free char *name = *l->name ? path_join(l->name, entry->name) : xstrdup(entry->name);
    if (entry->st.is_dir)
        add_dir(&l->below, name, strlen(name));
    return 0;
}

/* Of a store: its list of all files has no directories in it, and some are empty. */
static int list_dirs(struct rm *r, const char *name, struct rm_found *f, struct err *e)
{
    struct rm_level l = {.name = name};
    char *cursor = NULL;
    int rc;
    do {
        rc = store_list(r->at->inside.store, name, &cursor, add_if_dir, &l, e);
    } while (rc == 0 && cursor);
    free(cursor);
    for (size_t i = 0; i < l.below.n; i++) {
        if (rc == 0) {
            add_dir(f, l.below.dirs[i], strlen(l.below.dirs[i]));
            rc = list_dirs(r, l.below.dirs[i], f, e);
        }
        free(l.below.dirs[i]);
    }
    free(l.below.dirs);
    return rc;
}

/* Files first, many at a time; then what they were in, from below. */
int rm_tree(struct cli_place *at, const struct map *only, struct progress *progress, struct err *e)
{
    struct rm r = {at, only, progress,
        pool_new(&(struct pool_conf){.name = "rm", .threads = THREADS, .queue_max = QUEUE_MAX})};
    struct rm_found f = {.rm = &r};
    if (!r.pool)
        return err_set(e, ERR_EXHAUSTED, "no memory for threads");
    int rc = place_walk(at, rm_found_one, rm_unreadable, &f, e);
    for (struct rm_job *j = f.later, *next; j; j = next) {
        next = j->next;
        rm_start(j);
    }
    pool_free(r.pool);
    if (rc == 0 && at->url)
        rc = list_dirs(&r, "", &f, e);
    for (size_t i = f.n; i-- > 0;) {
        struct err inner = ERR_INIT;
        if (rc == 0 && !progress->failed && place_rmdir(at, f.dirs[i], &inner)
            && inner.cls != ERR_NOTFOUND)
            progress_failed(progress, &inner);
        free(f.dirs[i]);
    }
    free(f.dirs);
    if (rc || progress->failed)
        return rc;
    struct err inner = ERR_INIT;
    if (place_rmdir(at, "", &inner) && inner.cls != ERR_NOTFOUND)
        progress_failed(progress, &inner);
    return 0;
}

static int rm_allowed(const struct cli_place *p, struct err *e)
{
    cleanup_free char *real = p->url ? NULL : realpath(p->said, NULL);
    if (p->url && !*p->at.path)
        return err_set(e, ERR_INVALID,
            "%s is all of the store: it is not removed; name what is in it", p->said);
    if (!p->url && !p->point)
        return err_set(e, ERR_INVALID,
            "%s is not on a mount of millrace: it is left alone (rm(1) removes files of this machine)",
            p->said);
    if (real && strcmp(real, p->point) == 0)
        return err_set(e, ERR_INVALID,
            "%s is all of the mount: it is not removed; name what is in it", p->said);
    return 0;
}

static int rm_one(const struct args *a, const char *said, bool recursive, struct progress *progress,
    struct err *e)
{
    cleanup_place struct cli_place p = {0};
    struct place_entry entry;
    if (place_open(&p, a, said, false, e) || place_stat(&p, &entry, e) || rm_allowed(&p, e))
        return -1;
    if (entry.st.is_dir && !recursive)
        return err_set(e, ERR_INVALID, "%s is a directory; --recursive removes it", said);
    if (entry.st.is_dir)
        return rm_tree(&p, NULL, progress, e);
    if (place_remove(&p, "", e))
        return -1;
    progress_add(progress, 1, entry.st.size);
    return 0;
}

int verb_rm(const struct verb *v, int argc, char **argv)
{
    bool recursive = false, json = false;
    const struct opt table[] = {
        {"recursive", OPT_BOOL, &recursive, NULL, "directories with all that is in them, too (-r)"},
        SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct progress progress;
    progress_start(&progress, "removed");
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        if (rm_one(&a, a.pos[i], recursive, &progress, &e))
            progress_failed(&progress, &e);
    }
    uint64_t failed = progress_end(&progress);
    if (json)
        shown_object(json_pack("{s:I, s:I, s:I}", "files", (json_int_t)progress.files, "bytes",
            (json_int_t)progress.bytes, "failed", (json_int_t)failed));
    return failed ? CLI_FAILED : CLI_DONE;
}
