/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/place.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int place_open(
    struct cli_place *p, const struct args *a, const char *said, bool read_only, struct err *e)
{
    *p = (struct cli_place){.said = said, .url = is_url(said), .args = a, .read_only = read_only};
    if (!*said)
        return err_set(
            e, ERR_INVALID, "an empty path: write a path, or a URL like s3://bucket/key");
    if (p->url)
        return target_open(&p->at, a, said, false, read_only, e);
    struct err none = ERR_INIT;
    if (mount_point_of(said, &p->point, &none))
        free(steal(&p->point));
    return 0;
}

void place_close(struct cli_place *p)
{
    target_close(&p->at);
    target_close(&p->inside);
    free(p->point);
    *p = (struct cli_place){0};
}

/* A directory is a store of its own from here on: what is in it is named relative to it. */
static int place_enter(struct cli_place *p, struct err *e)
{
    return p->inside.store ? 0 : target_open(&p->inside, p->args, p->said, true, p->read_only, e);
}

int place_make_root(struct cli_place *p, struct err *e)
{
    const char *local = !p->url               ? p->said
        : strncmp(p->said, "file://", 7) == 0 ? p->said + 7
                                              : NULL;
    return (local && file_mkdirs(local, 0777, e)) || (p->url && place_enter(p, e)) ? -1 : 0;
}

int place_stat(struct cli_place *p, struct place_entry *out, struct err *e)
{
    *out = (struct place_entry){.name = p->said};
    if (!p->url)
        return local_stat(p->said, p->said, out, e);
    if (target_stat(&p->at, &out->st, e))
        return -1;
    return out->st.is_dir ? place_enter(p, e) : 0;
}

struct place_relay {
    place_fn fn;
    void *user;
    bool stop;
};

static int relay_entry(void *user, const struct store_entry *entry)
{
    struct place_relay *r = user;
    struct place_entry out = {.name = entry->name, .st = entry->st, .other = entry->st.is_link};
    r->stop = r->fn(r->user, &out) != 0;
    return r->stop;
}

static int place_pages(struct cli_place *p, bool tree, place_fn fn, void *user, struct err *e)
{
    struct place_relay r = {fn, user, false};
    char *cursor = NULL;
    int rc = place_enter(p, e);
    if (rc)
        return rc;
    do {
        rc = (tree ? store_list_tree : store_list)(
            p->inside.store, "", &cursor, relay_entry, &r, e);
    } while (rc == 0 && cursor && !r.stop);
    free(cursor);
    return rc;
}

int place_list(struct cli_place *p, place_fn fn, void *user, struct err *e)
{
    return p->url ? place_pages(p, false, fn, user, e) : local_list(p->said, fn, NULL, user, e);
}

int place_walk(struct cli_place *p, place_fn fn, place_error_fn failed, void *user, struct err *e)
{
    return p->url ? place_pages(p, true, fn, user, e) : local_list(p->said, fn, failed, user, e);
}

/* The store and the path in it of a name in a URL. */
static struct store *store_of(struct cli_place *p, const char *name, const char **path)
{
    *path = *name ? name : p->at.path;
    return *name ? p->inside.store : p->at.store;
}

static char *path_of(const struct cli_place *p, const char *name)
{
    return *name ? path_join(p->said, name) : xstrdup(p->said);
}

int place_stat_at(struct cli_place *p, const char *name, struct store_stat *st, struct err *e)
{
    if (p->url) {
        struct store *s = store_of(p, name, &name);
        return store_stat_path(s, name, st, e);
    }
    struct place_entry out;
    cleanup_free char *path = path_of(p, name);
    int rc = local_stat(path, name, &out, e);
    *st = out.st;
    return rc;
}

int place_read(struct cli_place *p, const char *name, const struct store_stat *st, uint64_t off,
    uint64_t len, sink_fn sink, void *user, struct err *e)
{
    if (len == 0)
        return 0;
    if (p->url) {
        struct store *s = store_of(p, name, &name);
        return store_stream_of(
            s, name, st->version, st->size, off, (size_t)len, sink, user, p->cancel, e);
    }
    cleanup_free char *path = path_of(p, name);
    return local_read(path, st, off, len, sink, user, e);
}

int place_read_slowly(struct cli_place *p, const char *name, const struct store_stat *st,
    uint64_t off, uint64_t len, size_t first, sink_fn sink, void *user, struct err *e)
{
    /* a web server without ranges sends each piece from the beginning of the file */
    bool web = strncmp(p->said, "http://", 7) == 0 || strncmp(p->said, "https://", 8) == 0;
    if (!p->url || web)
        return place_read(p, name, st, off, len, sink, user, e);
    size_t piece = first;
    cleanup_free char *bytes = xmalloc((size_t)MIN(len, PLACE_PIECE) + 1);
    while (len) {
        size_t n = (size_t)MIN(len, piece);
        struct sink_memory memory = {bytes, n};
        if (place_read(p, name, st, off, n, sink_to_memory, &memory, e))
            return -1;
        if (sink(user, bytes, n))
            return err_sys(e, ECANCELED, "%s", p->said);
        off += n;
        len -= n;
        piece = PLACE_PIECE;
    }
    return 0;
}

int place_mkdir(struct cli_place *p, const char *name, struct err *e)
{
    if (p->url) {
        struct store *s = store_of(p, name, &name);
        return store_mkdir(s, name, 0, e);
    }
    cleanup_free char *path = path_of(p, name);
    return mkdir(path, 0777) ? err_sys(e, errno, "make directory %s", path) : 0;
}

int place_remove(struct cli_place *p, const char *name, struct err *e)
{
    if (p->url) {
        struct store *s = store_of(p, name, &name);
        return store_remove(s, name, e);
    }
    cleanup_free char *path = path_of(p, name);
    return unlink(path) ? err_sys(e, errno, "remove %s", path) : 0;
}

int place_rmdir(struct cli_place *p, const char *name, struct err *e)
{
    if (p->url) {
        struct store *s = store_of(p, name, &name);
        return store_rmdir(s, name, e);
    }
    cleanup_free char *path = path_of(p, name);
    return rmdir(path) ? err_sys(e, errno, "remove directory %s", path) : 0;
}

char *place_name(const char *said)
{
    const char *rest = strstr(said, "://");
    size_t n = strlen(said);
    while (n > 1 && said[n - 1] == '/')
        n--;
    cleanup_free char *clean = xstrndup(said, n);
    const char *slash = strrchr(clean, '/');
    if (!rest || strncmp(said, "file:", 5) == 0)
        return xstrdup(slash ? slash + 1 : clean);
    return xstrdup(slash && slash >= clean + (rest - said) + 3 ? slash + 1 : "");
}
