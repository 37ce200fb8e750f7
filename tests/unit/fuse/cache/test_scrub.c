/* SPDX-License-Identifier: Apache-2.0 */
/* What a disk makes of cached bytes is found without a reader, and mended under those that read the
 * file by themselves. */
#include "tests/unit/fuse/cache/cache_unit.h"

#include "fuse/cache/meta.h"

#include <ftw.h>

#define SIZE (3u * MIB + 777)

static const struct conf_mount mount = {.mount_point = (char *)"s3://bucket"};

static struct cache *open_scrubbed(int64_t scrub_ns)
{
    struct conf_tier tier = {CONF_SSD, 64 << 20};
    struct cache_conf conf = {.dir = dir,
        .tiers = &tier,
        .ntiers = 1,
        .mounts = &mount,
        .nmounts = 1,
        .scrub_ns = scrub_ns,
        .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    struct cache *c = cache_new(&conf, &e);
    assert_non_null(c);
    return c;
}

static off_t rot_at;
static unsigned rotted;

/* As a bad disk does it: no sign of it but the bytes. */
static int rot(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)walk;
    char b;
    if (type != FTW_F || !strstr(path, "/ssd/") || st->st_size != SIZE)
        return 0;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &b, 1, rot_at), 1);
    b ^= 0x40;
    assert_int_equal(pwrite(fd, &b, 1, rot_at), 1);
    assert_int_equal(futimens(fd, (struct timespec[]){st->st_atim, st->st_mtim}), 0);
    close(fd);
    rotted++;
    return 0;
}

static void rot_all(off_t at)
{
    rot_at = at;
    rotted = 0;
    nftw(dir, rot, 16, FTW_PHYS);
    assert_int_equal(rotted, 1);
}

static int64_t mtime_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return clock_of_timespec(st.st_mtim);
}

static bool is_right(int fd)
{
    char *all = malloc(SIZE);
    assert_int_equal(pread(fd, all, SIZE, 0), SIZE);
    bool right = fake_check("f", "1", 0, all, SIZE) == 0;
    free(all);
    return right;
}

/* The kernel reads by itself, through the descriptor that it was given. */
static void test_under_a_reader_who_does_not_ask(void **state)
{
    (void)state;
    struct cache *c = open_scrubbed(50 * NS_PER_MS);
    struct cache_file *f = open_file(c, "f", "1", SIZE);
    wait_complete(f);
    int fd = cache_complete_fd(f);
    assert_true(fd >= 0 && is_right(fd));
    eventually(stats(c).scrubbed_bytes >= SIZE);
    assert_int_equal(stats(c).rotten_blocks, 0);
    int64_t mtime = mtime_of(fd);
    for (int i = 0; i < 4; i++) { /* in each block */
        rot_all(i * (off_t)MIB + 5);
        eventually(is_right(fd));
    }
    eventually(stats(c).rotten_blocks >= 4);
    assert_int_equal(stats(c).corrupt_blocks, stats(c).rotten_blocks);
    eventually(mtime_of(fd) == mtime); /* or all of it would be doubted after a restart */
    assert_true(cache_complete(f));
    assert_int_equal(stats(c).used_bytes, 3 * MIB + 4096);
    close(fd);
    cache_close(f);
    cache_free(c);
}

/* What nobody has open in this process may be read by the kernel all the same: for an earlier one
 * of ours. Its name is found beside its bytes. */
static void test_without_a_handle(void **state)
{
    (void)state;
    struct cache *c = open_scrubbed(0);
    struct cache_file *f = open_file(c, "f", "1", SIZE);
    wait_complete(f);
    int fd = cache_complete_fd(f);
    cache_close(f);
    cache_free(c);
    rot_all(2 * MIB + 9);
    assert_false(is_right(fd));
    c = open_scrubbed(50 * NS_PER_MS);
    eventually(is_right(fd));
    eventually(stats(c).rotten_blocks == 1);
    assert_int_equal(stats(c).complete_files, 1);
    close(fd);
    cache_free(c);
}

/* While the store does not answer nothing gets worse, and later it is mended. */
static void test_store_is_away(void **state)
{
    (void)state;
    struct cache *c = open_scrubbed(20 * NS_PER_MS);
    struct cache_file *f = open_file(c, "f", "1", SIZE);
    wait_complete(f);
    int fd = cache_complete_fd(f);
    fake.fail_percent = 100;
    rot_all(17);
    eventually(stats(c).rotten_blocks >= 2);
    assert_true(cache_complete(f));
    fake.fail_percent = 0;
    eventually(is_right(fd));
    close(fd);
    cache_close(f);
    cache_free(c);
}

/* The store has other bytes under that version: they do not come over those that are right. */
static void test_store_has_other_bytes(void **state)
{
    (void)state;
    struct cache *c = open_scrubbed(20 * NS_PER_MS);
    struct cache_file *f = open_file(c, "f", "1", SIZE);
    char *was = malloc(SIZE), *now = malloc(SIZE);
    wait_complete(f);
    int fd = cache_complete_fd(f);
    fake.salt = 1;
    rot_all(17);
    assert_int_equal(pread(fd, was, SIZE, 0), SIZE);
    unsigned before = fake.fetches;
    eventually(fake.fetches >= before + 2); /* it has seen the answer to the first */
    assert_int_equal(pread(fd, now, SIZE, 0), SIZE);
    assert_memory_equal(was, now, SIZE);
    fake.salt = 0;
    eventually(is_right(fd));
    free(was);
    free(now);
    close(fd);
    cache_close(f);
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_under_a_reader_who_does_not_ask),
        T(test_without_a_handle), T(test_store_is_away), T(test_store_has_other_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
