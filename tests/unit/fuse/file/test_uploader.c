/* SPDX-License-Identifier: Apache-2.0 */
/* What is uploaded without a close: after a failure, of files that are held open, at the end, and
 * what a crash left behind. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/recover.h"

#include <dirent.h>
#include <unistd.h>

#define SOON_NS (20 * NS_PER_S)
#define TICKS   (1500 * NS_PER_MS) /* the uploader has looked at all files meanwhile */

static struct uploader *start(struct fx *x)
{
    struct err e = ERR_INIT;
    struct uploader *u = uploader_start(x->files, x->stores, &e);
    assert_non_null(u);
    return u;
}

static void wait_for(struct fx *x, unsigned mount, const char *path)
{
    for (int64_t until = clock_mono_ns() + SOON_NS; !fake_store_has(x->fake[mount], path);) {
        assert_true(clock_mono_ns() < until);
        clock_sleep_ns(20 * NS_PER_MS);
    }
}

static uint64_t pending(void)
{
    struct upload_stats s;
    upload_stats(&s);
    return s.pending;
}

/* Its close failed: the store gets it later. */
static void test_retry(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_close(x, &h), EIO);
    struct uploader *u = start(x);
    clock_sleep_ns(TICKS);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 1); /* not before its time */
    assert_int_equal(pending(), 1);
    struct file *f = files_get(x->files, h.ino, &e);
    atomic_store(&f->retry_ns, 1);
    files_put(f);
    wait_for(x, 0, "a");
    uploader_stop(u);
    assert_int_equal(pending(), 0);
    assert_false(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_staged(x), 0); /* from staging into the cache, as after a close */
    fx_path_is(x, "main/a", "text");
    fx_free(x);
}

static void test_last_attempt(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.max_idle = 1});
    struct fx_handle h, open;
    struct uploader *u = start(x);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_close(x, &h), EIO);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &open), 0);
    fx_write(x, open.ino, 0, "open");
    fx_put(x, "main/c", "c"); /* others come by: what is dirty is not forgotten */
    fx_put(x, "main/d", "d");
    fx_path_is(x, "main/c", "c");
    fx_path_is(x, "main/d", "d");
    uploader_stop(u);
    fx_store_is(x, "main/a", "text");
    fx_store_is(x, "main/b", "open");
    fx_close(x, &open);
    fx_free(x);
}

/* An event log that is written now and then, and never closed. */
static void test_held_open(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    struct uploader *u = start(x);
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "line");
    clock_sleep_ns(TICKS);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    struct file *f = files_get(x->files, h.ino, &e);
    atomic_fetch_sub(&f->dirty_ns, 31 * NS_PER_S);
    wait_for(x, 0, "log");
    files_put(f);
    uploader_stop(u);
    fx_store_is(x, "main/log", "line");
    assert_int_equal(fx_staged(x), 2); /* open still */
    fx_close(x, &h);
    fx_free(x);
}

/* A large one that is written to all the time would be uploaded again and again. */
static void test_large_and_busy(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/large", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_truncate(x, h.ino, 65 << 20, true), 0);
    struct file *f = files_get(x->files, h.ino, &e);
    atomic_fetch_sub(&f->dirty_ns, 31 * NS_PER_S);
    atomic_fetch_add(&f->write_ns, 60 * NS_PER_S); /* as if just now, for a while */
    struct uploader *u = start(x);
    clock_sleep_ns(TICKS);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    atomic_fetch_sub(&f->write_ns, 90 * NS_PER_S);
    wait_for(x, 0, "large");
    files_put(f);
    uploader_stop(u);
    fx_close(x, &h);
    fx_free(x);
}

/* The process that had it open was killed, and its reader with it: no close will come. */
static void test_closed_and_dirty(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    fx_restart(x, true);
    assert_int_equal(inodes_opened(x->inodes, h.ino, -1), 0);
    struct uploader *u = start(x);
    clock_sleep_ns(TICKS);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0); /* somebody may be writing */
    struct file *f = files_get(x->files, h.ino, &e);
    atomic_fetch_sub(&f->write_ns, 3 * NS_PER_S);
    files_put(f);
    wait_for(x, 0, "a");
    uploader_stop(u);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* -- what a crash left ------------------------------------------------------------------------ */

static void touch(struct fx *x, const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", x->stage_dir, name);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
}

static bool in_staging(struct fx *x, const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", x->stage_dir, name);
    return access(path, F_OK) == 0;
}

