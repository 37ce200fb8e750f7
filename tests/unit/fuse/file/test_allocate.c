/* SPDX-License-Identifier: Apache-2.0 */
/* Room that is asked for before it is written, holes, and where they are. The disk is as full as a
 * test says. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/allocate.h"
#include "fuse/file/stage_room.h"
#include "tests/lib/eventually.h"

#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define MIB   (UINT64_C(1) << 20)

static uint64_t free_bytes; /* 0: as it is */
static int refused;         /* a mode that the disk does not know; 0: none */
static bool apart;          /* the cache is on another disk than what is staged */
static int failing;         /* errno of the disk for all; 0: none */

int __real_statvfs(const char *dir, struct statvfs *v);
int __wrap_statvfs(const char *dir, struct statvfs *v);
int __wrap_statvfs(const char *dir, struct statvfs *v)
{
    int rc = __real_statvfs(dir, v);
    if (free_bytes)
        *v = (struct statvfs){.f_frsize = 4096,
            .f_blocks = 1000 * MIB / 4096,
            .f_bavail = free_bytes / 4096,
            .f_files = 1000,
            .f_favail = 1000};
    return rc;
}

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
    int rc = __real_stat(path, st);
    if (apart && strstr(path, "/ssd"))
        st->st_dev++;
    return rc;
}

int __real_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len)
{
    if (refused && (mode & refused)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (failing && !(mode & FALLOC_FL_KEEP_SIZE)) /* as ext4: as long as it got */
        assert_int_equal(ftruncate(fd, off + len / 2), 0);
    if (failing) {
        errno = failing;
        return -1;
    }
    return __real_fallocate(fd, mode, off, len);
}

static int allocate(struct fx *x, uint64_t ino, int mode, uint64_t off, uint64_t len)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    assert_non_null(f);
    int rc = file_allocate(f, mode, off, len, &e);
    files_put(f);
    return rc ? err_errno(&e) : 0;
}

/* Negative: an errno. */
static int64_t seek(struct fx *x, uint64_t ino, uint64_t off, int whence)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    assert_non_null(f);
    int64_t at = file_seek(f, off, whence, &e);
    files_put(f);
    return at < 0 ? -err_errno(&e) : at;
}

static void bytes_are(struct fx *x, uint64_t ino, const char *want, size_t len)
{
    cleanup_free char *got = fx_read(x, ino, NULL);
    assert_non_null(got);
    assert_int_equal(fx_inode(x, ino).size, len);
    assert_memory_equal(got, want, len);
}

static void test_sizes(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "hello"), 0);
    assert_int_equal(allocate(x, h.ino, FALLOC_FL_KEEP_SIZE, 0, MIB), 0);
    bytes_are(x, h.ino, "hello", 5);
    assert_int_equal(allocate(x, h.ino, 0, 2, 6), 0);
    bytes_are(x, h.ino, "hello\0\0\0", 8);
    assert_int_equal(allocate(x, h.ino, 0, 0, 3), 0);
    bytes_are(x, h.ino, "hello\0\0\0", 8);
    assert_int_equal(allocate(x, h.ino, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), EOPNOTSUPP);
    assert_int_equal(allocate(x, h.ino, FALLOC_FL_PUNCH_HOLE, 0, 1), EOPNOTSUPP);
    assert_int_equal(fx_close(x, &h), 0);
    struct store_stat st;
    struct err e = ERR_INIT;
    assert_int_equal(store_stat_path(x->stores[0], "a", &st, &e), 0);
    assert_int_equal(st.size, 8); /* not the room that was kept */
    fx_free(x);
}

