/* SPDX-License-Identifier: Apache-2.0 */
/* What a cache directory is worth after restarts, kill -9 and damage. */
#include "tests/unit/fuse/cache/cache_unit.h"

#include "fuse/cache/meta.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off);

static _Atomic int no_room; /* errno of all writes; 0: they succeed */

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    errno = no_room;
    return no_room ? -1 : __real_pwrite(fd, buf, n, off);
}

/* A disk or a quota that is used up when it starts: nothing is cached, all can be read. */
static void test_starts_without_room(void **state)
{
    (void)state;
    static const int why[] = {ENOSPC, EDQUOT};
    for (size_t i = 0; i < ARRAY_LEN(why); i++) {
        no_room = why[i];
        struct cache *c = open_cache(0, 400 << 20);
        struct cache_file *f = open_file(c, "f", "1", 3 * MIB + 5);
        read_check(f, "f", "1", 0, 3 * MIB + 5);
        assert_false(cache_complete(f));
        no_room = 0;
        cache_close(f);
        cache_free(c);
    }
}

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

#define FIRST          5 /* files that it has before it is killed */
#define KILLED_SIZE(i) (1000 + (uint64_t)(i)*150000)

static void fill_until_killed(const char *version, int tell)
{
    struct cache *c = open_cache(0, 160 << 20);
    for (unsigned i = 0;; i++) {
        char path[16];
        snprintf(path, sizeof path, "f%u", i % 40);
        struct cache_file *f = open_file(c, path, version, KILLED_SIZE(i % 40));
        char *buf = malloc(6 * MIB);
        cache_read(f, buf, 6 * MIB, 0, NULL);
        free(buf);
        if (i < FIRST)
            wait_complete(f);
        cache_close(f);
        if (i == FIRST && write(tell, "", 1) != 1)
            abort();
    }
}

/* A child fills the cache and is killed in the middle of it; whatever it left, what we read is
 * right. */
static void test_kill_9(void **state)
{
    (void)state;
    uint64_t reused = 0, total = 0;
    for (int round = 0; round < 4; round++) {
        char version[8], told;
        int tell[2];
        snprintf(version, sizeof version, "r%d", round);
        assert_int_equal(pipe(tell), 0);
        pid_t pid = fork();
        if (pid == 0)
            fill_until_killed(version, tell[1]);
        close(tell[1]);
        assert_int_equal(read(tell[0], &told, 1), 1);
        close(tell[0]);
        clock_sleep_ns((10 + 17 * round) * NS_PER_MS);
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        struct cache *c = open_cache(0, 160 << 20);
        fake.bytes = 0;
        for (unsigned i = 0; i < 40; i++) {
            char path[16];
            snprintf(path, sizeof path, "f%u", i);
            uint64_t size = KILLED_SIZE(i);
            struct cache_file *f = open_file(c, path, version, size);
            read_check(f, path, version, 0, (size_t)size);
            cache_close(f);
            total += size;
            reused += size;
        }
        reused -= fake.bytes;
        assert_int_equal(stats(c).corrupt_blocks, 0);
        cache_free(c);
    }
    print_message("%llu of %llu bytes survived the kills\n", (unsigned long long)reused,
        (unsigned long long)total);
    assert_true(reused > 0);
}

static int corrupt_at_mib;
static unsigned corrupted;
static int corrupt_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)walk;
    const char *name = strrchr(path, '/');
    size_t n = strlen(path);
    if (type != FTW_F || !strstr(path, "/ssd/") || !name || strcmp(path + n - 2, ".m") == 0
        || st->st_size == 0)
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
        eventually(stats(c).buffer_bytes == 0); /* nothing fetches, and so holds them, any more */
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

/* As a bad disk does it: no sign of it but the bytes. */
static void rot(const char *path)
{
    struct stat st;
    char b;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, &b, 1, 5000), 1);
    b ^= 0x40;
    assert_int_equal(pwrite(fd, &b, 1, 5000), 1);
    assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
    close(fd);
}

static char rotten[PATH_MAX];
static int find_copy(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)walk;
    if (type == FTW_F && strstr(path, "/ssd/") && st->st_size == 70000)
        snprintf(rotten, sizeof rotten, "%s", path);
    return 0;
}

/* A complete file of two segments loses a block: its room is what is left, and then all of it
 * again. */
static void test_a_bad_block_is_counted_once(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 160 << 20);
    struct cache_file *f = open_file(c, "large", "1", 70 * MIB);
    wait_complete(f);
    cache_close(f);
    cache_free(c);
    clock_sleep_ns(20 * NS_PER_MS); /* past the granularity of mtime */
    corrupt_at_mib = 66;
    nftw(dir, corrupt_one, 16, FTW_PHYS);
    c = open_cache(0, 160 << 20);
    f = open_file(c, "large", "1", 70 * MIB);
    read_check(f, "large", "1", 66 * MIB, MIB);
    assert_int_equal(stats(c).corrupt_blocks, 1);
    eventually(cache_cached(f, 0, 70 * MIB) == 70 * MIB);
    eventually(stats(c).complete_files == 1);
    assert_int_equal(stats(c).used_bytes, 70 * MIB);
    cache_close(f);
    cache_free(c);
}

