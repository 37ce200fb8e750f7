/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are read in no order: when the rest of one is fetched, and what is not. */
#include "tests/unit/fuse/prefetch/prefetch_fixture.h"

#include "fuse/prefetch/directory.h"

#define QUOTA (INT64_C(64) << 20)

static struct directory_prefetch *start(struct fx *x)
{
    struct err e = ERR_INIT;
    struct directory_prefetch *s = directory_prefetch_new(x->inodes, x->tree, x->cache, &e);
    assert_non_null(s);
    return s;
}

/* n readers, of files all over the directory. */
static void read_files(struct fx *x, struct directory_prefetch *s, const char *dir, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct inode f = fx_file(x, dir, i * 7 % 64);
        directory_prefetch_observe(s, &f);
    }
}

static void expect_nothing(struct fx *x)
{
    fx_settle(x);
    assert_int_equal(fx_fetched(x), 0);
}

/* An eighth of the files, and eight at least. */
static void test_thresholds(void **state)
{
    (void)state;
    static const struct {
        unsigned files, reads;
    } cases[] = {{8, 8}, {64, 8}, {80, 10}, {200, 25}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(QUOTA);
        struct directory_prefetch *s = start(x);
        fx_files(x, "d", cases[i].files, 10);
        for (unsigned k = 0; k + 1 < cases[i].reads; k++) {
            struct inode f = fx_file(x, "d", k);
            directory_prefetch_observe(s, &f);
        }
        expect_nothing(x);
        struct inode f = fx_file(x, "d", 0);
        directory_prefetch_observe(s, &f);
        eventually(fx_fetched(x) == cases[i].files);
        for (unsigned k = 0; k < cases[i].files; k++)
            eventually(fx_is_cached(x, "d", k)); /* it lands after it was fetched */
        fx_settle(x);
        assert_int_equal(fx_fetched(x), cases[i].files);
        /* it begins to count anew; what is here is not fetched again */
        read_files(x, s, "d", cases[i].files == 8 ? 1 : 8);
        fx_settle(x);
        assert_int_equal(fx_fetched(x), cases[i].files);
        directory_prefetch_free(s);
        fx_free(x);
    }
}

/* A directory whose names are not all known is left alone. */
static void test_unlisted(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct directory_prefetch *s = start(x);
    fx_files(x, "d", 64, 10);
    uint64_t d = fx_inode(x, "d").ino;
    for (unsigned i = 0; i < 20; i++) {
        struct inode f = fx_file(x, "d", i);
        inodes_unlist(x->inodes, d);
        directory_prefetch_observe(s, &f);
    }
    expect_nothing(x);
    directory_prefetch_free(s);
    fx_free(x);
}

static void test_sizes(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct directory_prefetch *s = start(x);
    cleanup_free char *text = xmalloc((4 << 20) + 2);
    memset(text, 'x', (4 << 20) + 1);
    text[(4 << 20) + 1] = '\0';
    fake_store_write(x->fake, "d/f008", text);
    fake_store_write(x->fake, "d/f009", "");
    fx_files(x, "d", 8, 10);
    for (unsigned i = 0; i < 20; i++) { /* readers of large files do not count */
        struct inode f = fx_file(x, "d", 8);
        directory_prefetch_observe(s, &f);
    }
    expect_nothing(x);
    for (unsigned i = 0; i < 8; i++) {
        struct inode f = fx_file(x, "d", i);
        directory_prefetch_observe(s, &f);
    }
    eventually(fx_fetched(x) == 8);
    fx_settle(x);
    assert_false(fx_was_fetched(x, "d/f008") || fx_was_fetched(x, "d/f009"));
    directory_prefetch_free(s);
    fx_free(x);
}

