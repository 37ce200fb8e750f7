/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static struct disk *disk;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* shadow files and the log */

uint64_t sim_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void sim_die(const char *what)
{
    fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
    abort();
}

/* -- the real calls -------------------------------------------------------------------------- */

int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t off);
int __real_ftruncate(int fd, off_t len);
int __real_fallocate(int fd, int mode, off_t off, off_t len);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __real_linkat(int fromdir, const char *from, int todir, const char *to, int flags);
int __real_unlink(const char *path);
int __real_unlinkat(int dir, const char *path, int flags);
int __real_mkdir(const char *path, mode_t mode);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);

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

static void shadow_path(uint64_t ino, const char *suffix, char out[DISK_PATH + 64])
{
    snprintf(out, DISK_PATH + 64, "%s/%" PRIu64 "%s", disk->shadow, ino, suffix);
}

static bool all_zeros(const unsigned char *p, size_t len)
{
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static void copy_fd(int from, int to)
{
    static char buf[1 << 16];
    struct stat st;
    off_t off = 0;
    ssize_t n;
    if (fstat(from, &st) || __real_ftruncate(to, 0) || __real_ftruncate(to, st.st_size))
        sim_die("copy");
    while (
        (off = lseek(from, off, SEEK_DATA)) >= 0 && (n = pread(from, buf, sizeof buf, off)) > 0) {
        if (!all_zeros((unsigned char *)buf, (size_t)n)
            && __real_pwrite(to, buf, (size_t)n, off) != n)
            sim_die("copy");
        off += n;
    }
    struct timespec times[2] = {st.st_mtim, st.st_mtim};
    futimens(to, times);
}

/* The content that is on the disk is this, from now on; keep: unless it is known already. */
static void snapshot(int fd, uint64_t ino, bool keep, bool empty)
{
    char name[DISK_PATH + 64];
    shadow_path(ino, "", name);
    int to = __real_open(name, O_RDWR | O_CREAT | (keep ? O_EXCL : 0), 0600);
    if (to < 0 && keep && errno == EEXIST)
        return;
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int from = empty ? -1 : __real_open(self, O_RDONLY);
    if (to < 0 || (!empty && from < 0))
        sim_die(name);
    if (!empty) {
        copy_fd(from, to);
        close(from);
    }
    close(to);
}

static void note(enum disk_op op, uint64_t ino, const char *a, const char *b)
{
    if (disk->nlog == DISK_LOG)
        sim_die("too many changes of names");
    disk->log[disk->nlog].op = op;
    disk->log[disk->nlog].ino = ino;
    snprintf(disk->log[disk->nlog].a, DISK_PATH, "%s", a);
    snprintf(disk->log[disk->nlog].b, DISK_PATH, "%s", b ? b : "");
    disk->nlog++;
}

/* What loses its last name here may still have it on the disk. */
static void keep_content(const char *path)
{
    struct stat st;
    char name[DISK_PATH + 64];
    if (lstat(path, &st) || !S_ISREG(st.st_mode))
        return;
    shadow_path(st.st_ino, ".now", name);
    if (__real_link(path, name) && errno != EEXIST)
        sim_die(name);
}

/* One more change is about to be made; does this process survive it? */
static bool dies(void)
{
    uint64_t n = __atomic_add_fetch(&disk->ops, 1, __ATOMIC_SEQ_CST);
    return disk->die_at && n >= disk->die_at;
}

static void step(void)
{
    if (dies())
        _exit(DISK_KILLED);
}

/* -- wraps ----------------------------------------------------------------------------------- */

static int opened(int fd, const char *path, int flags, bool was)
{
    uint64_t ino = fd >= 0 ? ino_of_fd(fd) : 0;
    if (!ino)
        return fd;
    pthread_mutex_lock(&mu);
    if (!was) {
        snapshot(fd, ino, true, true);
        note(DISK_CREATE, ino, below(path), NULL);
    }
    pthread_mutex_unlock(&mu);
    (void)flags;
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
    step();
    if (was && (flags & O_TRUNC)) {
        int fd = __real_open(path, O_RDONLY);
        pthread_mutex_lock(&mu);
        if (fd >= 0)
            snapshot(fd, (uint64_t)st.st_ino, true, false);
        pthread_mutex_unlock(&mu);
        close(fd);
    }
    return opened(__real_open(path, flags, mode), path, flags, was);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    uint64_t ino = ino_of_fd(fd);
    if (ino) {
        pthread_mutex_lock(&mu);
        snapshot(fd, ino, true, false);
        pthread_mutex_unlock(&mu);
        if (dies()) {
            if (disk->torn && len > 1 && __real_pwrite(fd, buf, len / 2, off) < 0)
                sim_die("pwrite");
            _exit(DISK_KILLED);
        }
    }
    return __real_pwrite(fd, buf, len, off);
}

ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
    uint64_t ino = ino_of_fd(fd);
    if (ino) {
        pthread_mutex_lock(&mu);
        snapshot(fd, ino, true, false);
        pthread_mutex_unlock(&mu);
        if (dies()) {
            if (disk->torn && len > 1 && __real_write(fd, buf, len / 2) < 0)
                sim_die("write");
            _exit(DISK_KILLED);
        }
    }
    return __real_write(fd, buf, len);
}

