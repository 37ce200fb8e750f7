/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic links: made, read, renamed, removed, and made again by a process that comes after. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/link.h"

#include <sys/stat.h>

static int make(struct fx *x, const char *path, const char *target, bool resent)
{
    struct err e = ERR_INIT;
    struct inode n;
    const char *name;
    uint64_t dir = fx_parent(x, path, &name);
    const struct new_name w = {
        .dir = dir, .name = name, .request = resent ? x->request : ++x->request, .resent = resent};
    return files_symlink(x->files, &w, target, &n, &e) ? err_errno(&e) : 0;
}

static void leads_to(struct fx *x, const char *path, const char *target)
{
    struct err e = ERR_INIT;
    struct inode n;
    char now[STORE_LINK_MAX + 1];
    assert_int_equal(fx_lookup(x, path, &n), 0);
    assert_int_equal(n.mode, S_IFLNK | 0777);
    assert_int_equal(n.size, strlen(target));
    assert_int_equal(files_readlink(x->files, n.ino, now, &e), 0);
    assert_string_equal(now, target);
}

static void test_link(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    char now[STORE_LINK_MAX + 1], longest[STORE_LINK_MAX + 2] = "";
    struct fx_handle h;
    assert_int_equal(make(x, "main/l", "../x/y", false), 0);
    leads_to(x, "main/l", "../x/y");
    fx_store_is(x, "main/l", "../x/y");
    assert_int_equal(make(x, "main/l", "z", false), EEXIST);
    fx_put(x, "main/f", "text");
    assert_int_equal(make(x, "main/f", "z", false), EEXIST);
    fake_store_write(x->fake[0], "unknown", "1"); /* a name that only the store knows */
    assert_int_equal(make(x, "main/unknown", "z", false), EEXIST);
    assert_int_equal(make(x, "ro/l", "z", false), EROFS);
    memset(longest, 'x', STORE_LINK_MAX);
    assert_int_equal(make(x, "main/long", longest, false), 0);
    leads_to(x, "main/long", longest);
    longest[STORE_LINK_MAX] = 'x';
    assert_int_equal(make(x, "main/longer", "", false), ENOENT);

    assert_int_equal(files_readlink(x->files, fx_ino(x, "main/f"), now, &e), -1);
    assert_int_equal(err_errno(&e), EINVAL);
    assert_int_equal(fx_open(x, "main/l", O_RDONLY, &h), ELOOP);
    /* once read, it is read without the store */
    uint64_t ino = fx_ino(x, "main/l");
    fake_store_fail(x->fake[0], FAKE_READ, ERR_RETRY, 0, 0, 1000);
    assert_int_equal(files_readlink(x->files, ino, now, &e), 0);
    fake_store_fail(x->fake[0], FAKE_READ, ERR_RETRY, 0, 0, 0);

    assert_int_equal(fx_rename(x, "main/l", "main/m", 0, false), 0);
    assert_int_equal(fx_lookup(x, "main/l", NULL), ENOENT);
    leads_to(x, "main/m", "../x/y");
    assert_int_equal(fx_unlink(x, "main/m", false), 0);
    fx_store_is(x, "main/m", NULL);
    fx_free(x);
}

/* After a kill the kernel asks again: what was made is ours if it leads there. */
static void test_resent(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct fx *x = fx_new(NULL);
        assert_int_equal(make(x, "main/l", "to", false), 0);
        fx_restart(x, keep);
        assert_int_equal(make(x, "main/l", "to", true), 0);
        leads_to(x, "main/l", "to");
        assert_int_equal(make(x, "main/l", "elsewhere", true), EEXIST);
        fx_put(x, "main/f", "to");
        assert_int_equal(make(x, "main/f", "to", true), EEXIST);
        /* the answer was lost, and nobody asks again */
        fake_store_lose_answer(x->fake[0]);
        assert_int_equal(make(x, "main/lost", "to", false), EIO);
        assert_int_equal(make(x, "main/lost", "to", true), 0);
        /* not begun by the one before */
        assert_int_equal(make(x, "main/new", "to", true), 0);
        leads_to(x, "main/new", "to");
        fx_free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_resent),
    };
    return cmocka_run_group_tests_name("file_links", tests, NULL, NULL);
}
