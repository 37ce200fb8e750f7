/* SPDX-License-Identifier: Apache-2.0 */
/* The plain calls on a directory, each of which takes as long as the file system of that directory
 * does. */
#include "fuse/store/posix.h"

#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEMP_PREFIX ".millrace-put-" /* not shown in listings */
#define PIECE       (256u << 10)     /* of a read: stays in the processor until the sink has it */
#define COPY_CHUNK  (1u << 20)
#define COPY_STEP   (64u << 20) /* of copies that the file system makes */
#define DEPTH_MAX   200u        /* of a tree: one descriptor a level */

static int fail(
    const struct posix_dir *s, int errnum, const char *path, const char *action, struct err *e)
{
    char text[128];
    cleanup_free char *what = *path ? xasprintf("%s/%s", s->url, path) : xstrdup(s->url);
    if (errnum == EXDEV || errnum == ELOOP) /* a link that leads out of the directory */
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, what,
            ": a symbolic link in it leads out of %s", s->dir);
    enum err_class cls = err_class_of_errno(errnum);
    enum reason reason = cls == ERR_NOTFOUND   ? REASON_NOT_FOUND
        : cls == ERR_DENIED && errnum != EROFS ? REASON_ACCESS_DENIED
                                               : REASON_STORE_ERROR;
    return store_err(
        e, cls, errnum, reason, what, ": %s: %s", action, strerror_r(errnum, text, sizeof text));
}

static int open_beneath(int root, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd;
    do {
        fd = syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
        /* EAGAIN: a rename raced with the walk */
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    return (int)fd;
}

/* Opened anew for each call, so that a directory that is mounted or made later is found. */
static int open_root(const struct posix_dir *s, struct err *e)
{
    int fd = open(s->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fail(s, errno, "", "open the directory", e);
    return fd;
}

static int open_path(
    const struct posix_dir *s, const char *path, uint64_t flags, const char *action, struct err *e)
{
    cleanup_fd int root = open_root(s, e);
    if (root < 0)
        return -1;
    int fd = open_beneath(root, path, flags);
    if (fd < 0)
        fail(s, errno, path, action, e);
    return fd;
}

static void fill_stat(const struct stat *st, struct store_stat *out)
{
    *out = (struct store_stat){.is_dir = S_ISDIR(st->st_mode)};
    out->mtime_ns = st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
    if (out->is_dir)
        return;
    out->size = (uint64_t)st->st_size;
    snprintf(out->version, sizeof out->version, "%lld-%lld-%llu", (long long)st->st_size,
        (long long)out->mtime_ns, (unsigned long long)st->st_ino);
}

/* A file or a directory; sockets, devices and pipes do not exist. */
static bool shown(const struct stat *st) { return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode); }

int posix_dir_stat(
    const struct posix_dir *s, const char *path, struct store_stat *out, struct err *e)
{
    cleanup_fd int fd = open_path(s, path, O_PATH, "stat", e);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st))
        return fail(s, errno, path, "stat", e);
    if (!shown(&st))
        return fail(s, ENOENT, path, "it is neither a file nor a directory", e);
    fill_stat(&st, out);
    return 0;
}

int posix_dir_check(const struct posix_dir *s, struct err *e)
{
    cleanup_fd int fd = open_path(s, "", O_RDONLY | O_DIRECTORY, "read the directory", e);
    if (fd < 0)
        return -1;
    if (!s->read_only && faccessat(fd, ".", W_OK | X_OK, 0))
        return fail(
            s, errno, "", "write to the directory (set readOnly: true if that is meant)", e);
    return 0;
}

/* Of disks and memory of this machine, and what only arranges such. */
static const uint32_t local_types[] = {
    EXT4_SUPER_MAGIC,
    XFS_SUPER_MAGIC,
    BTRFS_SUPER_MAGIC,
    TMPFS_MAGIC,
    RAMFS_MAGIC,
    OVERLAYFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC,
    EROFS_SUPER_MAGIC_V1,
    SQUASHFS_MAGIC,
    ISOFS_SUPER_MAGIC,
    UDF_SUPER_MAGIC,
    MSDOS_SUPER_MAGIC,
    EXFAT_SUPER_MAGIC,
    NILFS_SUPER_MAGIC,
    REISERFS_SUPER_MAGIC,
    HUGETLBFS_MAGIC,
    0x7366746e /* ntfs3 */,
    0x3153464a /* jfs */,
    0x2fc12fc1 /* zfs */,
    0xca451a4e /* bcachefs */,
};

bool posix_dir_is_local(const struct posix_dir *s)
{
    struct statfs st;
    if (statfs(s->dir, &st))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(local_types); i++)
        if ((uint32_t)st.f_type == local_types[i])
            return true;
    return false;
}

/* -- listings -------------------------------------------------------------------------------- */

