/* SPDX-License-Identifier: Apache-2.0 */
/* Sixty-four readers of more data than the cache holds, from a source that fails and lags, while
 * versions change, files are dropped, pinned and adopted: every byte that is served is right. */
#include "tests/unit/fuse/cache/cache_unit.h"

#define READERS 64
#define FILES   40
#define SECONDS 3

static atomic_uint file_version[FILES];
static atomic_bool over;
static _Atomic uint64_t good, failed;
static struct cache *shared;

static uint64_t size_of(unsigned file)
{
    static const uint64_t sizes[] = {
        1, 5000, 110000, 900000, MIB, MIB + 1, 3 * MIB + 7, 9 * MIB, 66u * MIB + 11, 130u * MIB};
    return sizes[file % ARRAY_LEN(sizes)];
}

static uint64_t next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return hash64_mix(*state, 1);
}

static void read_some(uint64_t *rnd, char *buf, size_t most)
{
    unsigned file = (unsigned)(next(rnd) % FILES);
    uint64_t size = size_of(file);
    char path[32], version[16];
    snprintf(path, sizeof path, "d/%u", file);
    snprintf(version, sizeof version, "v%u", file_version[file]);
    struct cache_key key = {file % 2, path, version, size};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_open(shared, &key, &e);
    if (!f) {
        failed++;
        return;
    }
    uint64_t off = next(rnd) % size;
    for (unsigned i = 0; i < 6 && off < size; i++) {
        size_t want = (size_t)(next(rnd) % most + 1), len = (size_t)MIN((uint64_t)want, size - off);
        ssize_t n = cache_read(f, buf, len, off, &e);
        if (n < 0) {
            failed++;
        } else if ((size_t)n != len || fake_check(path, version, off, buf, len)) {
            fprintf(stderr, "wrong bytes: %s %s at %llu+%zu\n", path, version,
                (unsigned long long)off, len);
            abort();
        } else {
            good += len;
        }
        off = next(rnd) % 3 ? off + len : next(rnd) % size; /* in sequence, mostly */
    }
    int fd = cache_complete_fd(f);
    if (fd >= 0) {
        size_t len = (size_t)MIN(size, most);
        if (pread(fd, buf, len, 0) != (ssize_t)len || fake_check(path, version, 0, buf, len))
            abort();
        close(fd);
    }
    struct cache_span span;
    if (next(rnd) % 4 == 0 && cache_hold_span(f, size / 2, most, &span, &e) == 1) {
        size_t len = MIN(span.len, most);
        if (pread(span.fd, buf, len, (off_t)span.off) != (ssize_t)len
            || fake_check(path, version, size / 2, buf, len))
            abort();
        cache_release_span(&span);
    }
    cache_close(f);
}

static void *reader(void *arg)
{
    uint64_t rnd = (uintptr_t)arg;
    size_t most = 400000;
    char *buf = malloc(most);
    while (!over)
        read_some(&rnd, buf, most);
    free(buf);
    return NULL;
}

static void *meddler(void *arg)
{
    uint64_t rnd = (uintptr_t)arg;
    while (!over) {
        unsigned file = (unsigned)(next(&rnd) % FILES);
        char path[32], version[16];
        snprintf(path, sizeof path, "d/%u", file);
        snprintf(version, sizeof version, "v%u", file_version[file]);
        struct cache_key key = {file % 2, path, version, size_of(file)};
        switch (next(&rnd) % 4) {
        case 0:
            file_version[file]++;
            break;
        case 1:
            cache_drop(shared, &key);
            break;
        case 2:
            key.version = NULL;
            cache_drop(shared, &key);
            break;
        case 3:
            if (next(&rnd) % 3)
                cache_unpin(shared, &key);
            else
                cache_close(cache_pin(shared, &key, 0, key.size, NULL));
            break;
        }
        clock_sleep_ns(3 * NS_PER_MS);
    }
    return NULL;
}

