/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/copy.h"

#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE       (8u << 20) /* bytes of one read */
#define PIECES_MAX  8          /* of one file at the same time */
#define HELPERS_MAX 12         /* that all files have, beside a thread for each */
#define FILES_MAX   8          /* at the same time */
#define QUEUE_MAX   64

static atomic_int helpers = HELPERS_MAX; /* to be had still */

/* -- Ctrl-C ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted; /* the signal */
static atomic_bool transfers_end;         /* then */

static void on_interrupt(int sig)
{
    interrupted = sig;
    atomic_store(&transfers_end, true);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

/* The first one ends it: what is half is removed. A second one kills, as ever; one that is ignored
 * (nohup) stays so. SIGPIPE may be a server's that closes a connection: whoever prints looks. */
void copy_catch_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct sigaction sa = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND | SA_RESTART},
                         before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    }
}

const atomic_bool *copy_cancel(void) { return &transfers_end; }

bool copy_interrupted(void) { return interrupted != 0; }

void copy_end_by_signal(void)
{
    if (!interrupted)
        return;
    fflush(NULL);
    signal(interrupted, SIG_DFL);
    raise(interrupted);
}

void copy_release_signals(void)
{
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_interrupt)
            signal(signals[i], SIG_DFL);
    }
    copy_end_by_signal();
}

void copy_failed(struct progress *progress, const struct err *e)
{
    if (interrupted == SIGPIPE) {
        progress_hide(progress);
        copy_end_by_signal();
    }
    progress_failed(progress, e);
}

static int err_interrupted(struct err *e)
{
    return err_set(e, ERR_RETRY, "interrupted: what was copied by half is removed");
}

/* -- one file into a descriptor -------------------------------------------------------------- */

struct copy_pieces {
    struct cli_place *src;
    const char *name;
    struct store_stat st;
    int fd;
    struct progress *progress;
    atomic_uint_fast64_t next;
    atomic_bool stop;
    pthread_mutex_t mu;
    struct err first; /* mu */
};

static int copy_piece(struct copy_pieces *c, char *piece, uint64_t off, struct err *e)
{
    size_t len = (size_t)MIN((uint64_t)PIECE, c->st.size - off);
    struct sink_memory memory = {piece, len};
    if (place_read(c->src, c->name, &c->st, off, len, sink_to_memory, &memory, e))
        return -1;
    if (io_pwrite(c->fd, piece, len, off))
        return err_sys(e, errno, "write");
    progress_add(c->progress, 0, len);
    return 0;
}

static void copy_pieces_run(void *user)
{
    struct copy_pieces *c = user;
    cleanup_free char *piece = xmalloc((size_t)MIN(PIECE, c->st.size + 1));
    uint64_t off;
    while (!atomic_load(&c->stop) && (off = atomic_fetch_add(&c->next, PIECE)) < c->st.size) {
        struct err e = ERR_INIT;
        if (!interrupted && copy_piece(c, piece, off, &e) == 0)
            continue;
        if (interrupted)
            err_interrupted(&e);
        pthread_mutex_lock(&c->mu);
        if (c->first.cls == ERR_NONE)
            c->first = e;
        pthread_mutex_unlock(&c->mu);
        atomic_store(&c->stop, true);
    }
}

static int take_helpers(uint64_t size)
{
    int want = (int)MIN(size / PIECE, (uint64_t)PIECES_MAX - 1), got = 0;
    for (; got < want; got++)
        if (atomic_fetch_sub(&helpers, 1) <= 0) {
            atomic_fetch_add(&helpers, 1);
            break;
        }
    return got;
}

static int copy_to_fd(struct cli_place *src, const char *name, const struct store_stat *st, int fd,
    struct progress *progress, struct err *e)
{
    struct copy_pieces c = {.src = src, .name = name, .st = *st, .fd = fd, .progress = progress};
    int n = take_helpers(st->size);
    struct pool *pool = n ? pool_new(&(struct pool_conf){.name = "cp", .threads = (unsigned)n})
                          : NULL;
    pthread_mutex_init(&c.mu, NULL);
    for (int i = 0; pool && i < n; i++)
        if (pool_add(pool, 0, copy_pieces_run, &c))
            break;
    copy_pieces_run(&c); /* this thread works too */
    pool_free(pool);
    atomic_fetch_add(&helpers, n);
    pthread_mutex_destroy(&c.mu);
    if (c.first.cls == ERR_NONE)
        return 0;
    *e = c.first;
    return -1;
}

/* -- one file to where it belongs ------------------------------------------------------------ */

/* An object may have a name that others use as a directory; a file may not. */
static int copy_clash(const char *path, int errnum, struct err *e)
{
    struct stat st;
    if ((errnum == EISDIR || errnum == EEXIST || errnum == ENOTEMPTY) && stat(path, &st) == 0
        && S_ISDIR(st.st_mode))
        return err_set(e, ERR_EXISTS,
            "%s is a directory here: what is a file and a directory at once in the store cannot be "
            "both on a disk: the file is not copied",
            path);
    return err_sys(e, errnum, "write %s", path);
}

