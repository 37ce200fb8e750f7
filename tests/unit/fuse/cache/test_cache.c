/* SPDX-License-Identifier: Apache-2.0 */
/* The cache against a source that misbehaves: what is served is always right, and what should not
 * be fetched twice is not. */
#include "tests/unit/fuse/cache/cache_unit.h"

static void reads_are_right(int64_t mem, int64_t ssd)
{
    static const uint64_t sizes[] = {
        1, 4095, 100000, MIB - 1, MIB, MIB + 1, 3 * MIB + 12345, 70u * MIB + 1};
    struct cache *c = open_cache(mem, ssd);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char path[32];
        snprintf(path, sizeof path, "dir/file-%zu", i);
        struct cache_file *f = open_file(c, path, "v1", sizes[i]);
        char tail[16];
        read_check(f, path, "v1", sizes[i] / 2, (size_t)MIN(sizes[i] - sizes[i] / 2, 300000));
        read_check(f, path, "v1", 0, (size_t)MIN(sizes[i], 5 * MIB + 77));
        assert_int_equal(cache_read(f, tail, sizeof tail, sizes[i], NULL), 0);
        assert_int_equal(cache_read(f, tail, sizeof tail, sizes[i] - 1, NULL), 1);
        wait_complete(f);
        read_check(f, path, "v1", 0, (size_t)sizes[i]);
        cache_close(f);
    }
    struct cache_stats s = stats(c);
    assert_int_equal(s.files, ARRAY_LEN(sizes));
    assert_int_equal(s.complete_files, ARRAY_LEN(sizes));
    uint64_t total = 0, pages = 0;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        total += sizes[i];
        pages += (sizes[i] + 4095) / 4096;
    }
    assert_int_equal(s.fetched_bytes, total); /* nothing twice */
    assert_int_equal(fake.bytes, total);
    assert_int_equal(s.used_bytes, pages * 4096);
    assert_int_equal(s.corrupt_blocks, 0);
    cache_free(c);
}

static void test_memory(void **state)
{
    (void)state;
    reads_are_right(256 << 20, 0);
}

static void test_disk(void **state)
{
    (void)state;
    reads_are_right(0, 256 << 20);
}

static void test_no_tier_at_all(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 0);
    struct cache_file *f = open_file(c, "a", "1", 10 * MIB);
    for (uint64_t off = 0; off < 10 * MIB; off += 128 << 10)
        read_check(f, "a", "1", off, 128 << 10);
    assert_true(fake.bytes <= 11 * MIB); /* the buffers serve the readers of a block */
    struct err e = ERR_INIT;
    assert_int_equal(cache_fill(f, 0, cache_size(f), &e), -1);
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    cache_close(f);
    cache_free(c);
}

static void test_empty_file(void **state)
{
    (void)state;
    struct cache *c = open_cache(1 << 20, 0);
    struct cache_file *f = open_file(c, "empty", "1", 0);
    char b;
    assert_true(cache_complete(f));
    assert_int_equal(cache_read(f, &b, 1, 0, NULL), 0);
    assert_int_equal(cache_complete_fd(f), -1);
    cache_close(f);
    assert_int_equal(fake.fetches, 0);
    cache_free(c);
}

static void test_complete_fd(void **state)
{
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        struct cache *c = open_cache(disk ? 0 : 64 << 20, disk ? 64 << 20 : 0);
        struct cache_file *f = open_file(c, "x", "1", 5 * MIB + 3),
                          *g = open_file(c, "x", "1", 5 * MIB + 3);
        assert_int_equal(cache_complete_fd(f), -1);
        wait_complete(f);
        int a = cache_complete_fd(f), b = cache_complete_fd(g);
        assert_true(a >= 0 && b >= 0);
        struct stat sa, sb;
        fstat(a, &sa);
        fstat(b, &sb);
        assert_int_equal(sa.st_ino, sb.st_ino);
        assert_int_equal(sa.st_size, 5 * MIB + 3);
        char *all = malloc(5 * MIB + 3);
        assert_int_equal(pread(a, all, 5 * MIB + 3, 0), 5 * MIB + 3);
        assert_int_equal(fake_check("x", "1", 0, all, 5 * MIB + 3), 0);
        free(all);
        close(a);
        close(b);
        cache_close(f);
        cache_close(g);
        cache_free(c);
    }
}

