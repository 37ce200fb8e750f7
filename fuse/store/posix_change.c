/* SPDX-License-Identifier: Apache-2.0 */
/* Changes to the directory store: put, remove, directories, rename. */
#include "fuse/store/posix.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MARK_NAME    "user.millrace.made" /* which put made the file */

#define COPY_CHUNK   (1u << 20)
#define COPY_STEP    (64u << 20) /* of copies that the file system makes */

#define LOCK_NS      (5 * NS_PER_S)
#define LOCK_LOOK_NS (NS_PER_MS / 2)

bool posix_is_temp(const char *name)
{
    const size_t prefix = strlen(POSIX_TEMP_PREFIX);
    return strncmp(name, POSIX_TEMP_PREFIX, prefix) == 0 && strlen(name) == prefix + 16
        && strspn(name + prefix, "0123456789abcdef") == 16;
}

/* The directory that path is in; *name points at its last component. */
static int open_parent(
    const struct posix_dir *s, const char *path, const char **name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
    *name = slash ? slash + 1 : path;
    return posix_open_path(s, parent, O_RDONLY | O_DIRECTORY, "open the directory", e);
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
        progress_mark();
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
        progress_mark();
        ssize_t n = io_pread(in, chunk, MIN(len - (uint64_t)at, COPY_CHUNK), (uint64_t)at);
        if (n == 0)
            errno = ESTALE; /* shorter than it was */
        if (n <= 0 || io_write(out, chunk, (size_t)n))
            return -1;
        at += n;
    }
    return 0;
}

/* A file that replaces another one is as open to others as that was. Whose it was only root can
 * keep; set-user-ID bits go, as they do where a file is written to. */
static int keep_mode(int fd, int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return 0;
    if (fchown(fd, st.st_uid, st.st_gid) && errno != EPERM && errno != EINVAL)
        return -1;
    return fchmod(fd, st.st_mode & STORE_MODE_BITS);
}

static int random_name(char name[64])
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -1;
    snprintf(name, 64, POSIX_TEMP_PREFIX "%016llx", (unsigned long long)random);
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

static int fail_expected(
    const struct posix_dir *s, const char *path, const char *expect, struct err *e)
{
    cleanup_free char *what = xasprintf("%s/%s", s->url, path);
    return *expect ? store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
               ": it was changed by somebody else since it was read")
                   : store_err(e, ERR_CONFLICT, EEXIST, REASON_STORE_ERROR, what,
                       ": somebody else has made a file of that name");
}

/* Is that version there? Errors count as another one. */
static bool is_version(int dir, const char *name, const char *expect)
{
    struct stat st;
    struct store_stat now;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
        return false;
    posix_stat_of(&st, &now);
    return posix_same_content(now.version, expect);
}

