/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/store_inside.h"

#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- objects, with mu held -------------------------------------------------------------------- */

static struct fake_object *object_find(struct fake_store *f, const char *path)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->objects[i].path, path) == 0)
            return &f->objects[i];
    return NULL;
}

static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return *path && (len == 0 || (strncmp(path, dir, len) == 0 && path[len] == '/'));
}

static void object_drop(struct fake_store *f, struct fake_object *o)
{
    free(o->path);
    free(o->data);
    *o = f->objects[--f->n];
}

static struct fake_object *object_make(struct fake_store *f, const char *path, bool is_dir)
{
    struct fake_object *o = object_find(f, path);
    if (!o) {
        f->objects = xrealloc(f->objects, (f->n + 1) * sizeof *f->objects);
        o = &f->objects[f->n++];
        *o = (struct fake_object){.path = xstrdup(path)};
    }
    o->st = (struct store_stat){.is_dir = is_dir, .mtime_ns = f->mtime_ns};
    return o;
}

static bool has_parent(struct fake_store *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
    return !dir || object_find(f, dir);
}

static void make_parents(struct fake_store *f, const char *path)
{
    cleanup_free char *dir = xstrdup(path);
    for (char *slash; (slash = strrchr(dir, '/'));) {
        *slash = '\0';
        if (!object_find(f, dir))
            object_make(f, dir, true);
    }
}

static const struct store_stat *object_write(
    struct fake_store *f, const char *path, const void *data, size_t len, uint64_t mark)
{
    make_parents(f, path);
    struct fake_object *o = object_make(f, path, false);
    free(o->data);
    o->data = xcalloc(1, len + 1);
    memcpy(o->data, data, len);
    o->st.size = len;
    o->mark = mark;
    snprintf(o->st.version, sizeof o->st.version, "v%u", ++f->versions);
    return &o->st;
}

static bool has_below(const struct fake_store *f, const char *dir)
{
    for (size_t i = 0; i < f->n; i++)
        if (is_below(f->objects[i].path, dir))
            return true;
    return false;
}

/* -- calls ------------------------------------------------------------------------------------ */

/* Counts it; 0: go on, with mu held. */
static int fake_begin(struct fake_store *f, enum fake_call call, const char *path, struct err *e)
{
    progress_mark(); /* as a real one: an attempt begins */
    pthread_mutex_lock(&f->mu);
    f->on[call].calls++;
    f->waiting += f->on[call].held;
    pthread_cond_broadcast(&f->changed);
    bool waited = f->on[call].held;
    while (f->on[call].held)
        pthread_cond_wait(&f->changed, &f->mu);
    f->waiting -= waited;
    if (f->on[call].skip) {
        f->on[call].skip--;
    } else if (f->on[call].fail) {
        f->on[call].fail--;
        store_err(e, f->on[call].cls, f->on[call].sys, REASON_STORE_ERROR, path,
            ": the fake store fails on purpose");
        pthread_mutex_unlock(&f->mu);
        return -1;
    }
    return 0;
}

/* What is to be answered is known, and waits if it is to be late; mu is held before and after. */
static void fake_late(struct fake_store *f, enum fake_call call)
{
    if (!f->on[call].late)
        return;
    f->on[call].late = false;
    f->on[call].kept = true;
    f->waiting++;
    pthread_cond_broadcast(&f->changed);
    while (f->on[call].kept)
        pthread_cond_wait(&f->changed, &f->mu);
    f->waiting--;
}

static int fake_end(
    struct fake_store *f, enum err_class cls, int sys, const char *path, struct err *e)
{
    pthread_mutex_unlock(&f->mu);
    return cls == ERR_NONE
        ? 0
        : store_err(e, cls, sys, cls == ERR_NOTFOUND ? REASON_NOT_FOUND : REASON_STORE_ERROR, path,
            ": refused");
}

static void *fake_open(const struct store_params *p, struct err *e)
{
    (void)e;
    void *f = NULL;
    return sscanf(p->rest, "%p", &f) == 1 ? f : NULL;
}

static void fake_close(void *impl) { (void)impl; }

static int fake_check(void *impl, struct err *e)
{
    (void)impl, (void)e;
    return 0;
}

