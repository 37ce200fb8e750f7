/* The cache against a source that misbehaves: what is served is always right, and what should not be fetched twice is not. */
#include "tests/unit/unit.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/unit/cache_fake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct fake fake;
static char *dir;

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    dir = fake_dir();
    return dir ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    file_remove_tree(dir, NULL);
    free(dir);
    return 0;
}

static struct cache *open_cache(int64_t mem, int64_t ssd)
{
    struct conf_tier tiers[2];
    size_t n = 0;
    if (mem)
        tiers[n++] = (struct conf_tier){CONF_MEM, mem};
    if (ssd)
        tiers[n++] = (struct conf_tier){CONF_SSD, ssd};
    struct cache_conf conf = {.dir = ssd ? dir : NULL, .tiers = tiers, .ntiers = n, .buffer_budget = 64 << 20, .fetch_threads = 8,
        .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    struct cache *c = cache_new(&conf, &e);
    if (!c)
        print_error("%s\n", e.msg);
    assert_non_null(c);
    return c;
}

static struct cache_file *open_file(struct cache *c, const char *path, const char *version, uint64_t size)
{
    struct cache_key key = {0, path, version, size};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_open(c, &key, &e);
    assert_non_null(f);
    return f;
}

static void read_check(struct cache_file *f, const char *path, const char *version, uint64_t off, size_t len)
{
    char *buf = malloc(len);
    struct err e = ERR_INIT;
    ssize_t n = cache_read(f, buf, len, off, &e);
    if (n < 0)
        print_error("%s\n", e.msg);
    assert_int_equal(n, len);
    assert_int_equal(fake_check(path, version, off, buf, len), 0);
    free(buf);
}

static void wait_complete(struct cache_file *f)
{
    struct err e = ERR_INIT;
    if (cache_wait(f, &e))
        print_error("%s\n", e.msg);
    assert_true(cache_complete(f));
}

static struct cache_stats stats(struct cache *c)
{
    struct cache_stats s;
    cache_stats(c, &s);
    return s;
}

/* -- the plain things -- */

static void reads_are_right(int64_t mem, int64_t ssd)
{
    static const uint64_t sizes[] = {1, 4095, 100000, MIB - 1, MIB, MIB + 1, 3 * MIB + 12345, 70u * MIB + 1};
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
    assert_int_equal(cache_wait(f, &e), -1);
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
        struct cache_file *f = open_file(c, "x", "1", 5 * MIB + 3), *g = open_file(c, "x", "1", 5 * MIB + 3);
        assert_int_equal(cache_complete_fd(f), -1);
        wait_complete(f);
        int a = cache_complete_fd(f), b = cache_complete_fd(g);
        assert_true(a >= 0 && b >= 0);
        struct stat sa, sb;
        fstat(a, &sa);
        fstat(b, &sb);
        assert_int_equal(sa.st_ino, sb.st_ino);
        assert_int_equal(sa.st_size, 5 * MIB + 3);
        assert_int_equal(write(a, "x", 1), -1);
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
        assert_int_equal(cache_pin_span(f, off, 3 * MIB, &s, &e), 1);
        assert_true(s.len == 3 * MIB || (off + s.len) % (64u * MIB) == 0);
        char *buf = malloc(s.len);
        assert_int_equal(pread(s.fd, buf, s.len, (off_t)s.off), s.len);
        assert_int_equal(fake_check("big", "1", off, buf, s.len), 0);
        free(buf);
        cache_unpin(&s);
    }
    cache_close(f);
    cache_free(c);
}

/* -- fetching -- */

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
    for (int i = 0; i < 200 && !fake.running; i++)
        clock_sleep_ns(NS_PER_MS);
    assert_true(fake.running > 0); /* read-ahead went there */
    int64_t t0 = clock_mono_ns();
    read_check(f, "x", "1", 5 * MIB, 4096);
    read_check(f, "x", "1", 39 * MIB, 4096);
    assert_true(clock_mono_ns() - t0 < 2 * NS_PER_S);
    fake.gate = true;
    cache_close(f);
    cache_free(c);
}