/* Of a file that is in the store: the rest of it stays, and the change is saved. */
static void test_holes_are_saved(void **state)
{
    (void)state;
    const int mode[] = {PUNCH, FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
    const int unknown[] = {0, FALLOC_FL_ZERO_RANGE}; /* to the disk: tmpfs */
    for (size_t i = 0; i < 6; i++) {
        struct fx *x = fx_new(NULL);
        struct fx_handle h;
        refused = unknown[i / 3];
        fx_put(x, "main/a", "hello");
        assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
        int64_t before = fx_inode(x, h.ino).mtime_ns;
        assert_int_equal(allocate(x, h.ino, mode[i % 3], 1, 3), 0);
        bytes_are(x, h.ino, "h\0\0\0o", 5);
        assert_true(fx_inode(x, h.ino).mtime_ns > before);
        assert_true(fx_is_dirty(x, h.ino));
        assert_int_equal(fx_close(x, &h), 0);
        assert_false(fx_is_dirty(x, h.ino));
        struct fx_handle r;
        assert_int_equal(fx_open(x, "main/a", O_RDONLY, &r), 0);
        bytes_are(x, r.ino, "h\0\0\0o", 5);
        assert_int_equal(fx_close(x, &r), 0);
        refused = 0;
        fx_free(x);
    }
}

static void test_zeros_at_the_end(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "hello"), 0);
    assert_int_equal(allocate(x, h.ino, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 3, 100), 0);
    bytes_are(x, h.ino, "hel\0\0", 5);
    assert_int_equal(allocate(x, h.ino, FALLOC_FL_ZERO_RANGE, 4, 4), 0);
    bytes_are(x, h.ino, "hel\0\0\0\0\0", 8);
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

static void test_seek(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/whole", "hello");
    assert_int_equal(fx_open(x, "main/whole", O_RDONLY, &h), 0);
    assert_int_equal(seek(x, h.ino, 2, SEEK_DATA), 2);
    assert_int_equal(seek(x, h.ino, 2, SEEK_HOLE), 5);
    assert_int_equal(seek(x, h.ino, 5, SEEK_DATA), -ENXIO);
    assert_int_equal(seek(x, h.ino, 5, SEEK_HOLE), -ENXIO);
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_create(x, "main/sparse", O_RDWR, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, MIB, "hello"), 0);
    assert_int_equal(seek(x, h.ino, 0, SEEK_HOLE), 0);
    assert_int_equal(seek(x, h.ino, 0, SEEK_DATA), MIB);
    assert_int_equal(seek(x, h.ino, MIB, SEEK_HOLE), MIB + 5);
    assert_int_equal(seek(x, h.ino, MIB + 5, SEEK_DATA), -ENXIO);
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

/* More than the disk may give is refused at once, and before a byte of it is taken. */
static void test_no_room(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.keep_free = 10});
    struct fx_handle h;
    free_bytes = 60 * MIB; /* of 1000, of which writers leave 50 */
    assert_int_equal(stage_room_left(x->files), 10 * MIB);
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    assert_int_equal(allocate(x, h.ino, 0, 0, 11 * MIB), ENOSPC);
    assert_int_equal(allocate(x, h.ino, FALLOC_FL_ZERO_RANGE, 0, 11 * MIB), ENOSPC);
    assert_int_equal(fx_inode(x, h.ino).size, 0);
    assert_int_equal(allocate(x, h.ino, PUNCH, 0, 11 * MIB), 0); /* takes none */
    assert_int_equal(allocate(x, h.ino, 0, 0, MIB), 0);
    assert_int_equal(fx_inode(x, h.ino).size, MIB);
    free_bytes = 40 * MIB;
    assert_int_equal(stage_room_left(x->files), 0);
    assert_int_equal(fx_close(x, &h), 0);
    free_bytes = 0;
    fx_free(x);
}