/* What is told without being asked. */
static struct store_stat told(const struct fake_store *f, const struct fake_object *o)
{
    struct store_stat st = o->st;
    st.is_link &= !(st.unasked = f->unasked && !st.is_dir);
    return st;
}

static int fake_ask(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_ASK, path, e))
        return -1;
    const struct fake_object *o = object_find(f, path);
    bool same = o && strcmp(o->st.version, st->version) == 0;
    *st = same ? o->st : *st;
    return fake_end(f, same ? ERR_NONE : o ? ERR_CONFLICT : ERR_NOTFOUND, 0, path, e);
}

static int fake_stat_path(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_STAT, path, e))
        return -1;
    const struct fake_object *o = object_find(f, path);
    if (o)
        *st = told(f, o);
    else if (!*path)
        *st = (struct store_stat){.is_dir = true};
    fake_late(f, FAKE_STAT);
    return fake_end(f, o || !*path ? ERR_NONE : ERR_NOTFOUND, 0, path, e);
}

/* The cursor is the number of the object that is looked at next. */
static int fake_give_page(struct fake_store *f, const char *dir, char **cursor, bool deep,
    store_list_fn fn, void *user, struct err *e)
{
    size_t i = *cursor ? strtoul(*cursor, NULL, 10) : 0, left;
    free(steal(cursor));
    if (fake_begin(f, FAKE_LIST, dir, e))
        return -1;
    const struct fake_object *d = object_find(f, dir);
    enum err_class cls = *dir && (!d || !d->st.is_dir) ? ERR_NOTFOUND : ERR_NONE;
    left = f->page ? f->page : SIZE_MAX;
    struct fake_object *page = xcalloc(f->n + 1, sizeof *page); /* as it is now */
    size_t n = 0, given = 0;
    for (; i < f->n && left && cls == ERR_NONE; i++) {
        const struct fake_object *o = &f->objects[i];
        const char *name = o->path + (*dir ? strlen(dir) + 1 : 0);
        if (!is_below(o->path, dir) || (deep ? o->st.is_dir : strchr(name, '/') != NULL))
            continue;
        left--;
        page[n++] = (struct fake_object){.path = xstrdup(name), .st = told(f, o)};
    }
    if (cls == ERR_NONE && left == 0 && i < f->n)
        *cursor = xasprintf("%zu", i);
    fake_late(f, FAKE_LIST);
    while (given < n
        && !fn(user, &(struct store_entry){.name = page[given].path, .st = page[given].st}))
        given++;
    for (size_t k = 0; k < n; k++)
        free(page[k].path);
    free(page);
    return fake_end(f, cls, 0, dir, e);
}

static int fake_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return fake_give_page(impl, dir, cursor, false, fn, user, e);
}

static int fake_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return fake_give_page(impl, dir, cursor, true, fn, user, e);
}

static int fake_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_READ, path, e))
        return -1;
    if (cancel && atomic_load(cancel))
        return fake_end(f, ERR_RETRY, ECANCELED, path, e);
    const struct fake_object *o = object_find(f, path);
    if (!o || o->st.is_dir)
        return fake_end(f, ERR_NOTFOUND, 0, path, e);
    if (*version && strcmp(version, o->st.version) != 0)
        return fake_end(f, ERR_CONFLICT, ESTALE, path, e);
    if (off + len > o->st.size)
        return fake_end(f, ERR_INVALID, 0, path, e);
    cleanup_free char *data = xmalloc(len + 1);
    memcpy(data, o->data + off, len);
    fake_end(f, ERR_NONE, 0, path, e);
    return sink(user, data, len)
        ? store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, path, ": cancelled")
        : 0;
}