static void test_window_grows_and_random_does_not(void **state)
{
    (void)state;
    struct cache *c = open_cache(256 << 20, 0);
    struct cache_file *f = open_file(c, "seq", "1", 128u * MIB);
    fake.delay_us = 3000;
    for (uint64_t off = 0; off < 64u * MIB; off += 128 << 10)
        read_check(f, "seq", "1", off, 128 << 10);
    assert_true(fake.most_running >= 4);          /* many requests at once */
    assert_true(fake.fetches < 60);               /* that grew beyond one block */
    cache_close(f);
    cache_free(c);

    c = open_cache(256 << 20, 0);
    f = open_file(c, "rand", "1", 128u * MIB);
    fake.fetches = 0;
    fake.bytes = 0;
    fake.delay_us = 0;
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

/* -- versions -- */

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
    assert_int_equal(cache_read(old, buf, sizeof buf, 2 * MIB, &e), -1); /* what it has not is gone: never the new bytes */
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(err_errno(&e), ESTALE);
    cache_close(old);
    struct cache_stats s = stats(c);
    assert_int_equal(s.files, 1);
    assert_int_equal(s.used_bytes, 2 * MIB);
    cache_close(fresh);
    cache_free(c);
}

/* A thread that wrote the last block may hold the file for a moment longer than its readers. */
static bool empties(struct cache *c)
{
    for (int i = 0; i < 1000 && stats(c).used_bytes; i++)
        clock_sleep_ns(NS_PER_MS);
    return stats(c).used_bytes == 0;
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
    struct cache_stats before = stats(c);
    assert_true(before.used_bytes >= 60u * MIB);
    for (int i = 0; i < 50 && stats(c).used_bytes; i++) { /* what is read ahead may land after a first drop */
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
    static const char *const before[] = {"s3://one", "s3://two"}, *const after[] = {"s3://two"};
    struct conf_tier tier = {CONF_SSD, 64 << 20};
    struct cache_conf conf = {.dir = dir, .tiers = &tier, .ntiers = 1, .mounts = before, .nmounts = 2, .source = {fake_fetch, &fake}};
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
    conf.nmounts = 1;
    c = cache_new(&conf, NULL);
    fake.fetches = 0;
    f = cache_open(c, &one, NULL);
    assert_true(cache_complete(f));
    cache_close(f);
    cache_free(c);
}

/* -- restart -- */

static void test_restart(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 400 << 20);
    static const uint64_t sizes[] = {100, 500000, 9 * MIB + 5, 150u * MIB};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char path[16];
        snprintf(path, sizeof path, "f%zu", i);
        struct cache_file *f = open_file(c, path, "1", sizes[i]);
        if (i == 3) {
            struct err e = ERR_INIT;
            assert_int_equal(cache_fill(f, 60u * MIB, 10u * MIB, &e), 0);
        } else {
            wait_complete(f);
        }
        cache_close(f);
    }
    struct cache_stats before = stats(c);
    cache_free(c);
    c = open_cache(0, 400 << 20);
    struct cache_stats after = stats(c);
    assert_int_equal(after.files, 4);
    assert_int_equal(after.complete_files, 3);
    assert_int_equal(after.used_bytes, before.used_bytes);
    fake.fetches = 0;
    for (size_t i = 0; i < 3; i++) {
        char path[16];
        snprintf(path, sizeof path, "f%zu", i);
        struct cache_file *f = open_file(c, path, "1", sizes[i]);
        assert_true(cache_complete(f));
        int fd = cache_complete_fd(f); /* same boot, untouched since: trusted at once */
        assert_true(fd >= 0);
        close(fd);
        read_check(f, path, "1", 0, (size_t)sizes[i]);
        cache_close(f);
    }
    struct cache_file *f = open_file(c, "f3", "1", sizes[3]);
    assert_int_equal(cache_cached(f, 0, sizes[3]), 10u * MIB);
    read_check(f, "f3", "1", 60u * MIB, 10u * MIB);
    assert_int_equal(fake.fetches, 0);
    cache_close(f);
    cache_free(c);
}