/* The name temp becomes name if nothing is there. Not all file systems can do that in one step. */
static int name_exclusively(int dir, const char *temp, const char *name)
{
    if (renameat2(dir, temp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return linkat(dir, temp, dir, name, 0) || unlinkat(dir, temp, 0) ? -1 : 0;
}

/* Not all file systems can keep it: then nothing is ever found to be one's own. */
static void set_mark(int fd, uint64_t mark)
{
    if (mark)
        fsetxattr(fd, MARK_NAME, &mark, sizeof mark, 0);
}

/* Was it made by an earlier call with that mark? */
static bool is_marked(int dir, const char *name, uint64_t mark, struct stat *st)
{
    uint64_t has;
    cleanup_fd int fd = mark ? openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                             : -1;
    return fd >= 0 && fgetxattr(fd, MARK_NAME, &has, sizeof has) == sizeof has && has == mark
        && fstat(fd, st) == 0;
}

/* What is of one moment only if no other mount of this machine changes a name in between: each has
 * the directory locked meanwhile. Nobody waits for long for a stopped process or for the lock of
 * another program. */
static int lock_name(int dir, const atomic_bool *cancel)
{
    for (int64_t until = clock_mono_ns() + LOCK_NS; flock(dir, LOCK_EX | LOCK_NB)
         && errno == EWOULDBLOCK && clock_mono_ns() < until && !is_cancelled(cancel);)
        clock_sleep_ns(LOCK_LOOK_NS);
    return is_cancelled(cancel) ? -1 : 0;
}

/* Of two directories, in an order that all have. One that is both is locked once. */
static void lock_names(int a, int b)
{
    struct stat x, y;
    if (fstat(a, &x) || fstat(b, &y))
        return;
    bool same = x.st_dev == y.st_dev && x.st_ino == y.st_ino,
         a_first = x.st_dev != y.st_dev ? x.st_dev < y.st_dev : x.st_ino < y.st_ino;
    lock_name(a_first || same ? a : b, NULL);
    if (!same)
        lock_name(a_first ? b : a, NULL);
}

int posix_dir_put(const struct posix_dir *s, const char *path, const struct store_put *put,
    const atomic_bool *cancel, struct store_stat *out, struct err *e)
{
    const char *name;
    char temp[64];
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    cleanup_fd int to = create_temp(dir, temp);
    if (to < 0)
        return posix_fail(s, errno, path, "create", e);
    struct stat st;
    bool exclusive = put->expect && !*put->expect, other = false;
    set_mark(to, put->mark);
    /* Once it is given up, nothing may appear in the store any more. */
    if (copy_all(to, put->fd, put->len, cancel) || keep_mode(to, dir, name)
        || (posix_attr_put(to, dir, name, put->attr), fsync(to)) || is_cancelled(cancel)
        || name_temp(dir, to, temp) || lock_name(dir, cancel)
        || (other = put->expect && !exclusive && !is_version(dir, name, put->expect))
        || (exclusive ? name_exclusively(dir, temp, name) : renameat(dir, temp, dir, name))) {
        int saved = errno;
        if (*temp)
            unlinkat(dir, temp, 0);
        if (exclusive && saved == EEXIST && is_marked(dir, name, put->mark, &st)
            && S_ISREG(st.st_mode) && st.st_size == 0) {
            posix_stat_of(&st, out);
            return 0;
        }
        return other || (exclusive && saved == EEXIST) ? fail_expected(s, path, put->expect, e)
                                                       : posix_fail(s, saved, path, "write", e);
    }
    flock(dir, LOCK_UN);
    if (fstat(to, &st)) /* after its last change: that of its name */
        return posix_fail(s, errno, path, "stat", e);
    if (fsync(dir) && errno != EINVAL)
        return posix_fail(s, errno, path, "sync the directory", e);
    posix_stat_of(&st, out);
    posix_attr_of(to, &st, out);
    out->attr.has |= put->attr ? put->attr->has & STORE_MTIME : 0;
    return 0;
}

int posix_dir_symlink(const struct posix_dir *s, const char *path, const char *target,
    struct store_stat *out, struct err *e)
{
    const char *name;
    struct stat st;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    if (symlinkat(target, dir, name))
        return errno == EEXIST ? fail_expected(s, path, "", e)
                               : posix_fail(s, errno, path, "make a symbolic link", e);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return posix_fail(s, errno, path, "stat", e);
    if (fsync(dir) && errno != EINVAL)
        return posix_fail(s, errno, path, "sync the directory", e);
    posix_stat_of(&st, out);
    return 0;
}

/* Calls change with the directory that path is in and its last component. */
static int change_name(const struct posix_dir *s, const char *path,
    int (*change)(int dir, const char *name), const char *action, struct err *e)
{
    const char *name;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    return change(dir, name) ? posix_fail(s, errno, path, action, e) : 0;
}

static int remove_name(int dir, const char *name) { return unlinkat(dir, name, 0); }

int posix_dir_remove(const struct posix_dir *s, const char *path, struct err *e)
{
    return change_name(s, path, remove_name, "remove", e);
}

static int open_made(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A directory that has its mark when others first see it. -1: errno; *cannot: by this file system,
 * in which nothing has changed. */
static int make_marked(int dir, const char *name, uint64_t mark, bool *cannot)
{
    char temp[64];
    int errnum = EEXIST;
    for (int tries = 0; errnum == EEXIST && tries < 100; tries++)
        errnum = random_name(temp) || mkdirat(dir, temp, 0777) ? errno : 0;
    if (errnum == 0) {
        cleanup_fd int made = open_made(dir, temp);
        if (made >= 0)
            set_mark(made, mark);
        errnum = made < 0 || renameat2(dir, temp, dir, name, RENAME_NOREPLACE) ? errno : 0;
        if (errnum)
            unlinkat(dir, temp, AT_REMOVEDIR);
        *cannot = errnum == EINVAL || errnum == ENOSYS || errnum == EXDEV;
    }
    errno = errnum;
    return errnum ? -1 : 0;
}

/* mkdir(2) says EEXIST to one that made it and died before it could say so, too, so it gets its
 * mark before its name. Not all file systems can do that: there the mark comes a moment later, and
 * who dies in between, or has no attributes (NFS before 4.2), is told EEXIST. That is the safe
 * answer: a directory that nobody owns is removed by hand, one that two own is a lock that does not
 * lock. */
int posix_dir_mkdir(const struct posix_dir *s, const char *path, uint64_t mark, struct err *e)
{
    const char *name;
    struct stat st;
    bool cannot = mark == 0;
    cleanup_fd int dir = open_parent(s, path, &name, e);
    if (dir < 0)
        return -1;
    int rc = cannot ? -1 : make_marked(dir, name, mark, &cannot);
    if (cannot && (rc = mkdirat(dir, name, 0777)) == 0 && mark) {
        cleanup_fd int made = open_made(dir, name);
        if (made >= 0)
            set_mark(made, mark);
    }
    int saved = errno;
    if (rc == 0 || (saved == EEXIST && is_marked(dir, name, mark, &st) && S_ISDIR(st.st_mode)))
        return 0;
    return posix_fail(s, saved, path, "make the directory", e);
}

/* Removes what those who were killed while they made something have left in a directory that looks
 * empty to its user. */
static void remove_temps(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *de; d && (de = readdir(d));)
        if (posix_is_temp(de->d_name) && unlinkat(dirfd(d), de->d_name, 0))
            unlinkat(dirfd(d), de->d_name, AT_REMOVEDIR);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

static int remove_directory(int dir, const char *name)
{
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        remove_temps(dir, name);
    return unlinkat(dir, name, AT_REMOVEDIR);
}

int posix_dir_rmdir(const struct posix_dir *s, const char *path, struct err *e)
{
    return change_name(s, path, remove_directory, "remove the directory", e);
}

int posix_dir_sync(const struct posix_dir *s, const char *path, struct err *e)
{
    cleanup_fd int fd = posix_open_path(s, path, O_RDONLY | O_DIRECTORY, "sync", e);
    if (fd < 0)
        return -1;
    /* some file systems know no such thing */
    return fsync(fd) && errno != EINVAL ? posix_fail(s, errno, path, "sync", e) : 0;
}

int posix_dir_rename(const struct posix_dir *s, const char *from, const char *to,
    const char *expect, struct store_stat *out, struct err *e)
{
    const char *from_name, *to_name;
    cleanup_fd int from_dir = open_parent(s, from, &from_name, e);
    cleanup_fd int to_dir = from_dir < 0 ? -1 : open_parent(s, to, &to_name, e);
    if (to_dir < 0)
        return -1;
    lock_names(from_dir, to_dir);
    if (expect && faccessat(from_dir, from_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0
        && !is_version(from_dir, from_name, expect))
        return fail_expected(s, from, expect, e);
    posix_attr_note_moved(from_dir, to_dir);
    if (renameat(from_dir, from_name, to_dir, to_name))
        return posix_fail(s, errno, from, "rename", e);
    return posix_dir_stat(s, to, out, e);
}