static int fake_put(
    void *impl, const char *path, const struct store_put *put, struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    cleanup_free char *data = xmalloc(put->len + 1);
    /* an upload that is held up has read its file before */
    if (put->len && io_pread_exact(put->fd, data, put->len, 0))
        return err_sys(e, errno, "read what is put into the fake store");
    if (fake_begin(f, FAKE_PUT, path, e))
        return -1;
    if (f->heed_cancel && put->cancel && atomic_load(put->cancel))
        return fake_end(f, ERR_RETRY, ECANCELED, path, e);
    const struct fake_object *o = object_find(f, path);
    if (o && o->st.is_dir)
        return fake_end(f, ERR_INVALID, EISDIR, path, e);
    if (f->ops.kind.caps & STORE_CAP_DIRS && !has_parent(f, path))
        return fake_end(f, ERR_NOTFOUND, 0, path, e);
    bool mine = put->mark && o && o->mark == put->mark;
    if (!mine && put->expect && strcmp(put->expect, o ? o->st.version : "") != 0)
        return fake_end(f, ERR_CONFLICT, *put->expect ? ESTALE : EEXIST, path, e);
    *st = mine ? o->st : *object_write(f, path, data, put->len, put->mark);
    bool lost = f->lose_answer;
    f->lose_answer = false;
    fake_late(f, FAKE_PUT);
    return fake_end(f, lost ? ERR_RETRY : ERR_NONE, lost ? EIO : 0, path, e);
}

static int fake_symlink(
    void *impl, const char *path, const char *target, struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_SYMLINK, path, e))
        return -1;
    if (object_find(f, path))
        return fake_end(f, ERR_CONFLICT, EEXIST, path, e);
    *st = *object_write(f, path, target, strlen(target), 0);
    object_find(f, path)->st.is_link = st->is_link = true;
    enum err_class cls = f->lose_answer ? ERR_RETRY : ERR_NONE;
    f->lose_answer = false;
    return fake_end(f, cls, 0, path, e);
}

/* expect: NULL: any version, or the one to be removed, as the server compares them. */
static int remove_object(struct fake_store *f, const char *path, const char *expect, struct err *e)
{
    if (fake_begin(f, FAKE_REMOVE, path, e))
        return -1;
    struct fake_object *o = object_find(f, path);
    if (!o || o->st.is_dir)
        return fake_end(f, o ? ERR_INVALID : ERR_NOTFOUND, o ? EISDIR : 0, path, e);
    if (expect && strcmp(expect, o->st.version) != 0)
        return fake_end(f, ERR_CONFLICT, 0, path, e);
    object_drop(f, o);
    return fake_end(f, ERR_NONE, 0, path, e);
}

static int fake_remove(void *impl, const char *path, struct err *e)
{
    return remove_object(impl, path, NULL, e);
}

static int fake_remove_version(void *impl, const char *path, const char *expect, struct err *e)
{
    return remove_object(impl, path, expect, e);
}

static int fake_mkdir(void *impl, const char *path, uint64_t mark, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_MKDIR, path, e))
        return -1;
    const struct fake_object *o = object_find(f, path);
    if (o && !(mark && o->mark == mark && o->st.is_dir))
        return fake_end(f, ERR_EXISTS, EEXIST, path, e);
    make_parents(f, path);
    object_make(f, path, true)->mark = mark;
    return fake_end(f, ERR_NONE, 0, path, e);
}

static int fake_rmdir(void *impl, const char *path, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_RMDIR, path, e))
        return -1;
    struct fake_object *o = object_find(f, path);
    if (has_below(f, path))
        return fake_end(f, ERR_EXISTS, ENOTEMPTY, path, e);
    if (!o || !o->st.is_dir)
        return fake_end(f, o ? ERR_INVALID : ERR_NOTFOUND, o ? ENOTDIR : 0, path, e);
    object_drop(f, o);
    return fake_end(f, ERR_NONE, 0, path, e);
}

static void move_below(struct fake_store *f, const char *from, const char *to)
{
    for (size_t i = 0; i < f->n; i++) {
        struct fake_object *o = &f->objects[i];
        if (!is_below(o->path, from))
            continue;
        char *path = xasprintf("%s%s", to, o->path + strlen(from));
        free(o->path);
        o->path = path;
    }
}

static int fake_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_RENAME, from, e))
        return -1;
    struct fake_object *o = object_find(f, from), *old = object_find(f, to);
    if (!o || (o->st.is_dir && !(f->ops.kind.caps & STORE_CAP_RENAME_DIR)))
        return fake_end(f, o ? ERR_INVALID : ERR_NOTFOUND, 0, from, e);
    if (expect && strcmp(expect, o->st.version) != 0)
        return fake_end(f, ERR_CONFLICT, ESTALE, from, e);
    if (old && (o->st.is_dir || old->st.is_dir))
        return fake_end(f, ERR_EXISTS, EEXIST, to, e);
    if (o->st.is_dir) {
        move_below(f, from, to);
    } else {
        /* a copy: it has another version, as in S3 */
        snprintf(o->st.version, sizeof o->st.version, "v%u", ++f->versions);
        o->st.mtime_ns = f->mtime_ns;
    }
    free(o->path);
    o->path = xstrdup(to);
    *st = o->st;
    if (old)
        object_drop(f, old);
    fake_late(f, FAKE_RENAME);
    return fake_end(f, ERR_NONE, 0, from, e);
}