/* A child fills the cache and is killed in the middle of it; whatever it left, what we read is right. */
static void test_kill_9(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct cache *c = open_cache(0, 96 << 20);
            for (unsigned i = 0;; i++) {
                char path[16];
                snprintf(path, sizeof path, "f%u", i % 40);
                struct cache_file *f = open_file(c, path, "1", 1000 + (uint64_t)(i % 40) * 300000);
                char *buf = malloc(12 * MIB);
                cache_read(f, buf, 12 * MIB, 0, NULL);
                free(buf);
                cache_close(f);
            }
        }
        clock_sleep_ns((30 + 60 * round) * NS_PER_MS);
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        struct cache *c = open_cache(0, 96 << 20);
        for (unsigned i = 0; i < 40; i++) {
            char path[16];
            snprintf(path, sizeof path, "f%u", i);
            uint64_t size = 1000 + (uint64_t)i * 300000;
            struct cache_file *f = open_file(c, path, "1", size);
            read_check(f, path, "1", 0, (size_t)size);
            cache_close(f);
        }
        assert_int_equal(stats(c).corrupt_blocks, 0);
        cache_free(c);
    }
}

static int corrupt_at_mib;
static unsigned corrupted;
static int corrupt_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)walk;
    const char *name = strrchr(path, '/');
    size_t n = strlen(path);
    if (type != FTW_F || !strstr(path, "/ssd/") || !name || strcmp(path + n - 2, ".m") == 0 || st->st_size == 0)
        return 0;
    int fd = open(path, O_RDWR);
    char b;
    off_t at = (off_t)corrupt_at_mib * MIB < st->st_size ? (off_t)corrupt_at_mib * MIB : 0;
    if (pread(fd, &b, 1, at) == 1) {
        b ^= 0x40;
        corrupted += pwrite(fd, &b, 1, at) == 1;
    }
    close(fd);
    return 0;
}

static void test_corruption_on_disk(void **state)
{
    (void)state;
    for (int running = 0; running < 2; running++) {
        struct cache *c = open_cache(0, 64 << 20);
        const uint64_t sizes[] = {70000, 6 * MIB};
        for (int i = 0; i < 2; i++) {
            struct cache_file *f = open_file(c, i ? "big" : "small", "1", sizes[i]);
            wait_complete(f);
            cache_close(f);
        }
        if (!running)
            cache_free(c);
        clock_sleep_ns(20 * NS_PER_MS); /* past the granularity of mtime */
        corrupt_at_mib = 3;
        corrupted = 0;
        nftw(dir, corrupt_one, 16, FTW_PHYS);
        assert_int_equal(corrupted, 2);
        if (!running)
            c = open_cache(0, 64 << 20);
        fake.fetches = 0;
        for (int i = 0; i < 2; i++) {
            struct cache_file *f = open_file(c, i ? "big" : "small", "1", sizes[i]);
            int fd = cache_complete_fd(f); /* never one with wrong bytes in it */
            if (fd >= 0) {
                char *all = malloc(sizes[i]);
                assert_int_equal(pread(fd, all, sizes[i], 0), sizes[i]);
                assert_int_equal(fake_check(i ? "big" : "small", "1", 0, all, sizes[i]), 0);
                free(all);
                close(fd);
            }
            read_check(f, i ? "big" : "small", "1", 0, sizes[i]);
            wait_complete(f);
            cache_close(f);
        }
        assert_int_equal(stats(c).corrupt_blocks, 2);
        assert_int_equal(fake.fetches, 2); /* the two blocks, and nothing else */
        cache_free(c);
        file_remove_tree(dir, NULL);
        mkdir(dir, 0700);
    }
}

static void test_table_is_garbage(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *f = open_file(c, "x", "1", 3 * MIB);
    wait_complete(f);
    cache_close(f);
    cache_free(c);
    cleanup_free char *table = path_join(dir, "table");
    int fd = open(table, O_RDWR);
    for (int i = 64; i < 128; i += 8)
        assert_int_equal(pwrite(fd, "rubbish!", 8, i), 8);
    close(fd);
    c = open_cache(0, 64 << 20);
    assert_int_equal(stats(c).files, 0);
    f = open_file(c, "x", "1", 3 * MIB);
    read_check(f, "x", "1", 0, 3 * MIB);
    cache_close(f);
    cache_free(c);
    fd = open(table, O_RDWR | O_TRUNC);
    assert_int_equal(write(fd, "another format", 14), 14);
    close(fd);
    c = open_cache(0, 64 << 20);
    assert_int_equal(stats(c).used_bytes, 0);
    cache_free(c);
}

