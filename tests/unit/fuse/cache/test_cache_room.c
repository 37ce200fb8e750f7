/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas, eviction, tiers, full disks. */
#include "tests/unit/fuse/cache/cache_unit.h"

#include <dirent.h>
#include <sys/mount.h>

static void test_eviction_keeps_the_quota(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 16 << 20);
    for (unsigned i = 0; i < 200; i++) {
        char path[16];
        snprintf(path, sizeof path, "f%u", i);
        struct cache_file *f = open_file(c, path, "1", 700000);
        read_check(f, path, "1", 0, 700000);
        cache_close(f);
        assert_true(stats(c).used_bytes <= 16 << 20);
    }
    struct cache_stats s = stats(c);
    assert_true(s.evicted_bytes > 100 * MIB);
    assert_true(s.used_bytes > 10 * MIB);
    cache_free(c);
}

static void test_a_file_larger_than_the_cache(void **state)
{
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        memset(&fake, 0, sizeof fake);
        struct cache *c = open_cache(disk ? 0 : 80 << 20, disk ? 80 << 20 : 0);
        struct cache_file *f = open_file(c, "huge", "1", 200u * MIB);
        for (uint64_t off = 0; off < 200u * MIB; off += MIB) {
            read_check(f, "huge", "1", off, MIB);
            assert_true(stats(c).used_bytes <= 80 << 20);
        }
        /* Nothing that is read ahead pushes out what was read ahead before. On a busy machine some
         * of it finds no room at once, and is fetched again for a reader that comes late. */
        assert_in_range(fake.bytes, 200u * MIB, 208u * MIB);
        read_check(f, "huge", "1", 0, 3 * MIB);
        assert_true(stats(c).evicted_bytes > 60u * MIB);
        cache_close(f);
        cache_free(c);
    }
}

/* The pin may not grow further: what no tier takes is still there for its readers, and is asked for
 * once more at most. */
static void test_room_ends_in_the_middle(void **state)
{
    (void)state;
    struct cache *c = open_cache(12 << 20, 0);
    struct cache_key key = {0, "pinned", "1", 12 * MIB};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_pin(c, &key, 0, 3 * MIB, &e);
    assert_non_null(f);
    uint64_t most = stats(c).pinned_most;
    assert_true(most % MIB == 0 && most > 3 * MIB && most < 8 * MIB);
    assert_int_equal(cache_prefetch(f, 0, 8 * MIB, NULL), 0);
    eventually(fake.fetches > 0); /* one request for all of it */
    read_check(f, "pinned", "1", 0, 8 * MIB);
    assert_int_equal(cache_cached(f, 0, 12 * MIB), most);
    assert_int_equal(fake.fetches, 2);
    assert_int_equal(fake.bytes, 8 * MIB + 8 * MIB - most);
    cache_close(f);
    cache_free(c);
}

static void test_sparse_object_of_5_tb(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    uint64_t size = UINT64_C(5) << 40;
    struct cache_file *f = open_file(c, "vast", "1", size);
    read_check(f, "vast", "1", size - 5000, 5000);
    read_check(f, "vast", "1", size / 3, 100000);
    cache_close(f);
    cache_free(c);
    c = open_cache(0, 64 << 20);
    f = open_file(c, "vast", "1", size);
    fake.fetches = 0;
    read_check(f, "vast", "1", size - 5000, 5000);
    assert_int_equal(fake.fetches, 0);
    cache_close(f);
    cache_free(c);
}

static void test_open_complete_files_stay(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 16 << 20);
    struct cache_file *open[14];
    char path[16];
    for (unsigned i = 0; i < 14; i++) {
        snprintf(path, sizeof path, "o%u", i);
        open[i] = open_file(c, path, "1", MIB);
        wait_complete(open[i]);
    }
    for (unsigned i = 0; i < 30; i++) {
        snprintf(path, sizeof path, "f%u", i);
        struct cache_file *f = open_file(c, path, "1", 900000);
        read_check(f, path, "1", 0, 900000);
        cache_close(f);
    }
    fake.fetches = 0;
    for (unsigned i = 0; i < 14; i++) {
        snprintf(path, sizeof path, "o%u", i);
        assert_true(cache_complete(open[i]));
        read_check(open[i], path, "1", 0, MIB);
        cache_close(open[i]);
    }
    assert_int_equal(fake.fetches, 0);
    cache_free(c);
}

