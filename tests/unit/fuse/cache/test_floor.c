/* SPDX-License-Identifier: Apache-2.0 */
/* How much room a disk may give until what is to stay free is reached: bytes, and files. */
#include "tests/lib/unit.h"

#include "fuse/cache/cache.h"

#include <errno.h>
#include <sys/statvfs.h>

static struct statvfs disk;
static int disk_errno;

int __wrap_statvfs(const char *path, struct statvfs *out);
int __wrap_statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    *out = disk;
    errno = disk_errno;
    return disk_errno ? -1 : 0;
}

static void set_disk(uint64_t bytes, uint64_t free_bytes, uint64_t files, uint64_t free_files)
{
    disk = (struct statvfs){.f_bsize = 4096,
        .f_frsize = 4096,
        .f_blocks = bytes / 4096,
        .f_bfree = free_bytes / 4096,
        .f_bavail = free_bytes / 4096,
        .f_files = files,
        .f_ffree = free_files,
        .f_favail = free_files};
}

static void test_room(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