/* What name in the open directory dir is, links inside followed. -1: nothing that is shown. */
static int stat_entry(
    int root, int dir, const char *base, const char *name, struct stat *st, bool *is_link)
{
    if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW))
        return -1;
    *is_link = S_ISLNK(st->st_mode);
    if (*is_link) {
        cleanup_free char *path = *base ? xasprintf("%s/%s", base, name) : xstrdup(name);
        cleanup_fd int fd = open_beneath(root, path, O_PATH);
        if (fd < 0 || fstat(fd, st))
            return -1;
    }
    return shown(st) ? 0 : -1;
}

struct level {
    DIR *d;
    char *path; /* from the root */
};

struct posix_walk {
    int root;
    bool tree;
    size_t skip;          /* bytes of the listed directory's own path and its slash */
    struct level *levels; /* open ones, outermost first; it is at its end when there are none */
    unsigned n, room;
    char *path; /* of the entry that was looked at last */
};

void posix_walk_close(struct posix_walk *w)
{
    if (!w)
        return;
    for (unsigned i = 0; i < w->n; i++) {
        closedir(w->levels[i].d);
        free(w->levels[i].path);
    }
    if (w->root >= 0)
        close(w->root);
    free(w->levels);
    free(w->path);
    free(w);
}

static int enter(const struct posix_dir *s, struct posix_walk *w, const char *path, struct err *e)
{
    int fd = open_beneath(w->root, path, O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return w->n && saved == ENOENT ? 0 : fail(s, saved, path, "read the directory", e);
    }
    if (w->n == w->room)
        w->levels = xrealloc(w->levels, (w->room += 16) * sizeof *w->levels);
    w->levels[w->n++] = (struct level){d, xstrdup(path)};
    return 0;
}

static void leave(struct posix_walk *w)
{
    struct level *l = &w->levels[--w->n];
    closedir(l->d);
    free(l->path);
}

struct posix_walk *posix_walk_open(
    const struct posix_dir *s, const char *path, bool tree, struct err *e)
{
    struct posix_walk *w = xcalloc(1, sizeof *w);
    w->tree = tree;
    w->skip = *path ? strlen(path) + 1 : 0;
    w->root = open_root(s, e);
    if (w->root >= 0 && enter(s, w, path, e) == 0)
        return w;
    posix_walk_close(w);
    return NULL;
}

int posix_walk_next(
    const struct posix_dir *s, struct posix_walk *w, struct store_entry *out, struct err *e)
{
    while (w->n) {
        const struct level *l = &w->levels[w->n - 1];
        errno = 0;
        const struct dirent *de = readdir(l->d);
        if (!de && errno)
            return fail(s, errno, l->path, "read the directory", e);
        if (!de) {
            leave(w);
            continue;
        }
        struct stat st;
        bool is_link;
        if (!store_name_ok(de->d_name, strlen(de->d_name))
            || strncmp(de->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0
            || stat_entry(w->root, dirfd(l->d), l->path, de->d_name, &st, &is_link))
            continue;
        free(w->path);
        w->path = *l->path ? xasprintf("%s/%s", l->path, de->d_name) : xstrdup(de->d_name);
        if (!w->tree || !S_ISDIR(st.st_mode)) {
            out->name = w->tree ? w->path + w->skip : de->d_name;
            fill_stat(&st, &out->st);
            return 1;
        }
        /* a link to a directory may be a loop */
        if (!is_link && w->n <= DEPTH_MAX && enter(s, w, w->path, e))
            return -1;
    }
    return 0;
}

/* -- bytes ----------------------------------------------------------------------------------- */

static int check_version(const struct posix_dir *s, int fd, const char *path, const char *version,
    struct store_stat *now, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return fail(s, errno, path, "stat", e);
    if (!S_ISREG(st.st_mode))
        return fail(s, S_ISDIR(st.st_mode) ? EISDIR : ENOENT, path, "read", e);
    fill_stat(&st, now);
    if (!*version || strcmp(version, now->version) == 0)
        return 0;
    cleanup_free char *what = xasprintf("%s/%s", s->url, path);
    return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
        ": the file has changed (version %s, was %s)", now->version, version);
}

int posix_dir_read(const struct posix_dir *s, const char *path, const char *version, uint64_t off,
    size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    cleanup_free char *piece = xmalloc(MIN(len, (size_t)PIECE));
    cleanup_fd int fd = open_path(s, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, "open", e);
    struct store_stat before, after;
    if (fd < 0 || check_version(s, fd, path, version, &before, e))
        return -1;
    for (size_t got = 0; got < len;) {
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
            return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, s->url, ": cancelled");
        ssize_t n = pread(fd, piece, MIN(len - got, (size_t)PIECE), (off_t)(off + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(s, errno, path, "read", e);
        if (n == 0) {
            cleanup_free char *what = xasprintf("%s/%s", s->url, path);
            return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, what,
                ": read up to %llu, but the file ends at %llu", (unsigned long long)(off + len),
                (unsigned long long)before.size);
        }
        /* written to while we read: the bytes may be of both */
        if (check_version(s, fd, path, before.version, &after, e))
            return -1;
        if (sink(user, piece, (size_t)n))
            return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, s->url, ": cancelled");
        got += (size_t)n;
    }
    return 0;
}