struct copy_dest {
    char *path, *temp; /* owned */
    bool there;
    mode_t mode;
};

static void copy_dest_free(struct copy_dest *d)
{
    free(d->path);
    free(d->temp);
}

/* Where the bytes go to, and the name beside it that they have until they are all there. */
static int copy_dest_find(struct copy_dest *d, const char *said, struct err *e)
{
    uint64_t any;
    struct stat st;
    bool link = lstat(said, &st) == 0 && S_ISLNK(st.st_mode);
    d->path = link ? realpath(said, NULL) : xstrdup(said);
    if (!d->path)
        return err_sys(e, errno, "%s is a symbolic link that leads nowhere", said);
    d->there = stat(d->path, &st) == 0;
    if (d->there && S_ISDIR(st.st_mode))
        return copy_clash(d->path, EISDIR, e);
    if (d->there && !S_ISREG(st.st_mode))
        return err_set(
            e, ERR_INVALID, "%s is neither a file nor a directory: nothing is copied there", said);
    if (getrandom(&any, sizeof any, 0) != sizeof any)
        return err_sys(e, errno, "random bytes");
    const char *slash = strrchr(d->path, '/');
    d->temp = xasprintf(
        "%.*s.millrace-cp-%016" PRIx64, slash ? (int)(slash + 1 - d->path) : 0, d->path, any);
    d->mode = d->there ? st.st_mode & 0777 : 0666;
    return 0;
}

/* All of it or what was there before: written beside it, then renamed. A mount saves a file in the
 * store when it is closed. One that is not there yet takes a free name without a copy in the store,
 * so that comes first; what replaces a file has to be there before. O_EXCL would make an empty one
 * there at once. */
static int copy_to_local(struct cli_place *src, const char *name, const struct store_stat *st,
    const char *said, struct progress *progress, struct err *e)
{
    __attribute__((cleanup(copy_dest_free))) struct copy_dest d = {0};
    if (copy_dest_find(&d, said, e))
        return -1;
    int fd = open(d.temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, d.mode);
    if (fd < 0)
        return err_sys(e, errno, "create %s", said);
    int rc = copy_to_fd(src, name, st, fd, progress, e);
    if (rc == 0 && interrupted)
        rc = err_interrupted(e);
    if (rc == 0 && d.there && fsync(fd)) {
        rc = local_failed(d.temp, errno, e);
        err_wrap(e, "%s", said);
    }
    if (rc == 0 && rename(d.temp, d.path))
        rc = copy_clash(d.path, errno, e);
    if (rc)
        unlink(d.temp);
    if (close(fd) && rc == 0)
        rc = local_failed(said, errno, e);
    return rc;
}

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

static int copy_to_store(struct cli_place *src, const char *name, const struct store_stat *st,
    struct store *to, const char *path, struct progress *progress, struct err *e)
{
    cleanup_free char *temp = xstrdup("/var/tmp/millrace-XXXXXX");
    cleanup_free char *local = *name ? path_join(src->said, name) : xstrdup(src->said);
    cleanup_fd int fd = src->url ? mkostemp(temp, O_CLOEXEC) : open(local, O_RDONLY | O_CLOEXEC);
    struct store_stat made;
    if (fd < 0)
        return err_sys(e, errno, "open %s", src->url ? temp : local);
    if (src->url)
        unlink(temp);
    if (src->url && copy_to_fd(src, name, st, fd, progress, e))
        return -1;
    if (interrupted)
        return err_interrupted(e);
    if (make_parents(to, path, e)
        || store_put(to, path,
            &(struct store_put){.fd = fd, .len = st->size, .cancel = &transfers_end}, &made, e))
        return interrupted ? err_interrupted(e) : -1;
    if (!src->url)
        progress_add(progress, 0, st->size);
    return 0;
}

int copy_one(struct cli_place *src, const struct place_entry *file, struct cli_place *dst,
    struct progress *progress, struct err *e)
{
    if (file->other)
        return err_set(e, ERR_INVALID, "%s is not a regular file", src->said);
    progress_found(progress, 1, file->st.size);
    progress_found_all(progress);
    int rc = dst->url ? copy_to_store(src, "", &file->st, dst->at.store, dst->at.path, progress, e)
                      : copy_to_local(src, "", &file->st, dst->said, progress, e);
    if (rc == 0)
        progress_add(progress, 1, 0);
    return rc;
}

/* -- trees ----------------------------------------------------------------------------------- */

struct tree_copy {
    struct cli_place *src, *dst;
    struct progress *progress;
    bool verbose;
    struct map *found; /* may be NULL */
    struct pool *pool;
};

struct tree_job {
    struct tree_copy *copy;
    char *name; /* owned */
    struct store_stat st;
};