static void test_spans(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 300 << 20);
    struct cache_file *f = open_file(c, "big", "1", 130u * MIB);
    for (uint64_t off = 12345; off < 130u * MIB; off += 13 * MIB) {
        struct cache_span s;
        struct err e = ERR_INIT;
        assert_int_equal(cache_hold_span(f, off, 3 * MIB, &s, &e), 1);
        assert_true(s.len == 3 * MIB || (off + s.len) % (64u * MIB) == 0);
        char *buf = malloc(s.len);
        assert_int_equal(pread(s.fd, buf, s.len, (off_t)s.off), s.len);
        assert_int_equal(fake_check("big", "1", off, buf, s.len), 0);
        free(buf);
        cache_release_span(&s);
    }
    cache_close(f);
    cache_free(c);
}

struct reader {
    struct cache_file *f;
    uint64_t off;
    int64_t done_ns;
    ssize_t got;
};

static void *read_one(void *arg)
{
    struct reader *r = arg;
    char buf[4096];
    r->got = cache_read(r->f, buf, sizeof buf, r->off, NULL);
    r->done_ns = clock_mono_ns();
    return NULL;
}

static void test_single_flight(void **state)
{
    (void)state;
    struct cache *c = open_cache(64 << 20, 0);
    struct cache_file *f = open_file(c, "x", "1", 900000);
    fake.delay_us = 50000;
    pthread_t t[32];
    struct reader r[32];
    for (int i = 0; i < 32; i++) {
        r[i] = (struct reader){.f = f, .off = (uint64_t)i * 1000};
        pthread_create(&t[i], NULL, read_one, &r[i]);
    }
    for (int i = 0; i < 32; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(r[i].got, 4096);
    }
    assert_int_equal(fake.fetches, 1);
    cache_close(f);
    cache_free(c);
}

static void test_own_block_does_not_wait_for_read_ahead(void **state)
{
    (void)state;
    struct cache *c = open_cache(256 << 20, 0);
    struct cache_file *f = open_file(c, "x", "1", 200u * MIB);
    fake.slow_from = 40 * MIB; /* everything behind hangs */
    for (uint64_t off = 0; off < 39 * MIB; off += 512 << 10)
        read_check(f, "x", "1", off, 512 << 10);
    eventually(fake.running > 0); /* read-ahead went there */
    int64_t t0 = clock_mono_ns();
    read_check(f, "x", "1", 5 * MIB, 4096);
    read_check(f, "x", "1", 39 * MIB, 4096);
    assert_true(clock_mono_ns() - t0 < 60 * NS_PER_S); /* what is behind hangs until now */
    fake.gate = true;
    cache_close(f);
    cache_free(c);
}

static void test_blocks_are_read_as_they_come(void **state)
{
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        memset(&fake, 0, sizeof fake);
        struct cache *c = open_cache(disk ? 0 : 64 << 20, disk ? 64 << 20 : 0);
        struct cache_file *f = open_file(c, "x", "1", 8 * MIB);
        fake.slow_from = 3 * MIB;
        assert_int_equal(cache_prefetch(f, 0, 8 * MIB, NULL), 0);
        eventually(fake.running == 1); /* or the reader would ask for its blocks itself */
        read_check(f, "x", "1", 0, 3 * MIB);
        assert_int_equal(fake.running, 1); /* the same request goes on */
        assert_int_equal(cache_cached(f, 0, 8 * MIB), 3 * MIB);
        fake.gate = true;
        read_check(f, "x", "1", 0, 8 * MIB);
        assert_int_equal(fake.fetches, 1);
        assert_int_equal(stats(c).fetched_bytes, 8 * MIB);
        cache_close(f);
        cache_free(c);
    }
}