static void *close_late(void *arg)
{
    struct cache_file **open = arg;
    clock_sleep_ns(200 * NS_PER_MS);
    for (unsigned i = 0; open[i]; i++)
        cache_close(open[i]);
    return NULL;
}

/* The kernel says late that a file is closed: who asks for the room meanwhile gets it. */
static void test_room_that_comes_late(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 8 << 20);
    struct cache_file *open[9] = {0};
    char path[16];
    for (unsigned i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "o%u", i);
        open[i] = open_file(c, path, "1", MIB);
        wait_complete(open[i]);
    }
    uint64_t full = stats(c).full;
    pthread_t closer;
    struct err e = ERR_INIT;
    struct cache_file *f = open_file(c, "late", "1", MIB);
    assert_int_equal(pthread_create(&closer, NULL, close_late, open), 0);
    assert_int_equal(cache_fill(f, 0, MIB, &e), 0);
    assert_true(stats(c).full > full); /* it did not fit at first */
    assert_int_equal(pthread_join(closer, NULL), 0);
    assert_int_equal(cache_cached(f, 0, MIB), MIB);
    cache_close(f);
    cache_free(c);
}

static void test_tiers(void **state)
{
    (void)state;
    struct cache *c = open_cache(16 << 20, 128 << 20);
    char path[16];
    for (unsigned i = 0; i < 60; i++) { /* memory fills first, then the disk */
        snprintf(path, sizeof path, "f%u", i);
        struct cache_file *f = open_file(c, path, "1", MIB);
        wait_complete(f);
        cache_close(f);
    }
    struct cache_stats s = stats(c);
    assert_int_equal(s.complete_files, 60);
    assert_int_equal(s.used_bytes, 60 * MIB);
    /* a few hot ones on the disk move up, cold ones go down */
    for (int again = 0; again < 6 || (again < 1000 && stats(c).moved_bytes < 5 * MIB); again++) {
        for (unsigned i = 50; i < 55; i++) {
            snprintf(path, sizeof path, "f%u", i);
            struct cache_file *f = open_file(c, path, "1", MIB);
            read_check(f, path, "1", 0, MIB);
            cache_close(f);
        }
        clock_sleep_ns(50 * NS_PER_MS);
    }
    s = stats(c);
    /* one that is on its way takes room in both places */
    for (int i = 0; i < 6000 && s.used_bytes != 60 * MIB; i++) {
        clock_sleep_ns(10 * NS_PER_MS);
        s = stats(c);
    }
    assert_true(s.moved_bytes >= 5 * MIB);
    assert_int_equal(s.used_bytes, 60 * MIB);
    fake.fetches = 0;
    for (unsigned i = 0; i < 60; i++) {
        snprintf(path, sizeof path, "f%u", i);
        struct cache_file *f = open_file(c, path, "1", MIB);
        read_check(f, path, "1", 0, MIB);
        cache_close(f);
    }
    assert_int_equal(fake.fetches, 0); /* moved, not lost */
    cache_free(c);
}

static void test_full_disk(void **state)
{
    (void)state;
    if (mount("none", dir, "tmpfs", 0, "size=8m,mode=0700")) {
        print_message("a small file system can't be mounted here (%s)\n", strerror(errno));
        skip();
    }
    struct cache *c = open_cache(0, 1 << 30); /* the quota promises more than there is */
    char path[16];
    for (unsigned i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "f%u", i);
        uint64_t size = i % 4 == 3 ? 3 * MIB : 500000;
        struct cache_file *f = open_file(c, path, "1", size);
        read_check(f, path, "1", 0, size);
        cache_close(f);
    }
    assert_true(stats(c).full > 0);
    cache_free(c);
    umount(dir);
}

