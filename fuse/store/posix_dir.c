/* SPDX-License-Identifier: Apache-2.0 */
/* The plain calls on a directory, each of which takes as long as the file system of that directory
 * does. */
#include "fuse/store/posix.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE (256u << 10) /* of a read: stays in the processor until the sink has it */

int posix_fail(
    const struct posix_dir *s, int errnum, const char *path, const char *action, struct err *e)
{
    char text[128];
    cleanup_free char *what = *path ? xasprintf("%s/%s", s->url, path) : xstrdup(s->url);
    if (errnum == ELOOP) /* by another one since it was looked up */
        return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what,
            ": a symbolic link is in its place, or on the way to it");
    enum err_class cls = err_class_of_errno(errnum);
    enum reason reason = cls == ERR_NOTFOUND   ? REASON_NOT_FOUND
        : cls == ERR_DENIED && errnum != EROFS ? REASON_ACCESS_DENIED
                                               : REASON_STORE_ERROR;
    return store_err(
        e, cls, errnum, reason, what, ": %s: %s", action, strerror_r(errnum, text, sizeof text));
}

int posix_open_beneath(int root, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd;
    do {
        fd = syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
        /* EAGAIN: a rename raced with the walk */
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    return (int)fd;
}

int posix_open_root(const struct posix_dir *s, struct err *e)
{
    int fd = open(s->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        posix_fail(s, errno, "", "open the directory", e);
    return fd;
}

int posix_open_path(
    const struct posix_dir *s, const char *path, uint64_t flags, const char *action, struct err *e)
{
    cleanup_fd int root = posix_open_root(s, e);
    if (root < 0)
        return -1;
    int fd = posix_open_beneath(root, path, flags);
    if (fd < 0)
        posix_fail(s, errno, path, action, e);
    return fd;
}

void posix_stat_of(const struct stat *st, struct store_stat *out)
{
    *out = (struct store_stat){.is_dir = S_ISDIR(st->st_mode), .is_link = S_ISLNK(st->st_mode)};
    out->mtime_ns = clock_of_timespec(st->st_mtim);
    if (out->is_dir)
        return;
    out->size = (uint64_t)st->st_size;
    snprintf(out->version, sizeof out->version, "%lld-%lld-%llu-%llx", (long long)st->st_size,
        (long long)out->mtime_ns, (unsigned long long)st->st_ino,
        (unsigned long long)clock_of_timespec(st->st_ctim));
}

/* size, mtime and inode */
static size_t posix_content_len(const char *version)
{
    const char *end = version;
    for (int fields = 0; (end = strchr(end, '-')) && ++fields < 3;)
        end++;
    return end ? (size_t)(end - version) : strlen(version);
}

bool posix_same_content(const char *version, const char *other)
{
    size_t len = posix_content_len(version);
    return len == posix_content_len(other) && memcmp(version, other, len) == 0;
}

bool posix_is_shown(const struct stat *st)
{
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode);
}

int posix_dir_check(const struct posix_dir *s, struct err *e)
{
    cleanup_fd int fd = posix_open_path(s, "", O_RDONLY | O_DIRECTORY, "read the directory", e);
    if (fd < 0)
        return -1;
    if (!s->read_only && faccessat(fd, ".", W_OK | X_OK, 0))
        return posix_fail(
            s, errno, "", "write to the directory (set readOnly: true if that is meant)", e);
    return 0;
}

/* File systems on disks and memory of this machine, or stacked on such. */
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

/* -- bytes that stay what they are ------------------------------------------------------------ */

/* Times of files stand still for a tick of the clock, on some file systems for a second: a file
 * that is written to twice within it has one version for two contents. So what is read of a file
 * that was changed just now is given under its version only if that was seen in an earlier tick.
 */
#define TICK_NS (20 * NS_PER_MS) /* of the slowest kernel, twice */
#define SKEW_NS (2 * NS_PER_S)   /* of the clock of a file server */

static int64_t settles_in(const struct posix_dir *s, const struct stat *st)
{
    int64_t changed = clock_of_timespec(st->st_ctim), age = clock_real_ns() - changed;
    int64_t tick = changed % NS_PER_S ? TICK_NS : NS_PER_S + TICK_NS;
    if (age >= SKEW_NS)
        return 0;
    if (age < 0 || !posix_dir_is_local(s)) /* by another clock than ours */
        return tick;
    return age < tick ? tick - age : 0;
}

/* Cancelled: waits no longer, as the caller finds out by itself. */
static void wait_settled(
    const struct posix_dir *s, const struct stat *st, const atomic_bool *cancel)
{
    int64_t until = clock_mono_ns() + settles_in(s, st);
    for (int64_t left; (left = until - clock_mono_ns()) > 0
         && !(cancel && atomic_load_explicit(cancel, memory_order_relaxed));)
        clock_sleep_ns(MIN(left, TICK_NS));
}

/* -- bytes ----------------------------------------------------------------------------------- */

static int check_version(const struct posix_dir *s, int fd, const char *path, const char *version,
    struct stat *st, struct err *e)
{
    struct store_stat now;
    if (fstat(fd, st))
        return posix_fail(s, errno, path, "stat", e);
    if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
        return posix_fail(s, S_ISDIR(st->st_mode) ? EISDIR : ENOENT, path, "read", e);
    posix_stat_of(st, &now);
    if (!*version || posix_same_content(version, now.version))
        return 0;
    cleanup_free char *what = xasprintf("%s/%s", s->url, path);
    return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
        ": the file has changed (version %s, was %s)", now.version, version);
}

