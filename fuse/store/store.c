/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: finds the store that a URL names in the table of all kinds, checks paths, and calls it.
 */
#include "fuse/store/breaker.h"
#include "fuse/store/circle.h"
#include "fuse/store/impl.h"

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_DEFAULT_NS (30 * NS_PER_S)
#define CONNECTIONS_DEFAULT 64
#define COMPARE_BYTES       (1u << 20)
#define CHANGES_MAX         3 /* of an object while it is read, any version of it */

/* A new store is a row here. */
static const struct store_ops *const kinds[] = {&store_s3, &store_gs, &store_posix, &store_http,
    &store_https, &store_hdfs, &store_webhdfs, &store_swebhdfs};

struct store {
    const struct store_ops *ops;
    void *impl;
    char *url;
    struct breaker breaker;
};

static int require_path(const struct store *s, const char *path, bool root_allowed, struct err *e)
{
    if (!store_path_ok(path)) {
        store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, s->url,
            ": '%s' is not a path: names of 1 to 255 bytes with single slashes "
            "between them",
            path);
        return -1;
    }
    if (!*path && !root_allowed)
        return store_err(e, ERR_INVALID, EBUSY, REASON_STORE_ERROR, s->url,
            ": its root cannot be replaced or removed");
    return 0;
}

/* The stores look at what went wrong: there always is an error to look at. */
#define NEED(e) ((e) ? (e) : &(struct err)ERR_INIT)

/* -- kinds ----------------------------------------------------------------------------------- */

static const struct store_ops *ops_of_url(const char *url)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = strlen(kinds[i]->kind.scheme);
        if (strncmp(url, kinds[i]->kind.scheme, n) == 0 && strncmp(url + n, "://", 3) == 0)
            return kinds[i];
    }
    return NULL;
}

const struct store_kind *store_kind_at(size_t i)
{
    return i < ARRAY_LEN(kinds) ? &kinds[i]->kind : NULL;
}

const struct store_kind *store_kind_of(const char *url)
{
    const struct store_ops *ops = ops_of_url(url);
    return ops ? &ops->kind : NULL;
}

size_t store_part(const char *url)
{
    const struct store_kind *kind = store_kind_of(url);
    return kind ? kind->part : 0;
}

static int err_unknown_scheme(const char *url, struct err *e)
{
    cleanup_buf struct buf known = BUF_INIT(400);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        buf_addf(&known, "%s%s",
            !i                         ? ""
                : store_kind_at(i + 1) ? ", "
                                       : " or ",
            kinds[i]->kind.url_help);
    size_t n = strcspn(url, ":");
    if (strncmp(url + n, "://", 3) != 0)
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, url,
            ": this is not a URL; write %s", buf_str(&known));
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, url,
        ": unknown scheme '%.*s'; write %s", (int)n, url, buf_str(&known));
}

/* -- one store ------------------------------------------------------------------------------- */

struct store *store_new(const struct store_conf *conf, struct err *e)
{
    const struct store_ops *ops = ops_of_url(conf->mount->mount_point);
    if (ops)
        return store_new_of(ops, conf, e);
    err_unknown_scheme(conf->mount->mount_point, NEED(e));
    return NULL;
}

struct store *store_new_of(
    const struct store_ops *ops, const struct store_conf *conf, struct err *e)
{
    e = NEED(e);
    char *url = xstrdup(conf->mount->mount_point);
    const char *rest = url + strlen(ops->kind.scheme) + strlen("://");
    for (size_t n = strlen(rest); n > 1 && rest[n - 1] == '/'; n--)
        url[rest - url + (ssize_t)n - 1] = '\0';
    struct store_params p = {
        .url = url,
        .rest = rest,
        .mount = conf->mount,
        .kind = &ops->kind,
        .secrets_dir = conf->secrets_dir,
        .deadline_ns = conf->deadline_ns ? conf->deadline_ns : DEADLINE_DEFAULT_NS,
        .max_connections = conf->max_connections ? conf->max_connections : CONNECTIONS_DEFAULT,
    };
    option_log_strange_keys(&p);
    void *impl = option_check_all(&p, e) ? NULL : ops->open(&p, e);
    if (!impl) {
        free(url);
        return NULL;
    }
    struct store *s = xcalloc(1, sizeof *s);
    s->ops = ops;
    s->impl = impl;
    s->url = url;
    breaker_init(&s->breaker);
    return s;
}

