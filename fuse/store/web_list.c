/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server: listings by index pages and lists. A cursor is what is still to be
 * told, a path a line, "/" at the end of directories: a server has no pages, and an index page says
 * neither how long a file is nor which version, so that each is asked for. */
#include "fuse/store/web.h"

#include "fuse/store/web_index.h"
#include "lib/base/each.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE      128u /* entries that are told in one call */
#define ASKERS    16u  /* of them at the same time */
#define DEPTH_MAX 64   /* of directories: links can lead in a circle */
#define TRIES     3u   /* of one file of a listing */
#define CHECK_NS  (8 * NS_PER_S)

/* -- pages and lists -----------------------------------------------------------------------------
 */

struct names_below {
    const char *prefix; /* "" or "a/" */
    char **name;        /* nnames */
    size_t n, room;
};

static int add_name(struct names_below *l, char *name_take)
{
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->name = xrealloc(l->name, l->room * sizeof *l->name);
    }
    l->name[l->n++] = name_take;
    return 0;
}

static int keep_name(void *user, const char *name)
{
    struct names_below *l = user;
    return add_name(l, xasprintf("%s%s", l->prefix, name));
}

struct page_names {
    struct web *w;
    struct names_below *out;
};

static int keep_link(void *user, const char *name)
{
    return keep_name(((struct page_names *)user)->out, name);
}

static int refuse_link(void *user, const char *link)
{
    store_left_out(((struct page_names *)user)->w->params.url, link, NAME_OF_NO_FILE);
    return 0;
}

static void drop_names(struct names_below *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    *l = (struct names_below){0};
}

static int order_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a" and "a/" both: a directory. */
static void unique_names(struct names_below *l)
{
    size_t kept = 0;
    if (l->n)
        qsort(l->name, l->n, sizeof *l->name, order_names);
    for (size_t i = 0; i < l->n; i++)
        if (kept && strcmp(l->name[kept - 1], l->name[i]) == 0)
            free(l->name[i]);
        else
            l->name[kept++] = l->name[i];
    l->n = kept;
}

/* What is directly below dir (a path, or ""), by its index page; those of a list if there is one.
 */
static int read_index_page(
    struct web *w, const char *dir, struct retry *r, struct names_below *out, struct err *e)
{
    cleanup_free char *at = NULL;
    cleanup_resp struct http_resp resp = {0};
    if (web_index_page(w, dir, r, &resp, &at, e))
        return -1;
    struct page_names names = {w, out};
    const struct web_index_fns fns = {keep_link, refuse_link, &names};
    web_index_names(buf_str(&resp.body), resp.body.len, at, &fns);
    unique_names(out);
    return 0;
}

/* Adds what a path of the list is in dir: the path, with tree; else its next component. */
static void take_path(struct names_below *out, const char *dir, const char *path, bool tree)
{
    size_t n = strlen(dir);
    if (n && (strncmp(path, dir, n) != 0 || path[n] != '/'))
        return;
    const char *rest = path + n + (n > 0);
    size_t first = strcspn(rest, "/");
    if (tree || !rest[first])
        add_name(out, xstrdup(path));
    else
        add_name(out, xasprintf("%.*s/", (int)((size_t)(rest - path) + first), path));
}

struct wanted {
    struct names_below *out;
    const char *dir;
    bool tree;
};

static void take_listed(void *user, const char *path)
{
    const struct wanted *x = user;
    take_path(x->out, x->dir, path, x->tree);
}

static int read_names(struct web *w, const char *dir, bool tree, struct retry *r,
    struct names_below *out, struct err *e)
{
    struct wanted x = {out, dir, tree};
    if (!w->manifest)
        return read_index_page(w, dir, r, out, e);
    if (web_manifest_each(w, r, take_listed, &x, e))
        return -1;
    unique_names(out);
    return 0;
}

/* -- entries
 * --------------------------------------------------------------------------------------- */

struct asked {
    char *path; /* borrowed */
    struct store_stat st;
    int rc, status;
    struct err e;
};

struct askers {
    struct web *w;
    struct asked *entry;
};

