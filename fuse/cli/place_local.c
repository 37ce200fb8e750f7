/* SPDX-License-Identifier: Apache-2.0 */
/* Places that are paths: files and directories of this machine, of a mount or not. */
#include "fuse/cli/place.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PIECE     (1u << 20)
#define DEPTH_MAX 1000 /* of a tree: each level holds a directory open */

static void entry_of(const char *name, const struct stat *st, struct place_entry *out)
{
    *out = (struct place_entry){.name = name,
        .st = {.is_dir = S_ISDIR(st->st_mode),
            .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
            .mtime_ns = clock_of_timespec(st->st_mtim)},
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .other = !S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode)};
    if (S_ISREG(st->st_mode))
        snprintf(out->st.version, sizeof out->st.version, "%jd-%" PRId64, (intmax_t)st->st_size,
            out->st.mtime_ns);
}

/* For what is typed wrong. */
static int local_missing(const char *said, struct err *e)
{
    const char *colon = strchr(said, ':');
    if (colon && colon[1] == '/' && said[0] != '/' && said[0] != '.')
        return err_set(e, ERR_NOTFOUND,
            "%s: there is no such file; if a store is meant, write its URL with two slashes, as in "
            "%.*s://%s",
            said, (int)(colon - said), said, colon + 1 + strspn(colon + 1, "/"));
    if (said[0] != '/' && said[0] != '.')
        return err_set(e, ERR_NOTFOUND,
            "%s: there is no such file; if a store is meant, write its URL with a scheme, as in "
            "s3://%s",
            said, said);
    return err_sys(e, ENOENT, "%s", said);
}

/* The client's words come after the time. */
int local_failed(const char *path, int errnum, struct err *e)
{
    char text[sizeof e->msg] = "";
    const char *why = NULL;
    if (errnum == EIO && getxattr(path, XATTR_ERROR, text, sizeof text - 1) > 0)
        why = strchr(text, ' ');
    if (errnum == ENOENT)
        return local_missing(path, e);
    if (errnum == ENOTCONN)
        return err_set(e, ERR_NOTFOUND,
            "%s: the file system there is not served any more; millrace umount unmounts it", path);
    return why ? err_set(e, ERR_RETRY, "%s:%s", path, why) : err_sys(e, errnum, "%s", path);
}

int local_stat(const char *path, const char *name, struct place_entry *out, struct err *e)
{
    struct stat st;
    *out = (struct place_entry){.name = name};
    if (stat(path, &st))
        return local_failed(path, errno, e);
    entry_of(name, &st, out);
    return 0;
}

/* -- lists ----------------------------------------------------------------------------------- */

struct local_walk {
    place_fn fn;
    place_error_fn failed; /* NULL: of one directory only */
    void *user;
    int depth;
    bool stop;
};

/* fd is taken over. name: of the directory, relative to where it began; path: for errors. */
static int walk_dir(
    struct local_walk *w, int fd, const char *name, const char *path, struct err *e);

static void walk_below(
    struct local_walk *w, int at, const char *leaf, const char *name, const char *path)
{
    cleanup_free char *sub = path_join(path, leaf);
    struct err e = ERR_INIT;
    int fd = openat(at, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = 0;
    if (fd < 0 && errno != ENOENT) /* else it is gone since it was listed */
        rc = local_failed(sub, errno, &e);
    else if (fd >= 0 && w->depth >= DEPTH_MAX)
        close(fd), rc = err_set(&e, ERR_INVALID, "%s: too deep", sub);
    else if (fd >= 0)
        rc = walk_dir(w, fd, name, sub, &e);
    if (rc)
        w->failed(w->user, &e);
}

static int walk_dir(struct local_walk *w, int fd, const char *name, const char *path, struct err *e)
{
    DIR *d = fdopendir(fd);
    struct stat st;
    struct place_entry entry;
    int rc = 0;
    if (!d) {
        close(fd);
        return err_sys(e, errno, "%s", path);
    }
    w->depth++;
    errno = 0;
    for (struct dirent *de; !w->stop && (de = readdir(d)); errno = 0) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0
            || fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        cleanup_free char *full = *name ? path_join(name, de->d_name) : xstrdup(de->d_name);
        entry_of(full, &st, &entry);
        w->stop = w->fn(w->user, &entry) != 0;
        if (w->failed && entry.st.is_dir && !w->stop)
            walk_below(w, dirfd(d), de->d_name, full, path);
    }
    if (!w->stop && errno)
        rc = local_failed(path, errno, e);
    closedir(d);
    w->depth--;
    return rc;
}

int local_list(const char *path, place_fn fn, place_error_fn failed, void *user, struct err *e)
{
    struct local_walk w = {.fn = fn, .failed = failed, .user = user};
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? local_failed(path, errno, e) : walk_dir(&w, fd, "", path, e);
}

/* -- bytes ----------------------------------------------------------------------------------- */

int local_read(const char *path, const struct store_stat *st, uint64_t off, uint64_t len,
    sink_fn sink, void *user, struct err *e)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cleanup_free char *piece = xmalloc(MIN(len, PIECE));
    if (fd < 0)
        return local_failed(path, errno, e);
    (void)st;
    while (len) {
        ssize_t n = io_pread(fd, piece, (size_t)MIN(len, PIECE), off);
        if (n < 0)
            return local_failed(path, errno, e);
        if (n == 0)
            return err_set(e, ERR_CONFLICT, "%s became shorter while it was read", path);
        if (sink(user, piece, (size_t)n))
            return err_sys(e, ECANCELED, "%s", path);
        off += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}
