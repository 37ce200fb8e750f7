/* SPDX-License-Identifier: Apache-2.0 */
/* cp: between a store and local files, or from one store to another by way of this machine. */
#include "fuse/cli/cli.h"

#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE   (8u << 20) /* bytes of one read; up to THREADS at the same time */
#define THREADS 8

/* -- one file down --------------------------------------------------------------------------- */

struct download {
    struct store *store;
    const char *path;
    struct store_stat st;
    int fd;
    atomic_uint_fast64_t next;
    atomic_bool stop;
    pthread_mutex_t mu;
    struct err first; /* mu */
};

static int fetch_piece(struct download *d, char *piece, uint64_t off, struct err *e)
{
    size_t len = (size_t)MIN((uint64_t)PIECE, d->st.size - off);
    struct sink_memory memory = {piece, len};
    if (store_stream_of(d->store, d->path, d->st.version, d->st.size, off, len, sink_to_memory,
            &memory, &d->stop, e))
        return -1;
    return io_pwrite(d->fd, piece, len, off) ? err_sys(e, errno, "write") : 0;
}

static void fetch_pieces(void *user)
{
    struct download *d = user;
    cleanup_free char *piece = xmalloc(MIN(PIECE, d->st.size + 1));
    uint64_t off;
    while (!atomic_load(&d->stop) && (off = atomic_fetch_add(&d->next, PIECE)) < d->st.size) {
        struct err e = ERR_INIT;
        if (fetch_piece(d, piece, off, &e) == 0)
            continue;
        pthread_mutex_lock(&d->mu);
        if (d->first.cls == ERR_NONE)
            d->first = e;
        pthread_mutex_unlock(&d->mu);
        atomic_store(&d->stop, true);
    }
}

static int fetch_fd(struct store *s, const char *path, int fd, struct err *e)
{
    struct download d = {.store = s, .path = path, .fd = fd};
    if (store_stat_path(s, path, &d.st, e))
        return -1;
    if (d.st.is_dir)
        return err_set(
            e, ERR_INVALID, "%s is a directory; --recursive copies it", *path ? path : "this");
    pthread_mutex_init(&d.mu, NULL);
    struct pool *pool = pool_new(&(struct pool_conf){.name = "cp", .threads = THREADS - 1});
    for (unsigned n = 1; pool && n < THREADS && n * (uint64_t)PIECE < d.st.size; n++)
        if (pool_add(pool, 0, fetch_pieces, &d))
            break;
    fetch_pieces(&d); /* this thread works too */
    pool_free(pool);
    pthread_mutex_destroy(&d.mu);
    if (d.first.cls == ERR_NONE)
        return 0;
    *e = d.first;
    return -1;
}

/* Complete or not there at all: written beside it, then renamed. */
static int fetch_to_file(struct store *s, const char *path, const char *local, struct err *e)
{
    cleanup_free char *temp = xasprintf("%s.millrace-XXXXXX", local);
    cleanup_fd int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "create %s", temp);
    mode_t mask = umask(0);
    umask(mask);
    int rc = fetch_fd(s, path, fd, e);
    if (rc == 0 && (fchmod(fd, 0666 & ~mask) || rename(temp, local)))
        rc = err_sys(e, errno, "write %s", local);
    if (rc)
        unlink(temp);
    return rc;
}

/* -- one file up ----------------------------------------------------------------------------- */

static int put_fd(struct store *s, const char *path, int fd, struct err *e)
{
    struct stat st;
    struct store_stat made;
    if (fstat(fd, &st))
        return err_sys(e, errno, "stat");
    return store_put(s, path, &(struct store_put){.fd = fd, .len = (uint64_t)st.st_size}, &made, e);
}

static int put_file(struct store *s, const char *path, const char *local, struct err *e)
{
    cleanup_fd int fd = open(local, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(e, errno, "open %s", local);
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is a directory; --recursive copies it", local);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is not a regular file", local);
    return put_fd(s, path, fd, e);
}

/* -- where to -------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static char *trimmed(const char *text)
{
    size_t n = strlen(text);
    while (n > 1 && text[n - 1] == '/' && (n < 3 || text[n - 2] != '/'))
        n--;
    return xstrndup(text, n);
}

/* As with cp(1): what goes to a directory keeps its name there. A URL that ends in "/" is one. */
static char *destination(const char *src, const char *dst)
{
    struct stat st;
    size_t n = strlen(dst);
    cleanup_free char *from = trimmed(src);
    bool dir = n && dst[n - 1] == '/';
    if (!is_url(dst) && stat(dst, &st) == 0 && S_ISDIR(st.st_mode))
        dir = true;
    const char *rest = is_url(dst) ? strstr(dst, "://") + 3 : NULL;
    if (rest && strncmp(dst, "file:", 5) != 0 && !strchr(rest, '/'))
        dir = true; /* a bucket */
    return dir ? path_join(dst, base_name(from)) : xstrdup(dst);
}

/* -- trees ----------------------------------------------------------------------------------- */

struct tree_copy {
    struct store *from, *to; /* one of them may be NULL: local */
    const char *local;
    bool verbose;
    uint64_t files;
    struct err *e;
};

