/* SPDX-License-Identifier: Apache-2.0 */
/* How much room a disk may give until what is to stay free is reached: bytes, and files. */
#include "tests/unit/fuse/cache/cache_unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/statvfs.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* the cache's threads look, too */
static struct statvfs disk;
static int disk_errno;

int __wrap_statvfs(const char *path, struct statvfs *out);
int __wrap_statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    pthread_mutex_lock(&mu);
    *out = disk;
    int errnum = disk_errno;
    pthread_mutex_unlock(&mu);
    errno = errnum;
    return errnum ? -1 : 0;
}

static void set_disk(uint64_t bytes, uint64_t free_bytes, uint64_t files, uint64_t free_files)
{
    pthread_mutex_lock(&mu);
    disk = (struct statvfs){.f_bsize = 4096,
        .f_frsize = 4096,
        .f_blocks = bytes / 4096,
        .f_bfree = free_bytes / 4096,
        .f_bavail = free_bytes / 4096,
        .f_files = files,
        .f_ffree = free_files,
        .f_favail = free_files};
    pthread_mutex_unlock(&mu);
}

static void test_room(void **state)
{
    (void)state;
    set_disk(UINT64_C(4000) * MIB, UINT64_C(1000) * MIB, 0, 0); /* as btrfs: no count of files */
    assert_int_equal(cache_disk_room("/", 100), INT64_C(600) * MIB);
    assert_int_equal(cache_disk_room("/", 300), INT64_C(-200) * MIB);
    set_disk(UINT64_C(4000) * MIB, UINT64_C(1000) * MIB, 100000, 50000);
    assert_int_equal(cache_disk_room("/", 100), INT64_C(600) * MIB);
    set_disk(UINT64_C(4000) * MIB, UINT64_C(1000) * MIB, 100000, 4999); /* half of 10 % of them */
    assert_true(cache_disk_room("/", 100) < 0);
    set_disk(0, 0, 0, 0); /* a file system that does not tell */
    assert_true(cache_disk_room("/", 100) > INT64_C(1000000) * MIB);
    disk_errno = EIO;
    assert_true(cache_disk_room("/", 100) == INT64_MAX);
    disk_errno = 0;
}

static void count(void *user) { ++*(atomic_uint *)user; }

/* The cache asks for as much as was configured, in percent. */
static void test_kept_free(void **state)
{
    (void)state;
    struct conf_tier tier = {CONF_SSD, 64 * MIB};
    struct cache_conf conf = {.dir = dir,
        .tiers = &tier,
        .ntiers = 1,
        .buffer_budget = 64 << 20,
        .fetch_threads = 2,
        .keep_free = 10,
        .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    atomic_uint told = 0;
    set_disk(UINT64_C(4000) * MIB, UINT64_C(440) * MIB, 0, 0); /* 11 % */
    struct cache *c = cache_new(&conf, &e);
    assert_non_null(c);
    cache_on_short(c, count, &told);
    cache_want_room(c);
    clock_sleep_ns(300 * NS_PER_MS);
    assert_int_equal(told, 0);
    set_disk(UINT64_C(4000) * MIB, UINT64_C(360) * MIB, 0, 0); /* 9 % */
    cache_want_room(c);
    eventually(told > 0);
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_room),
        cmocka_unit_test_setup_teardown(test_kept_free, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