static void test_disk_rots(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *f = open_file(c, "small", "1", 70000);
    struct err e = ERR_INIT;
    char *all = malloc(70000);
    assert_non_null(all);
    wait_complete(f);
    read_check(f, "small", "1", 0, 70000);
    nftw(dir, find_copy, 16, FTW_PHYS);
    assert_true(rotten[0] != '\0');
    rot(rotten);
    assert_int_equal(cache_read(f, all, 70000, 0, &e), 70000);
    assert_int_equal(stats(c).corrupt_blocks, 1);
    assert_int_equal(fake_check("small", "1", 0, all, 70000), 0); /* by the read that found it */
    read_check(f, "small", "1", 0, 70000);
    free(all);
    cache_close(f);
    cache_free(c);
    file_remove_tree(dir, NULL);
    mkdir(dir, 0700);
}

/* The cache's directory as the machine finds it that comes up after a power cut: records are of
 * another boot, and of the file's data some never reached the disk. */
static void lose_power(void)
{
    cleanup_free char *name = path_join(dir, "table");
    unsigned char record[META_RECORD];
    struct meta_file m;
    struct stat st;
    cleanup_fd int table = open(name, O_RDWR);
    assert_true(table >= 0);
    assert_int_equal(pread(table, record, sizeof record, 0), sizeof record);
    meta_header_put(record, "11111111-2222-3333-4444-555555555555");
    assert_int_equal(pwrite(table, record, sizeof record, 0), sizeof record);
    for (off_t at = META_RECORD; pread(table, record, sizeof record, at) == (ssize_t)sizeof record;
         at += META_RECORD)
        if (meta_record_get(record, &m)) {
            m.boot ^= 0x5a5a5a5a;
            meta_record_put(record, &m);
            assert_int_equal(pwrite(table, record, sizeof record, at), sizeof record);
        }
    cleanup_fd int fd = open(rotten, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 32768), 0);
    assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
}

/* However often the cache is opened after it, and whether anybody reads in between. */
static void test_power_cut(void **state)
{
    (void)state;
    for (int idle = 0; idle < 3; idle++) {
        struct cache *c = open_cache(0, 64 << 20);
        struct cache_file *f = open_file(c, "small", "1", 70000);
        wait_complete(f);
        cache_close(f);
        cache_free(c);
        rotten[0] = '\0';
        nftw(dir, find_copy, 16, FTW_PHYS);
        assert_true(rotten[0] != '\0');
        lose_power();
        for (int i = 0; i < idle; i++)
            cache_free(open_cache(0, 64 << 20));
        c = open_cache(0, 64 << 20);
        f = open_file(c, "small", "1", 70000);
        int fd = cache_complete_fd(f);
        if (fd >= 0) {
            char page[4096];
            assert_int_equal(pread(fd, page, sizeof page, 8192), sizeof page);
            assert_int_equal(fake_check("small", "1", 8192, page, sizeof page), 0);
            close(fd);
        }
        read_check(f, "small", "1", 12288, 100);
        assert_int_equal(stats(c).corrupt_blocks, 1);
        cache_close(f);
        cache_free(c);
        file_remove_tree(dir, NULL);
        mkdir(dir, 0700);
    }
}

/* Opens the cache; false: nothing was said about its table. */
static bool says_forgotten(struct cache **c)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    int keep = dup(STDERR_FILENO);
    assert_true(keep >= 0 && dup2(fileno(out), STDERR_FILENO) >= 0);
    *c = open_cache(0, 64 << 20);
    assert_true(dup2(keep, STDERR_FILENO) >= 0);
    close(keep);
    char text[4096] = "";
    rewind(out);
    size_t n = fread(text, 1, sizeof text - 1, out);
    text[n] = '\0';
    fclose(out);
    return strstr(text, "is of another version, or damaged");
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
    assert_true(says_forgotten(&c));
    assert_int_equal(stats(c).used_bytes, 0);
    f = open_file(c, "x", "1", 3 * MIB);
    read_check(f, "x", "1", 0, 3 * MIB);
    cache_close(f);
    cache_free(c);
    assert_false(says_forgotten(&c)); /* it is ours again */
    cache_free(c);
    assert_int_equal(unlink(table), 0);
    assert_false(says_forgotten(&c)); /* there was none */
    cache_free(c);
}

static void test_one_user_of_a_directory(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct conf_tier tier = {CONF_SSD, 1 << 20};
    struct cache_conf conf = {
        .dir = dir, .tiers = &tier, .ntiers = 1, .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    assert_null(cache_new(&conf, &e));
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, dir));
    cache_free(c);
}

/* A process of another version has the directory: all of them lock the same file. */
static void test_lock_of_other_versions(void **state)
{
    (void)state;
    cleanup_free char *path = path_join(dir, "lock");
    int held = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    struct conf_tier tier = {CONF_SSD, 1 << 20};
    struct cache_conf conf = {
        .dir = dir, .tiers = &tier, .ntiers = 1, .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    assert_null(cache_new(&conf, &e));
    assert_int_equal(e.cls, ERR_CONFLICT);
    close(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_starts_without_room),
        T(test_restart),
        T(test_kill_9),
        T(test_corruption_on_disk),
        T(test_a_bad_block_is_counted_once),
        T(test_disk_rots),
        T(test_power_cut),
        T(test_table_is_garbage),
        T(test_one_user_of_a_directory),
        T(test_lock_of_other_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
