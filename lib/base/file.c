/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/file.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *file_read(const char *path, size_t max, size_t *len, struct err *e)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(e, errno, "open %s", path);
        return NULL;
    }
    cleanup_free char *data = NULL;
    size_t have = 0, cap = 0;
    for (;;) {
        if (have == cap)
            data = xrealloc(data, (cap = cap ? cap * 2 : 4096) + 1);
        ssize_t n = read(fd, data + have, cap - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_sys(e, errno, "read %s", path);
            return NULL;
        }
        if (n == 0)
            break;
        have += (size_t)n;
        if (have > max) {
            err_set(e, ERR_EXHAUSTED, "%s is larger than %zu bytes", path, max);
            return NULL;
        }
    }
    data[have] = '\0';
    if (len)
        *len = have;
    return steal(&data);
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
    cleanup_free char *temp = xasprintf("%s.XXXXXX", path);
    cleanup_fd int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "create %s", temp);
    if (io_write(fd, data, len) || fchmod(fd, mode) || fsync(fd) || rename(temp, path)) {
        int saved = errno;
        unlink(temp);
        return err_sys(e, saved, "write %s", path);
    }
    return 0;
}

int file_mkdirs(const char *path, mode_t mode, struct err *e)
{
    cleanup_free char *copy = xstrdup(path);
    for (char *p = copy + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = '\0';
        struct stat st;
        if (mkdir(copy, mode) && (errno != EEXIST || stat(copy, &st) || !S_ISDIR(st.st_mode)))
            return err_sys(e, errno == EEXIST ? ENOTDIR : errno, "mkdir %s", copy);
        if (!was)
            return 0;
        *p = was;
    }
}

int file_sync_dir(const char *dir, struct err *e)
{
    cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) ? err_sys(e, errno, "sync %s", dir) : 0;
}

char *path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    while (*name == '/')
        name++;
    return xasprintf("%.*s%s%s", (int)n, dir, n == 1 && dir[0] == '/' ? "" : "/", name);
}

static int lock_until(int fd, const char *path, int64_t until_mono_ns, struct err *e)
{
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(e, errno, "lock %s", path);
        if (clock_mono_ns() >= until_mono_ns)
            return err_set(e, ERR_CONFLICT, "%s is in use by another process", path);
        clock_sleep_ns(20 * NS_PER_MS);
    }
    return 0;
}

int file_lock(const char *path, int64_t until_mono_ns, struct err *e)
{
    cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    if (lock_until(fd, path, until_mono_ns, e))
        return -1;
    int locked = fd;
    fd = -1;
    return locked;
}

int dir_lock(const char *dir, mode_t mode, int64_t until_mono_ns, struct err *e)
{
    for (;;) {
        if (file_mkdirs(dir, mode, e))
            return -1;
        cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return err_sys(e, errno, "open %s", dir);
        if (lock_until(fd, dir, until_mono_ns, e))
            return -1;
        struct stat held, there;
        if (fstat(fd, &held) || stat(dir, &there) || held.st_ino != there.st_ino
            || held.st_dev != there.st_dev)
            continue; /* the one that held it has removed it */
        int locked = fd;
        fd = -1;
        return locked;
    }
}

void boot_id(char *out, size_t size)
{
    cleanup_free char *text = file_read("/proc/sys/kernel/random/boot_id", 256, NULL, NULL);
    memset(out, 0, size);
    if (text)
        memcpy(out, text, strnlen(text, MIN(size, BOOT_ID_LEN) - 1));
}
