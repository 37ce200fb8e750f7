/* SPDX-License-Identifier: Apache-2.0 */
/* Readers that go through directories in the order of their listing, and such that do not. */
#include "tests/unit/fuse/prefetch/prefetch_fixture.h"

#include "fuse/prefetch/sequential.h"

#define QUOTA (INT64_C(256) << 20)

static struct sequential_prefetch *start(struct fx *x)
{
    struct err e = ERR_INIT;
    struct sequential_prefetch *w = sequential_prefetch_start(x->inodes, x->tree, x->cache, &e);
    assert_non_null(w);
    return w;
}

static void read_file(
    struct fx *x, struct sequential_prefetch *w, const char *dir, unsigned i, bool here)
{
    struct inode n = fx_file(x, dir, i);
    sequential_prefetch_observe(w, &n, here);
}

/* As it is in the cache. */
static void read_on(struct fx *x, struct sequential_prefetch *w, const char *dir, unsigned i)
{
    read_file(x, w, dir, i, fx_is_cached(x, dir, i));
}

static void expect_nothing(struct fx *x)
{
    fx_settle(x);
    assert_int_equal(fx_fetched(x), 0);
}

/* Files in order: batches that double, up to so many ahead; more when the reader has come on. */
static void test_in_order(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    fx_files(x, "d", 250, 10);
    read_file(x, w, "d", 0, false);
    read_file(x, w, "d", 1, false);
    expect_nothing(x);
    read_file(x, w, "d", 2, false);
    eventually(fx_is_cached(x, "d", 98));
    fx_settle(x);
    assert_int_equal(fx_fetched(x), 96); /* 8, 8, 16, 32, and 32 of a window of 128 */
    for (unsigned i = 3; i <= 98; i++)
        eventually(fx_is_cached(x, "d", i));
    assert_false(fx_is_cached(x, "d", 99));
    for (unsigned i = 3; i < 34; i++)
        read_file(x, w, "d", i, true);
    fx_settle(x);
    assert_int_equal(fx_fetched(x), 96); /* there is half a window still */
    read_file(x, w, "d", 34, true);
    eventually(fx_is_cached(x, "d", 130));
    fx_settle(x);
    assert_false(fx_is_cached(x, "d", 150));
    for (unsigned i = 35; i < 250; i++) { /* it stays ahead of a reader that is no faster */
        eventually(fx_is_cached(x, "d", i));
        read_file(x, w, "d", i, true);
    }
    assert_int_equal(fx_fetched(x), 247);
    sequential_prefetch_stop(w);
    fx_free(x);
}

static void test_out_of_order(void **state)
{
    (void)state;
    static const struct {
        unsigned order[6];
        bool follows;
    } cases[] = {
        {{10, 14, 18}, true},              /* passes three over */
        {{10, 15, 20, 25, 30, 35}, false}, /* passes four over */
        {{80, 70, 60, 50, 40, 30}, false},
        {{100, 101, 40, 102, 99, 103}, true},  /* late ones are no news … */
        {{100, 101, 35, 36, 100, 101}, false}, /* … unless they are very late */
        {{10, 11, 200, 201, 60, 61}, false},
        {{10, 11, 11, 11, 11, 11}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(QUOTA);
        struct sequential_prefetch *w = start(x);
        fx_files(x, "d", 220, 10);
        for (size_t k = 0; k < ARRAY_LEN(cases[i].order) && cases[i].order[k]; k++)
            read_file(x, w, "d", cases[i].order[k], false);
        if (cases[i].follows)
            eventually(fx_fetched(x) > 0);
        else
            expect_nothing(x);
        sequential_prefetch_stop(w);
        fx_free(x);
    }
}

/* A reader that finds everything in the cache needs nothing. */
static void test_all_here(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    fx_files(x, "d", 30, 10);
    for (unsigned i = 0; i < 10; i++)
        read_file(x, w, "d", i, true);
    expect_nothing(x);
    read_file(x, w, "d", 10, false); /* the first that it does not find */
    eventually(fx_is_cached(x, "d", 29));
    sequential_prefetch_stop(w);
    fx_free(x);
}

/* What was fetched once is not again: after a batch of nothing new it stops. */
static void test_read_again(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    fx_files(x, "d", 20, 10);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 20; i++)
            read_file(x, w, "d", i, round);
        eventually(fx_is_cached(x, "d", 19));
        fx_settle(x);
    }
    assert_int_equal(fx_fetched(x), 17);
    sequential_prefetch_stop(w);
    fx_free(x);
}

/* A batch of files that are all here ends it: a reader that has the rest needs no directory after
 * it. */
static void test_rest_is_here(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    fx_files(x, "d", 100, 10);
    for (unsigned i = 0; i < 3; i++)
        read_file(x, w, "d", i, false);
    eventually(fx_is_cached(x, "d", 98));
    fx_settle(x);
    sequential_prefetch_stop(w);
    w = start(x); /* it knows nothing of that */
    for (unsigned i = 0; i < 3; i++)
        read_file(x, w, "d", i, false);
    fx_settle(x);
    assert_false(fx_is_cached(x, "d", 99)); /* it did not go on to the end */
    sequential_prefetch_stop(w);
    fx_free(x);
}

