/* posix — a directory as a store, file:///dir. Nothing outside of it can be reached, whatever links lie in it: every name is
 * resolved by openat2(RESOLVE_BENEATH) from the directory's own descriptor. Links that stay inside work, others do not exist. */
#include "fuse/store/impl.h"

#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEMP_PREFIX ".millrace-put-" /* not shown in listings */
#define COPY_CHUNK (1u << 20)
#define DEPTH_MAX 200u               /* of a tree: one descriptor a level */

struct posix {
    struct store_params params;
    char *dir;
};

static const struct store_option options[] = {{0}};

static void *posix_open(const struct store_params *p, struct err *e)
{
    if (p->rest[0] != '/') {
        store_err(e, ERR_INVALID, 0, WHY_INVALID_URL, p->url, ": write an absolute path after file://, as in file:///data/set");
        return NULL;
    }
    struct posix *s = xcalloc(1, sizeof *s);
    s->params = *p;
    s->dir = xstrdup(p->rest);
    return s;
}

static void posix_close(void *impl)
{
    struct posix *s = impl;
    free(s->dir);
    free(s);
}

static int fail(const struct posix *s, int errnum, const char *path, const char *action, struct err *e)
{
    char text[128];
    cleanup_free char *what = *path ? xasprintf("%s/%s", s->params.url, path) : xstrdup(s->params.url);
    if (errnum == EXDEV || errnum == ELOOP) /* a link that leads out of the directory */
        return store_err(e, ERR_DENIED, EACCES, WHY_ACCESS_DENIED, what, ": a symbolic link in it leads out of %s", s->dir);
    enum err_class cls = err_class_of_errno(errnum);
    enum store_why why = cls == ERR_NOTFOUND ? WHY_NOT_FOUND : cls == ERR_DENIED && errnum != EROFS ? WHY_ACCESS_DENIED : WHY_STORE_ERROR;
    return store_err(e, cls, errnum, why, what, ": %s: %s", action, strerror_r(errnum, text, sizeof text));
}

static int open_beneath(int root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd;
    do {
        fd = syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN)); /* EAGAIN: a rename raced with the walk */
    return (int)fd;
}

/* Opened anew for each call, so that a directory that is mounted or made later is found. */
static int open_root(const struct posix *s, struct err *e)
{
    int fd = open(s->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fail(s, errno, "", "open the directory", e);
    return fd;
}

static int open_path(const struct posix *s, const char *path, uint64_t flags, const char *action, struct err *e)
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
    snprintf(out->version, sizeof out->version, "%lld-%lld-%llu", (long long)st->st_size, (long long)out->mtime_ns,
        (unsigned long long)st->st_ino);
}

/* A file or a directory; sockets, devices and pipes do not exist. */
static bool shown(const struct stat *st) { return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode); }