static int fail_end(
    const struct posix_dir *s, const char *path, uint64_t want, uint64_t size, struct err *e)
{
    cleanup_free char *what = xasprintf("%s/%s", s->url, path);
    return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, what,
        ": read up to %llu, but the file ends at %llu", (unsigned long long)want,
        (unsigned long long)size);
}

/* The target, which never changes: a link with another one is another inode. */
static int read_link(const struct posix_dir *s, const char *path, const char *version, uint64_t off,
    size_t len, sink_fn sink, void *user, struct err *e)
{
    char target[STORE_LINK_MAX + 1];
    struct stat st;
    cleanup_fd int fd = posix_open_path(s, path, O_PATH | O_NOFOLLOW, "open", e);
    if (fd < 0 || check_version(s, fd, path, version, &st, e))
        return -1;
    ssize_t n = readlinkat(fd, "", target, sizeof target);
    if (n < 0)
        return posix_fail(s, errno, path, "read", e);
    if ((uint64_t)n < off + len)
        return fail_end(s, path, off + len, (uint64_t)n, e);
    return sink(user, target + off, len)
        ? store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, s->url, ": cancelled")
        : 0;
}

int posix_dir_read(const struct posix_dir *s, const char *path, const char *version, uint64_t off,
    size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    cleanup_free char *piece = xmalloc(MIN(len, (size_t)PIECE));
    cleanup_fd int root = posix_open_root(s, e);
    if (root < 0)
        return -1;
    cleanup_fd int fd = posix_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    struct store_stat before;
    if (fd < 0 && errno == ELOOP)
        return read_link(s, path, version, off, len, sink, user, e);
    if (fd < 0)
        return posix_fail(s, errno, path, "open", e);
    if (check_version(s, fd, path, version, &st, e))
        return -1;
    posix_stat_of(&st, &before);
    if (*version)
        wait_settled(s, &st, cancel);
    for (size_t got = 0; got < len;) {
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
            return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, s->url, ": cancelled");
        ssize_t n = pread(fd, piece, MIN(len - got, (size_t)PIECE), (off_t)(off + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return posix_fail(s, errno, path, "read", e);
        if (n == 0)
            return fail_end(s, path, off + len, before.size, e);
        /* written to while we read: the bytes may be of both */
        if (check_version(s, fd, path, before.version, &st, e))
            return -1;
        if (sink(user, piece, (size_t)n))
            return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, s->url, ": cancelled");
        got += (size_t)n;
    }
    return 0;
}