/* One that fails is the others' no reason not to be asked for. */
static int ask_one(void *user, size_t i, struct err *e)
{
    const struct askers *a = user;
    struct asked *x = &a->entry[i];
    size_t n = strlen(x->path);
    (void)e;
    if (x->path[n - 1] == '/') {
        x->st = (struct store_stat){.is_dir = true};
        return 0;
    }
    struct retry r = RETRY_INIT(a->w->params.deadline_ns, NULL);
    r.max_attempts = TRIES;
    x->rc = web_stat_by(a->w, x->path, &r, &x->st, &x->status, &x->e);
    return 0;
}

/* The server answers, and fails for this file alone: no reason to show none of the others. Busy,
 * or of other credentials, it is for all of them. */
static bool fails_alone(const struct asked *x)
{
    bool busy = x->status == 429 || (x->status > 501 && x->status < 505);
    return x->status >= 400 && x->status != 401 && !busy;
}

/* Tells the first of them; *told: how many were. Those that are gone by now are left out. */
static int tell_some(struct web *w, const char *dir, const struct names_below *l, size_t from,
    size_t *told, store_list_fn fn, void *user, bool *ended, struct err *e)
{
    struct asked *entry = xcalloc(PAGE, sizeof *entry);
    size_t n = MIN(l->n - from, (size_t)PAGE), skip = strlen(dir) + (*dir != '\0');
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        entry[i].path = l->name[from + i];
    each("web-list", n, ASKERS, ask_one, &(struct askers){w, entry}, NULL, NULL);
    for (size_t i = 0; i < n && rc == 0 && !*ended; i++) {
        if (entry[i].rc && entry[i].e.cls == ERR_NOTFOUND)
            continue;
        if (entry[i].rc && fails_alone(&entry[i])) {
            store_left_out(w->params.url, entry[i].path, entry[i].e.msg);
            continue;
        }
        if (entry[i].rc) {
            *e = entry[i].e;
            rc = -1;
            continue;
        }
        cleanup_free char *name = xstrdup(entry[i].path + skip);
        size_t len = strlen(name);
        if (len && name[len - 1] == '/')
            name[len - 1] = '\0';
        *ended = fn(user, &(struct store_entry){name, entry[i].st}) != 0;
    }
    *told = n;
    free(entry);
    return rc;
}

/* -- cursors
 * --------------------------------------------------------------------------------------- */

static void parse_cursor(const char *cursor, struct names_below *out)
{
    while (*cursor) {
        size_t n = strcspn(cursor, "\n");
        add_name(out, xstrndup(cursor, n));
        cursor += n + (cursor[n] == '\n');
    }
}

/* NULL where nothing is left. */
static char *make_cursor(const struct names_below *l, size_t from)
{
    size_t room = 1, at = 0;
    if (from >= l->n)
        return NULL;
    for (size_t i = from; i < l->n; i++)
        room += strlen(l->name[i]) + 1;
    char *text = xmalloc(room);
    for (size_t i = from; i < l->n; i++) {
        size_t n = strlen(l->name[i]);
        memcpy(text + at, l->name[i], n);
        text[at + n] = '\n';
        at += n + 1;
    }
    text[at - 1] = '\0';
    return text;
}