static void storm(int64_t mem, int64_t ssd)
{
    fake.fail_percent = 5;
    fake.delay_us = 300;
    over = false;
    good = failed = 0;
    shared = open_cache(mem, ssd);
    pthread_t t[READERS + 1];
    for (uintptr_t i = 0; i < READERS; i++)
        pthread_create(&t[i], NULL, reader, (void *)(i + 1));
    pthread_create(&t[READERS], NULL, meddler, (void *)(uintptr_t)99);
    uint64_t capacity = (uint64_t)(mem + ssd);
    bool seen = false; /* what shall happen has happened: that takes a busy machine longer */
    for (int i = 0; i < SECONDS * 20 || (i < SECONDS * 400 && !seen); i++) {
        clock_sleep_ns(50 * NS_PER_MS);
        struct cache_stats s = stats(shared);
        assert_true(s.used_bytes <= capacity);
        assert_true(s.complete_files <= s.files);
        seen = s.evicted_bytes > 0 && good > 10 * MIB && failed > 0;
    }
    over = true;
    for (int i = 0; i <= READERS; i++)
        pthread_join(t[i], NULL);
    struct cache_stats s = stats(shared);
    assert_true(s.evicted_bytes > 0);
    assert_int_equal(s.corrupt_blocks, 0);
    assert_true(good > 10 * MIB);
    assert_true(failed > 0);
    assert_true(s.pinned_bytes <= s.pinned_most);
    cache_unpin_all(shared);
    assert_int_equal(stats(shared).pinned_bytes + stats(shared).pinned_files, 0);
    cache_free(shared);
}

static void test_memory_storm(void **state)
{
    (void)state;
    storm(100 << 20, 0);
}

static void test_disk_storm(void **state)
{
    (void)state;
    storm(0, 100 << 20);
    /* and after a restart what is left is right, too */
    fake.fail_percent = 0;
    fake.delay_us = 0;
    struct cache *c = open_cache(0, 100 << 20);
    for (unsigned file = 0; file < FILES; file++) {
        char path[32], version[16];
        snprintf(path, sizeof path, "d/%u", file);
        snprintf(version, sizeof version, "v%u", file_version[file]);
        struct cache_key key = {file % 2, path, version, size_of(file)};
        struct cache_file *f = cache_open(c, &key, NULL);
        read_check(f, path, version, 0, (size_t)MIN(size_of(file), 5 * MIB));
        cache_close(f);
    }
    assert_int_equal(stats(c).corrupt_blocks, 0);
    cache_free(c);
}

static void test_two_tiers_storm(void **state)
{
    (void)state;
    storm(30 << 20, 100 << 20);
}

/* What all buffers together take stays within the budget plus what readers themselves wait for. */
static void test_budget_holds(void **state)
{
    (void)state;
    struct conf_tier tier = {CONF_MEM, 512 << 20};
    struct cache_conf conf = {.tiers = &tier,
        .ntiers = 1,
        .buffer_budget = 24 << 20,
        .fetch_threads = 16,
        .source = {fake_fetch, &fake}};
    fake.slow_from = 1; /* what is ahead of the readers stays on its way until the gate opens */
    struct cache *c = cache_new(&conf, NULL);
    struct cache_file *f[4];
    char path[4][8];
    for (int i = 0; i < 4; i++) {
        snprintf(path[i], sizeof path[i], "s%d", i);
        f[i] = open_file(c, path[i], "1", 60u * MIB);
        assert_int_equal(cache_prefetch(f[i], MIB, 59u * MIB, NULL), 0);
    }
    struct cache_stats s = stats(c);
    assert_true(s.buffer_bytes <= 24u * MIB);
    assert_true(s.buffer_bytes >= 20u * MIB); /* and it is made use of */
    fake.delay_us = 2000;
    fake.gate = true;
    for (uint64_t off = 0; off < 60u * MIB; off += 512 << 10)
        for (int i = 0; i < 4; i++)
            read_check(f[i], path[i], "1", off, 512 << 10);
    s = stats(c);
    assert_true(s.buffer_peak <= (24u + 4) * MIB);
    for (int i = 0; i < 4; i++)
        cache_close(f[i]);
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_storm), T(test_disk_storm), T(test_two_tiers_storm), T(test_budget_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
