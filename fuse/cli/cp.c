/* SPDX-License-Identifier: Apache-2.0 */
/* cp and mv: between stores, mounts and files of this machine. */
#include "fuse/cli/copy.h"
#include "fuse/cli/rm.h"
#include "fuse/cli/shown.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int cp_tree(struct cli_place *src, struct cli_place *dst, bool verbose, struct map *found,
    struct progress *progress, struct err *e)
{
    uint64_t left_out = store_left_out_count();
    if (copy_tree(src, dst, verbose, found, progress, e))
        return -1;
    left_out = store_left_out_count() - left_out;
    return left_out
        ? err_set(e, ERR_INVALID,
            "%s: %" PRIu64
            " entr%s left out, since no file can be called so or the server fails for %s: see the warnings above",
            src->said, left_out, left_out == 1 ? "y is" : "ies are", left_out == 1 ? "it" : "them")
        : 0;
}

/* *tree: it is a directory */
static int cp_places(struct cli_place *src, struct cli_place *dst, bool recursive, bool verbose,
    bool *tree, struct progress *progress, struct err *e)
{
    struct place_entry from;
    src->cancel = copy_cancel();
    if (place_stat(src, &from, e) || copy_check(src, dst, from.st.is_dir, e))
        return -1;
    if (from.st.is_dir && !recursive)
        return err_set(e, ERR_INVALID, "%s is a directory; --recursive copies it", src->said);
    *tree = from.st.is_dir;
    if (!from.st.is_dir)
        return copy_one(src, &from, dst, progress, e);
    return cp_tree(src, dst, verbose, NULL, progress, e);
}

static void print_copied(const struct progress *p, uint64_t failed, bool json, bool tree)
{
    if (json)
        shown_object(json_pack("{s:I, s:I, s:I}", "files", (json_int_t)p->files, "bytes",
            (json_int_t)p->bytes, "failed", (json_int_t)failed));
    else if (tree)
        fprintf(stderr, "%" PRIu64 " files copied%s\n", p->files,
            failed ? ", not all of them: see above" : "");
}

int verb_cp(const struct verb *v, int argc, char **argv)
{
    /* copyFromLocal and copyToLocal take directories as they are */
    bool recursive = strncmp(argv[0], "copy", 4) == 0, verbose = false, json = false;
    const struct opt table[] = {
        {"recursive", OPT_BOOL, &recursive, NULL, "copy all files below a directory (-r)"},
        {"verbose", OPT_BOOL, &verbose, NULL, "print each file's name (-v)"},
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    if (json && verbose)
        return cli_misuse("cp: --json and --verbose do not go together");
    struct err e = ERR_INIT;
    struct progress progress;
    cleanup_place struct cli_place src = {0}, dst = {0};
    bool tree = false, content = args_given(&a, "recursive") && recursive;
    cleanup_free char *to = content ? xstrdup(a.pos[1]) : copy_destination(&a, a.pos[0], a.pos[1]);
    copy_catch_signals();
    progress_start(&progress, "copied");
    if (place_open(&src, &a, a.pos[0], true, &e) || place_open(&dst, &a, to, false, &e)
        || cp_places(&src, &dst, recursive, verbose, &tree, &progress, &e))
        copy_failed(&progress, &e);
    uint64_t failed = progress_end(&progress);
    print_copied(&progress, failed, json, tree);
    copy_end_by_signal();
    return failed ? CLI_FAILED : CLI_DONE;
}

/* -- mv -------------------------------------------------------------------------------------- */

/* Bytes of what both URLs begin with, up to a slash: the URL of a store that has both. 0: none. */
static size_t common_root(const char *from, const char *to)
{
    size_t n = 0, last = 0, rest = (size_t)(strstr(from, "://") + 3 - from);
    for (; from[n] && from[n] == to[n]; n++)
        if (from[n] == '/')
            last = n;
    return last >= rest ? last : 0;
}

/* What is below the root; caller frees. */
static char *path_below_root(const char *url, size_t root_len)
{
    const char *path = url + root_len + strspn(url + root_len, "/");
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    return xstrndup(path, n);
}

struct mv_tree {
    struct store *store;
    const char *from, *to; /* paths in it */
    struct progress *progress;
    char **names;
    size_t n, cap;
};

static int mv_found(void *user, const struct store_entry *entry)
{
    struct mv_tree *m = user;
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->names = xrealloc(m->names, m->cap * sizeof *m->names);
    }
    m->names[m->n++] = xstrdup(entry->name);
    return copy_interrupted();
}

static void mv_names(struct mv_tree *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct err e = ERR_INIT;
        if (copy_interrupted()) {
            free(m->names[i]);
            continue;
        }
        struct store_stat st;
        cleanup_free char *from = xasprintf("%s/%s", m->from, m->names[i]),
                          *to = xasprintf("%s/%s", m->to, m->names[i]);
        if (store_rename(m->store, from, to, NULL, &st, &e))
            progress_failed(m->progress, &e);
        else
            progress_add(m->progress, 1, 0);
        free(m->names[i]);
    }
    free(m->names);
}

