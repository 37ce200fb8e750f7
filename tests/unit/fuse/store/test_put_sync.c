/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory store says is written is on the disk before it has its name, and so is the name
 * before that is said. fsync() and the renames are counted here instead of cutting the power. */
#include "tests/lib/unit.h"

#include "lib/base/file.h"
#include "tests/lib/mount.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* in their order: 's' a file is synced, 'd' a directory, 'n' a name is given */
static char events[64];
static size_t nevents;

static void note(char c)
{
    assert_true(nevents + 1 < sizeof events);
    events[nevents++] = c;
    events[nevents] = '\0';
}

int __real_fsync(int fd);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_renameat2(
    int from_dir, const char *from, int to_dir, const char *to, unsigned int flags);
int __wrap_fsync(int fd);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat2(
    int from_dir, const char *from, int to_dir, const char *to, unsigned int flags);

int __wrap_fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    note(S_ISDIR(st.st_mode) ? 'd' : 's');
    return __real_fsync(fd);
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    note('n');
    return __real_renameat(from_dir, from, to_dir, to);
}

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags)
{
    note('n');
    return __real_renameat2(from_dir, from, to_dir, to, flags);
}

static void test_put_is_synced(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *url = xasprintf("file://%s", dir);
    struct mount *m = mount_new(url);
    mount_option(m, "can-hang", "false");
    struct err e = ERR_INIT;
    struct store_stat st;
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, &e);
    assert_non_null(s);
    cleanup_fd int fd = content_fd(1, 100000);
    char version[STORE_VERSION_MAX] = "";
    const char *const expects[] = {"", NULL, version};
    for (size_t i = 0; i < ARRAY_LEN(expects); i++) {
        nevents = 0;
        assert_int_equal(store_put(s, "f", PUT_OVER(fd, 100000 - i, expects[i]), &st, &e), 0);
        assert_string_equal(events, "snd");
        memcpy(version, st.version, sizeof version);
    }
    store_free(s);
    mount_free(m);
    file_remove_tree(dir, NULL);
}

/* Names are as durable as the caller asks for: fsync() of the directory is passed on. */
static void test_directory_is_synced(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *url = xasprintf("file://%s", dir);
    struct mount *m = mount_new(url);
    mount_option(m, "can-hang", "false");
    struct err e = ERR_INIT;
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, &e);
    assert_non_null(s);
    assert_int_equal(store_mkdir(s, "d", 0, &e), 0);
    nevents = 0;
    assert_int_equal(store_sync_dir(s, "d", &e), 0);
    assert_int_equal(store_sync_dir(s, "", &e), 0);
    assert_string_equal(events, "dd");
    assert_int_equal(store_sync_dir(s, "none", &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    store_free(s);
    mount_free(m);
    file_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_is_synced), cmocka_unit_test(test_directory_is_synced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
