/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/disk_priv.h"
#include "tests/sim/world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct disk *disk;

uint64_t sim_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

_Noreturn void disk_die(const char *what)
{
    fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
    abort();
}

/* -- what is on the disk --------------------------------------------------------------------- */

/* The path below the disk's directory; NULL: it is not there. */
static const char *below(const char *path)
{
    size_t len = disk ? strlen(disk->root) : 0;
    return disk && strncmp(path, disk->root, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static bool path_of_fd(int fd, char out[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

/* Is it a file of the disk? Then which one. */
static uint64_t ino_of_fd(int fd)
{
    struct stat st, root;
    char path[PATH_MAX];
    if (!disk || fstat(fd, &st) || !S_ISREG(st.st_mode) || stat(disk->root, &root)
        || st.st_dev != root.st_dev || !path_of_fd(fd, path) || !below(path))
        return 0;
    return st.st_ino;
}

void disk_shadow(uint64_t ino, const char *suffix, char out[DISK_PATH + 64])
{
    snprintf(out, DISK_PATH + 64, "%s/%" PRIu64 "%s", disk->shadow, ino, suffix);
}

bool disk_all_zeros(const unsigned char *p, size_t len)
{
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

void disk_copy(int from, int to)
{
    static char buf[1 << 16];
    struct stat st;
    off_t off = 0;
    ssize_t n;
    if (fstat(from, &st) || __real_ftruncate(to, 0) || __real_ftruncate(to, st.st_size))
        disk_die("copy");
    while (
        (off = lseek(from, off, SEEK_DATA)) >= 0 && (n = pread(from, buf, sizeof buf, off)) > 0) {
        if (!disk_all_zeros((unsigned char *)buf, (size_t)n)
            && __real_pwrite(to, buf, (size_t)n, off) != n)
            disk_die("copy");
        off += n;
    }
    struct timespec times[2] = {st.st_mtim, st.st_mtim};
    futimens(to, times);
}

/* The content that is on the disk is this, from now on; keep: unless it is known already. */
static void snapshot(int fd, uint64_t ino, bool keep, bool empty)
{
    char name[DISK_PATH + 64];
    disk_shadow(ino, "", name);
    int to = __real_open(name, O_RDWR | O_CREAT | (keep ? O_EXCL : 0), 0600);
    if (to < 0 && keep && errno == EEXIST)
        return;
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int from = empty ? -1 : __real_open(self, O_RDONLY);
    if (to < 0 || (!empty && from < 0))
        disk_die(name);
    if (!empty) {
        disk_copy(from, to);
        close(from);
    }
    close(to);
}

static void note(enum disk_op op, uint64_t ino, const char *a, const char *b)
{
    if (disk->nlog == DISK_LOG)
        disk_die("too many changes of names");
    disk->log[disk->nlog].op = op;
    disk->log[disk->nlog].ino = ino;
    snprintf(disk->log[disk->nlog].a, DISK_PATH, "%s", a);
    snprintf(disk->log[disk->nlog].b, DISK_PATH, "%s", b ? b : "");
    disk->nlog++;
}

/* What loses its last name here may still have it on the disk. */
void disk_keep(const char *path)
{
    struct stat st;
    char name[DISK_PATH + 64];
    if (lstat(path, &st) || !S_ISREG(st.st_mode))
        return;
    disk_shadow(st.st_ino, ".now", name);
    if (__real_link(path, name) && errno != EEXIST)
        disk_die(name);
}

/* One more change is about to be made; does this process survive it? */
static bool dies(const char *what, uint64_t n)
{
    world_trace(what, n);
    return ++disk->ops >= disk->die_at && disk->die_at;
}

static void step(const char *what)
{
    if (dies(what, 0))
        _exit(DISK_KILLED);
}

/* The time of a change is the world's, not this machine's. */
static void stamp(int fd)
{
    int64_t ns = world_file_time();
    struct timespec t = {ns / 1000000000, ns % 1000000000}, times[2] = {t, t};
    int errnum = errno;
    futimens(fd, times);
    errno = errnum;
}

/* -- wraps ----------------------------------------------------------------------------------- */

static int opened(int fd, const char *path, int flags, bool was)
{
    uint64_t ino = fd >= 0 ? ino_of_fd(fd) : 0;
    if (!ino)
        return fd;
    if (!was) {
        snapshot(fd, ino, true, true);
        note(DISK_CREATE, ino, below(path), NULL);
    }
    if (!was || (flags & O_TRUNC))
        stamp(fd);
    return fd;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (!disk || !below(path) || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_DIRECTORY))
        return __real_open(path, flags, mode);
    struct stat st;
    bool was = stat(path, &st) == 0;
    step("open");
    if (was && (flags & O_TRUNC)) {
        int fd = __real_open(path, O_RDONLY);
        if (fd >= 0)
            snapshot(fd, (uint64_t)st.st_ino, true, false);
        close(fd);
    }
    return opened(__real_open(path, flags, mode), path, flags, was);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    uint64_t ino = ino_of_fd(fd);
    if (!ino)
        return __real_pwrite(fd, buf, len, off);
    snapshot(fd, ino, true, false);
    if (dies("pwrite", len)) {
        if (disk->torn && len > 1 && __real_pwrite(fd, buf, len / 2, off) < 0)
            disk_die("pwrite");
        stamp(fd);
        _exit(DISK_KILLED);
    }
    ssize_t n = __real_pwrite(fd, buf, len, off);
    stamp(fd);
    return n;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
    uint64_t ino = ino_of_fd(fd);
    if (!ino)
        return __real_write(fd, buf, len);
    snapshot(fd, ino, true, false);
    if (dies("write", len)) {
        if (disk->torn && len > 1 && __real_write(fd, buf, len / 2) < 0)
            disk_die("write");
        stamp(fd);
        _exit(DISK_KILLED);
    }
    ssize_t n = __real_write(fd, buf, len);
    stamp(fd);
    return n;
}

static bool before_change(int fd, off_t size)
{
    uint64_t ino = ino_of_fd(fd);
    if (!ino)
        return false;
    snapshot(fd, ino, true, false);
    if (dies("size", (uint64_t)size))
        _exit(DISK_KILLED);
    return true;
}

int __wrap_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len)
{
    bool ours = before_change(fd, len);
    int rc = __real_ftruncate(fd, len);
    if (ours)
        stamp(fd);
    return rc;
}

int __wrap_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len)
{
    struct stat st;
    bool ours = before_change(fd, off + len);
    if (mode || !ours || fstat(fd, &st))
        return __real_fallocate(fd, mode, off, len);
    /* the room that it takes is none of a simulation's business, and making it costs time */
    int rc = st.st_size < off + len ? __real_ftruncate(fd, off + len) : 0;
    stamp(fd);
    return rc;
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
    if (fd >= 0 && (flags & MAP_SHARED) && (prot & PROT_WRITE)) {
        uint64_t ino = ino_of_fd(fd);
        if (ino)
            snapshot(fd, ino, true, false);
    }
    return __real_mmap(addr, len, prot, flags, fd, off);
}

static int flush(int fd, int (*real)(int))
{
    struct stat st;
    char path[PATH_MAX];
    uint64_t ino = ino_of_fd(fd);
    bool dir = disk && !ino && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && path_of_fd(fd, path)
        && (below(path) || strcmp(path, disk->root) == 0);
    if (ino || dir) {
        step("fsync");
        if (ino)
            snapshot(fd, ino, false, false);
        disk->flushed = disk->nlog;
        return 0;
    }
    return real(fd);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { return flush(fd, __real_fsync); }

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) { return flush(fd, __real_fdatasync); }

uint64_t disk_ino(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_ino : 0;
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (!disk || !below(from) || !below(to))
        return __real_rename(from, to);
    step("rename");
    disk_keep(to);
    uint64_t ino = disk_ino(from);
    int rc = __real_rename(from, to);
    if (rc == 0)
        note(DISK_RENAME, ino, below(from), below(to));
    int errnum = errno;
    errno = errnum;
    return rc;
}

int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
    if (!disk || !below(to))
        return __real_link(from, to);
    step("link");
    int rc = __real_link(from, to), errnum = errno;
    if (rc == 0)
        note(DISK_LINK, disk_ino(to), below(to), NULL);
    errno = errnum;
    return rc;
}

int __wrap_linkat(int fromdir, const char *from, int todir, const char *to, int flags);
int __wrap_linkat(int fromdir, const char *from, int todir, const char *to, int flags)
{
    if (!disk || !below(to))
        return __real_linkat(fromdir, from, todir, to, flags);
    step("linkat");
    int rc = __real_linkat(fromdir, from, todir, to, flags), errnum = errno;
    if (rc == 0)
        note(DISK_LINK, disk_ino(to), below(to), NULL);
    errno = errnum;
    return rc;
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    if (!disk || !below(path))
        return __real_unlink(path);
    step("unlink");
    disk_keep(path);
    int rc = __real_unlink(path), errnum = errno;
    if (rc == 0)
        note(DISK_UNLINK, 0, below(path), NULL);
    errno = errnum;
    return rc;
}

int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags)
{
    char at[PATH_MAX], whole[PATH_MAX + 256];
    if (!disk || path[0] == '/' || dir == AT_FDCWD || !path_of_fd(dir, at))
        return path[0] == '/' && !flags ? __wrap_unlink(path) : __real_unlinkat(dir, path, flags);
    snprintf(whole, sizeof whole, "%s/%s", at, path);
    return below(whole) && !flags ? __wrap_unlink(whole) : __real_unlinkat(dir, path, flags);
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    if (!disk || !below(path) || access(path, F_OK) == 0)
        return __real_mkdir(path, mode);
    step("mkdir");
    int rc = __real_mkdir(path, mode), errnum = errno;
    if (rc == 0)
        note(DISK_MKDIR, 0, below(path), NULL);
    errno = errnum;
    return rc;
}

void disk_use(struct disk *d) { disk = d; }