/* A store that has no directories renames what is in them, one after the other. */
static int mv_dir(struct mv_tree *m, struct err *e)
{
    char *cursor = NULL;
    int rc;
    do {
        rc = store_list_tree(m->store, m->from, &cursor, mv_found, m, e);
    } while (rc == 0 && cursor && !copy_interrupted());
    free(cursor);
    progress_found(m->progress, m->n, 0);
    progress_found_all(m->progress);
    mv_names(m);
    if (copy_interrupted())
        return err_set(e, ERR_RETRY, "interrupted: what was not moved yet is where it was");
    struct err none = ERR_INIT;
    if (rc == 0 && !m->n && store_mkdir(m->store, m->to, 0, &none) && none.cls != ERR_EXISTS) {
        *e = none;
        return -1;
    }
    if (rc == 0 && !m->progress->failed)
        store_rmdir(m->store, m->from, &none); /* its marker, if it has one */
    return rc;
}

/* Within one store: it renames. */
static int mv_in_store(const struct args *a, const struct cli_place *src,
    const struct cli_place *dst, bool dir, size_t root_len, struct progress *progress,
    struct err *e)
{
    bool at_slash = strncmp(src->said, "file:///", 8) == 0 && root_len == 7;
    cleanup_free char *root = xstrndup(src->said, root_len + at_slash);
    cleanup_free char *from = path_below_root(src->said, root_len),
                      *to = path_below_root(dst->said, root_len);
    cleanup_target struct target t = {0};
    struct store_stat st;
    if (target_open(&t, a, root, true, false, e))
        return -1;
    if (dir && !(store_caps(t.store) & STORE_CAP_RENAME_DIR)) {
        struct mv_tree m = {.store = t.store, .from = from, .to = to, .progress = progress};
        return mv_dir(&m, e);
    }
    if (store_rename(t.store, from, to, NULL, &st, e))
        return -1;
    progress_add(progress, 1, 0);
    return 0;
}

/* From one store or disk to another. Of a directory that goes which was copied, as it was then. */
static int mv_by_copy(struct cli_place *src, struct cli_place *dst, const struct place_entry *from,
    struct map *copied, struct progress *progress, struct err *e)
{
    if (from->st.is_dir ? cp_tree(src, dst, false, copied, progress, e)
                        : copy_one(src, from, dst, progress, e))
        return -1;
    if (progress->failed)
        return err_set(e, ERR_CONFLICT, "%s stays, as not all of it was copied", src->said);
    copy_release_signals();
    struct progress removal;
    progress_start(&removal, "removed");
    int rc = from->st.is_dir ? rm_tree(src, copied, &removal, e) : place_remove(src, "", e);
    return progress_end(&removal) && rc == 0
        ? err_set(e, ERR_CONFLICT, "%s is copied, but not all of it could be removed", src->said)
        : rc;
}

static int mv_places(const struct args *a, struct cli_place *src, struct cli_place *dst,
    struct progress *progress, struct err *e)
{
    struct place_entry from;
    src->cancel = copy_cancel();
    if (place_stat(src, &from, e) || copy_check(src, dst, true, e))
        return -1;
    if (src->url && !*src->at.path)
        return err_set(e, ERR_INVALID, "%s is all of the store: name what is in it", src->said);
    size_t root = src->url && dst->url ? common_root(src->said, dst->said) : 0;
    if (root)
        return mv_in_store(a, src, dst, from.st.is_dir, root, progress, e);
    if (!src->url && !dst->url && rename(src->said, dst->said) == 0) {
        progress_add(progress, 1, 0);
        return 0;
    }
    if (!src->url && !dst->url && errno != EXDEV)
        return err_sys(e, errno, "rename %s to %s", src->said, dst->said);
    struct map *copied = map_new(free);
    int rc = mv_by_copy(src, dst, &from, copied, progress, e);
    map_free(copied);
    return rc;
}

int verb_mv(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    struct progress progress;
    cleanup_place struct cli_place src = {0}, dst = {0};
    cleanup_free char *to = copy_destination(&a, a.pos[0], a.pos[1]);
    copy_catch_signals();
    progress_start(&progress, "moved");
    if (place_open(&src, &a, a.pos[0], false, &e) || place_open(&dst, &a, to, false, &e)
        || mv_places(&a, &src, &dst, &progress, &e))
        copy_failed(&progress, &e);
    uint64_t failed = progress_end(&progress);
    print_copied(&progress, failed, json, false);
    copy_end_by_signal();
    return failed ? CLI_FAILED : CLI_DONE;
}