static void before_change(int fd)
{
    uint64_t ino = ino_of_fd(fd);
    if (!ino)
        return;
    pthread_mutex_lock(&mu);
    snapshot(fd, ino, true, false);
    pthread_mutex_unlock(&mu);
    step();
}

int __wrap_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len)
{
    before_change(fd);
    return __real_ftruncate(fd, len);
}

int __wrap_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len)
{
    before_change(fd);
    return __real_fallocate(fd, mode, off, len);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
    if (fd >= 0 && (flags & MAP_SHARED) && (prot & PROT_WRITE)) {
        uint64_t ino = ino_of_fd(fd);
        pthread_mutex_lock(&mu);
        if (ino)
            snapshot(fd, ino, true, false);
        pthread_mutex_unlock(&mu);
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
        step();
        pthread_mutex_lock(&mu);
        if (ino)
            snapshot(fd, ino, false, false);
        disk->flushed = disk->nlog;
        pthread_mutex_unlock(&mu);
        return 0;
    }
    return real(fd);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { return flush(fd, __real_fsync); }

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) { return flush(fd, __real_fdatasync); }

static uint64_t ino_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_ino : 0;
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (!disk || !below(from) || !below(to))
        return __real_rename(from, to);
    step();
    pthread_mutex_lock(&mu);
    keep_content(to);
    uint64_t ino = ino_of(from);
    int rc = __real_rename(from, to);
    if (rc == 0)
        note(DISK_RENAME, ino, below(from), below(to));
    int errnum = errno;
    pthread_mutex_unlock(&mu);
    errno = errnum;
    return rc;
}

int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
    if (!disk || !below(to))
        return __real_link(from, to);
    step();
    pthread_mutex_lock(&mu);
    int rc = __real_link(from, to), errnum = errno;
    if (rc == 0)
        note(DISK_LINK, ino_of(to), below(to), NULL);
    pthread_mutex_unlock(&mu);
    errno = errnum;
    return rc;
}

int __wrap_linkat(int fromdir, const char *from, int todir, const char *to, int flags);
int __wrap_linkat(int fromdir, const char *from, int todir, const char *to, int flags)
{
    if (!disk || !below(to))
        return __real_linkat(fromdir, from, todir, to, flags);
    step();
    pthread_mutex_lock(&mu);
    int rc = __real_linkat(fromdir, from, todir, to, flags), errnum = errno;
    if (rc == 0)
        note(DISK_LINK, ino_of(to), below(to), NULL);
    pthread_mutex_unlock(&mu);
    errno = errnum;
    return rc;
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    if (!disk || !below(path))
        return __real_unlink(path);
    step();
    pthread_mutex_lock(&mu);
    keep_content(path);
    int rc = __real_unlink(path), errnum = errno;
    if (rc == 0)
        note(DISK_UNLINK, 0, below(path), NULL);
    pthread_mutex_unlock(&mu);
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
    step();
    int rc = __real_mkdir(path, mode), errnum = errno;
    pthread_mutex_lock(&mu);
    if (rc == 0)
        note(DISK_MKDIR, 0, below(path), NULL);
    pthread_mutex_unlock(&mu);
    errno = errnum;
    return rc;
}

