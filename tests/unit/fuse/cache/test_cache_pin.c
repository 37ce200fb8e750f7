/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: what stays, how much of it, for how long. */
#include "tests/unit/fuse/cache/cache_unit.h"

static struct cache_file *keep(struct cache *c, const char *path, uint64_t size)
{
    struct cache_key key = {0, path, "1", size};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_pin(c, &key, 0, size, &e);
    if (!f)
        print_error("%s\n", e.msg);
    assert_non_null(f);
    return f;
}

static void pin(struct cache *c, const char *path, uint64_t size)
{
    struct cache_file *f = keep(c, path, size);
    wait_complete(f);
    cache_close(f);
}

static void refused(struct cache *c, const char *path, uint64_t size)
{
    struct cache_key key = {0, path, "1", size};
    struct err e = ERR_INIT;
    assert_null(cache_pin(c, &key, 0, size, &e));
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    assert_int_equal(e.sys, ENOSPC);
    assert_non_null(strstr(e.msg, "unpin something"));
}

static void unpin(struct cache *c, const char *path)
{
    cache_unpin(c, &(struct cache_key){.path = path});
}

/* Reads so much else that what may go is gone: more than once each, as what is read again pushes
 * out what was. */
static void press(struct cache *c, unsigned files)
{
    for (unsigned i = 0; i < files * 3; i++) {
        char path[16];
        snprintf(path, sizeof path, "f%u", i / 3);
        struct cache_file *f = open_file(c, path, "1", MIB);
        read_check(f, path, "1", 0, MIB);
        cache_close(f);
    }
}

static uint64_t here(struct cache *c, const char *path, uint64_t size)
{
    struct cache_file *f = open_file(c, path, "1", size);
    uint64_t bytes = cache_cached(f, 0, size);
    cache_close(f);
    return bytes;
}

static void test_pinned_stays(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 16 << 20);
    pin(c, "pinned", 2 * MIB + 5);
    struct cache_file *read = open_file(c, "tiny", "1", 100); /* what was here before, too */
    read_check(read, "tiny", "1", 0, 100);
    cache_close(read);
    pin(c, "tiny", 100);
    pin(c, "empty", 0);
    for (int restart = 0; restart < 3; restart++) {
        struct cache_stats s = stats(c);
        assert_int_equal(s.pinned_files, 2);
        assert_int_equal(s.pinned_bytes, 2 * MIB + 2 * 4096);
        assert_int_equal(s.pinned_most, 8 * MIB);
        press(c, 60);
        assert_int_equal(here(c, "pinned", 2 * MIB + 5), 2 * MIB + 5);
        assert_int_equal(here(c, "tiny", 100), 100);
        fake.fetches = 0;
        struct cache_file *f = open_file(c, "pinned", "1", 2 * MIB + 5);
        assert_true(cache_is_pinned(f));
        read_check(f, "pinned", "1", 0, 2 * MIB + 5);
        assert_int_equal(fake.fetches, 0);
        cache_close(f);
        cache_free(c);
        c = open_cache(0, 16 << 20);
    }
    unpin(c, "pinned");
    press(c, 60);
    assert_int_equal(here(c, "pinned", 2 * MIB + 5), 0);
    assert_int_equal(here(c, "tiny", 100), 100);
    cache_unpin_all(c);
    assert_int_equal(stats(c).pinned_bytes + stats(c).pinned_files, 0);
    press(c, 60);
    assert_int_equal(here(c, "tiny", 100), 0);
    cache_free(c);
    c = open_cache(0, 16 << 20);
    assert_int_equal(stats(c).pinned_files, 0);
    cache_free(c);
}

/* Three segments, of which some blocks are here; open and closed, before and after a restart. */
static void test_a_part_stays(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 32 << 20);
    uint64_t size = 130u * MIB;
    struct cache_key key = {0, "part", "1", size};
    struct err e = ERR_INIT;
    struct cache_file *f = open_file(c, "part", "1", size);
    assert_int_equal(cache_fill(f, 127 * MIB, 3 * MIB, &e), 0); /* before it is pinned */
    cache_close(f);
    f = cache_pin(c, &key, 0, 3 * MIB, &e);
    assert_non_null(f);
    assert_int_equal(cache_fill(f, 0, 3 * MIB, &e), 0);
    press(c, 80);
    assert_int_equal(cache_cached(f, 0, size), 6 * MIB);
    cache_close(f);
    press(c, 80);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(here(c, "part", size), 6 * MIB);
        cache_free(c);
        c = open_cache(0, 32 << 20);
        press(c, 80); /* before it is opened for the first time */
        assert_int_equal(stats(c).pinned_bytes, 6 * MIB);
    }
    unpin(c, "part");
    press(c, 80);
    assert_int_equal(here(c, "part", size), 0);
    assert_int_equal(stats(c).full, 0);
    cache_free(c);
}

static void test_the_rest_goes_on_being_a_cache(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 32 << 20);
    char path[16];
    for (unsigned i = 0; i < 3000; i++) { /* more than an eviction looks at */
        snprintf(path, sizeof path, "p%u", i);
        pin(c, path, 4096);
    }
    assert_int_equal(stats(c).pinned_files, 3000);
    for (unsigned i = 0; i < 8; i++) {
        press(c, 40);
        assert_int_equal(stats(c).full, 0);
    }
    fake.fetches = 0;
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(path, sizeof path, "p%u", i);
        assert_int_equal(here(c, path, 4096), 4096);
    }
    cache_free(c);
}