static int posix_stat(void *impl, const char *path, struct store_stat *out, struct err *e)
{
    const struct posix *s = impl;
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

static int posix_check(void *impl, struct err *e)
{
    const struct posix *s = impl;
    cleanup_fd int fd = open_path(s, "", O_RDONLY | O_DIRECTORY, "read the directory", e);
    if (fd < 0)
        return -1;
    if (!s->params.mount->read_only && faccessat(fd, ".", W_OK | X_OK, 0))
        return fail(s, errno, "", "write to the directory (set readOnly: true if that is meant)", e);
    return 0;
}

/* -- listings ---------------------------------------------------------------------------------------------------------- */

/* What name in the open directory dir is, links inside followed. -1: nothing that is shown. */
static int stat_entry(int root, int dir, const char *base, const char *name, struct stat *st, bool *is_link)
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

struct walk {
    const struct posix *s;
    int root;
    bool tree;
    size_t skip;         /* bytes of the listed directory's own path and its slash */
    store_list_fn fn;
    void *user;
    bool stopped;
};

static int walk(struct walk *w, const char *base, unsigned depth, struct err *e)
{
    int fd = open_beneath(w->root, base, O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return depth && saved == ENOENT ? 0 : fail(w->s, saved, base, "read the directory", e);
    }
    int rc = 0;
    while (rc == 0 && !w->stopped) {
        errno = 0;
        const struct dirent *de = readdir(d);
        if (!de) {
            rc = errno ? fail(w->s, errno, base, "read the directory", e) : 0;
            break;
        }
        struct stat st;
        bool is_link;
        if (!store_name_ok(de->d_name, strlen(de->d_name)) || strncmp(de->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0 ||
            stat_entry(w->root, fd, base, de->d_name, &st, &is_link))
            continue;
        cleanup_free char *path = *base ? xasprintf("%s/%s", base, de->d_name) : xstrdup(de->d_name);
        if (w->tree && S_ISDIR(st.st_mode)) {
            if (!is_link && depth < DEPTH_MAX) /* a link to a directory may be a loop */
                rc = walk(w, path, depth + 1, e);
            continue;
        }
        struct store_entry entry = {.name = w->tree ? path + w->skip : de->d_name};
        fill_stat(&st, &entry.st);
        w->stopped = w->fn(w->user, &entry) != 0;
    }
    closedir(d);
    return rc;
}

/* One page is all of it: entries are handed over as they are read. */
static int list(const struct posix *s, const char *dir, bool tree, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    free(*cursor);
    *cursor = NULL;
    cleanup_fd int root = open_root(s, e);
    if (root < 0)
        return -1;
    struct walk w = {.s = s, .root = root, .tree = tree, .skip = *dir ? strlen(dir) + 1 : 0, .fn = fn, .user = user};
    return walk(&w, dir, 0, e);
}

static int posix_list(void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return list(impl, dir, false, cursor, fn, user, e);
}

static int posix_list_tree(void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return list(impl, dir, true, cursor, fn, user, e);
}

/* -- bytes ------------------------------------------------------------------------------------------------------------- */

static int check_version(const struct posix *s, int fd, const char *path, const char *version, struct store_stat *now, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return fail(s, errno, path, "stat", e);
    if (!S_ISREG(st.st_mode))
        return fail(s, S_ISDIR(st.st_mode) ? EISDIR : ENOENT, path, "read", e);
    fill_stat(&st, now);
    if (!*version || strcmp(version, now->version) == 0)
        return 0;
    cleanup_free char *what = xasprintf("%s/%s", s->params.url, path);
    return store_err(e, ERR_CONFLICT, ESTALE, WHY_STORE_ERROR, what, ": the file has changed (version %s, was %s)", now->version,
        version);
}

static int posix_read(void *impl, const char *path, const char *version, uint64_t off, size_t len, void *buf,
    const atomic_bool *cancel, struct err *e)
{
    const struct posix *s = impl;
    cleanup_fd int fd = open_path(s, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, "open", e);
    struct store_stat before, after;
    if (fd < 0 || check_version(s, fd, path, version, &before, e))
        return -1;
    for (size_t got = 0; got < len;) {
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
            return store_err(e, ERR_RETRY, ECANCELED, WHY_STORE_ERROR, s->params.url, ": cancelled");
        ssize_t n = pread(fd, (char *)buf + got, MIN(len - got, 8u << 20), (off_t)(off + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(s, errno, path, "read", e);
        if (n == 0) {
            cleanup_free char *what = xasprintf("%s/%s", s->params.url, path);
            return store_err(e, ERR_INVALID, EINVAL, WHY_STORE_ERROR, what, ": read up to %llu, but the file ends at %llu",
                (unsigned long long)(off + len), (unsigned long long)before.size);
        }
        got += (size_t)n;
    }
    return check_version(s, fd, path, before.version, &after, e); /* written to while we read: the bytes may be of both */
}

/* -- changes ----------------------------------------------------------------------------------------------------------- */

/* The directory that path is in; *name points at its last component. */
static int open_parent(const struct posix *s, const char *path, const char **name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
    *name = slash ? slash + 1 : path;
    return open_path(s, parent, O_RDONLY | O_DIRECTORY, "open the directory", e);
}

static int copy_all(int out, int in, uint64_t len)
{
    off_t at = 0;
    while ((uint64_t)at < len) {
        ssize_t n = copy_file_range(in, &at, out, NULL, MIN(len - (uint64_t)at, 1u << 30), 0);
        if (n > 0)
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP && errno != EBADF)
            return -1;
        break; /* not between these file systems */
    }
    cleanup_free char *chunk = (uint64_t)at < len ? malloc(COPY_CHUNK) : NULL;
    if (!chunk && (uint64_t)at < len)
        return -1;
    while ((uint64_t)at < len) {
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

/* A file without a name ("") where the file system has such: if we are killed while it is written, nothing is left behind. */
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

static int posix_put(void *impl, const char *path, int fd, uint64_t len, struct store_stat *out, struct err *e)
{
    const struct posix *s = impl;
    const char *name;
    char temp[64];
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    cleanup_fd int to = create_temp(dir, temp);
    if (to < 0)
        return fail(s, errno, path, "create", e);
    struct stat st;
    if (copy_all(to, fd, len) || fsync(to) || fstat(to, &st) || name_temp(dir, to, temp) || renameat(dir, temp, dir, name)) {
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

static int posix_remove(void *impl, const char *path, struct err *e)
{
    const struct posix *s = impl;
    const char *name;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    return unlinkat(dir, name, 0) ? fail(s, errno, path, "remove", e) : 0;
}

static int posix_mkdir(void *impl, const char *path, struct err *e)
{
    const struct posix *s = impl;
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

static int posix_rmdir(void *impl, const char *path, struct err *e)
{
    const struct posix *s = impl;
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

static int posix_rename(void *impl, const char *from, const char *to, struct store_stat *out, struct err *e)
{
    const struct posix *s = impl;
    const char *from_name, *to_name;
    cleanup_fd int from_dir = open_parent(s, from, &from_name, e);
    cleanup_fd int to_dir = from_dir < 0 ? -1 : open_parent(s, to, &to_name, e);
    if (to_dir < 0)
        return -1;
    if (renameat(from_dir, from_name, to_dir, to_name))
        return fail(s, errno, from, "rename", e);
    return posix_stat(impl, to, out, e);
}

const struct store_ops store_posix = {
    .scheme = "file",
    .url_help = "file:///directory",
    .options = options,
    .caps = STORE_CAP_WRITE | STORE_CAP_RENAME_FILE | STORE_CAP_RENAME_DIR | STORE_CAP_DIRS,
    .open = posix_open,
    .close = posix_close,
    .check = posix_check,
    .stat_path = posix_stat,
    .list = posix_list,
    .list_tree = posix_list_tree,
    .read = posix_read,
    .put = posix_put,
    .remove = posix_remove,
    .mkdir = posix_mkdir,
    .rmdir = posix_rmdir,
    .rename = posix_rename,
};