static int copy_into_dir(
    struct tree_copy *c, const char *name, const struct store_stat *st, struct err *e)
{
    cleanup_free char *path = path_join(c->dst->said, name),
                      *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    struct err inner = ERR_INIT;
    struct stat there;
    if (file_mkdirs(dir, 0777, &inner)) {
        bool file = stat(dir, &there) == 0 ? !S_ISDIR(there.st_mode) : errno == ENOTDIR;
        *e = inner;
        return file
            ? err_set(e, ERR_EXISTS,
                "%s: a file is where it needs a directory: what is a file and a directory at once in "
                "the store cannot be both on a disk",
                path)
            : -1;
    }
    return copy_to_local(c->src, name, st, path, c->progress, e);
}

static void tree_job_run(void *arg)
{
    struct tree_job *j = arg;
    struct tree_copy *c = j->copy;
    struct err e = ERR_INIT;
    int rc = interrupted ? -1
        : c->dst->url
        ? copy_to_store(c->src, j->name, &j->st, c->dst->inside.store, j->name, c->progress, &e)
        : copy_into_dir(c, j->name, &j->st, &e);
    if (rc && !interrupted) {
        if (!strstr(e.msg, j->name))
            err_wrap(&e, "%s", j->name);
        progress_failed(c->progress, &e);
    } else if (rc == 0) {
        progress_add(c->progress, 1, 0);
    }
    if (rc == 0 && c->verbose) {
        progress_hide(c->progress);
        flockfile(stdout);
        cli_put_name(j->name), puts("");
        if (fflush(stdout) && errno == EPIPE)
            on_interrupt(SIGPIPE);
        funlockfile(stdout);
    }
    free(j->name);
    free(j);
}

static int tree_found(void *user, const struct place_entry *entry)
{
    struct tree_copy *c = user;
    if (interrupted || entry->st.is_dir)
        return interrupted != 0;
    if (entry->other) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_INVALID, "%s: left out, as it is no regular file", entry->name);
        progress_failed(c->progress, &e);
        return 0;
    }
    if (c->found)
        map_put(c->found, entry->name, xstrdup(entry->st.version));
    struct tree_job *j = xcalloc(1, sizeof *j);
    *j = (struct tree_job){c, xstrdup(entry->name), entry->st};
    progress_found(c->progress, 1, entry->st.size);
    if (pool_add(c->pool, 0, tree_job_run, j))
        tree_job_run(j);
    return 0;
}

static void tree_unreadable(void *user, const struct err *e)
{
    struct tree_copy *c = user;
    progress_failed(c->progress, e);
}

int copy_tree(struct cli_place *src, struct cli_place *dst, bool verbose, struct map *found,
    struct progress *progress, struct err *e)
{
    struct tree_copy c = {
        .src = src, .dst = dst, .progress = progress, .verbose = verbose, .found = found};
    if (place_make_root(dst, e))
        return -1;
    c.pool = pool_new(
        &(struct pool_conf){.name = "cp", .threads = FILES_MAX, .queue_max = QUEUE_MAX});
    if (!c.pool)
        return err_set(e, ERR_EXHAUSTED, "no memory for threads");
    int rc = place_walk(src, tree_found, tree_unreadable, &c, e);
    progress_found_all(progress);
    pool_free(c.pool);
    return interrupted ? err_interrupted(e) : rc;
}

/* -- where to -------------------------------------------------------------------------------- */

/* Is one what the other is, or below it? Both without slashes at their end. */
static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    return strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/');
}

/* As far as it is there; caller frees. */
static char *real_path(const char *said)
{
    cleanup_free char *copy = xstrdup(said);
    for (char *real;;) {
        if ((real = realpath(*copy ? copy : "/", NULL))) {
            char *whole = xasprintf("%s%s", real, said + strlen(copy));
            free(real);
            return whole;
        }
        char *slash = strrchr(copy, '/');
        if (!slash)
            return xstrdup(said);
        *slash = '\0';
    }
}

int copy_check(const struct cli_place *src, const struct cli_place *dst, bool tree, struct err *e)
{
    if (src->url != dst->url)
        return 0;
    cleanup_free char *from = src->url ? xstrdup(src->said) : real_path(src->said),
                      *to = dst->url ? xstrdup(dst->said) : real_path(dst->said);
    if (tree ? is_below(to, from) : strcmp(from, to) == 0)
        return err_set(e, ERR_INVALID, "%s and %s: %s", src->said, dst->said,
            tree && strcmp(from, to) != 0 ? "a directory is not copied into itself"
                                          : "that is one and the same");
    return 0;
}

char *copy_destination(const struct args *a, const char *src, const char *dst)
{
    size_t n = strlen(dst);
    cleanup_free char *name = place_name(src);
    struct place_entry there;
    struct err none = ERR_INIT;
    cleanup_place struct cli_place p = {0};
    bool dir = n && dst[n - 1] == '/';
    if (!dir && place_open(&p, a, dst, true, &none) == 0)
        dir = (p.url && !*p.at.path) || (place_stat(&p, &there, &none) == 0 && there.st.is_dir);
    return dir && *name ? path_join(dst, name) : xstrdup(dst);
}