static unsigned count(struct fx *x, const char *below, const char *prefix)
{
    unsigned n = 0;
    cleanup_free char *path = xasprintf("%s%s", x->stage_dir, below);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *de; (de = readdir(d));)
        n += strncmp(de->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

static void test_recover(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b, c, o, gone;
    fx_put(x, "main/b", "hello");
    fx_put(x, "main/c", "hello");
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    assert_int_equal(fx_open(x, "main/b", O_WRONLY, &b), 0);
    assert_int_equal(fx_open(x, "main/c", O_WRONLY, &c), 0);
    assert_int_equal(fx_create(x, "other/o", O_WRONLY, false, &o), 0);
    assert_int_equal(fx_create(x, "main/gone", O_WRONLY, false, &gone), 0);
    fx_write(x, a.ino, 0, "new");
    fx_write(x, b.ino, 0, "J");
    fx_write(x, c.ino, 0, "M");
    fx_write(x, o.ino, 0, "elsewhere");
    assert_int_equal(fx_unlink(x, "main/gone", false), 0);
    fx_restart(x, false);                           /* the machine went down */
    fake_store_write(x->fake[0], "c", "another's"); /* meanwhile */
    touch(x, "99-1.path");
    touch(x, "98-1.7.new");
    recover_begin(x->files);
    assert_int_equal(fx_staged(x), 0); /* of the inodes that there are */
    assert_false(in_staging(x, "99-1.path"));
    assert_false(in_staging(x, "98-1.7.new"));
    struct store *other = x->stores[1];
    x->stores[1] = NULL; /* cannot be used just now */
    assert_int_equal(recover_all(x->files, x->stores), 1);
    fx_store_is(x, "main/a", "new");
    fx_store_is(x, "main/b", "Jello");
    fx_store_is(x, "main/c", "another's"); /* ours is kept aside */
    fx_store_is(x, "main/gone", NULL);
    fx_store_is(x, "other/o", NULL);
    assert_int_equal(count(x, "", "0-"), 2);
    assert_int_equal(count(x, "/lost", "0-"), 2); /* with its sidecar */
    x->stores[1] = other;
    fake_store_fail(x->fake[1], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(recover_all(x->files, x->stores), 1);
    fake_store_fail(x->fake[1], FAKE_STAT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(recover_all(x->files, x->stores), 1); /* is it the one that we knew? */
    assert_int_equal(recover_all(x->files, x->stores), 0);
    fx_store_is(x, "other/o", "elsewhere");
    assert_int_equal(count(x, "", "0-"), 0);
    fx_free(x);
}

/* Gives what is staged for an inode the names that an earlier version gave. */
static void name_as_before(struct fx *x, uint64_t ino)
{
    cleanup_free char *now = fx_staging_file(x, ino), *sidecar_now = xasprintf("%s.path", now),
                      *was = xasprintf("%s/%llu-%llu", x->stage_dir, (unsigned long long)ino,
                          (unsigned long long)fx_inode(x, ino).generation),
                      *sidecar_was = xasprintf("%s.path", was);
    assert_int_equal(rename(now, was), 0);
    assert_int_equal(rename(sidecar_now, sidecar_was), 0);
}

/* An earlier version was killed, and this one goes on with its inodes. */
static void test_upgraded(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "text");
    name_as_before(x, a.ino);
    fx_restart(x, true);
    recover_begin(x->files);
    assert_int_equal(fx_staged(x), 2);
    fx_is(x, a.ino, "text");
    fx_write(x, a.ino, 4, " and more");
    assert_int_equal(fx_close(x, &a), 0);
    fx_store_is(x, "main/a", "text and more");
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* A name is used once: what an index that is gone has left is nobody's to overwrite. */
static void test_names_are_used_once(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    cleanup_free char *first = fx_staging_file(x, a.ino);
    fx_restart(x, false);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &b), 0);
    assert_int_equal(b.ino, a.ino); /* numbers begin anew */
    cleanup_free char *second = fx_staging_file(x, b.ino);
    assert_string_not_equal(first, second);
    assert_int_equal(access(first, F_OK), 0);
    fx_close(x, &b);
    fx_free(x);
}

static void swap_mounts(struct fx *x)
{
    struct conf_mount m = x->mounts[0];
    struct store *s = x->stores[0];
    struct fake_store *f = x->fake[0];
    x->mounts[0] = x->mounts[1];
    x->mounts[1] = m;
    x->stores[0] = x->stores[1];
    x->stores[1] = s;
    x->fake[0] = x->fake[1];
    x->fake[1] = f;
}

/* The dataset was edited meanwhile: its mounts come in another order, or one is gone. */
static void test_recover_other_mounts(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, o;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    assert_int_equal(fx_create(x, "other/o", O_WRONLY, false, &o), 0);
    fx_write(x, a.ino, 0, "of main");
    fx_write(x, o.ino, 0, "of other");
    swap_mounts(x);
    char *was = x->mounts[0].mount_point; /* other's */
    x->mounts[0].mount_point = xstrdup("memory://new");
    fx_restart(x, false);
    recover_begin(x->files);
    assert_int_equal(recover_all(x->files, x->stores), 1); /* kept: no mount has it */
    assert_int_equal(count(x, "", "0-"), 2);
    free(x->mounts[0].mount_point);
    x->mounts[0].mount_point = was;
    assert_int_equal(recover_all(x->files, x->stores), 0);
    swap_mounts(x);
    fx_store_is(x, "main/a", "of main");
    fx_store_is(x, "other/o", "of other");
    fx_store_is(x, "main/o", NULL);
    fx_store_is(x, "other/a", NULL);
    fx_free(x);
}

/* By the thread; the files of inodes that are known are not its business, even of one that has the
 * number that another had before the crash. */
static void test_recover_in_the_background(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "old");
    fx_restart(x, false);
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, EIO, 0, 1);
    struct uploader *u = start(x);
    for (int64_t until = clock_mono_ns() + SOON_NS; !fake_store_calls(x->fake[0], FAKE_STAT);) {
        assert_true(clock_mono_ns() < until);
        clock_sleep_ns(20 * NS_PER_MS);
    }
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &b), 0);
    assert_int_equal(b.ino, a.ino);
    fx_write(x, b.ino, 0, "live");
    uploader_stop(u);
    u = start(x);
    wait_for(x, 0, "a");
    clock_sleep_ns(TICKS);
    uploader_stop(u);
    fx_store_is(x, "main/a", "old");
    fx_is(x, b.ino, "live");
    fx_close(x, &b);
    fx_store_is(x, "main/b", "live");
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_last_attempt),
        cmocka_unit_test(test_held_open),
        cmocka_unit_test(test_large_and_busy),
        cmocka_unit_test(test_closed_and_dirty),
        cmocka_unit_test(test_recover),
        cmocka_unit_test(test_upgraded),
        cmocka_unit_test(test_names_are_used_once),
        cmocka_unit_test(test_recover_other_mounts),
        cmocka_unit_test(test_recover_in_the_background),
    };
    return cmocka_run_group_tests_name("uploader", tests, NULL, NULL);
}
