/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic links among names: which of them the store is asked for, and when a name becomes one. */
#include "tests/unit/fuse/tree/tree_fixture.h"

#include <sys/stat.h>

static const char *const one_mount[] = {"/", NULL};

/* A store whose listings tell links needs no question. */
static void test_told(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    fake_store_link(x->fake[0], "l", "to/it");
    assert_int_equal(fx_lookup(x, "l", &n), 0);
    assert_int_equal(n.mode, S_IFLNK | 0777);
    assert_int_equal(n.size, 5);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_ASK), 0);
    fx_free(x);
}

/* Each version of a file is asked for once, when it is looked up: a listing asks for none. */
static void test_asked_once(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode l, f;
    struct err e = ERR_INIT;
    fake_store_leave_unasked(x->fake[0]);
    fake_store_link(x->fake[0], "l", "to");
    fake_store_write(x->fake[0], "f", "12");
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_ASK), 0);
    assert_true(inodes_find(x->inodes, INODE_ROOT, "l", &l) && (l.flags & INODE_UNASKED));
    assert_int_equal(fx_lookup(x, "l", &l), 0);
    assert_true(S_ISLNK(l.mode) && !(l.flags & INODE_UNASKED));
    assert_int_equal(fx_lookup(x, "f", &f), 0);
    assert_true(S_ISREG(f.mode) && !(f.flags & INODE_UNASKED));
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_ASK), 2);
    fx_age(x, l.ino, 100);
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_int_equal(fx_lookup(x, "l", &l), 0);
    fx_age(x, l.ino, 100);
    assert_int_equal(fx_lookup(x, "l", &l), 0); /* by a stat */
    assert_true(S_ISLNK(l.mode));
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_ASK), 2);
    fx_free(x);
}

/* What the kernel knows as a file never becomes a link: the link is another inode. */
static void test_another_type(void **state)
{
    (void)state;
    for (int unasked = 0; unasked < 2; unasked++) {
        struct fx *x = fx_new(one_mount, false);
        struct inode old, n;
        if (unasked)
            fake_store_leave_unasked(x->fake[0]);
        fake_store_write(x->fake[0], "f", "12");
        assert_int_equal(fx_lookup(x, "f", &old), 0);
        inodes_ref(x->inodes, old.ino);
        fake_store_delete(x->fake[0], "f");
        fake_store_link(x->fake[0], "f", "to");
        fx_age(x, old.ino, 100);
        assert_int_equal(fx_lookup(x, "f", &n), 0);
        assert_true(S_ISLNK(n.mode) && n.ino != old.ino);
        assert_string_equal(x->changed, "1/f ");
        fake_store_delete(x->fake[0], "f");
        fake_store_write(x->fake[0], "f", "123");
        fx_age(x, n.ino, 100); /* nobody knows that one: it stays the same inode */
        assert_int_equal(fx_lookup(x, "f", &n), 0);
        assert_true(S_ISREG(n.mode) && n.size == 3);
        fx_free(x);
    }
}

/* A name that was listed and not asked for, and under which a file of ours is then: nobody asks. */
static void test_ours(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_leave_unasked(x->fake[0]);
    fake_store_link(x->fake[0], "l", "to");
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_true(inodes_find(x->inodes, INODE_ROOT, "l", &n) && (n.flags & INODE_UNASKED));
    inodes_set(x->inodes, n.ino, 0, NULL, INODE_STAGED | INODE_DIRTY, 0);
    fx_age(x, n.ino, 100);
    assert_int_equal(fx_lookup(x, "l", &n), 0);
    assert_true(S_ISREG(n.mode));
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_ASK), 0);
    fx_free(x);
}

/* Replaced between the look and the question; and a store that does not answer it. */
static void test_question_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_leave_unasked(x->fake[0]);
    fake_store_write(x->fake[0], "f", "12");
    fake_store_write(x->fake[0], "g", "12");
    fake_store_write(x->fake[0], "h", "12");
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    fake_store_write(x->fake[0], "f", "123");
    assert_int_equal(fx_lookup(x, "f", &n), 0);
    assert_true(n.size == 3 && !(n.flags & INODE_UNASKED));
    fake_store_delete(x->fake[0], "h");
    assert_int_equal(fx_lookup(x, "h", NULL), ENOENT);
    fake_store_fail(x->fake[0], FAKE_ASK, ERR_RETRY, 0, 0, 1);
    assert_int_equal(fx_lookup(x, "g", NULL), EIO);
    assert_int_equal(fx_lookup(x, "g", &n), 0);
    assert_true(S_ISREG(n.mode));
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_asked_once),
        cmocka_unit_test(test_another_type),
        cmocka_unit_test(test_ours),
        cmocka_unit_test(test_question_fails),
    };
    return cmocka_run_group_tests_name("tree_links", tests, NULL, NULL);
}
