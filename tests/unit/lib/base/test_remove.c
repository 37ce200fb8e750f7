/* SPDX-License-Identifier: Apache-2.0 */
/* Removing trees that are deep, and that somebody changes meanwhile. */
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH  400 /* of names of 200 bytes: twenty times as long as a path may be */
#define OTHERS 40
#define ROUNDS 150

static char top[] = "/tmp/millrace-remove.XXXXXX";

static void touch_at(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static int make_dir_at(int dir, const char *name)
{
    assert_int_equal(mkdirat(dir, name, 0700), 0);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void a_deep_tree(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    cleanup_free char *path = path_join(top, "deep");
    assert_int_equal(mkdir(path, 0700), 0);
    int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        touch_at(at, "f");
        close(make_dir_at(at, "empty"));
        int next = make_dir_at(at, name);
        close(at);
        at = next;
    }
    close(at);
    assert_int_equal(file_remove_tree(path, &e), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(file_remove_tree(path, &e), 0);
}

static void files_and_links(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(top, "one"), *target = path_join(top, "target");
    cleanup_fd int outside = make_dir_at(AT_FDCWD, target);
    touch_at(outside, "f");
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(file_remove_tree(path, &e), 0); /* the link, not what it leads to */
    assert_int_equal(faccessat(outside, "f", F_OK, 0), 0);
    cleanup_fd int dir = make_dir_at(AT_FDCWD, path);
    assert_int_equal(symlinkat(target, dir, "link"), 0);
    assert_int_equal(mkfifoat(dir, "pipe", 0600), 0);
    assert_int_equal(file_remove_tree(path, &e), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(faccessat(outside, "f", F_OK, 0), 0);
}

static bool set_immutable(int fd, bool yes)
{
    int flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags))
        return false;
    flags = yes ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
    return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

/* What will not go is told, at once: at the top, and further down, where it is moved up first. */
static void what_cannot_go(void **state)
{
    (void)state;
    cleanup_free char *path = path_join(top, "stays");
    cleanup_fd int dir = make_dir_at(AT_FDCWD, path);
    cleanup_fd int sub = make_dir_at(dir, "sub"), deeper = make_dir_at(sub, "deeper");
    const int at[] = {dir, sub, deeper};
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        struct err e = ERR_INIT;
        touch_at(at[i], "f");
        cleanup_fd int fd = openat(at[i], "f", O_RDONLY | O_CLOEXEC);
        if (!set_immutable(fd, true)) {
            print_message("# SKIP needs root and a file system that knows immutable files\n");
            skip();
        }
        assert_int_equal(file_remove_tree(path, &e), -1);
        assert_int_equal(e.sys, EPERM);
        assert_true(set_immutable(fd, false));
        assert_int_equal(unlinkat(at[i], "f", 0), 0);
    }
    struct err e = ERR_INIT;
    assert_int_equal(file_remove_tree(path, &e), 0);
}

/* As is a directory that cannot be moved up: another mount's. */
static void a_mount_further_down(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        print_message("# SKIP needs root\n");
        skip();
    }
    cleanup_free char *path = path_join(top, "mounts"), *point = path_join(path, "sub/mount"),
                      *file = path_join(point, "f");
    cleanup_fd int dir = make_dir_at(AT_FDCWD, path);
    cleanup_fd int sub = make_dir_at(dir, "sub"), under = make_dir_at(sub, "mount");
    assert_int_equal(mount("none", point, "tmpfs", 0, NULL), 0);
    touch_at(AT_FDCWD, file);
    assert_int_equal(file_remove_tree(path, &e), -1);
    assert_int_equal(e.sys, EBUSY);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(umount(point), 0);
    assert_int_equal(file_remove_tree(path, &e), 0);
}

struct rival {
    int dir; /* of the tree: it is still his when it is on its way out */
    atomic_bool stop;
    atomic_uint times;
};

/* Puts a link in the place of a directory, and the directory in the place of the link. */
static void *exchange(void *user)
{
    struct rival *r = user;
    while (!atomic_load(&r->stop))
        atomic_fetch_add(&r->times, renameat2(r->dir, "sub", r->dir, "link", RENAME_EXCHANGE) == 0);
    return NULL;
}

static void a_tree_in_motion(void **state)
{
    (void)state;
    cleanup_free char *path = path_join(top, "tree"), *target = path_join(top, "others");
    cleanup_fd int outside = make_dir_at(AT_FDCWD, target);
    char name[16];
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof name, "%d", i);
        touch_at(outside, name);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct err e = ERR_INIT;
        cleanup_fd int dir = make_dir_at(AT_FDCWD, path);
        cleanup_fd int sub = make_dir_at(dir, "sub");
        for (int i = 0; i < OTHERS; i++) {
            snprintf(name, sizeof name, "%d", i);
            touch_at(sub, name);
        }
        assert_int_equal(symlinkat(target, dir, "link"), 0);
        struct rival r = {.dir = dir};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, exchange, &r), 0);
        while (atomic_load(&r.times) < 4)
            sched_yield();
        file_remove_tree(path, &e);
        atomic_store(&r.stop, true);
        pthread_join(thread, NULL);
        assert_int_equal(file_remove_tree(path, &e), 0);
        for (int i = 0; i < OTHERS; i++) {
            snprintf(name, sizeof name, "%d", i);
            assert_int_equal(faccessat(outside, name, F_OK, 0), 0);
        }
    }
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(top) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return file_remove_tree(top, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_deep_tree),
        cmocka_unit_test(files_and_links), cmocka_unit_test(what_cannot_go),
        cmocka_unit_test(a_mount_further_down), cmocka_unit_test(a_tree_in_motion)};
    return cmocka_run_group_tests(tests, begin, end);
}
