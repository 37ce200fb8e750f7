/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "csi/mount.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "tests/unit/csi/csi_env.h"

#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void test_parse(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo m;
    static const char text[] =
        "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
        "30 22 0:44 /sub/dir /a\\040b\\134c ro,nosuid shared:5 master:2 propagate_from:1 - fuse.millrace millrace rw,user_id=0\n"
        "31 22 0:45 / /a\\040b\\134c rw - tmpfs  rw\n"
        "\n"
        "32 22 254:17 / /mnt/x rw,errors=ro - xfs /dev/sda\\0111 rw,ro";
    assert_int_equal(mountinfo_parse(text, &m, &e), 0);
    assert_int_equal(m.n, 4);
    const struct mount_entry *top = mountinfo_find(&m, "/a b\\c");
    assert_int_equal(top->id, 31); /* the later one lies on top */
    assert_false(top->read_only);
    assert_string_equal(m.entries[1].type, "fuse.millrace");
    assert_string_equal(m.entries[1].root, "/sub/dir");
    assert_true(m.entries[1].read_only);
    assert_int_equal(m.entries[1].minor, 44);
    const struct mount_entry *x = mountinfo_find(&m, "/mnt/x");
    assert_int_equal(x->major, 254);
    assert_false(x->read_only); /* neither errors=ro nor the file system's own ro */
    assert_string_equal(x->source, "/dev/sda\t1");
    assert_null(mountinfo_find(&m, "/mnt"));
    assert_ptr_equal(mountinfo_above(&m, "/mnt/x/y"), x);
    assert_ptr_equal(mountinfo_above(&m, "/mnt/x"), x);
    assert_int_equal(mountinfo_above(&m, "/mnt/xy")->id, 22);
    assert_int_equal(mountinfo_above(&m, "/")->id, 22);
    assert_int_equal(mountinfo_above(&m, "/a b\\c/d")->id, 31);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "22 1 0:21 / /", "22 1 0:21 / / rw",
        "22 1 0:21 / / rw shared:1", "a 1 0:21 / / rw - t s o", "22 1 021 / / rw - t s o",
        "22 1 0:21x / / rw - t s o", "22 1 0:21 / / rw -"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        struct mountinfo m;
        if (mountinfo_parse(bad[i], &m, &e) == 0)
            fail_msg("'%s' should be refused", bad[i]);
        assert_int_equal(m.n, 0);
        assert_null(m.entries);
    }
}

static void test_here(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo m;
    assert_int_equal(mountinfo_read(&m, &e), 0);
    assert_non_null(mountinfo_find(&m, "/"));
    assert_non_null(mountinfo_find(&m, "/proc"));
}

static void test_bind(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *from = path_join(env->dir, "from"), *to = path_join(env->dir, "to"),
                      *file = path_join(to, "file");
    bool read_only = false, fuse = true;
    assert_int_equal(mkdir(from, 0755), 0);
    assert_int_equal(mkdir(to, 0755), 0);
    assert_int_equal(mount_at(to, NULL, NULL, NULL, &e), 0);
    assert_int_equal(mount_bind(from, to, true, &e), 0);
    dev_t dev;
    struct stat st;
    assert_int_equal(mount_at(to, &dev, &fuse, &read_only, &e), 1);
    assert_true(read_only);
    assert_false(fuse);
    assert_int_equal(stat(from, &st), 0);
    assert_int_equal(st.st_dev, dev);
    assert_int_equal(file_write_atomic(file, "x", 1, 0644, &e), -1);
    assert_int_equal(e.sys, 30 /* EROFS */);
    assert_int_equal(mount_bind(from, to, false, &e), 0); /* on top */
    assert_int_equal(file_write_atomic(file, "x", 1, 0644, &e), 0);
    assert_int_equal(mount_detach(to, &e), 0); /* both */
    assert_int_equal(mount_at(to, NULL, NULL, NULL, &e), 0);
    assert_int_equal(mount_detach(to, &e), 0);
    assert_int_equal(mount_bind("/nonexistent", to, false, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest pure[] = {cmocka_unit_test(test_parse),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_here)};
    const struct CMUnitTest mounts[] = {
        cmocka_unit_test_setup_teardown(test_bind, csi_env_setup, csi_env_teardown)};
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    if (!csi_env_can_mount())
        return failed;
    csi_env_private_mounts();
    return failed + cmocka_run_group_tests(mounts, NULL, NULL);
}