static void test_half_at_most(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 32 << 20);
    char path[16];
    refused(c, "huge", 17 * MIB);
    assert_int_equal(fake.fetches, 0);
    for (unsigned i = 0; i < 16; i++) {
        snprintf(path, sizeof path, "p%u", i);
        pin(c, path, MIB);
    }
    refused(c, "p16", MIB);
    pin(c, "p3", MIB); /* it is already */
    unpin(c, "p3");
    pin(c, "p16", MIB);
    refused(c, "p3", MIB);
    cache_drop(c, &(struct cache_key){.path = "p16"});
    pin(c, "p3", MIB);
    assert_int_equal(stats(c).pinned_bytes, 16 * MIB);
    cache_free(c);
    c = open_cache(0, 16 << 20); /* a smaller one has room for fewer */
    assert_int_equal(stats(c).pinned_bytes, 8 * MIB);
    assert_int_equal(stats(c).pinned_files, 8);
    press(c, 60);
    assert_int_equal(stats(c).full, 0);
    cache_free(c);
}

/* Somebody reads on where the pinned part ends: served, but not kept beyond what pins may take. */
static void test_a_part_grows_to_half_at_most(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 32 << 20);
    uint64_t size = 40u * MIB;
    struct cache_key key = {0, "part", "1", size};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_pin(c, &key, 0, MIB, &e);
    assert_non_null(f);
    for (uint64_t off = 0; off < size; off += MIB)
        read_check(f, "part", "1", off, MIB);
    assert_true(cache_cached(f, 0, size) >= 10 * MIB);
    assert_true(cache_cached(f, 0, size) <= 16 * MIB);
    assert_true(stats(c).pinned_bytes <= 16 * MIB);
    assert_int_equal(cache_fill(f, 0, size, &e), -1);
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    assert_non_null(strstr(e.msg, "unpin something"));
    cache_close(f);
    cache_free(c);
}

/* A pin outlives the process, memory does not. */
static void test_pinned_bytes_are_on_disk(void **state)
{
    (void)state;
    struct cache *c = open_cache(64 << 20, 64 << 20);
    uint64_t size = 3 * MIB;
    struct err e = ERR_INIT;
    pin(c, "fresh", size);
    clock_sleep_ns(100 * NS_PER_MS);
    assert_int_equal(stats(c).moved_bytes, 0); /* at once where it belongs */
    struct cache_file *f = open_file(c, "whole", "1", size);
    wait_complete(f);
    cache_close(f);
    f = open_file(c, "tiny", "1", 5000);
    wait_complete(f);
    cache_close(f);
    f = open_file(c, "part", "1", size);
    assert_int_equal(cache_fill(f, MIB, MIB, &e), 0);
    cache_close(f);
    fake.fetches = 0;
    fake.bytes = 0;
    f = keep(c, "whole", size);
    assert_int_equal(stats(c).moved_bytes, size); /* nobody has to wait for somebody to close it */
    cache_close(f);
    pin(c, "tiny", 5000);
    assert_int_equal(fake.fetches, 0);
    pin(c, "part", size);
    assert_int_equal(fake.bytes, size); /* anew, on disk */
    struct cache_file *reader = open_file(c, "read", "1", size);
    wait_complete(reader);
    pin(c, "read", size); /* he has it open: it moves when he closes it */
    cache_close(reader);
    for (int i = 0; i < 3000 && stats(c).moved_bytes < 2 * size + 5000; i++)
        clock_sleep_ns(10 * NS_PER_MS);
    for (int hot = 0; hot < 8; hot++) { /* what is pinned does not move up again */
        f = open_file(c, "whole", "1", size);
        read_check(f, "whole", "1", 0, size);
        cache_close(f);
    }
    clock_sleep_ns(200 * NS_PER_MS);
    cache_free(c);
    c = open_cache(64 << 20, 64 << 20);
    assert_int_equal(stats(c).pinned_files, 5);
    assert_int_equal(here(c, "fresh", size), size);
    assert_int_equal(here(c, "whole", size), size);
    assert_int_equal(here(c, "tiny", 5000), 5000);
    assert_int_equal(here(c, "part", size), size);
    assert_int_equal(here(c, "read", size), size);
    cache_free(c);
    file_remove_tree(dir, NULL);
    assert_int_equal(mkdir(dir, 0700), 0);
    c = open_cache(32 << 20, 0); /* where there is no disk, memory must do */
    pin(c, "p", 5 * MIB);
    press(c, 60);
    assert_int_equal(here(c, "p", 5 * MIB), 5 * MIB);
    refused(c, "q", 12 * MIB);
    cache_free(c);
}

static void test_a_pin_is_of_a_version(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 16 << 20);
    pin(c, "x", MIB);
    struct cache_file *old = open_file(c, "x", "1", MIB), *f = open_file(c, "x", "2", 2 * MIB);
    assert_false(cache_is_pinned(f));
    assert_int_equal(stats(c).pinned_files, 1);
    wait_complete(f);
    assert_int_equal(stats(c).pinned_files, 0);
    assert_int_equal(stats(c).pinned_bytes, 0);
    cache_close(old);
    cache_close(f);
    pin(c, "y", MIB);
    /* not read yet: the old version is here still, and can be let go */
    f = open_file(c, "y", "2", MIB);
    unpin(c, "y");
    assert_int_equal(stats(c).pinned_files, 0);
    cache_close(f);
    struct cache_key key = {0, "z", "1", MIB};
    struct err e = ERR_INIT;
    f = cache_pin(c, &key, 0, MIB, &e); /* nothing of it came */
    assert_true(cache_is_pinned(f));
    cache_close(f);
    assert_int_equal(stats(c).pinned_files, 0);
    assert_int_equal(stats(c).pinned_bytes, 0);
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_pinned_stays),
        T(test_a_part_stays),
        T(test_the_rest_goes_on_being_a_cache),
        T(test_half_at_most),
        T(test_a_part_grows_to_half_at_most),
        T(test_pinned_bytes_are_on_disk),
        T(test_a_pin_is_of_a_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