void store_free(struct store *s)
{
    if (!s)
        return;
    s->ops->close(s->impl);
    free(s->url);
    breaker_fini(&s->breaker);
    free(s);
}

unsigned store_caps(const struct store *s) { return s->ops->kind.caps; }
bool store_keeps_attr(const struct store *s) { return s->ops->set_attr; }

void store_contact(struct store *s, char **server, char **who)
{
    *server = *who = NULL;
    if (s->ops->contact)
        s->ops->contact(s->impl, server, who);
}

bool store_is_silent(const struct store *s) { return breaker_is_silent(&s->breaker); }

int store_check(struct store *s, struct err *e)
{
    int64_t began;
    e = NEED(e);
    return breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->check(s->impl, e), e);
}

int store_stat_path(struct store *s, const char *path, struct store_stat *st, struct err *e)
{
    e = NEED(e);
    memset(st, 0, sizeof *st);
    int64_t began;
    return require_path(s, path, true, e) || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->stat_path(s->impl, path, st, e), e);
}

int store_ask(struct store *s, const char *path, struct store_stat *st, struct err *e)
{
    e = NEED(e);
    int64_t began;
    if (!st->unasked || !s->ops->ask) {
        st->unasked = false;
        return 0;
    }
    return require_path(s, path, false, e) || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->ask(s->impl, path, st, e), e);
}

typedef int (*list_op)(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);

/* One page. The caller's cursor holds the store's, and what tells that it leads in a circle. */
static int list_page(struct store *s, list_op op, const char *dir, char **cursor, store_list_fn fn,
    void *user, struct err *e)
{
    struct circle c;
    char *own = xstrdup(circle_unwrap(*cursor, &c));
    int rc = op(s->impl, dir, &own, fn, user, e);
    if (rc == 0 && own && !circle_step(&c, own))
        rc = store_err(e, ERR_INVALID, EIO, REASON_STORE_ERROR, s->url,
            ": the server leads the listing of '%.200s' in a circle: it gives a continuation token that it gave before",
            dir);
    if (rc == 0) {
        free(*cursor);
        *cursor = own ? circle_wrap(&c, own) : NULL;
    }
    free(own);
    return rc;
}

static int list_any(struct store *s, list_op op, const char *dir, char **cursor, store_list_fn fn,
    void *user, struct err *e)
{
    int64_t began;
    return require_path(s, dir, true, e) || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, list_page(s, op, dir, cursor, fn, user, e), e);
}

int store_list(
    struct store *s, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return list_any(s, s->ops->list, dir, cursor, fn, user, NEED(e));
}

int store_list_tree(
    struct store *s, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return list_any(s, s->ops->list_tree, dir, cursor, fn, user, NEED(e));
}

int store_stream(struct store *s, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    e = NEED(e);
    return store_stream_of(s, path, version, UINT64_MAX, off, len, sink, user, cancel, e);
}

int store_stream_of(struct store *s, const char *path, const char *version, uint64_t size,
    uint64_t off, size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    e = NEED(e);
    if (require_path(s, path, false, e))
        return -1;
    int64_t began;
    if (!len)
        return 0;
    if (breaker_enter(&s->breaker, &began, e))
        return -1;
    int rc = s->ops->read_whole && off == 0 && len == size
        ? s->ops->read_whole(s->impl, path, version, len, sink, user, cancel, e)
        : s->ops->read(s->impl, path, version, off, len, sink, user, cancel, e);
    return breaker_leave(&s->breaker, began, rc, e);
}

