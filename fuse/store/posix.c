/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions. What a local disk answers is called directly. On a file system with a
 * server, which may be gone, a call works on a copy of all that it is given and runs on a thread of
 * its own (timed_call.h). */
#include "fuse/store/posix.h"

#include "fuse/store/timed_call.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* a file system that has not answered by then is taken for one that may hang */
#define PROBE_NS (500 * NS_PER_MS)
#define BATCH    512u     /* entries of a listing at a time … */
#define BATCH_NS NS_PER_S /* … or as many as come in that time */

static const struct store_option posix_options[] = {
    {"can-hang", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "true: the file system may stop answering (the default on all but local ones): give up in time"},
    {0},
};

struct posix {
    struct posix_dir dir; /* borrows url, owns dir */
    int64_t deadline_ns;
    bool told; /* by the option */
    atomic_bool direct;
    struct timed_calls *calls;
};

enum posix_op {
    OP_PROBE,
    OP_CHECK,
    OP_STAT,
    OP_LIST,
    OP_LIST_END,
    OP_READ,
    OP_PUT,
    OP_SYMLINK,
    OP_SET_ATTR,
    OP_REMOVE,
    OP_MKDIR,
    OP_RMDIR,
    OP_RENAME,
    OP_SYNC_DIR
};

struct batch_entry {
    char *name; /* owned */
    struct store_stat st;
};

/* One call, all that goes in and comes out. In a copy for a helper every pointer is the copy's own.
 */
struct posix_call {
    struct timed_job job; /* must be the first member */
    enum posix_op op;
    struct posix_dir dir;
    const char *path, *to, *version; /* NULL where op has no use for it */
    uint64_t off, len, mark;
    struct store_attr attr; /* OP_PUT, OP_SET_ATTR */
    sink_fn sink;
    void *sink_user;
    /* OP_READ on a helper: its bytes are kept here until it is certain that they are wanted */
    char *buf;
    struct sink_memory memory; /* what is left of it */
    int fd;
    bool tree;
    const atomic_bool *cancel;
    int rc;
    struct err e;
    bool local; /* OP_PROBE, OP_CHECK */
    struct store_stat st;
    /* OP_LIST: goes in and out; NULL in: the beginning; NULL out: the end */
    struct posix_walk *walk;
    struct batch_entry *batch; /* OP_LIST */
    size_t n;
};

/* -- a call, wherever it is made ------------------------------------------------------------- */

static int next_batch(struct posix_call *c)
{
    int64_t until = clock_mono_ns() + BATCH_NS;
    struct store_entry entry;
    int rc = 1;
    if (!c->walk && !(c->walk = posix_walk_open(&c->dir, c->path, c->tree, &c->e)))
        return -1;
    c->batch = xcalloc(BATCH, sizeof *c->batch);
    while (c->n < BATCH && clock_mono_ns() < until && !atomic_load(&c->job.given_up)
        && (rc = posix_walk_next(&c->dir, c->walk, &entry, &c->e)) == 1)
        c->batch[c->n++] = (struct batch_entry){xstrdup(entry.name), entry.st};
    if (rc == 1)
        return 0;
    posix_walk_close(steal(&c->walk));
    return rc;
}

static int perform(struct posix_call *c)
{
    switch (c->op) {
    case OP_PROBE:
        c->local = posix_dir_is_local(&c->dir);
        return 0;
    case OP_CHECK:
        c->local = posix_dir_is_local(&c->dir);
        return posix_dir_check(&c->dir, &c->e);
    case OP_STAT:
        return posix_dir_stat(&c->dir, c->path, &c->st, &c->e);
    case OP_LIST:
        return next_batch(c);
    case OP_LIST_END:
        posix_walk_close(steal(&c->walk));
        return 0;
    case OP_READ:
        return posix_dir_read(
            &c->dir, c->path, c->version, c->off, c->len, c->sink, c->sink_user, c->cancel, &c->e);
    case OP_PUT:
        return posix_dir_put(&c->dir, c->path,
            &(struct store_put){.fd = c->fd,
                .len = c->len,
                .expect = c->version,
                .mark = c->mark,
                .attr = &c->attr},
            c->cancel, &c->st, &c->e);
    case OP_SYMLINK:
        return posix_dir_symlink(&c->dir, c->path, c->to, &c->st, &c->e);
    case OP_SET_ATTR:
        return posix_dir_set_attr(&c->dir, c->path, c->version, &c->attr, &c->st, &c->e);
    case OP_REMOVE:
        return posix_dir_remove(&c->dir, c->path, &c->e);
    case OP_MKDIR:
        return posix_dir_mkdir(&c->dir, c->path, c->mark, &c->e);
    case OP_RMDIR:
        return posix_dir_rmdir(&c->dir, c->path, &c->e);
    case OP_RENAME:
        return posix_dir_rename(&c->dir, c->path, c->to, c->version, &c->st, &c->e);
    case OP_SYNC_DIR:
        return posix_dir_sync(&c->dir, c->path, &c->e);
    }
    return -1;
}

/* -- on a helper ----------------------------------------------------------------------------- */

