/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes of all that was asked for; the lock of a directory; the boot's name. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIG (1u << 20) /* more than a pipe takes at a time */

static unsigned flushes;
static bool flush_fails;

/* In place of the C library's. */
int fsync(int fd)
{
    flushes++;
    errno = EIO;
    return flush_fails ? -1 : (int)syscall(SYS_fsync, fd);
}

static void *drain(void *arg)
{
    int fd = *(int *)arg;
    size_t *got = calloc(1, sizeof *got);
    char piece[1000];
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;)
        *got += (size_t)n;
    return got;
}

static void test_short_writes(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, drain, &pipes[0]), 0);
    cleanup_free char *data = xcalloc(1, BIG);
    assert_int_equal(io_write(pipes[1], data, BIG), 0);
    close(pipes[1]);
    void *got;
    pthread_join(reader, &got);
    assert_int_equal(*(size_t *)got, BIG);
    free(got);
    close(pipes[0]);
}

static void test_at_offsets(void **state)
{
    (void)state;
    char path[] = "/tmp/millrace-io.XXXXXX", buf[16] = {0};
    cleanup_fd int fd = mkstemp(path);
    unlink(path);
    assert_int_equal(io_pwrite(fd, "hello", 5, 3), 0);
    assert_int_equal(io_pread(fd, buf, sizeof buf, 3), 5);
    assert_memory_equal(buf, "hello", 5);
    assert_int_equal(io_pread(fd, buf, sizeof buf, 100), 0);
    assert_int_equal(io_pread_exact(fd, buf, 8, 0), 0);
    assert_memory_equal(buf, "\0\0\0hello", 8);
    errno = 0;
    assert_int_equal(io_pread_exact(fd, buf, 9, 0), -1);
    assert_int_equal(errno, EIO);
    errno = 0;
    assert_int_equal(io_pread(-1, buf, 1, 0), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(io_pwrite(-1, buf, 1, 0), -1);
    assert_int_equal(io_write(-1, buf, 1), -1);
    assert_int_equal(io_write(-1, buf, 0), 0); /* nothing to write */
}

static void test_dir_lock(void **state)
{
    (void)state;
    char top[] = "/tmp/millrace-lock.XXXXXX";
    assert_non_null(mkdtemp(top));
    cleanup_free char *dir = path_join(top, "a/b");
    struct err e = ERR_INIT;
    int held = dir_lock(dir, 0700, 0, &e); /* makes it */
    assert_true(held >= 0);
    assert_int_equal(dir_lock(dir, 0700, clock_mono_ns() + NS_PER_MS, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, dir));
    close(held);
    held = dir_lock(dir, 0700, 0, &e);
    assert_true(held >= 0);
    close(held);
    assert_int_equal(file_remove_tree(top, NULL), 0);
    assert_int_equal(dir_lock("/proc/none/a", 0700, 0, &e), -1);
    assert_int_equal(e.sys, ENOENT);
}

static void test_file_lock(void **state)
{
    (void)state;
    char top[] = "/tmp/millrace-lock.XXXXXX";
    assert_non_null(mkdtemp(top));
    cleanup_free char *file = path_join(top, "lock"), *none = path_join(top, "a/lock");
    struct err e = ERR_INIT;
    int held = file_lock(file, 0, &e); /* makes it */
    assert_true(held >= 0);
    int64_t began = clock_mono_ns();
    assert_int_equal(file_lock(file, began + 50 * NS_PER_MS, &e), -1);
    assert_true(clock_mono_ns() - began >= 50 * NS_PER_MS);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, file));
    close(held);
    held = file_lock(file, 0, &e);
    assert_true(held >= 0);
    close(held);
    assert_int_equal(file_lock(none, 0, &e), -1);
    assert_int_equal(e.sys, ENOENT);
    assert_int_equal(file_remove_tree(top, NULL), 0);
}

struct waiter {
    const char *dir;
    int fd;
};

static void *lock_after_another(void *arg)
{
    struct waiter *w = arg;
    w->fd = dir_lock(w->dir, 0700, INT64_MAX, NULL);
    return NULL;
}

/* The one that holds the lock removes the directory and ends: the next one makes a new one. */
static void test_dir_lock_removed(void **state)
{
    (void)state;
    char top[] = "/tmp/millrace-lock.XXXXXX";
    assert_non_null(mkdtemp(top));
    cleanup_free char *dir = path_join(top, "root");
    int held = dir_lock(dir, 0700, 0, NULL);
    struct waiter w = {dir, -1};
    pthread_t next;
    assert_int_equal(pthread_create(&next, NULL, lock_after_another, &w), 0);
    clock_sleep_ns(50 * NS_PER_MS);
    assert_int_equal(rmdir(dir), 0);
    close(held);
    pthread_join(next, NULL);
    struct stat locked, there;
    assert_int_equal(fstat(w.fd, &locked), 0);
    assert_int_equal(stat(dir, &there), 0);
    assert_int_equal(locked.st_ino, there.st_ino);
    close(w.fd);
    file_remove_tree(top, NULL);
}

static void test_boot_id(void **state)
{
    (void)state;
    char a[BOOT_ID_LEN], b[40], tiny[5];
    boot_id(a, sizeof a);
    memset(b, 'x', sizeof b);
    boot_id(b, sizeof b);
    assert_int_equal(strlen(a), BOOT_ID_LEN - 1);
    assert_string_equal(a, b);
    assert_memory_equal(b + BOOT_ID_LEN, "\0\0", 3);
    boot_id(tiny, sizeof tiny);
    assert_memory_equal(tiny, a, 4);
    assert_int_equal(tiny[4], '\0');
}

/* After a power cut the file is what it was, or what it was to be: the content is on the disk
 * before it has its name, and one that is not leaves the old file. */
static void test_atomic_is_flushed(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test-XXXXXX";
    struct err e = ERR_INIT;
    assert_non_null(mkdtemp(dir));
    cleanup_free char *f = path_join(dir, "f");
    flushes = 0;
    assert_int_equal(file_write_atomic(f, "first", 5, 0600, &e), 0);
    assert_true(flushes >= 1);
    flush_fails = true;
    assert_int_equal(file_write_atomic(f, "second", 6, 0600, &e), -1);
    flush_fails = false;
    assert_int_equal(e.sys, EIO);
    cleanup_free char *text = file_read(f, 100, NULL, &e);
    assert_string_equal(text, "first");
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_writes),
        cmocka_unit_test(test_at_offsets),
        cmocka_unit_test(test_dir_lock),
        cmocka_unit_test(test_file_lock),
        cmocka_unit_test(test_dir_lock_removed),
        cmocka_unit_test(test_boot_id),
        cmocka_unit_test(test_atomic_is_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
