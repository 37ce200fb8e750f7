/* SPDX-License-Identifier: Apache-2.0 */
/* An index on a disk that becomes full, or that cannot reserve room: what is known is served, some
 * more names fit, and those that do not are refused in words. */
#include "fuse/index/format.h"
#include "tests/unit/fuse/index/index_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ODD "\"a version that is too long to be packed, number "

static uint64_t room = UINT64_MAX; /* bytes that the disk has */
static bool cannot_reserve;

int __real_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len)
{
    if (cannot_reserve || (uint64_t)len > room) {
        errno = cannot_reserve ? EOPNOTSUPP : ENOSPC;
        return -1;
    }
    room -= (uint64_t)len;
    return __real_fallocate(fd, mode, off, len);
}

static int put_one(struct inodes *ix, unsigned number, const char *version, struct err *e)
{
    char name[32];
    struct inode n;
    enum inodes_change change;
    struct store_stat st = file_stat(number, version);
    snprintf(name, sizeof name, "name-%09u", number);
    return inodes_put(ix, INODE_ROOT, name, &st, INODES_NOW, 1, &n, &change, e);
}

/* How many names fit. */
static unsigned put_all(struct inodes *ix, unsigned from, const char *version, struct err *e)
{
    unsigned n = from;
    while (put_one(ix, n, version, e) == 0)
        n++;
    return n - from;
}

static void are_known(struct inodes *ix, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        struct inode n;
        snprintf(name, sizeof name, "name-%09u", i);
        assert_true(inodes_find(ix, INODE_ROOT, name, &n));
    }
}

static void test_full(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct inodes *ix = open_index(1, false, NULL);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(put_one(ix, i, "v", &e), 0);
    room = 0;
    unsigned more = put_all(ix, 1000, "v", &e);
    print_message("# %u names fit when the disk is full\n", more);
    assert_true(more > 40000);
    assert_int_equal(err_errno(&e), ENOSPC);
    assert_non_null(strstr(e.msg, "full"));
    are_known(ix, 1000 + more);
    struct inode n;
    assert_true(inodes_find(ix, INODE_ROOT, "name-000000005", &n)); /* they change, and go */
    assert_int_equal(put_one(ix, 5, "another", &e), 0);
    inodes_remove(ix, n.ino);
    assert_int_equal(put_one(ix, 1000 + more, "v", &e), 0);
    assert_int_equal(put_one(ix, 1000 + more + 1, "v", &e), -1);
    room = UINT64_MAX; /* room again: as before */
    assert_int_equal(put_one(ix, 1000 + more + 1, "v", &e), 0);
    assert_true(index_check(ix));
    inodes_close(ix, true);
}

/* The last blocks of the disk are used, too. */
static void test_nearly_full(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct inodes *ix = open_index(1, false, NULL);
    room = 0;
    unsigned fit = put_all(ix, 0, "v", &e);
    room = 3 * 4096;
    assert_true(put_all(ix, fit, "v", &e) > 20);
    assert_int_equal(err_errno(&e), ENOSPC);
    assert_true(index_check(ix));
    inodes_close(ix, true);
}

/* What has no room for its version is looked at again; the version of before is not its own. */
static void test_no_room_for_a_version(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct inode n, set = {.size = 77, .synced_s = 9};
    struct inodes *ix = open_index(1, false, NULL);
    assert_int_equal(put_one(ix, 0, ODD "1\"", &e), 0);
    assert_true(inodes_find(ix, INODE_ROOT, "name-000000000", &n));
    room = 0;
    ix->h->heap_units = (uint32_t)(ix->h->have[REGION_HEAP] / 8); /* all of it is used */
    snprintf(set.version, sizeof set.version, ODD "2, and it is a longer one\"");
    inodes_set(ix, n.ino, INODES_SIZE | INODES_VERSION | INODES_SYNCED, &set, 0, 0);
    assert_int_equal(inodes_get(ix, n.ino, &n), 0);
    assert_int_equal(n.size, 77);
    assert_string_equal(n.version, "");
    assert_int_equal(n.synced_s, 0);
    assert_int_equal(put_one(ix, 0, ODD "3, and it is a longer one\"", &e), -1);
    assert_int_equal(err_errno(&e), ENOSPC);
    assert_int_equal(inodes_get(ix, n.ino, &n), 0);
    assert_int_equal(n.size, 77); /* as it was */
    inodes_close(ix, true);
}

/* The blocks are there all the same. */
static void test_cannot_reserve(void **state)
{
    (void)state;
    struct stat st;
    struct err e = ERR_INIT;
    cannot_reserve = true;
    struct inodes *ix = open_index(1, false, NULL);
    for (unsigned i = 0; i < 20000; i++)
        assert_int_equal(put_one(ix, i, "v", &e), 0);
    uint64_t reserved = 4096;
    for (int i = 0; i < REGION_COUNT; i++)
        reserved += ix->h->have[i];
    assert_int_equal(stat(path, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 >= reserved);
    are_known(ix, 20000);
    inodes_close(ix, true);
}

static int setup_disk(void **state)
{
    room = UINT64_MAX;
    cannot_reserve = false;
    return setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_full, setup_disk),
        cmocka_unit_test_setup(test_nearly_full, setup_disk),
        cmocka_unit_test_setup(test_no_room_for_a_version, setup_disk),
        cmocka_unit_test_setup(test_cannot_reserve, setup_disk),
    };
    return run_index_tests(tests, sizeof tests / sizeof *tests);
}