/* -- the cut --------------------------------------------------------------------------------- */

void disk_use(struct disk *d) { disk = d; }

static void remove_below(const char *dir)
{
    DIR *at = opendir(dir);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
        if (de->d_type == DT_DIR) {
            remove_below(path);
            rmdir(path);
        } else {
            __real_unlink(path);
        }
    }
    if (at)
        closedir(at);
}

void disk_init(struct disk *d, const char *dir)
{
    memset(d, 0, sizeof *d);
    snprintf(d->root, sizeof d->root, "%s/disk", dir);
    snprintf(d->shadow, sizeof d->shadow, "%s/shadow", dir);
    if (__real_mkdir(d->root, 0700) || __real_mkdir(d->shadow, 0700))
        sim_die(dir);
}

void disk_remove(struct disk *d)
{
    remove_below(d->root);
    remove_below(d->shadow);
    rmdir(d->root);
    rmdir(d->shadow);
}

static struct disk_name *name_find(struct disk *d, const char *path)
{
    for (unsigned i = 0; i < d->nnames; i++)
        if (strcmp(d->names[i].path, path) == 0)
            return &d->names[i];
    return NULL;
}

static void name_set(struct disk *d, const char *path, uint64_t ino)
{
    struct disk_name *n = name_find(d, path);
    if (!n) {
        if (d->nnames == DISK_NAMES)
            sim_die("too many names");
        n = &d->names[d->nnames++];
        snprintf(n->path, sizeof n->path, "%s", path);
    }
    n->ino = ino;
}

static void name_drop(struct disk *d, const char *path)
{
    struct disk_name *n = name_find(d, path);
    if (n)
        *n = d->names[--d->nnames];
}

/* The names that the journal has. */
static void replay(struct disk *d, uint64_t *seed)
{
    unsigned upto = d->flushed + (unsigned)(sim_random(seed) % (d->nlog - d->flushed + 1));
    for (unsigned i = 0; i < upto; i++) {
        const char *a = d->log[i].a, *b = d->log[i].b;
        switch (d->log[i].op) {
        case DISK_CREATE:
        case DISK_LINK:
        case DISK_MKDIR:
            name_set(d, a, d->log[i].ino);
            break;
        case DISK_UNLINK:
            name_drop(d, a);
            break;
        case DISK_RENAME:
            name_drop(d, a);
            name_set(d, b, d->log[i].ino);
            break;
        }
    }
}

/* Where the content is that the process saw last: under some name, or kept. */
static int open_now(struct disk *d, uint64_t ino)
{
    char name[DISK_PATH + 64];
    shadow_path(ino, ".now", name);
    int fd = __real_open(name, O_RDONLY);
    (void)d;
    return fd;
}

static const unsigned char *map_file(int fd, off_t size)
{
    if (size == 0)
        return NULL;
    void *at = __real_mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        sim_die("map a file");
    return at;
}

static void unmap_file(const unsigned char *at, off_t size)
{
    if (at)
        munmap((void *)(uintptr_t)at, (size_t)size);
}

/* Of the page at off what the file has of it: a mapping ends with zeros, but not beyond its page.
 */
static size_t page_of(off_t size, off_t off)
{
    return off >= size ? 0 : (size_t)(size - off < PAGE ? size - off : PAGE);
}

/* Sparse files may be large: the next page that either has. */
static off_t next_data(int was, int now, off_t off, off_t size)
{
    off_t a = lseek(was, off, SEEK_DATA), b = lseek(now, off, SEEK_DATA);
    off_t at = a < 0 ? b : b < 0 || a < b ? a : b;
    return at < 0 ? size : at / PAGE * PAGE;
}