/* Nothing is evicted for it: an eighth of the cache stays free. */
static void test_room(void **state)
{
    (void)state;
    struct fx *x = fx_new(INT64_C(16) << 20);
    struct directory_prefetch *s = start(x);
    fx_files(x, "large", 64, 1 << 20);
    fx_files(x, "small", 64, 64 << 10);
    struct inode f = fx_file(x, "large", 0);
    for (unsigned i = 0; i < 8; i++)
        directory_prefetch_observe(s, &f);
    expect_nothing(x); /* a batch of 32 MiB */
    f = fx_file(x, "small", 0);
    for (unsigned i = 0; i < 8; i++)
        directory_prefetch_observe(s, &f);
    eventually(fx_fetched(x) == 64); /* 4 MiB */
    struct cache_stats c;
    eventually((cache_stats(x->cache, &c), c.used_bytes >= 64 * (64 << 10)));
    fx_files(x, "more", 64, 96 << 10); /* two batches of 3 MiB: there is room for both */
    f = fx_file(x, "more", 0);
    for (unsigned i = 0; i < 8; i++)
        directory_prefetch_observe(s, &f);
    eventually(fx_fetched(x) == 128);
    eventually((cache_stats(x->cache, &c), c.used_bytes == 10 << 20));
    fx_settle(x);
    /* 10 MiB are used, 14 may be: a page more than that is not fetched, no page more is */
    fx_files(x, "above", 8, (512 << 10) + 1);
    f = fx_file(x, "above", 0);
    for (unsigned i = 0; i < 8; i++)
        directory_prefetch_observe(s, &f);
    fx_settle(x);
    assert_int_equal(fx_fetched(x), 128);
    fx_files(x, "last", 8, 512 << 10);
    f = fx_file(x, "last", 0);
    for (unsigned i = 0; i < 8; i++)
        directory_prefetch_observe(s, &f);
    eventually(fx_fetched(x) == 136);
    cache_stats(x->cache, &c);
    assert_true(c.evicted_bytes == 0);
    directory_prefetch_free(s);
    fx_free(x);
}

/* A file that has changed is passed over; a store that fails ends it, until there are readers
 * again. */
static void test_failures(void **state)
{
    (void)state;
    static const struct {
        enum err_class cls;
        bool goes_on;
    } cases[] = {{ERR_CONFLICT, true}, {ERR_NOTFOUND, true}, {ERR_RETRY, false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(QUOTA);
        struct directory_prefetch *s = start(x);
        fx_files(x, "d", 200, 10);
        fx_files(x, "e", 8, 10);
        snprintf(x->fails, sizeof x->fails, "d/");
        x->fail_cls = cases[i].cls;
        read_files(x, s, "d", 25);
        eventually(fx_fetched(x) >= (cases[i].goes_on ? 200 : 1));
        fx_settle(x);
        assert_true(cases[i].goes_on || fx_fetched(x) <= 32); /* of the first batch */
        assert_false(fx_is_cached(x, "d", 0));
        pthread_mutex_lock(&x->mu);
        x->fails[0] = '\0';
        pthread_mutex_unlock(&x->mu);
        struct inode f = fx_file(x, "e", 0);
        for (unsigned k = 0; k < 8; k++)
            directory_prefetch_observe(s, &f);
        eventually(fx_is_cached(x, "e", 7));
        directory_prefetch_free(s);
        fx_free(x);
    }
}

/* Directories wait for each other; one that waits is not there twice. */
static void test_queue(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct directory_prefetch *s = start(x);
    char dir[16];
    for (unsigned d = 0; d < 20; d++) {
        snprintf(dir, sizeof dir, "d%u", d);
        fx_files(x, dir, 40, 10);
    }
    fx_hold(x, true);
    for (unsigned d = 0; d < 20; d++) {
        snprintf(dir, sizeof dir, "d%u", d);
        struct inode f = fx_file(x, dir, 3);
        for (unsigned k = 0; k < 24; k++) /* three times enough */
            directory_prefetch_observe(s, &f);
    }
    eventually(fx_fetched(x) > 0);
    fx_hold(x, false);
    for (unsigned d = 0; d < 20; d++)
        for (unsigned i = 0; i < 40; i++) {
            snprintf(dir, sizeof dir, "d%u", d);
            eventually(fx_is_cached(x, dir, i));
        }
    fx_settle(x);
    assert_int_equal(fx_fetched(x), 20 * 40);
    directory_prefetch_free(s);
    fx_free(x);
}

static void *release(void *arg)
{
    clock_sleep_ns(100 * NS_PER_MS);
    fx_hold(arg, false);
    return NULL;
}

/* It can be stopped in the middle. */
static void test_stop(void **state)
{
    (void)state;
    struct fx *x = fx_new(QUOTA);
    struct directory_prefetch *s = start(x);
    pthread_t thread;
    directory_prefetch_free(s);
    directory_prefetch_free(NULL);
    s = start(x);
    fx_files(x, "d", 200, 10);
    fx_hold(x, true);
    read_files(x, s, "d", 25);
    eventually(fx_fetched(x) > 0);
    assert_int_equal(pthread_create(&thread, NULL, release, x), 0);
    directory_prefetch_free(s);
    pthread_join(thread, NULL);
    assert_in_range(fx_fetched(x), 1, 16); /* those that were under way */
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_unlisted),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