static size_t depth_of(const char *path)
{
    size_t n = 0;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* The directory at the front of the list gives way to what is in it. */
static int open_first(struct web *w, struct names_below *l, struct err *e)
{
    cleanup_free char *path = xstrdup(l->name[0]);
    struct names_below inner = {.prefix = path};
    struct names_below all = {0};
    if (depth_of(path) > DEPTH_MAX)
        return store_err(e, ERR_INVALID, ELOOP, REASON_STORE_ERROR, w->params.url,
            ": %.100s…: directories lie too deep; do links lead in a circle?", path);
    path[strlen(path) - 1] = '\0';
    cleanup_free char *prefix = xasprintf("%s/", path);
    inner.prefix = prefix;
    struct retry r = RETRY_INIT(w->params.deadline_ns, NULL);
    if (read_index_page(w, path, &r, &inner, e))
        return -1;
    for (size_t i = 0; i < inner.n; i++)
        add_name(&all, steal(&inner.name[i]));
    free(inner.name);
    free(l->name[0]);
    for (size_t i = 1; i < l->n; i++)
        add_name(&all, l->name[i]);
    free(l->name);
    *l = all;
    return 0;
}

/* Of a whole tree, its files alone. */
struct files_only {
    store_list_fn fn;
    void *user;
};

static int relay_file(void *user, const struct store_entry *entry)
{
    const struct files_only *f = user;
    return entry->st.is_dir ? 0 : f->fn(f->user, entry);
}

static int web_list_page(struct web *w, const char *dir, bool tree, char **cursor, store_list_fn fn,
    void *user, struct err *e)
{
    cleanup_free char *prefix = *dir ? xasprintf("%s/", dir) : xstrdup("");
    struct names_below l = {.prefix = prefix};
    struct retry r = RETRY_INIT(w->params.deadline_ns, NULL);
    int rc = 0;
    if (web_is_repo(w, &r))
        return web_repo_list(w, dir, tree, cursor, &r, tree ? relay_file : fn,
            tree ? &(struct files_only){fn, user} : user, e);
    if (web_bucket_known(w))
        return web_bucket_list(w, dir, tree, cursor, &r, fn, user, e);
    if (*cursor)
        parse_cursor(*cursor, &l);
    else
        rc = read_names(w, dir, tree, &r, &l, e);
    if (rc && web_bucket_look(w, &r)) {
        drop_names(&l);
        return web_bucket_list(w, dir, tree, cursor, &r, fn, user, e);
    }
    size_t from = 0, told = 0;
    bool ended = false;
    while (rc == 0 && tree && l.n && l.name[0][strlen(l.name[0]) - 1] == '/')
        rc = open_first(w, &l, e);
    if (rc == 0 && tree) { /* files, up to the next directory */
        struct names_below files = l;
        for (files.n = 0; files.n < l.n; files.n++)
            if (l.name[files.n][strlen(l.name[files.n]) - 1] == '/')
                break;
        rc = files.n ? tell_some(w, dir, &files, from, &told, fn, user, &ended, e) : 0;
    } else if (rc == 0 && l.n) {
        rc = tell_some(w, dir, &l, from, &told, fn, user, &ended, e);
    }
    if (rc == 0) {
        char *next = make_cursor(&l, told);
        free(*cursor);
        *cursor = next;
    }
    drop_names(&l);
    return rc;
}

int web_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return web_list_page(impl, dir, false, cursor, fn, user, e);
}

int web_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return web_list_page(impl, dir, true, cursor, fn, user, e);
}

/* Is it the URL of a file? Asked for without a slash, it has a length, and is led nowhere. */
static bool is_file(struct web *w, struct retry *r)
{
    cleanup_free char *at = NULL;
    cleanup_resp struct http_resp resp = {0};
    struct err ignored = ERR_INIT;
    char length[32];
    struct web_call c = {.method = "HEAD", .url = w->params.url, .what = w->params.url};
    return w->params.url[strlen(w->params.url) - 1] != '/'
        && web_do(w, &c, r, &resp, &at, &ignored) == 0 && strcmp(at, w->params.url) == 0
        && http_header(&resp, "content-length", length, sizeof length);
}

int web_check(void *impl, struct err *e)
{
    struct web *w = impl;
    struct names_below l = {.prefix = ""};
    struct retry r = RETRY_INIT(MIN(w->params.deadline_ns, CHECK_NS), NULL);
    r.max_attempts = 2; /* the caller wants to know how it is now, not to wait until it is better */
    cleanup_free char *cursor = NULL;
    if (web_is_repo(w, &r))
        return web_repo_list(w, "", false, &cursor, &r, NULL, NULL, e);
    int rc = web_bucket_known(w) ? -1 : read_names(w, "", false, &r, &l, e);
    if (rc && web_bucket_look(w, &r))
        rc = web_bucket_list(w, "", false, &cursor, &r, NULL, NULL, e);
    drop_names(&l);
    if (rc && e->cls == ERR_NOTFOUND && is_file(w, &r))
        rc = store_err(e, ERR_INVALID, ENOTDIR, REASON_INVALID_URL, w->params.url,
            ": it is one file, no directory: name the directory that it is in; pods find the file below it");
    return rc;
}