static void test_one_user_of_a_directory(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct conf_tier tier = {CONF_SSD, 1 << 20};
    struct cache_conf conf = {.dir = dir, .tiers = &tier, .ntiers = 1, .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    assert_null(cache_new(&conf, &e));
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, dir));
    cache_free(c);
}

/* -- room -- */

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
        struct cache *c = open_cache(disk ? 0 : 80 << 20, disk ? 80 << 20 : 0);
        struct cache_file *f = open_file(c, "huge", "1", 300u * MIB);
        for (uint64_t off = 0; off < 300u * MIB; off += MIB) {
            read_check(f, "huge", "1", off, MIB);
            assert_true(stats(c).used_bytes <= 80 << 20);
        }
        read_check(f, "huge", "1", 0, 3 * MIB);
        assert_true(stats(c).evicted_bytes > 100u * MIB);
        cache_close(f);
        cache_free(c);
    }
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

static void test_pinned_stays(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 16 << 20);
    struct cache_key key = {0, "pinned", "1", 2 * MIB};
    struct err e = ERR_INIT;
    assert_int_equal(cache_keep(c, &key, true, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    struct cache_file *f = open_file(c, "pinned", "1", 2 * MIB);
    wait_complete(f);
    assert_int_equal(cache_keep(c, &key, true, &e), 0);
    cache_close(f);
    for (int restart = 0; restart < 2; restart++) {
        for (unsigned i = 0; i < 60; i++) {
            char path[16];
            snprintf(path, sizeof path, "f%u", i);
            f = open_file(c, path, "1", MIB);
            read_check(f, path, "1", 0, MIB);
            cache_close(f);
        }
        fake.fetches = 0;
        f = open_file(c, "pinned", "1", 2 * MIB);
        read_check(f, "pinned", "1", 0, 2 * MIB);
        assert_int_equal(fake.fetches, 0);
        cache_close(f);
        cache_free(c);
        c = open_cache(0, 16 << 20);
    }
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
    for (int again = 0; again < 6; again++) { /* a few hot ones on the disk move up, cold ones go down */
        for (unsigned i = 50; i < 55; i++) {
            snprintf(path, sizeof path, "f%u", i);
            struct cache_file *f = open_file(c, path, "1", MIB);
            read_check(f, path, "1", 0, MIB);
            cache_close(f);
        }
        clock_sleep_ns(50 * NS_PER_MS);
    }
    s = stats(c);
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
    clock_sleep_ns(200 * NS_PER_MS);
    struct cache_stats s = stats(c);
    cache_free(c);
    cleanup_free char *ssd = path_join(dir, "ssd");
    cleanup_free char *orphan = path_join(ssd, "00/0123456789abcdef01234567.7");
    struct timespec old[2] = {{1, 0}, {1, 0}};
    assert_int_equal(file_write_atomic(orphan, "x", 1, 0600, NULL), 0);
    utimensat(AT_FDCWD, orphan, old, 0);
    clock_sleep_ns(1100 * NS_PER_MS);
    c = open_cache(0, 8 << 20);
    for (int i = 0; i < 100 && access(orphan, F_OK) == 0; i++)
        clock_sleep_ns(10 * NS_PER_MS);
    assert_int_equal(access(orphan, F_OK), -1); /* what a crash left goes */
    assert_int_equal(stats(c).files, s.files);
    cache_free(c);
    unsigned files = 0;
    count_files(ssd, &files);
    assert_true(files >= s.files && files <= 2 * s.files); /* data, and a sidecar for those of more than one block */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_memory), T(test_disk), T(test_no_tier_at_all), T(test_empty_file), T(test_complete_fd), T(test_spans),
        T(test_single_flight), T(test_own_block_does_not_wait_for_read_ahead), T(test_window_grows_and_random_does_not),
        T(test_failures), T(test_versions), T(test_drop), T(test_mounts_are_told_apart), T(test_restart), T(test_kill_9),
        T(test_corruption_on_disk), T(test_table_is_garbage), T(test_one_user_of_a_directory), T(test_eviction_keeps_the_quota),
        T(test_a_file_larger_than_the_cache), T(test_sparse_object_of_5_tb), T(test_pinned_stays), T(test_open_complete_files_stay),
        T(test_tiers), T(test_full_disk), T(test_adopt), T(test_no_litter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
