/* SPDX-License-Identifier: Apache-2.0 */
/* What writers leave free on the disk: with a disk that is as full as the test says. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "lib/base/clock.h"

#include <pthread.h>
#include <sys/statvfs.h>

static atomic_uint free_permille = 500, looks;

int __real_statvfs(const char *dir, struct statvfs *v);
int __wrap_statvfs(const char *dir, struct statvfs *v);
int __wrap_statvfs(const char *dir, struct statvfs *v)
{
    int rc = __real_statvfs(dir, v);
    if (strstr(dir, "/stage"))
        looks++;
    *v = (struct statvfs){.f_frsize = 4096, .f_blocks = 1000000, .f_files = 1000, .f_favail = 1000};
    v->f_bavail = v->f_blocks / 1000 * free_permille;
    return rc;
}

static struct fx *fx_disk(unsigned permille)
{
    free_permille = permille;
    looks = 0;
    return fx_new(&(struct fx_conf){.keep_free = 10});
}

static void test_room_is_there(void **state)
{
    (void)state;
    struct fx *x = fx_disk(500);
    struct fx_handle h;
    int64_t began = clock_mono_ns();
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(fx_write(x, h.ino, i, "x"), 0);
    assert_in_range(looks, 1, 1 + (unsigned)((clock_mono_ns() - began) / NS_PER_S));
    assert_int_equal(fx_close(x, &h), 0);
    /* half of what the cache leaves is the writers' */
    free_permille = 51;
    fx_make(x, "main/b", "text");
    fx_store_is(x, "main/b", "text");
    fx_free(x);
}

static void test_many_bytes_look_again(void **state)
{
    (void)state;
    struct fx *x = fx_disk(51); /* 4 MB are left, of which half may be written unseen */
    struct fx_handle h;
    cleanup_free char *much = xmalloc((1u << 20) + 1);
    memset(much, 'x', 1u << 20);
    much[1u << 20] = '\0';
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(fx_write(x, h.ino, (uint64_t)i << 20, much), 0);
    free_permille = 49;
    int rc = 0;
    for (unsigned i = 0; i < 3 && !rc; i++) /* and does not wait for the next second */
        rc = fx_write(x, h.ino, (uint64_t)i << 20, much);
    assert_int_equal(rc, ENOSPC);
    free_permille = 500;
    fx_close(x, &h);
    fx_free(x);
}

/* A writer waits, and the cache has given something back. */
static void *give_room(void *user)
{
    struct fx *x = user;
    struct cache_stats s;
    do
        clock_sleep_ns(10 * NS_PER_MS);
    while (cache_stats(x->cache, &s), s.evicted_bytes == 0 || looks < 2);
    free_permille = 200; /* as far as this test's disk knows of it */
    return NULL;
}

/* The cache was using what the writer needs. */
static void test_cache_gives_room(void **state)
{
    (void)state;
    struct fx *x = fx_disk(500);
    struct fx_handle h;
    pthread_t t;
    cleanup_free char *much = xmalloc((3u << 20) + 1);
    memset(much, 'x', 3u << 20);
    much[3u << 20] = '\0';
    fx_put(x, "main/cached", much);
    fx_fill(x, "main/cached");
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    unsigned blocked = x->blocked;
    free_permille = 40;
    looks = 0;
    pthread_create(&t, NULL, give_room, x);
    int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    while (x->blocked == blocked && clock_mono_ns() < until) /* it looks once a second */
        assert_int_equal(fx_write(x, h.ino, 0, "x"), 0);
    pthread_join(t, NULL);
    assert_true(x->blocked > blocked);
    assert_int_equal(fx_write(x, h.ino, 1, "y"), 0);
    assert_false(stage_disk_full());
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "xy");
    fx_free(x);
}

static void test_no_room(void **state)
{
    (void)state;
    struct fx *x = fx_disk(49);
    struct fx_handle h;
    struct err e = ERR_INIT;
    fx_put(x, "main/old", "old");
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), ENOSPC);
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT); /* nothing is left of it */
    assert_true(stage_disk_full());
    assert_int_equal(fx_staged(x), 0);
    /* a file that is there keeps its content; who comes later does not wait */
    unsigned blocked = x->blocked;
    assert_int_equal(fx_open(x, "main/old", O_RDWR, &h), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(fx_write(x, h.ino, 0, "new"), ENOSPC);
    struct file *f = files_get(x->files, h.ino, &e);
    assert_int_equal(file_pwrite(f, "x", 1, 0, &e), -1);
    files_put(f);
    assert_non_null(strstr(e.msg, "less than 5.0 % of the disk of the cache directory is free"));
    fx_is(x, h.ino, "old");
    assert_in_range(x->blocked - blocked, 0, 3); /* the look-ups'; none for the refusals */
    /* room again */
    free_permille = 60;
    int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    while (fx_write(x, h.ino, 0, "new") && clock_mono_ns() < until)
        clock_sleep_ns(50 * NS_PER_MS);
    assert_false(stage_disk_full());
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/old", "new");
    fx_free(x);
}

/* What is removed while it is read would be staged, and there is no room for it: that is no word
 * about writers. */
static void test_no_room_for_removed(void **state)
{
    (void)state;
    free_permille = 500;
    struct fx *x = fx_new(&(struct fx_conf){.keep_free = 10, .memory = true});
    struct fx_handle h;
    fx_make(x, "main/b", "text"); /* the latest write went well */
    fx_put(x, "main/a", "old");
    fx_fill(x, "main/a");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    fx_is(x, h.ino, "old");
    assert_false(stage_disk_full());
    free_permille = 1;
    clock_sleep_ns(3 * NS_PER_S / 2); /* what is known of the disk is old */
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_false(stage_disk_full());
    fx_is(x, h.ino, "old");
    free_permille = 500;
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

/* Nobody asked for it. */
static void test_no_floor(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    free_permille = 1;
    looks = 0;
    fx_make(x, "main/a", "text");
    fx_store_is(x, "main/a", "text");
    assert_int_equal(looks, 0);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_is_there),
        cmocka_unit_test(test_many_bytes_look_again),
        cmocka_unit_test(test_cache_gives_room),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_no_room_for_removed),
        cmocka_unit_test(test_no_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