static void test_what_came_before_a_failure_stays(void **state)
{
    (void)state;
    struct cache *c = open_cache(64 << 20, 0);
    struct cache_file *f = open_file(c, "x", "1", 8 * MIB);
    fake.fail_next = 1; /* in the middle */
    assert_int_equal(cache_prefetch(f, 0, 8 * MIB, NULL), 0);
    eventually(fake.fetches == 1 && fake.running == 0);
    assert_int_equal(cache_cached(f, 0, 8 * MIB), 4 * MIB);
    read_check(f, "x", "1", 0, 8 * MIB);
    assert_int_equal(fake.bytes, 12 * MIB); /* the second half was asked for once more */
    cache_close(f);
    cache_free(c);
}

static void test_window_grows_and_random_does_not(void **state)
{
    (void)state;
    struct cache *c = open_cache(512 << 20, 0);
    struct cache_file *f = open_file(c, "seq", "1", 128u * MIB);
    fake.slow_from = 32 * MIB; /* what is ahead stays on its way until it has been counted */
    for (uint64_t off = 0; off < 64u * MIB; off += 128 << 10) {
        if (off == 32 * MIB) {
            eventually(fake.running >= 4); /* many requests at once */
            fake.gate = true;
        }
        read_check(f, "seq", "1", off, 128 << 10);
    }
    assert_true(fake.fetches < 60); /* that grew beyond one block */
    cache_close(f);
    cache_free(c);

    c = open_cache(256 << 20, 0);
    f = open_file(c, "rand", "1", 128u * MIB);
    fake.fetches = 0;
    fake.bytes = 0;
    fake.slow_from = 0;
    uint64_t blocks = 0;
    static bool seen[128];
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < 24; i++) {
        uint64_t block = i * 37 % 128; /* never near the last four */
        blocks += !seen[block];
        seen[block] = true;
        read_check(f, "rand", "1", block * MIB + 4096, 4096);
    }
    assert_int_equal(fake.bytes, blocks * MIB); /* one block each, none ahead */
    cache_close(f);
    cache_free(c);
}

static void test_requests_as_large_as_the_source_likes(void **state)
{
    (void)state;
    static const size_t parts[][2] = {{0, 8}, {1, 1}, {5, 8}, {32, 32}, {1024, 32}}; /* MiB */
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct cache *c = open_cache(256 << 20, 0);
        fake.part = parts[i][0] * MIB;
        fake.largest = 0;
        struct cache_file *f = open_file(c, "parts", "1", 64u * MIB);
        assert_int_equal(cache_prefetch(f, 0, 64u * MIB, NULL), 0);
        wait_complete(f);
        assert_int_equal(fake.largest, parts[i][1] * MIB);
        cache_close(f);
        cache_free(c);
    }
}

/* With a budget that such a request would exceed, parts are smaller, and are fetched ahead; without
 * a tier they are in buffers, and are right. */
static void test_large_requests_of_little_memory(void **state)
{
    (void)state;
    struct conf_tier memory = {CONF_MEM, 256 << 20};
    struct cache_conf conf = {.tiers = &memory,
        .ntiers = 1,
        .buffer_budget = 16 << 20,
        .fetch_threads = 8,
        .source = {fake_fetch, &fake, fake_part}};
    fake.part = 32 * MIB;
    for (int i = 0; i < 2; i++) {
        struct cache *c = cache_new(&conf, NULL);
        struct cache_file *f = open_file(c, "little", "1", 64u * MIB);
        fake.largest = 0;
        assert_int_equal(cache_prefetch(f, 0, 64u * MIB, NULL), 0);
        eventually(fake.largest > 0);
        for (uint64_t off = 0; off < 64u * MIB; off += MIB)
            read_check(f, "little", "1", off, MIB);
        assert_int_equal(fake.largest, i ? 32 * MIB : 8 * MIB);
        cache_close(f);
        cache_free(c);
        conf.ntiers = 0;
        conf.buffer_budget = 256 << 20;
    }
}

