/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that users set: told to a store that takes them, kept here else; and no content is
 * fetched again for them. */
#include "tests/unit/fuse/file/file_fixture.h"

#include <sys/stat.h>

int __real_cache_adopt(struct cache *c, const struct cache_key *key, int fd, struct err *e);
int __wrap_cache_adopt(struct cache *c, const struct cache_key *key, int fd, struct err *e);

static unsigned adopted; /* each reads all of a file */

int __wrap_cache_adopt(struct cache *c, const struct cache_key *key, int fd, struct err *e)
{
    adopted++;
    return __real_cache_adopt(c, key, fd, e);
}

static void chmod_to(struct fx *x, const char *path, uint32_t mode, struct inode *n)
{
    struct err e = ERR_INIT;
    const struct inode to = {.mode = mode, .uid = SETATTR_KEEP, .gid = SETATTR_KEEP};
    assert_int_equal(files_setattr(x->files, fx_ino(x, path), INODES_MODE, &to, false, n, &e), 0);
    assert_int_equal(n->mode & 07777, mode);
}

static void test_told(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct inode n, was;
    fake_store_keep_attr(x->fake[0]);
    fx_put(x, "main/f", "text");
    fx_fill(x, "main/f");
    unsigned reads = fake_store_calls(x->fake[0], FAKE_READ);
    was = fx_inode(x, fx_ino(x, "main/f"));
    chmod_to(x, "main/f", 0640, &n);
    assert_string_not_equal(n.version, was.version);
    assert_int_equal(n.ino, was.ino);
    assert_true(n.attr == STORE_MODE && n.untold == 0);
    fx_path_is(x, "main/f", "text");
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), reads);
    fx_restart(x, false);
    assert_int_equal(fx_lookup(x, "main/f", &n), 0);
    assert_int_equal(n.mode, S_IFREG | 0640);
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    chmod_to(x, "main/d", 01700, &n);
    assert_true(n.attr == (STORE_MODE | STORE_OWNER) && n.untold == 0);
    fx_free(x);
}

/* A file that is cached is read for a new version alone; a mount's own directory, of which no mount
 * would ask, is as it was for others. */
static void test_not_told(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        struct fx *x = fx_new(NULL);
        struct inode n;
        if (keeps)
            fake_store_keep_attr(x->fake[0]);
        fx_put(x, "main/f", "text");
        fx_fill(x, "main/f");
        adopted = 0;
        chmod_to(x, "main/f", 0640, &n);
        assert_int_equal(adopted, keeps);
        unsigned told = fake_store_calls(x->fake[0], FAKE_SET_ATTR);
        assert_int_equal(told, keeps);
        chmod_to(x, "main", 0700, &n);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_SET_ATTR), told);
        if (keeps) {
            fake_store_write(x->fake[0], "f", "other");
            chmod_to(x, "main/f", 0600, &n); /* refused */
            assert_int_equal(adopted, keeps);
        }
        fx_free(x);
    }
}

/* What is written to is told with its content: there is no such call for it. */
static void test_with_content(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct inode n;
    fake_store_keep_attr(x->fake[0]);
    assert_int_equal(fx_create(x, "main/f", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "1"), 0);
    chmod_to(x, "main/f", 0600, &n);
    assert_true((n.attr & STORE_MODE) && (n.untold & STORE_MODE));
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_SET_ATTR), 0);
    fx_free(x);
}

/* A store that takes none, or has another version: they hold here, and the file can be used. */
static void test_refused(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct inode n;
    fx_put(x, "main/f", "text");
    chmod_to(x, "main/f", 0640, &n);
    assert_int_equal(n.untold, STORE_MODE);
    fx_expire(x, "main/f");
    assert_int_equal(fx_lookup(x, "main/f", &n), 0);
    assert_int_equal(n.mode, S_IFREG | 0640);
    fake_store_keep_attr(x->fake[0]);
    fx_put(x, "main/g", "text");
    assert_int_equal(fx_lookup(x, "main/g", &n), 0);
    fake_store_write(x->fake[0], "g", "other");
    chmod_to(x, "main/g", 0640, &n);
    assert_int_equal(n.untold, STORE_MODE);
    fx_expire(x, "main/g");
    fx_path_is(x, "main/g", "other");
    fx_free(x);
}

/* Who makes a file as open as a usual umask lets, makes it as open as the mount. */
static void test_modes_of_new_files(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    static const struct {
        uint32_t mode, umask, shown;
    } cases[] = {{0644, 022, 0666}, {0664, 002, 0666}, {0666, 0, 0666}, {0755, 022, 0777},
        {0600, 022, 0600}, {0600, 077, 0600}, {0640, 027, 0640}, {0644, 0, 0644},
        {0700, 022, 0700}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[16];
        struct inode n;
        struct err e = ERR_INIT;
        const char *leaf;
        snprintf(name, sizeof name, "main/%zu", i);
        uint64_t dir = fx_parent(x, name, &leaf);
        const struct new_name w = {.dir = dir,
            .name = leaf,
            .mode = S_IFREG | cases[i].mode,
            .umask = cases[i].umask,
            .uid = 5,
            .request = ++x->request};
        assert_int_equal(files_mknod(x->files, &w, &n, &e), 0);
        assert_int_equal(n.mode, S_IFREG | cases[i].shown);
        assert_int_equal(n.attr, STORE_OWNER | (cases[i].shown == 0666 ? 0 : STORE_MODE));
    }
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told), cmocka_unit_test(test_not_told),
        cmocka_unit_test(test_with_content), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_modes_of_new_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