static void mix_pages(int was, int now, int to, uint64_t *seed)
{
    struct stat a, b;
    if (fstat(was, &a) || fstat(now, &b))
        sim_die("look at a file");
    bool new_size = sim_random(seed) & 1;
    off_t size = new_size ? b.st_size : a.st_size;
    if (__real_ftruncate(to, size))
        sim_die("size");
    const unsigned char *old = map_file(was, a.st_size), *fresh = map_file(now, b.st_size);
    unsigned odds = (unsigned)(sim_random(seed) % 3); /* nothing new, half of it, all of it */
    for (off_t off = 0; (off = next_data(was, now, off, size)) < size; off += PAGE) {
        bool take = odds == 2 || (odds == 1 && sim_random(seed) & 1);
        size_t len = page_of(take ? b.st_size : a.st_size, off), most = page_of(size, off);
        const unsigned char *from = (take ? fresh : old) + off;
        len = len < most ? len : most;
        if (!all_zeros(from, len) && __real_pwrite(to, from, len, off) != (ssize_t)len)
            sim_die("write");
    }
    unmap_file(old, a.st_size);
    unmap_file(fresh, b.st_size);
    struct timespec t = new_size ? b.st_mtim : a.st_mtim, times[2] = {t, t};
    futimens(to, times);
}

static void put_back(struct disk *d, const struct disk_name *n, const char *root, uint64_t *seed)
{
    char path[3 * DISK_PATH], name[DISK_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", root, n->path);
    shadow_path(n->ino, "", name);
    int was = __real_open(name, O_RDONLY), now = open_now(d, n->ino);
    int to = __real_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (to < 0 || (was < 0 && now < 0))
        sim_die(path);
    if (was < 0)
        copy_fd(now, to); /* not written to since it was flushed */
    else if (now < 0)
        copy_fd(was, to);
    else
        mix_pages(was, now, to, seed);
    close(to);
    if (was >= 0)
        close(was);
    if (now >= 0)
        close(now);
}

/* Every file that has a name now is kept under its number. */
static void keep_all(const char *dir)
{
    DIR *at = opendir(dir);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
        if (de->d_type == DT_DIR)
            keep_all(path);
        else
            keep_content(path);
    }
    if (at)
        closedir(at);
}

/* What is there is on the disk, all of it. */
static void settle(struct disk *d, const char *dir, const char *prefix)
{
    DIR *at = opendir(dir);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX], name[DISK_PATH];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
        if (snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "/" : "", de->d_name)
            >= (int)sizeof name)
            sim_die("a long name");
        name_set(d, name, ino_of(path));
        if (de->d_type == DT_DIR)
            settle(d, path, name);
    }
    if (at)
        closedir(at);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct disk_name *)a)->path, ((const struct disk_name *)b)->path);
}

void disk_cut(struct disk *d, uint64_t seed)
{
    char root[DISK_PATH + 8];
    disk = d;
    snprintf(root, sizeof root, "%s.new", d->root);
    if (__real_mkdir(root, 0700))
        sim_die(root);
    keep_all(d->root);
    replay(d, &seed);
    qsort(
        d->names, d->nnames, sizeof d->names[0], by_path); /* directories before what is in them */
    for (unsigned i = 0; i < d->nnames; i++) {
        char path[3 * DISK_PATH];
        snprintf(path, sizeof path, "%s/%s", root, d->names[i].path);
        if (d->names[i].ino)
            put_back(d, &d->names[i], root, &seed);
        else if (__real_mkdir(path, 0700))
            sim_die(path);
    }
    remove_below(d->root);
    remove_below(d->shadow);
    if (rmdir(d->root) || __real_rename(root, d->root))
        sim_die(d->root);
    d->nnames = d->nlog = d->flushed = 0;
    settle(d, d->root, "");
    disk = NULL;
}