int store_read(struct store *s, const char *path, const char *version, uint64_t off, size_t len,
    void *buf, const atomic_bool *cancel, struct err *e)
{
    e = NEED(e);
    for (int changes = 0;; changes++) {
        struct sink_memory memory = {buf, len};
        int rc = store_stream(s, path, version, off, len, sink_to_memory, &memory, cancel, e);
        if (rc == 0 || *version || e->cls != ERR_CONFLICT || changes == CHANGES_MAX)
            return rc;
    }
}

static int require_writable(const struct store *s, struct err *e)
{
    if (s->ops->kind.caps & STORE_CAP_WRITE)
        return 0;
    return store_err(
        e, ERR_DENIED, EROFS, REASON_STORE_ERROR, s->url, ": this kind of store is read-only");
}

struct compare {
    int fd;
    uint64_t off;
};

static int compare_piece(void *user, const void *data, size_t len)
{
    struct compare *c = user;
    cleanup_free char *ours = malloc(len);
    if (!ours || io_pread_exact(c->fd, ours, len, c->off) || memcmp(ours, data, len) != 0)
        return -1;
    c->off += len;
    return 0;
}

/* What is there instead of what was expected: is it what was to be put? Then an earlier attempt did
 * it, whose answer was lost. */
static bool is_there_already(
    struct store *s, const char *path, const struct store_put *put, struct store_stat *st)
{
    struct err ignored = ERR_INIT;
    struct compare c = {.fd = put->fd};
    /* who made an empty one cannot be told by its content: that is what locks are made of */
    if (!put->len || s->ops->stat_path(s->impl, path, st, &ignored) || st->is_dir
        || st->size != put->len)
        return false;
    while (c.off < put->len) {
        size_t len = (size_t)MIN(put->len - c.off, COMPARE_BYTES);
        if (s->ops->read(s->impl, path, st->version, c.off, len, compare_piece, &c, NULL, &ignored))
            return false;
    }
    return true;
}

int store_put(struct store *s, const char *path, const struct store_put *put, struct store_stat *st,
    struct err *e)
{
    e = NEED(e);
    memset(st, 0, sizeof *st);
    if (require_writable(s, e) || require_path(s, path, false, e))
        return -1;
    int64_t began;
    if (breaker_enter(&s->breaker, &began, e))
        return -1;
    if (breaker_leave(&s->breaker, began, s->ops->put(s->impl, path, put, st, e), e) == 0)
        return 0;
    if (e->cls != ERR_CONFLICT || !put->expect || !is_there_already(s, path, put, st))
        return -1;
    *e = (struct err)ERR_INIT;
    return 0;
}

int store_symlink(
    struct store *s, const char *path, const char *target, struct store_stat *st, struct err *e)
{
    e = NEED(e);
    memset(st, 0, sizeof *st);
    if (require_writable(s, e) || require_path(s, path, false, e))
        return -1;
    if (!s->ops->symlink)
        return store_err(e, ERR_INVALID, EOPNOTSUPP, REASON_STORE_ERROR, s->url,
            ": this kind of store has no symbolic links");
    if (!*target || strlen(target) > STORE_LINK_MAX)
        return store_err(e, ERR_INVALID, *target ? ENAMETOOLONG : ENOENT, REASON_STORE_ERROR,
            s->url, ": the target of a symbolic link has 1 to %d bytes", STORE_LINK_MAX);
    int64_t began;
    return breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->symlink(s->impl, path, target, st, e), e);
}

int store_set_attr(struct store *s, const char *path, const char *expect,
    const struct store_attr *attr, struct store_stat *st, struct err *e)
{
    e = NEED(e);
    memset(st, 0, sizeof *st);
    if (require_writable(s, e) || require_path(s, path, true, e))
        return -1;
    if (!s->ops->set_attr)
        return store_err(e, ERR_INVALID, EOPNOTSUPP, REASON_STORE_ERROR, s->url,
            ": this kind of store keeps no attributes");
    int64_t began;
    return breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(
            &s->breaker, began, s->ops->set_attr(s->impl, path, expect, attr, st, e), e);
}