static int fake_copy(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    if (fake_begin(f, FAKE_COPY, from, e))
        return -1;
    const struct fake_object *o = object_find(f, from);
    if (!o || o->st.is_dir || (expect && strcmp(expect, o->st.version) != 0))
        return fake_end(f, o ? ERR_CONFLICT : ERR_NOTFOUND, o ? ESTALE : 0, from, e);
    bool is_link = o->st.is_link;
    *st = *object_write(f, to, o->data, o->st.size, 0);
    object_find(f, to)->st.is_link = st->is_link = is_link;
    return fake_end(f, ERR_NONE, 0, from, e);
}

/* -- a test's side ---------------------------------------------------------------------------- */

struct fake_store *fake_store_new(unsigned caps)
{
    static const struct store_option none = {.name = NULL};
    struct fake_store *f = xcalloc(1, sizeof *f);
    f->ops = (struct store_ops){.kind = {"memory", "memory://", &none, caps},
        .open = fake_open,
        .close = fake_close,
        .check = fake_check,
        .stat_path = fake_stat_path,
        .ask = fake_ask,
        .list = fake_list,
        .list_tree = fake_list_tree,
        .read = fake_read,
        .put = fake_put,
        .symlink = fake_symlink,
        .remove = fake_remove,
        .remove_version = fake_remove_version,
        .mkdir = fake_mkdir,
        .rmdir = fake_rmdir,
        .rename = fake_rename,
        .copy = caps & STORE_CAP_RENAME_DIR ? NULL : fake_copy};
    pthread_mutex_init(&f->mu, NULL);
    pthread_cond_init(&f->changed, NULL);
    char url[64];
    snprintf(url, sizeof url, "memory://%p", (void *)f);
    struct conf_mount mount = {.mount_point = url};
    struct err e = ERR_INIT;
    f->store = store_new_of(&f->ops, &(struct store_conf){.mount = &mount}, &e);
    return f;
}

void fake_store_free(struct fake_store *f)
{
    if (!f)
        return;
    store_free(f->store);
    while (f->n)
        object_drop(f, &f->objects[0]);
    free(f->objects);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

struct store *fake_store(struct fake_store *f) { return f->store; }

static void write_as(struct fake_store *f, const char *path, const char *text, bool is_link)
{
    pthread_mutex_lock(&f->mu);
    object_write(f, path, text, strlen(text), 0);
    object_find(f, path)->st.is_link = is_link;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_write(struct fake_store *f, const char *path, const char *text)
{
    write_as(f, path, text, false);
}

void fake_store_link(struct fake_store *f, const char *path, const char *target)
{
    write_as(f, path, target, true);
}

void fake_store_mkdir(struct fake_store *f, const char *path)
{
    pthread_mutex_lock(&f->mu);
    make_parents(f, path);
    object_make(f, path, true);
    pthread_mutex_unlock(&f->mu);
}

void fake_store_delete(struct fake_store *f, const char *path)
{
    pthread_mutex_lock(&f->mu);
    for (size_t i = f->n; i-- > 0;)
        if (strcmp(f->objects[i].path, path) == 0 || is_below(f->objects[i].path, path))
            object_drop(f, &f->objects[i]);
    pthread_mutex_unlock(&f->mu);
}

bool fake_store_has(struct fake_store *f, const char *path)
{
    pthread_mutex_lock(&f->mu);
    bool has = object_find(f, path) != NULL;
    pthread_mutex_unlock(&f->mu);
    return has;
}

char *fake_store_text(struct fake_store *f, const char *path)
{
    pthread_mutex_lock(&f->mu);
    const struct fake_object *o = object_find(f, path);
    char *text = o && !o->st.is_dir ? xstrdup(o->data) : NULL;
    pthread_mutex_unlock(&f->mu);
    return text;
}
