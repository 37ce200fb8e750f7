/* SPDX-License-Identifier: Apache-2.0 */
/* Listings of directories: page by page, shared by those who read, begun again when they are old or
 * failed. */
#include "tests/unit/fuse/tree/tree_fixture.h"

#include <pthread.h>

static const char *const one_mount[] = {"/", NULL};

static struct fx *fx_with_files(unsigned n, size_t page)
{
    struct fx *x = fx_new(one_mount, false);
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        fake_store_write(x->fake[0], name, "1");
    }
    fake_store_set_page(x->fake[0], page);
    return x;
}

static int last_cookie(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)child;
    *(uint64_t *)user = cookie;
    return 0;
}

/* A reader gets what a page has; the next page comes when it has read that. */
static void test_pages(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(10, 4);
    struct err e = ERR_INIT;
    struct inode root;
    uint64_t cookie = 0;
    static const char *const then[] = {
        "f0 f1 f2 f3 ", "f0 f1 f2 f3 f4 f5 f6 f7 ", "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 "};
    for (unsigned page = 0; page < 3; page++) {
        assert_int_equal(tree_fill(x->tree, INODE_ROOT, cookie, &e), 0);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), page + 1);
        assert_string_equal(fx_children(x, INODE_ROOT), then[page]);
        assert_int_equal(inodes_get(x->inodes, INODE_ROOT, &root), 0);
        assert_int_equal(!!(root.flags & INODE_LISTED), page == 2);
        inodes_children(x->inodes, INODE_ROOT, 0, false, last_cookie, &cookie);
    }
    assert_int_equal(tree_fill(x->tree, INODE_ROOT, cookie, &e), 0); /* the end */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 3);
    assert_int_equal(tree_fill(x->tree, INODE_ROOT, 0, &e), 0); /* another reader: anew */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 6);
    assert_string_equal(x->changed, "");
    assert_int_equal(tree_fill(x->tree, 99999, 0, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    fx_free(x);
}

/* A name is looked for in the page that comes, then in the store by itself: not in all pages. */
static void test_lookup_takes_a_page(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(10, 4);
    struct err e = ERR_INIT;
    assert_int_equal(fx_lookup(x, "f2", NULL), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 0);
    assert_int_equal(fx_lookup(x, "f9", NULL), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 1);
    assert_int_equal(fx_lookup(x, "absent", NULL), ENOENT);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 2);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 1);
    /* a listing that was begun goes on where it was */
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 3);
    assert_int_equal(fx_lookup(x, "absent", NULL), ENOENT);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 2);
    fx_free(x);
}

/* In a large directory whose listing is old, a name is asked for by itself. */
static void test_large_directory(void **state)
{
    (void)state;
    for (unsigned n = 1000; n <= 1001; n++) {
        struct fx *x = fx_with_files(n, 0);
        struct err e = ERR_INIT;
        struct inode f;
        assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
        assert_int_equal(fx_lookup(x, "f5", &f), 0);
        fx_age_listing(x, INODE_ROOT, 100);
        fx_age(x, f.ino, 100);
        assert_int_equal(fx_lookup(x, "f5", NULL), 0);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), n == 1000 ? 2 : 1);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), n == 1000 ? 0 : 1);
        fx_free(x);
    }
}

/* What came, went or changed since the last listing, and what the kernel is told of it. */
static void test_listed_again(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(3, 0);
    struct err e = ERR_INIT;
    struct inode n;
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0); /* nothing has changed */
    assert_string_equal(x->changed, "");
    fake_store_write(x->fake[0], "f3", "1");
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_string_equal(x->changed, "1/ ");
    assert_string_equal(fx_children(x, INODE_ROOT), "f0 f1 f2 f3 ");

    x->changed[0] = '\0';
    assert_int_equal(fx_lookup(x, "f1", &n), 0);
    inodes_ref(x->inodes, n.ino);
    fake_store_delete(x->fake[0], "f1");
    fake_store_delete(x->fake[0], "f2"); /* of which the kernel knows nothing */
    for (int i = 0; i < 4; i++) { /* those that stay were last seen before this listing, too */
        char name[8];
        snprintf(name, sizeof name, "f%d", i);
        if (inodes_find(x->inodes, INODE_ROOT, name, &n))
            fx_age(x, n.ino, 100);
    }
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_string_equal(fx_children(x, INODE_ROOT), "f0 f3 ");
    assert_string_equal(x->changed, "1/f1 1/ ");

    x->changed[0] = '\0';
    assert_int_equal(fx_lookup(x, "f0", &n), 0);
    inodes_ref(x->inodes, n.ino);
    fake_store_write(x->fake[0], "f0", "22");
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_string_equal(x->changed, "1/f0 ");
    fx_free(x);
}

/* Who reads a directory sees what other nodes have put there, where files can be written and a page
 * tells it. */
static void test_read_where_others_write(void **state)
{
    (void)state;
    for (unsigned n = 1000; n <= 1001; n++)
        /* the dataset, or this mount of one that can be written to */
        for (int read_only = 0; read_only < 3; read_only++) {
            struct fx *x = fx_new(one_mount, read_only == 1);
            struct err e = ERR_INIT;
            x->mounts[0].read_only = read_only;
            unsigned pages = n > 1000 || read_only ? 1 : 2;
            for (unsigned i = 0; i < n; i++) {
                char name[16];
                snprintf(name, sizeof name, "f%u", i);
                fake_store_write(x->fake[0], name, "1");
            }
            assert_int_equal(tree_fill(x->tree, INODE_ROOT, 0, &e), 0);
            assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
            fake_store_write(x->fake[0], "others", "1");
            assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 1);
            assert_int_equal(tree_fill(x->tree, INODE_ROOT, 0, &e), 0);
            assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), pages);
            assert_int_equal(
                inodes_find(x->inodes, INODE_ROOT, "others", &(struct inode){0}), pages == 2);
            fx_free(x);
        }
}

