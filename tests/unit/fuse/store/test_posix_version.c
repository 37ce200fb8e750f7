/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of files in a directory: what changes them, and that bytes are given under the version
 * that they belong to. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/unit/fuse/store/store_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 30

static char dir[] = "/tmp/millrace-test.XXXXXX";

static struct store *open_store(struct mount **m)
{
    cleanup_free char *url = xasprintf("file://%s", dir);
    struct err e = ERR_INIT;
    *m = mount_new(url);
    mount_option(*m, "can-hang", "false");
    struct store *s = store_new(&(struct store_conf){.mount = &(*m)->conf}, &e);
    assert_non_null(s);
    return s;
}

static void write_in_place(const char *text)
{
    cleanup_free char *path = path_join(dir, "f");
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(io_pwrite(fd, text, strlen(text), 0), 0);
}

static struct store_stat look(struct store *s)
{
    struct store_stat st;
    struct err e = ERR_INIT;
    assert_int_equal(store_stat_path(s, "f", &st, &e), 0);
    return st;
}

static void read_it(struct store *s, const char *version, char out[5])
{
    struct err e = ERR_INIT;
    out[4] = '\0';
    if (store_read(s, "f", version, 0, 4, out, NULL, &e))
        print_error("%s\n", e.msg);
    assert_int_equal(e.cls, 0);
}

/* As many tools do that copy times along. */
static void test_mtime_set_back(void **state)
{
    (void)state;
    struct mount *m;
    struct store *s = open_store(&m);
    cleanup_free char *path = path_join(dir, "f");
    const struct timespec times[2] = {{1000000000, 5}, {1000000000, 5}};
    char text[5];
    write_in_place("aaaa");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    struct store_stat before = look(s);
    read_it(s, before.version, text);
    write_in_place("bbbb");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    struct store_stat after = look(s);
    assert_string_not_equal(before.version, after.version);
    store_free(s);
    mount_free(m);
}

/* Nobody who has it open fails for that. */
static void test_mode_changed(void **state)
{
    (void)state;
    struct mount *m;
    struct store *s = open_store(&m);
    cleanup_free char *path = path_join(dir, "f");
    char text[5];
    struct err e = ERR_INIT;
    write_in_place("aaaa");
    struct store_stat before = look(s), again = look(s), st;
    assert_string_equal(before.version, again.version);
    assert_int_equal(chmod(path, 0600), 0);
    read_it(s, before.version, text);
    assert_string_equal(text, "aaaa");
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct store_put over = {.fd = fd, .len = 4, .expect = before.version};
    assert_int_equal(store_put(s, "f", &over, &st, &e), 0);
    store_free(s);
    mount_free(m);
}

/* On a file system whose times stand still for a tick. */
static void test_changed_in_one_tick(void **state)
{
    (void)state;
    struct mount *m;
    struct store *s = open_store(&m);
    for (int i = 0; i < ROUNDS; i++) {
        char text[5], now[5];
        write_in_place(i % 2 ? "aaaa" : "AAAA");
        struct store_stat before = look(s);
        read_it(s, before.version, text);
        write_in_place(i % 2 ? "bbbb" : "BBBB");
        struct store_stat after = look(s);
        read_it(s, after.version, now);
        if (strcmp(before.version, after.version) == 0)
            assert_string_equal(text, now);
    }
    store_free(s);
    mount_free(m);
}

static int make_dir(void **state)
{
    (void)state;
    bool is_root = geteuid() == 0;
    return !mkdtemp(dir) || unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER))
        || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)
        || mount("none", dir, "ramfs", 0, NULL);
}

static int remove_dir(void **state)
{
    (void)state;
    return umount(dir) || rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mtime_set_back),
        cmocka_unit_test(test_mode_changed), cmocka_unit_test(test_changed_in_one_tick)};
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