int store_remove(struct store *s, const char *path, struct err *e)
{
    e = NEED(e);
    int64_t began;
    return require_writable(s, e) || require_path(s, path, false, e)
            || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->remove(s->impl, path, e), e);
}

static int remove_looked_at(struct store *s, const char *path, const char *version, struct err *e)
{
    struct store_stat now;
    if (s->ops->stat_path(s->impl, path, &now, e))
        return -1;
    if (strcmp(now.version, version) != 0)
        return err_set(
            e, ERR_CONFLICT, "%s: it was changed by somebody else since it was read", path);
    return s->ops->remove(s->impl, path, e);
}

int store_remove_version(struct store *s, const char *path, const char *version, struct err *e)
{
    e = NEED(e);
    int64_t began;
    if (require_writable(s, e) || require_path(s, path, false, e)
        || breaker_enter(&s->breaker, &began, e))
        return -1;
    int rc = s->ops->remove_version ? s->ops->remove_version(s->impl, path, version, e)
                                    : remove_looked_at(s, path, version, e);
    return breaker_leave(&s->breaker, began, rc, e);
}

int store_mkdir(struct store *s, const char *path, uint64_t mark, struct err *e)
{
    e = NEED(e);
    int64_t began;
    return require_writable(s, e) || require_path(s, path, false, e)
            || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->mkdir(s->impl, path, mark, e), e);
}

int store_sync_dir(struct store *s, const char *path, struct err *e)
{
    e = NEED(e);
    if (!s->ops->sync_dir)
        return 0;
    int64_t began;
    return require_path(s, path, true, e) || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->sync_dir(s->impl, path, e), e);
}

int store_rmdir(struct store *s, const char *path, struct err *e)
{
    e = NEED(e);
    int64_t began;
    return require_writable(s, e) || require_path(s, path, false, e)
            || breaker_enter(&s->breaker, &began, e)
        ? -1
        : breaker_leave(&s->breaker, began, s->ops->rmdir(s->impl, path, e), e);
}

int store_check_hidden(const struct store *s, const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!s->ops->hides || !s->ops->hides(slash ? slash + 1 : path))
        return 0;
    cleanup_free char *what = xasprintf("%s/%s", s->url, path);
    return store_err(NEED(e), ERR_INVALID, EINVAL, REASON_STORE_ERROR, what,
        ": such names are the store's own, for what is being made: listings do not show them; choose another one");
}

int store_rename(struct store *s, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    e = NEED(e);
    memset(st, 0, sizeof *st);
    if (require_writable(s, e) || require_path(s, from, false, e) || require_path(s, to, false, e)
        || store_check_hidden(s, to, e))
        return -1;
    if (strcmp(from, to) == 0)
        return store_stat_path(s, from, st, e);
    int64_t began;
    if (breaker_enter(&s->breaker, &began, e))
        return -1;
    int rc = s->ops->rename(s->impl, from, to, expect, st, e);
    return breaker_leave(&s->breaker, began, rc, e);
}

int store_copy(struct store *s, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    e = NEED(e);
    memset(st, 0, sizeof *st);
    if (require_writable(s, e) || require_path(s, from, false, e) || require_path(s, to, false, e))
        return -1;
    if (!s->ops->copy)
        return store_err(e, ERR_INVALID, ENOTSUP, REASON_STORE_ERROR, s->url,
            ": this kind of store renames, and does not copy");
    int64_t began;
    if (breaker_enter(&s->breaker, &began, e))
        return -1;
    int rc = s->ops->copy(s->impl, from, to, expect, st, e);
    return breaker_leave(&s->breaker, began, rc, e);
}