static void posix_call_run(struct timed_job *job)
{
    struct posix_call *c = (struct posix_call *)job;
    c->rc = perform(c);
}

static void posix_call_drop(struct timed_job *job)
{
    struct posix_call *c = (struct posix_call *)job;
    posix_walk_close(c->walk);
    for (size_t i = 0; i < c->n; i++)
        free(c->batch[i].name);
    free(c->batch);
    if (c->fd >= 0)
        close(c->fd);
    free(c->buf);
    free((char *)c->dir.url);
    free((char *)c->dir.dir);
    free((char *)c->job.what);
    free((char *)c->path);
    free((char *)c->to);
    free((char *)c->version);
    free(c);
}

static bool is_change(enum posix_op op)
{
    return op == OP_PUT || op == OP_SYMLINK || op == OP_SET_ATTR || op == OP_REMOVE
        || op == OP_MKDIR || op == OP_RMDIR || op == OP_RENAME;
}

/* A copy that needs nothing of the caller's. Takes .walk over in any case. */
static struct posix_call *posix_call_copy(const struct posix_call *from, struct err *e)
{
    struct posix_call *c = xcalloc(1, sizeof *c);
    *c = *from;
    c->job.run = posix_call_run;
    c->job.drop = posix_call_drop;
    c->job.change = is_change(c->op);
    c->job.goes_on = c->walk;
    c->job.brief = c->op == OP_PROBE;
    c->job.what = *c->path ? xasprintf("%s/%s", c->dir.url, c->path) : xstrdup(c->dir.url);
    c->dir.url = xstrdup(c->dir.url);
    c->dir.dir = xstrdup(c->dir.dir);
    c->path = xstrdup(c->path);
    c->to = xstrdup(c->to);
    c->version = xstrdup(c->version);
    c->cancel = &c->job.given_up;
    if (from->sink) {
        c->buf = malloc(c->len);
        c->memory = (struct sink_memory){c->buf, c->len};
        c->sink = sink_to_memory;
        c->sink_user = &c->memory;
    }
    c->fd = from->fd >= 0 ? fcntl(from->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if ((!from->sink || c->buf) && (from->fd < 0 || c->fd >= 0))
        return c;
    err_sys(e, c->fd < 0 && from->fd >= 0 ? errno : ENOMEM, "%s", c->job.what);
    posix_call_drop(&c->job);
    return NULL;
}

/* Gives back the copy that was worked on, for the caller to drop. NULL: it was not to be had in
 * time. */
static struct posix_call *timed(struct posix *s, const struct posix_call *call, struct err *e)
{
    int64_t ns = call->op == OP_PROBE ? MIN(s->deadline_ns, PROBE_NS)
                                      : s->deadline_ns + (int64_t)(call->len >> 20) * NS_PER_S;
    struct posix_call *c = posix_call_copy(call, e);
    return c && timed_call(s->calls, &c->job, clock_mono_ns() + ns, call->cancel, e) == 0 ? c
                                                                                          : NULL;
}

static int posix_do(struct posix *s, struct posix_call *call, struct err *e)
{
    if (atomic_load_explicit(&s->direct, memory_order_relaxed) && call->op != OP_CHECK
        && call->op != OP_PROBE) {
        call->rc = perform(call);
        if (call->rc)
            *e = call->e;
        return call->rc;
    }
    struct posix_call *c = timed(s, call, e);
    int rc = c ? c->rc : -1;
    if (!s->told && (call->op == OP_CHECK || call->op == OP_PROBE))
        atomic_store(&s->direct, c && c->local);
    if (!c)
        return -1;
    if (rc)
        *e = c->e;
    else if (call->sink && call->sink(call->sink_user, c->buf, c->len))
        rc = store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, c->job.what, ": cancelled");
    call->st = c->st;
    posix_call_drop(&c->job);
    return rc;
}

#define CALL(s, what, on, ...)                                             \
    {                                                                      \
        .op = (what), .dir = (s)->dir, .path = (on), .fd = -1, __VA_ARGS__ \
    }

/* -- the table ------------------------------------------------------------------------------- */

static void posix_close(void *impl)
{
    struct posix *s = impl;
    timed_calls_free(s->calls);
    free((char *)s->dir.dir);
    free(s);
}

static void *posix_open(const struct store_params *p, struct err *e)
{
    if (p->rest[0] != '/') {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url,
            ": write an absolute path after file://, as in file:///data/set");
        return NULL;
    }
    cleanup_free char *told = NULL;
    if (option_get(p, "can-hang", &told, e))
        return NULL;
    struct posix *s = xcalloc(1, sizeof *s);
    s->dir = (struct posix_dir){p->url, xstrdup(p->rest), p->mount->read_only};
    s->deadline_ns = p->deadline_ns;
    s->told = told;
    s->calls = timed_calls_new(&(struct timed_conf){.name = s->dir.dir});
    struct posix_call probe = CALL(s, OP_PROBE, "");
    struct err none = ERR_INIT;
    if (told)
        atomic_store(&s->direct, strcmp(told, "false") == 0);
    else
        posix_do(s, &probe, &none);
    return s;
}

/* Asks again what kind of file system it is: it may have been mounted since. */
static int posix_check(void *impl, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_CHECK, "");
    return posix_do(s, &c, e);
}