/* -- changes --------------------------------------------------------------------------------- */

/* The directory that path is in; *name points at its last component. */
static int open_parent(
    const struct posix_dir *s, const char *path, const char **name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
    *name = slash ? slash + 1 : path;
    return open_path(s, parent, O_RDONLY | O_DIRECTORY, "open the directory", e);
}

static bool is_cancelled(const atomic_bool *cancel)
{
    if (!cancel || !atomic_load_explicit(cancel, memory_order_relaxed))
        return false;
    errno = ECANCELED;
    return true;
}

static int copy_all(int out, int in, uint64_t len, const atomic_bool *cancel)
{
    off_t at = 0;
    while ((uint64_t)at < len) {
        if (is_cancelled(cancel))
            return -1;
        ssize_t n = copy_file_range(in, &at, out, NULL, MIN(len - (uint64_t)at, COPY_STEP), 0);
        if (n > 0)
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP
            && errno != EBADF)
            return -1;
        break; /* not between these file systems */
    }
    cleanup_free char *chunk = (uint64_t)at < len ? malloc(COPY_CHUNK) : NULL;
    if (!chunk && (uint64_t)at < len)
        return -1;
    while ((uint64_t)at < len) {
        if (is_cancelled(cancel))
            return -1;
        ssize_t n = pread(in, chunk, MIN(len - (uint64_t)at, COPY_CHUNK), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ESTALE; /* shorter than it was */
        if (n <= 0)
            return -1;
        for (ssize_t done = 0; done < n;) {
            ssize_t w = write(out, chunk + done, (size_t)(n - done));
            if (w < 0 && errno != EINTR)
                return -1;
            done += MAX(w, 0);
        }
        at += n;
    }
    return 0;
}

static int random_name(char name[64])
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -1;
    snprintf(name, 64, TEMP_PREFIX "%016llx", (unsigned long long)random);
    return 0;
}

/* A file without a name ("") where the file system has such: if we are killed while it is written,
 * nothing is left behind. */
static int create_temp(int dir, char name[64])
{
    int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    name[0] = '\0';
    for (int tries = 0; fd < 0 && tries < 100; tries++) {
        if (random_name(name))
            return -1;
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

static int name_temp(int dir, int fd, char name[64])
{
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    for (int tries = 0; !*name && tries < 100; tries++) {
        if (random_name(name))
            return -1;
        if (linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0)
            break;
        name[0] = '\0';
        if (errno != EEXIST)
            break;
    }
    return *name ? 0 : -1;
}

int posix_dir_put(const struct posix_dir *s, const char *path, int fd, uint64_t len,
    const atomic_bool *cancel, struct store_stat *out, struct err *e)
{
    const char *name;
    char temp[64];
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    cleanup_fd int to = create_temp(dir, temp);
    if (to < 0)
        return fail(s, errno, path, "create", e);
    struct stat st;
    /* Once it is given up, nothing may appear in the store any more. */
    if (copy_all(to, fd, len, cancel) || fsync(to) || fstat(to, &st) || is_cancelled(cancel)
        || name_temp(dir, to, temp) || is_cancelled(cancel) || renameat(dir, temp, dir, name)) {
        int saved = errno;
        if (*temp)
            unlinkat(dir, temp, 0);
        return fail(s, saved, path, "write", e);
    }
    if (fsync(dir) && errno != EINVAL)
        return fail(s, errno, path, "sync the directory", e);
    fill_stat(&st, out);
    return 0;
}

int posix_dir_remove(const struct posix_dir *s, const char *path, struct err *e)
{
    const char *name;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    return unlinkat(dir, name, 0) ? fail(s, errno, path, "remove", e) : 0;
}

int posix_dir_mkdir(const struct posix_dir *s, const char *path, struct err *e)
{
    const char *name;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    return mkdirat(dir, name, 0777) ? fail(s, errno, path, "make the directory", e) : 0;
}

/* What killed uploads left in a directory that its user thinks empty. */
static void remove_temps(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *de; d && (de = readdir(d));)
        if (strncmp(de->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0)
            unlinkat(dirfd(d), de->d_name, 0);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

int posix_dir_rmdir(const struct posix_dir *s, const char *path, struct err *e)
{
    const char *name;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        remove_temps(dir, name);
    return unlinkat(dir, name, AT_REMOVEDIR) ? fail(s, errno, path, "remove the directory", e) : 0;
}

int posix_dir_rename(const struct posix_dir *s, const char *from, const char *to,
    struct store_stat *out, struct err *e)
{
    const char *from_name, *to_name;
    cleanup_fd int from_dir = open_parent(s, from, &from_name, e);
    cleanup_fd int to_dir = from_dir < 0 ? -1 : open_parent(s, to, &to_name, e);
    if (to_dir < 0)
        return -1;
    if (renameat(from_dir, from_name, to_dir, to_name))
        return fail(s, errno, from, "rename", e);
    return posix_dir_stat(s, to, out, e);
}