/* What the cache holds is room, but for what is pinned. */
static void test_the_cache_gives(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.keep_free = 10});
    struct fx_handle h;
    cleanup_free char *text = xmalloc(MIB + 1);
    memset(text, 'x', MIB);
    text[MIB] = '\0';
    fx_put(x, "main/a", text);
    free_bytes = 150 * MIB; /* more than the cache leaves */
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    fx_is(x, h.ino, text);
    eventually(stage_room_left(x->files) == 101 * MIB); /* as soon as it is in a tier */
    apart = true;
    assert_int_equal(stage_room_left(x->files), 100 * MIB);
    apart = false;
    struct err e = ERR_INIT;
    /* a pin of what is still to come takes nothing from it */
    struct cache_key key = {0, "to come", "1", 5 * MIB};
    struct cache_file *pinned = cache_pin(x->cache, &key, 0, 5 * MIB, &e);
    assert_non_null(pinned);
    assert_int_equal(stage_room_left(x->files), 101 * MIB);
    cache_close(pinned);
    struct file *f = files_get(x->files, h.ino, &e);
    assert_int_equal(file_pin(f, 0, MIB, &e), 0);
    files_put(f);
    assert_int_equal(stage_room_left(x->files), 100 * MIB);
    assert_int_equal(fx_close(x, &h), 0);
    free_bytes = 0;
    fx_free(x);
}

/* What the disk refuses changes neither the file nor its time, and is not saved. */
static void test_the_disk_refuses(void **state)
{
    (void)state;
    static const int why[] = {EOPNOTSUPP, EFBIG, ENOSPC};
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
    struct inode before = fx_inode(x, h.ino);
    for (size_t i = 0; i < ARRAY_LEN(why); i++) {
        failing = why[i];
        assert_int_equal(allocate(x, h.ino, 0, 0, MIB), why[i]);
        assert_int_equal(allocate(x, h.ino, FALLOC_FL_ZERO_RANGE, 0, MIB), why[i]);
    }
    failing = EOPNOTSUPP;
    assert_int_equal(allocate(x, h.ino, PUNCH, 1, 2), EOPNOTSUPP);
    failing = 0;
    assert_false(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_inode(x, h.ino).mtime_ns, before.mtime_ns);
    cleanup_free char *note = fx_sidecar(x, h.ino);
    assert_null(note); /* there is nothing to be saved after a crash */
    assert_int_equal(fx_close(x, &h), 0);
    struct store_stat st;
    assert_int_equal(store_stat_path(x->stores[0], "a", &st, &e), 0);
    assert_string_equal(st.version, before.version); /* that of the first writer */
    fx_path_is(x, "main/a", "hello");
    fx_free(x);
}

/* … and what was written before is saved as it was. */
static void test_the_disk_refuses_a_writer(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "H"), 0);
    failing = ENOSPC;
    assert_int_equal(allocate(x, h.ino, 0, 0, MIB), ENOSPC);
    failing = 0;
    assert_true(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_close(x, &h), 0);
    assert_false(fx_is_dirty(x, h.ino));
    fx_store_is(x, "main/a", "Hello");
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
    failing = EFBIG; /* and what is written after it */
    assert_int_equal(allocate(x, h.ino, 0, 0, MIB), EFBIG);
    failing = 0;
    assert_int_equal(fx_write(x, h.ino, 4, "O"), 0);
    assert_true(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "HellO");
    fx_free(x);
}

/* A cache that keeps no room free gives nothing back. */
static void test_the_cache_gives_nothing(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_fill(x, "main/a");
    free_bytes = 100 * MIB;
    assert_int_equal(stage_room_left(x->files), 100 * MIB);
    free_bytes = 0;
    fx_free(x);
}

static void test_refused(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "ro/a", "hello");
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(allocate(x, h.ino, PUNCH, 0, 1), EROFS);
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_holes_are_saved),
        cmocka_unit_test(test_zeros_at_the_end),
        cmocka_unit_test(test_seek),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_the_cache_gives),
        cmocka_unit_test(test_the_cache_gives_nothing),
        cmocka_unit_test(test_the_disk_refuses),
        cmocka_unit_test(test_the_disk_refuses_a_writer),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("allocate", tests, NULL, NULL);
}