/* Who stops after the beginning has cost the store four times that at most. */
static void test_ahead_in_proportion(void **state)
{
    (void)state;
    struct cache *c = open_cache(1 << 30, 0);
    struct cache_file *f = open_file(c, "head", "1", 128u * MIB);
    fake.fetches = 0;
    fake.bytes = 0;
    for (uint64_t mib = 1; mib <= 8; mib *= 2) {
        for (uint64_t off = mib / 2 * MIB; off < mib * MIB; off += 128 << 10)
            read_check(f, "head", "1", off, 128 << 10);
        eventually(fake.bytes >= 3 * mib * MIB && fake.running == 0);
        assert_true(fake.bytes <= (5 * mib + 1) * MIB); /* whole blocks */
    }
    assert_true(fake.fetches < 30);
    cache_close(f);
    cache_free(c);
}

/* What read-ahead brings in for a reader is no hit for him; what he or others read again is. */
static void test_hits_are_counted_honestly(void **state)
{
    (void)state;
    struct cache *c = open_cache(64 << 20, 0);
    struct cache_file *f = open_file(c, "x", "1", 20 * MIB);
    for (int pass = 0; pass < 3; pass++) {
        for (uint64_t off = 0; off < 20 * MIB; off += 128 << 10)
            read_check(f, "x", "1", off, 128 << 10);
        wait_complete(f);
        struct cache_stats s = stats(c);
        assert_int_equal(s.fetched_bytes, 20 * MIB);
        assert_int_equal(s.hit_bytes, (uint64_t)pass * 20 * MIB);
    }
    cache_close(f);
    f = open_file(c, "loaded", "1", 5 * MIB);
    wait_complete(f);
    uint64_t before = stats(c).hit_bytes;
    read_check(f, "loaded", "1", 0, 5 * MIB);
    assert_int_equal(stats(c).hit_bytes - before, 5 * MIB);
    cache_close(f);
    cache_free(c);
}