static int posix_stat(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_STAT, path);
    int rc = posix_do(s, &c, e);
    *st = c.st;
    return rc;
}

static int list_directly(
    const struct posix *s, const char *dir, bool tree, store_list_fn fn, void *user, struct err *e)
{
    struct store_entry entry;
    struct posix_walk *w = posix_walk_open(&s->dir, dir, tree, e);
    int rc = w ? 1 : -1;
    while (rc == 1 && (rc = posix_walk_next(&s->dir, w, &entry, e)) == 1)
        if (fn(user, &entry))
            rc = 0;
    posix_walk_close(w);
    return rc;
}

/* Each batch has the deadline anew. */
static int list_in_batches(
    struct posix *s, const char *dir, bool tree, store_list_fn fn, void *user, struct err *e)
{
    struct posix_call call = CALL(s, OP_LIST, dir, .tree = tree);
    bool stop = false;
    int rc;
    do {
        struct posix_call *c = timed(s, &call, e);
        if (!c)
            return -1;
        for (size_t i = 0; i < c->n && !stop; i++)
            stop = fn(user, &(struct store_entry){c->batch[i].name, c->batch[i].st}) != 0;
        if ((rc = stop ? 0 : c->rc))
            *e = c->e;
        call.walk = steal(&c->walk);
        posix_call_drop(&c->job);
    } while (rc == 0 && call.walk && !stop);
    if (!call.walk)
        return rc;
    struct err none = ERR_INIT;
    call.op = OP_LIST_END;
    struct posix_call *c = timed(s, &call, &none);
    if (c)
        posix_call_drop(&c->job);
    return rc;
}

/* One page is all of it: entries are handed over as they are read. */
static int posix_list_page(struct posix *s, const char *dir, bool tree, char **cursor,
    store_list_fn fn, void *user, struct err *e)
{
    free(*cursor);
    *cursor = NULL;
    bool direct = atomic_load_explicit(&s->direct, memory_order_relaxed);
    return direct ? list_directly(s, dir, tree, fn, user, e)
                  : list_in_batches(s, dir, tree, fn, user, e);
}

static int posix_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return posix_list_page(impl, dir, false, cursor, fn, user, e);
}

static int posix_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return posix_list_page(impl, dir, true, cursor, fn, user, e);
}

static int posix_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_READ, path, .version = version, .off = off, .len = len,
        .sink = sink, .sink_user = user, .cancel = cancel);
    return posix_do(s, &c, e);
}

static int posix_put(
    void *impl, const char *path, const struct store_put *put, struct store_stat *st, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(
        s, OP_PUT, path, .len = put->len, .version = put->expect, .mark = put->mark);
    c.fd = put->fd;
    if (put->attr)
        c.attr = *put->attr;
    int rc = posix_do(s, &c, e);
    *st = c.st;
    return rc;
}

static int posix_symlink(
    void *impl, const char *path, const char *target, struct store_stat *st, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_SYMLINK, path, .to = target);
    int rc = posix_do(s, &c, e);
    *st = c.st;
    return rc;
}

static int posix_set_attr(void *impl, const char *path, const char *expect,
    const struct store_attr *attr, struct store_stat *st, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_SET_ATTR, path, .version = expect, .attr = *attr);
    int rc = posix_do(s, &c, e);
    *st = c.st;
    return rc;
}

static int posix_change(struct posix *s, enum posix_op op, const char *path, struct err *e)
{
    struct posix_call c = CALL(s, op, path);
    return posix_do(s, &c, e);
}

static int posix_remove(void *impl, const char *path, struct err *e)
{
    return posix_change(impl, OP_REMOVE, path, e);
}
static int posix_mkdir(void *impl, const char *path, uint64_t mark, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_MKDIR, path, .mark = mark);
    return posix_do(s, &c, e);
}
static int posix_rmdir(void *impl, const char *path, struct err *e)
{
    return posix_change(impl, OP_RMDIR, path, e);
}

static int posix_sync_dir(void *impl, const char *path, struct err *e)
{
    return posix_change(impl, OP_SYNC_DIR, path, e);
}

static int posix_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    struct posix *s = impl;
    struct posix_call c = CALL(s, OP_RENAME, from, .to = to, .version = expect);
    int rc = posix_do(s, &c, e);
    *st = c.st;
    return rc;
}

const struct store_ops store_posix = {
    .kind = {"file", "file:///directory", posix_options,
        STORE_CAP_WRITE | STORE_CAP_RENAME_DIR | STORE_CAP_DIRS, NULL, 0, NULL, 0},
    .open = posix_open,
    .close = posix_close,
    .check = posix_check,
    .stat_path = posix_stat,
    .list = posix_list,
    .list_tree = posix_list_tree,
    .read = posix_read,
    .put = posix_put,
    .symlink = posix_symlink,
    .set_attr = posix_set_attr,
    .remove = posix_remove,
    .mkdir = posix_mkdir,
    .rmdir = posix_rmdir,
    .rename = posix_rename,
    .hides = posix_is_temp,
    .sync_dir = posix_sync_dir,
};