/* A directory that was empty a moment ago, and into which other nodes have put pages full. */
static void test_grown_by_pages(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(0, 1000);
    struct err e = ERR_INIT;
    struct inode root;
    assert_int_equal(tree_fill(x->tree, INODE_ROOT, 0, &e), 0);
    for (unsigned i = 0; i < 3500; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        fake_store_write(x->fake[0], name, "1");
    }
    assert_int_equal(tree_fill(x->tree, INODE_ROOT, 0, &e), 0);
    assert_int_equal(inodes_get(x->inodes, INODE_ROOT, &root), 0);
    assert_int_equal(root.nchildren, 3500);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 1 + 4);
    fx_free(x);
}

/* A directory and a file of one name: the directory wins, and the listing is not taken for
 * complete. */
static void test_hidden(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(1, 0);
    struct err e = ERR_INIT;
    struct inode n;
    fake_store_write(x->fake[0], "d/f", "1");
    assert_int_equal(fx_lookup(x, "d", &n), 0);
    uint64_t d = n.ino;
    fake_store_delete(x->fake[0], "d");
    fake_store_write(x->fake[0], "d", "file");
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_true(inodes_find(x->inodes, INODE_ROOT, "d", &n) && n.ino == d);
    assert_int_equal(inodes_get(x->inodes, INODE_ROOT, &n), 0);
    assert_false(n.flags & INODE_LISTED);
    fx_free(x);
}

/* Names that no file can have are left out. */
static void test_names(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(1, 0);
    struct err e = ERR_INIT;
    char longest[INODE_NAME_MAX + 1], too_long[INODE_NAME_MAX + 2], want[INODE_NAME_MAX + 8];
    memset(longest, 'l', sizeof longest - 1);
    memset(too_long, 't', sizeof too_long - 1);
    longest[sizeof longest - 1] = too_long[sizeof too_long - 1] = '\0';
    fake_store_write(x->fake[0], ".", "1");
    fake_store_write(x->fake[0], "..", "1");
    fake_store_write(x->fake[0], too_long, "1");
    fake_store_write(x->fake[0], longest, "1");
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    snprintf(want, sizeof want, "f0 %s ", longest);
    assert_string_equal(fx_children(x, INODE_ROOT), want);
    fx_free(x);
}

/* A page that fails: an unknown directory does, and the next reader begins with its first page. */
static void test_page_fails(void **state)
{
    (void)state;
    struct fx *x = fx_with_files(10, 4);
    struct err e = ERR_INIT;
    fake_store_fail(x->fake[0], FAKE_LIST, ERR_RETRY, 0, 1, 1);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 2);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 5);
    assert_string_equal(fx_children(x, INODE_ROOT), "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 ");
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0); /* it failed a moment ago */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 5);
    fx_free(x);
}

/* A complete listing is served on where its store fails, and the store is left alone for a while.
 */
static void test_listing_is_served_on(void **state)
{
    (void)state;
    static const struct {
        enum err_class cls;
        bool served;
    } cases[] = {{ERR_RETRY, true}, {ERR_DENIED, true}, {ERR_FATAL, false}, {ERR_NOTFOUND, false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_with_files(3, 0);
        struct err e = ERR_INIT;
        assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
        fx_age_listing(x, INODE_ROOT, 100);
        fake_store_fail(x->fake[0], FAKE_LIST, cases[i].cls, 0, 0, 1);
        assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), cases[i].served ? 0 : -1);
        assert_true(cases[i].served || e.cls == cases[i].cls);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 2);
        assert_string_equal(fx_children(x, INODE_ROOT), "f0 f1 f2 ");
        assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), cases[i].served ? 2 : 3);
        fx_free(x);
    }
}

static void *fill_all(void *arg)
{
    struct fx *x = arg;
    struct err e = ERR_INIT;
    return (void *)(intptr_t)(tree_fill_all(x->tree, INODE_ROOT, &e) ? (int)e.cls : 0);
}

/* Those who wait for a page have its answer, also that it does not come: not one after the other.
 */
static void test_many_wait(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    for (int fails = 0; fails < 2; fails++) {
        struct fx *x = fx_with_files(3, 0);
        pthread_t threads[THREADS];
        if (fails)
            fake_store_fail(x->fake[0], FAKE_LIST, ERR_RETRY, 0, 0, 1);
        fake_store_hold(x->fake[0], FAKE_LIST);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, fill_all, x), 0);
        fake_store_wait_held(x->fake[0]);
        clock_sleep_ns(200 * NS_PER_MS); /* all the others wait for that page */
        fake_store_go(x->fake[0]);
        for (int i = 0; i < THREADS; i++) {
            void *rc;
            pthread_join(threads[i], &rc);
            assert_int_equal((intptr_t)rc, fails ? ERR_RETRY : 0);
        }
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 1);
        fx_free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_lookup_takes_a_page),
        cmocka_unit_test(test_large_directory),
        cmocka_unit_test(test_listed_again),
        cmocka_unit_test(test_read_where_others_write),
        cmocka_unit_test(test_grown_by_pages),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_page_fails),
        cmocka_unit_test(test_listing_is_served_on),
        cmocka_unit_test(test_many_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
