/* SPDX-License-Identifier: Apache-2.0 */
/* The HDFS store: listings, a page of the name node a call. */
#include "fuse/store/hdfs.h"

#include "lib/base/mem.h"
#include "lib/http/head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR_MAX (64u << 20)

struct hdfs_telling {
    store_list_fn fn;
    void *user;
    const char *prefix; /* of names: "" or "a/" */
    bool tree, is_file, ended;
    struct buf *dirs; /* tree: those that were found, as a cursor names them */
};

bool hdfs_hides(const char *name)
{
    return strncmp(name, HDFS_TEMP_PREFIX, strlen(HDFS_TEMP_PREFIX)) == 0;
}

static int tell_entry(void *user, const char *name, const struct hdfs_status *status)
{
    struct hdfs_telling *t = user;
    if (!*name) {
        t->is_file = true;
        return 1;
    }
    if (hdfs_hides(name))
        return 0;
    cleanup_free char *path = xasprintf("%s%s", t->prefix, name);
    if (t->tree && status->st.is_dir) {
        cleanup_free char *line = http_escape(path, true);
        buf_addf(t->dirs, "%s\n", line);
        return 0;
    }
    t->ended = t->fn(t->user, &(struct store_entry){path, status->st}) != 0;
    return t->ended;
}

/* The next line, unescaped; caller frees. */
static char *cursor_line(const char **at)
{
    size_t n = strcspn(*at, "\n");
    char *line = xstrndup(*at, n);
    *at += n + ((*at)[n] == '\n');
    http_head_unescape(line, false);
    return line;
}

/* A cursor: the directory below the listed one that is under way, the name behind which it goes on,
 * and the directories that come then, a line each, escaped. */
static int list_hdfs_page(struct hdfs *h, const char *dir, bool tree, char **cursor,
    store_list_fn fn, void *user, struct err *e)
{
    const char *rest = *cursor ? *cursor : "";
    cleanup_free char *below = cursor_line(&rest), *after = cursor_line(&rest), *last = NULL;
    cleanup_free char *path = xasprintf("%s%s%s", dir, *dir && *below ? "/" : "", below);
    cleanup_free char *absolute = hdfs_path(h, path), *what = hdfs_name(h, path);
    cleanup_free char *prefix = xasprintf("%s%s", below, *below ? "/" : "");
    cleanup_buf struct buf dirs = BUF_INIT(CURSOR_MAX), next = BUF_INIT(CURSOR_MAX);
    struct hdfs_telling t = {.fn = fn, .user = user, .prefix = prefix, .tree = tree, .dirs = &dirs};
    bool more;
    int rc = hdfs_page(h, absolute, what, *after ? after : NULL, tell_entry, &t, &last, &more, e);
    if (rc && !(e->cls == ERR_NOTFOUND && *below)) /* else: removed since its name was read */
        return -1;
    if (rc == 0 && t.is_file)
        return store_err(
            e, ERR_INVALID, ENOTDIR, REASON_STORE_ERROR, what, ": it is not a directory");
    if (rc == 0 && more) {
        cleanup_free char *here = http_escape(below, true), *from = http_escape(last, false);
        buf_addf(&next, "%s\n%s\n%s%s", here, from, buf_str(&dirs), rest);
    } else if (dirs.len || *rest) {
        const char *then = dirs.len ? buf_str(&dirs) : rest;
        size_t n = strcspn(then, "\n");
        buf_addf(&next, "%.*s\n\n%s%s", (int)n, then, then + n + (then[n] == '\n'),
            dirs.len ? rest : "");
    }
    if (dirs.truncated || next.truncated)
        return store_err(e, ERR_EXHAUSTED, ENOMEM, REASON_STORE_ERROR, what,
            ": too many directories to list in one go");
    free(*cursor);
    *cursor = next.len ? buf_take(&next) : NULL;
    return 0;
}

int hdfs_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return list_hdfs_page(impl, dir, false, cursor, fn, user, e);
}

int hdfs_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return list_hdfs_page(impl, dir, true, cursor, fn, user, e);
}