static void test_adopt(void **state)
{
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        struct cache *c = open_cache(disk ? 0 : 64 << 20, disk ? 64 << 20 : 0);
        static const uint64_t sizes[] = {1000, 5 * MIB + 1};
        for (int i = 0; i < 2; i++) {
            char path[16];
            snprintf(path, sizeof path, "w%d", i);
            cleanup_free char *staged = path_join(dir, path);
            int fd = open(staged, O_RDWR | O_CREAT | O_TRUNC, 0600);
            char *data = malloc(sizes[i]);
            fake_fill(fake_seed(path, "2"), 0, data, sizes[i]);
            assert_int_equal(write(fd, data, sizes[i]), sizes[i]);
            free(data);
            struct cache_key key = {0, path, "2", sizes[i]};
            struct err e = ERR_INIT;
            assert_int_equal(cache_adopt(c, &key, fd, &e), 0);
            close(fd);
            unlink(staged);
            struct cache_file *f = open_file(c, path, "2", sizes[i]);
            assert_true(cache_complete(f));
            read_check(f, path, "2", 0, sizes[i]);
            cache_close(f);
        }
        assert_int_equal(fake.fetches, 0);
        struct cache_key key = {0, "w0", "3", 77};
        int fd = open("/dev/null", O_RDONLY);
        struct err e = ERR_INIT;
        assert_int_equal(cache_adopt(c, &key, fd, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        close(fd);
        cache_free(c);
        if (disk) {
            c = open_cache(0, 64 << 20);
            struct cache_file *f = open_file(c, "w1", "2", sizes[1]);
            read_check(f, "w1", "2", 0, sizes[1]);
            assert_int_equal(fake.fetches, 0);
            cache_close(f);
            cache_free(c);
        }
    }
}

/* Of a fetch that breaks off in the middle of a block nothing is kept, and no room. */
static void test_broken_fetches(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *f = open_file(c, "f", "1", 3 * MIB);
    char byte;
    fake.fail_percent = 100;
    for (unsigned i = 0; i < 6; i++) {
        struct err e = ERR_INIT;
        assert_int_equal(cache_read(f, &byte, 1, i % 3 * MIB + MIB - 1, &e), -1);
    }
    assert_true(fake.fetches > 0);
    assert_true(empties(c));
    fake.fail_percent = 0;
    read_check(f, "f", "1", 0, 3 * MIB);
    wait_complete(f);
    assert_int_equal(stats(c).used_bytes, 3 * MIB);
    cache_close(f);
    cache_free(c);
}

/* What is pinned, or open and whole, does not leave: nothing else is thrown out for a written file
 * that has no room beside it. */
static void test_adopt_beside_what_stays(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 30 << 20);
    struct cache_key pinned = {0, "pinned", "1", 8 * MIB}, key = {0, "w", "2", 12 * MIB};
    struct err e = ERR_INIT;
    struct cache_file *whole = open_file(c, "whole", "1", 12 * MIB),
                      *pin = cache_pin(c, &pinned, 0, 8 * MIB, &e),
                      *other = open_file(c, "other", "1", 5 * MIB);
    assert_non_null(pin);
    wait_complete(whole);
    wait_complete(pin);
    wait_complete(other);
    cache_close(other);
    cleanup_free char *staged = path_join(dir, "w"), *data = malloc(12 * MIB);
    cleanup_fd int fd = open(staged, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fake_fill(fake_seed("w", "2"), 0, data, 12 * MIB);
    assert_int_equal(write(fd, data, 12 * MIB), 12 * MIB);
    assert_int_equal(cache_adopt(c, &key, fd, &e), -1);
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    assert_int_equal(stats(c).evicted_bytes, 0);
    cache_close(whole); /* that may go as soon as what fetched it has let go of it */
    eventually(cache_adopt(c, &key, fd, &e) == 0);
    assert_true(stats(c).evicted_bytes > 0);
    cache_close(pin);
    cache_free(c);
}

/* Written files become cached ones while the cache is full: neither may lose a byte by it. */
static void test_adopt_when_full(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 30 << 20);
    static const unsigned mib[] = {20, 25, 28, 12, 31, 9, 29, 3};
    char path[16] = "";
    for (unsigned i = 0; i < ARRAY_LEN(mib); i++) {
        uint64_t size = mib[i] * MIB;
        snprintf(path, sizeof path, "w%u", i);
        cleanup_free char *staged = path_join(dir, path), *data = malloc(size), *now = malloc(size);
        cleanup_fd int fd = open(staged, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        fake_fill(fake_seed(path, "2"), 0, data, size);
        assert_int_equal(write(fd, data, size), size);
        struct cache_key key = {0, path, "2", size};
        struct err e = ERR_INIT;
        uint64_t evicted = stats(c).evicted_bytes;
        int rc = cache_adopt(c, &key, fd, &e);
        if (mib[i] > 30) { /* it can't be kept: nothing leaves for it */
            assert_int_equal(rc, -1);
            assert_int_equal(e.cls, ERR_EXHAUSTED);
            assert_int_equal(stats(c).evicted_bytes, evicted);
        }
        assert_int_equal(pread(fd, now, size, 0), size);
        assert_memory_equal(now, data, size); /* as it was written */
        struct cache_file *f = open_file(c, path, "2", size);
        read_check(f, path, "2", 0, size);
        cache_close(f);
        unlink(staged);
    }
    assert_true(stats(c).evicted_bytes > 0);
    assert_true(stats(c).used_bytes <= 30 << 20);
    cache_free(c);
}

static void count_files(const char *path, unsigned *n)
{
    DIR *d = opendir(path);
    for (struct dirent *de; d && (de = readdir(d));) {
        if (de->d_name[0] == '.')
            continue;
        cleanup_free char *sub = path_join(path, de->d_name);
        if (de->d_type == DT_DIR)
            count_files(sub, n);
        else
            (*n)++;
    }
    if (d)
        closedir(d);
}

static void test_no_litter(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 8 << 20);
    for (unsigned i = 0; i < 100; i++) {
        char path[16];
        snprintf(path, sizeof path, "f%u", i % 30);
        struct cache_file *f = open_file(c, path, i % 7 ? "1" : "2", 300000 + i % 30 * 100000);
        read_check(f, path, i % 7 ? "1" : "2", 0, 300000);
        cache_close(f);
    }
    struct cache_stats before, s = stats(c);
    for (int same = 0; same < 10; same++) { /* until the last bytes have landed */
        before = s;
        clock_sleep_ns(200 * NS_PER_MS);
        s = stats(c);
        if (s.files != before.files || s.used_bytes != before.used_bytes)
            same = 0;
    }
    cache_free(c);
    cleanup_free char *ssd = path_join(dir, "ssd");
    cleanup_free char *orphan = path_join(ssd, "00/0123456789abcdef01234567.7");
    struct timespec old[2] = {{1, 0}, {1, 0}};
    assert_int_equal(file_write_atomic(orphan, "x", 1, 0600, NULL), 0);
    utimensat(AT_FDCWD, orphan, old, 0);
    clock_sleep_ns(1100 * NS_PER_MS);
    c = open_cache(0, 8 << 20);
    eventually(access(orphan, F_OK) == -1); /* what a crash left goes */
    assert_int_equal(stats(c).files, s.files);
    cache_free(c);
    unsigned files = 0;
    count_files(ssd, &files);
    /* data, and a sidecar for those of more than one block */
    assert_true(files >= s.files && files <= 2 * s.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_eviction_keeps_the_quota),
        T(test_a_file_larger_than_the_cache),
        T(test_room_ends_in_the_middle),
        T(test_sparse_object_of_5_tb),
        T(test_open_complete_files_stay),
        T(test_room_that_comes_late),
        T(test_tiers),
        T(test_full_disk),
        T(test_adopt),
        T(test_adopt_when_full),
        T(test_adopt_beside_what_stays),
        T(test_broken_fetches),
        T(test_no_litter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