static int make_parents(struct store *s, const char *path, struct err *e)
{
    if (!(store_caps(s) & STORE_CAP_DIRS))
        return 0;
    cleanup_free char *copy = xstrdup(path);
    for (char *p = strchr(copy, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        struct err inner = ERR_INIT;
        if (store_mkdir(s, copy, 0, &inner) && inner.cls != ERR_EXISTS) {
            *e = inner;
            return -1;
        }
        *p = '/';
    }
    return 0;
}

static int copy_between(
    struct store *from, const char *path, struct store *to, const char *to_path, struct err *e)
{
    cleanup_free char *temp = xstrdup("/var/tmp/millrace-XXXXXX");
    cleanup_fd int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "create %s", temp);
    unlink(temp);
    return fetch_fd(from, path, fd, e) || make_parents(to, to_path, e) ? -1
                                                                       : put_fd(to, to_path, fd, e);
}

static int copy_entry(void *user, const struct store_entry *entry)
{
    struct tree_copy *c = user;
    int rc;
    if (c->to) {
        rc = copy_between(c->from, entry->name, c->to, entry->name, c->e);
    } else {
        cleanup_free char *local = path_join(c->local, entry->name),
                          *dir = xstrndup(local, (size_t)(strrchr(local, '/') - local));
        rc = file_mkdirs(dir, 0777, c->e) || fetch_to_file(c->from, entry->name, local, c->e) ? -1
                                                                                              : 0;
    }
    if (rc)
        return err_wrap(c->e, "%s", entry->name);
    c->files++;
    if (c->verbose)
        cli_put_name(entry->name), puts("");
    return 0;
}

static int copy_tree(struct tree_copy *c)
{
    char *cursor = NULL;
    int rc;
    do {
        rc = store_list_tree(c->from, "", &cursor, copy_entry, c, c->e);
    } while (rc == 0 && cursor && c->e->cls == ERR_NONE);
    free(cursor);
    return rc || c->e->cls != ERR_NONE ? -1 : 0;
}

static struct tree_copy *walking; /* nftw() takes no user pointer; the CLI walks once */

static int send_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    const char *name = path + strlen(walking->local);
    while (*name == '/')
        name++;
    if (type == FTW_DNR || type == FTW_NS)
        return err_sys(walking->e, errno, "read %s", path);
    if (type != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    if (make_parents(walking->to, name, walking->e)
        || put_file(walking->to, name, path, walking->e))
        return -1;
    walking->files++;
    if (walking->verbose)
        cli_put_name(name), puts("");
    return 0;
}

static int send_tree(struct tree_copy *c)
{
    walking = c;
    int rc = nftw(c->local, send_entry, 32, FTW_PHYS);
    if (rc && c->e->cls == ERR_NONE)
        err_sys(c->e, errno, "read %s", c->local);
    return rc ? -1 : 0;
}

/* A directory of the local machine that a file:// URL names must be there before it can be a
 * store's root. */
static int prepare_root(const char *url, struct err *e)
{
    return strncmp(url, "file://", 7) == 0 ? file_mkdirs(url + 7, 0777, e) : 0;
}

static int copy_recursive(
    const struct args *a, const char *src, const char *dst, bool verbose, struct err *e)
{
    cleanup_target struct target from = {0}, to = {0};
    struct tree_copy c = {.verbose = verbose, .e = e};
    if (is_url(src) && target_open(&from, a, src, true, true, e))
        return -1;
    if (is_url(src) && store_check(from.store, e))
        return -1;
    if (is_url(dst) && (prepare_root(dst, e) || target_open(&to, a, dst, true, false, e)))
        return -1;
    c.from = from.store;
    c.to = to.store;
    c.local = is_url(src) ? dst : src;
    int rc = c.from ? copy_tree(&c) : send_tree(&c);
    fprintf(stderr, "%" PRIu64 " files copied\n", c.files);
    return rc;
}

static int copy_one(const struct args *a, const char *src, const char *dst, struct err *e)
{
    cleanup_target struct target from = {0}, to = {0};
    if ((is_url(src) && target_open(&from, a, src, false, false, e))
        || (is_url(dst) && target_open(&to, a, dst, false, false, e)))
        return -1;
    if (from.store && to.store)
        return copy_between(from.store, from.path, to.store, to.path, e);
    return from.store ? fetch_to_file(from.store, from.path, dst, e)
                      : put_file(to.store, to.path, src, e);
}

int verb_cp(const struct verb *v, int argc, char **argv)
{
    bool recursive = false, verbose = false;
    const struct opt table[] = {
        {"recursive", OPT_BOOL, &recursive, NULL, "copy all files below a directory (-r)"},
        {"verbose", OPT_BOOL, &verbose, NULL, "print each file's name"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    if (!is_url(a.pos[0]) && !is_url(a.pos[1]))
        return cli_misuse("cp: one of the two must be a URL, like s3://bucket/key");
    struct err e = ERR_INIT;
    cleanup_free char *dst = recursive ? xstrdup(a.pos[1]) : destination(a.pos[0], a.pos[1]);
    rc = recursive ? copy_recursive(&a, a.pos[0], dst, verbose, &e)
                   : copy_one(&a, a.pos[0], dst, &e);
    return rc ? cli_failed(&e) : CLI_DONE;
}