/* At the end of a directory the next one follows, whose names may not be known yet. */
static void test_next_directory(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct err e = ERR_INIT;
    struct sequential_prefetch *w = start(x);
    fx_files(x, "top/a", 6, 10);
    fake_store_write(x->fake, "top/b/f000", "x");
    fake_store_write(x->fake, "top/b/f001", "x");
    fake_store_write(x->fake, "top/c/f000", "x");
    inodes_unlist(x->inodes, fx_inode(x, "top").ino);
    assert_int_equal(tree_fill_all(x->tree, fx_inode(x, "top").ino, &e), 0);
    for (unsigned i = 0; i < 3; i++)
        read_file(x, w, "top/a", i, false);
    eventually(fx_was_fetched(x, "top/c/f000"));
    eventually(fx_is_cached(x, "top/b", 0) && fx_is_cached(x, "top/b", 1));
    fx_settle(x);
    unsigned before = fx_fetched(x);
    assert_int_equal(before, 6); /* a/f003 … a/f005, two of b, one of c */
    sequential_prefetch_stop(w);
    fx_free(x);
}

/* Directories without small files are not gone through for ever. */
static void test_empty_directories(void **state)
{
    (void)state;
    for (unsigned empty = 1; empty <= 2; empty++) {
        struct fx *x = fx_new(QUOTA);
        struct err e = ERR_INIT;
        struct sequential_prefetch *w = start(x);
        fx_files(x, "top/a", 6, 10);
        for (unsigned i = 0; i < empty; i++) {
            cleanup_free char *dir = xasprintf("top/e%u", i);
            fake_store_mkdir(x->fake, dir);
        }
        fake_store_write(x->fake, "top/z/f000", "x");
        inodes_unlist(x->inodes, fx_inode(x, "top").ino);
        assert_int_equal(tree_fill_all(x->tree, fx_inode(x, "top").ino, &e), 0);
        for (unsigned i = 0; i < 3; i++)
            read_file(x, w, "top/a", i, false);
        eventually(fx_is_cached(x, "top/a", 5));
        fx_settle(x); /* the end of a counts as one, too */
        assert_int_equal(fx_was_fetched(x, "top/z/f000"), empty == 1);
        sequential_prefetch_stop(w);
        fx_free(x);
    }
}

/* Large files and empty ones are passed over; readers of them are no readers in order. */
static void test_sizes(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    static const struct {
        const char *name;
        size_t size;
    } more[] = {{"d/f004", 0}, {"d/f005", (4 << 20) + 1}, {"d/f006", 4 << 20}};
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        cleanup_free char *text = xmalloc(more[i].size + 1);
        memset(text, 'x', more[i].size);
        text[more[i].size] = '\0';
        fake_store_write(x->fake, more[i].name, text);
    }
    fx_files(x, "d", 4, 10);
    for (unsigned i = 0; i < 6; i++)
        read_file(x, w, "d", 5, false);
    struct inode d = fx_inode(x, "d");
    sequential_prefetch_observe(w, &d, false);
    expect_nothing(x);
    for (unsigned i = 0; i < 3; i++)
        read_file(x, w, "d", i, false);
    eventually(fx_is_cached(x, "d", 3));
    fx_settle(x);
    assert_false(fx_was_fetched(x, "d/f005"));
    assert_false(fx_was_fetched(x, "d/f004"));
    sequential_prefetch_stop(w);
    fx_free(x);
}

/* No more bytes are ahead of a reader than a twentieth of the cache, but one file always. */
static void test_bytes_ahead(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        unsigned ahead;
    } cases[] = {{300 << 10, 3}, {3 << 20, 1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(INT64_C(20) << 20); /* 1 MiB */
        struct sequential_prefetch *w = start(x);
        fx_files(x, "d", 16, cases[i].size);
        for (unsigned k = 0; k < 3; k++)
            read_file(x, w, "d", k, false);
        eventually(fx_is_cached(x, "d", 2 + cases[i].ahead));
        fx_settle(x);
        assert_int_equal(fx_fetched(x), cases[i].ahead);
        for (unsigned k = 3; k < 4 + cases[i].ahead; k++)
            read_on(x, w, "d", k);
        eventually(fx_fetched(x) > cases[i].ahead);
        sequential_prefetch_stop(w);
        fx_free(x);
    }
}

/* Several readers, each in a directory of its own; one more takes the place of the oldest. */
static void test_streams(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    char dir[16];
    for (unsigned d = 0; d < 9; d++) {
        snprintf(dir, sizeof dir, "d%u", d);
        fx_files(x, dir, 12, 10);
    }
    for (unsigned i = 0; i < 2; i++)
        for (unsigned d = 0; d < 8; d++) {
            snprintf(dir, sizeof dir, "d%u", d);
            read_file(x, w, dir, i, false);
        }
    read_file(x, w, "d8", 0, false); /* in the place of d0's */
    read_file(x, w, "d0", 2, false);
    read_file(x, w, "d1", 2, false); /* whose place d0 has now */
    expect_nothing(x);
    read_file(x, w, "d7", 2, false);
    eventually(fx_is_cached(x, "d7", 11));
    sequential_prefetch_stop(w);
    fx_free(x);
}

/* Stopped in the middle, and with nothing to do. */
static void test_stop(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct sequential_prefetch *w = start(x);
    fx_files(x, "d", 200, 10);
    sequential_prefetch_stop(w);
    sequential_prefetch_stop(NULL);
    w = start(x);
    fx_hold(x, true);
    for (unsigned i = 0; i < 3; i++)
        read_file(x, w, "d", i, false);
    eventually(fx_fetched(x) > 0);
    sequential_prefetch_stop(w); /* what is under way is the cache's */
    fx_hold(x, false);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_all_here),
        cmocka_unit_test(test_read_again),
        cmocka_unit_test(test_rest_is_here),
        cmocka_unit_test(test_next_directory),
        cmocka_unit_test(test_empty_directories),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_bytes_ahead),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