static void test_failures(void **state)
{
    (void)state;
    struct cache *c = open_cache(64 << 20, 0);
    struct cache_file *f = open_file(c, "x", "1", 20 * MIB);
    char buf[16];
    struct err e = ERR_INIT;
    fake.fail_next = 1;
    assert_int_equal(cache_read(f, buf, sizeof buf, 0, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_non_null(strstr(e.msg, "on purpose"));
    read_check(f, "x", "1", 0, 16); /* asked again, not remembered */
    fake.fail_percent = 30;
    unsigned failed = 0, fine = 0;
    for (uint64_t off = 0; off < 20 * MIB; off += 100000) {
        size_t len = (size_t)MIN(100000, 20 * MIB - off);
        char *big = malloc(len);
        if (cache_read(f, big, len, off, NULL) < 0) {
            failed++;
        } else {
            fine++;
            assert_int_equal(fake_check("x", "1", off, big, len), 0);
        }
        free(big);
    }
    assert_true(fine > failed);
    fake.fail_percent = 0;
    wait_complete(f);
    read_check(f, "x", "1", 0, 20 * MIB);
    cache_close(f);
    cache_free(c);
}

static void test_versions(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *old = open_file(c, "x", "v1", 3 * MIB);
    read_check(old, "x", "v1", 0, MIB);
    struct cache_file *fresh = open_file(c, "x", "v2", 2 * MIB);
    strcpy(fake.gone, "v1");
    wait_complete(fresh);
    read_check(fresh, "x", "v2", 0, 2 * MIB);
    wait_complete(fresh);
    read_check(old, "x", "v1", 0, MIB); /* what it has it keeps */
    char buf[16];
    struct err e = ERR_INIT;
    /* what it has not is gone: never the new bytes */
    assert_int_equal(cache_read(old, buf, sizeof buf, 2 * MIB, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(err_errno(&e), ESTALE);
    cache_close(old);
    /* a thread that wrote may hold it a little longer */
    for (int i = 0; i < 30000 && (stats(c).files > 1 || stats(c).used_bytes > 2 * MIB); i++)
        clock_sleep_ns(NS_PER_MS);
    struct cache_stats s = stats(c);
    assert_int_equal(s.files, 1);
    assert_int_equal(s.used_bytes, 2 * MIB);
    cache_close(fresh);
    cache_free(c);
}

static void test_drop(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 400 << 20);
    struct cache_key key = {0, "x", NULL, 0};
    struct cache_file *f = open_file(c, "x", "1", 3 * MIB);
    wait_complete(f);
    cache_close(f);
    cache_drop(c, &key);
    assert_true(empties(c));
    f = open_file(c, "x", "1", 150u * MIB); /* partial and open: readers fetch again */
    read_check(f, "x", "1", 0, 70u * MIB);
    eventually(stats(c).used_bytes >= 60u * MIB);
    /* what is read ahead may land after a first drop */
    for (int i = 0; i < 500 && stats(c).used_bytes; i++) {
        cache_drop(c, &key);
        clock_sleep_ns(20 * NS_PER_MS);
    }
    assert_int_equal(stats(c).used_bytes, 0);
    read_check(f, "x", "1", 0, 70u * MIB);
    cache_close(f);
    cache_free(c);
}

static void test_mounts_are_told_apart(void **state)
{
    (void)state;
    struct conf_pair endpoint = {(char *)"endpoint", (char *)"http://elsewhere"};
    const struct conf_mount before[] = {
        {.mount_point = (char *)"s3://one"}, {.mount_point = (char *)"s3://two"}};
    const struct conf_mount after[] = {{.mount_point = (char *)"s3://two"},
        {.mount_point = (char *)"s3://two", .options = &endpoint, .noptions = 1}};
    struct conf_tier tier = {CONF_SSD, 64 << 20};
    struct cache_conf conf = {.dir = dir,
        .tiers = &tier,
        .ntiers = 1,
        .mounts = before,
        .nmounts = 2,
        .source = {fake_fetch, &fake}};
    struct cache *c = cache_new(&conf, NULL);
    struct cache_key one = {0, "x", "1", MIB}, two = {1, "x", "1", MIB};
    struct cache_file *f = cache_open(c, &one, NULL);
    wait_complete(f);
    cache_close(f);
    f = cache_open(c, &two, NULL);
    assert_false(cache_complete(f));
    wait_complete(f);
    cache_close(f);
    cache_free(c);
    conf.mounts = after; /* the first mount was taken out: index 0 is another store now */
    conf.nmounts = 2;
    c = cache_new(&conf, NULL);
    fake.fetches = 0;
    f = cache_open(c, &one, NULL);
    assert_true(cache_complete(f));
    cache_close(f);
    f = cache_open(c, &two, NULL); /* a bucket of that name, on another server */
    assert_false(cache_complete(f));
    cache_close(f);
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory),
        T(test_disk),
        T(test_no_tier_at_all),
        T(test_empty_file),
        T(test_complete_fd),
        T(test_spans),
        T(test_single_flight),
        T(test_own_block_does_not_wait_for_read_ahead),
        T(test_blocks_are_read_as_they_come),
        T(test_what_came_before_a_failure_stays),
        T(test_window_grows_and_random_does_not),
        T(test_requests_as_large_as_the_source_likes),
        T(test_large_requests_of_little_memory),
        T(test_ahead_in_proportion),
        T(test_hits_are_counted_honestly),
        T(test_failures),
        T(test_versions),
        T(test_drop),
        T(test_mounts_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
