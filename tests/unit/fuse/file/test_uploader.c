/* SPDX-License-Identifier: Apache-2.0 */
/* What is uploaded without a close: after a failure, of files that are held open, at the end. */
#include "tests/unit/fuse/file/commit_fixture.h"

#include "fuse/file/dir_move.h"

#define SOON_NS (20 * NS_PER_S)
#define TICKS   (1500 * NS_PER_MS) /* the uploader has looked at all files meanwhile */

static struct uploader *start(struct fx *x)
{
    struct err e = ERR_INIT;
    struct uploader *u = uploader_start(x->files, &e);
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
    assert_int_equal(fx_staged(x), 1); /* open still, without a note */
    fx_close(x, &h);
    fx_free(x);
}

/* What a renamed directory has left behind cannot go while the store fails: who waits for something
 * else does not get on for that. */
static void test_left_over(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    const struct progress_things other = {.a = 77, .b = 77},
                                 journals = {.a = DIR_MOVE_JOURNALS, .b = DIR_MOVE_JOURNALS};
    fx_put(x, "main/d/a", "one");
    fx_ino(x, "main/d/a");
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 2);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    uint64_t others = progress_count(&other), before = progress_count(&journals);
    struct uploader *u = start(x);
    for (int64_t until = clock_mono_ns() + SOON_NS;
         fake_store_calls(x->fake[0], FAKE_REMOVE) < 2;) {
        assert_true(clock_mono_ns() < until);
        clock_sleep_ns(20 * NS_PER_MS);
    }
    uploader_stop(u);
    assert_true(fake_store_has(x->fake[0], "d/a"));
    assert_int_equal(progress_count(&other), others);
    assert_true(progress_count(&journals) > before);
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

/* What a crash left: it is there as soon as the thread is. */
static void test_leftovers(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "text");
    fx_restart(x, false);
    struct uploader *u = start(x);
    fx_path_is(x, "main/a", "text");
    uploader_stop(u);
    fx_store_is(x, "main/a", "text");
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* Nobody waits for the store when the next process takes over: what may wait is its. */
static void test_left_to_the_next(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.write = CONF_ASYNC_THROUGH});
    struct uploader *u = start(x);
    fake_store_heed_cancel(x->fake[0]);
    fake_store_hold(x->fake[0], FAKE_PUT);
    fx_make(x, "main/flying", "one");
    fx_due(x, fx_ino(x, "main/flying"));
    fake_store_wait_held(x->fake[0]);
    fx_make(x, "main/waiting", "two");
    uploader_leave(u);
    fake_store_go(x->fake[0]);
    uploader_stop(u);
    fx_store_is(x, "main/flying", NULL);
    fx_store_is(x, "main/waiting", NULL);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 1);
    assert_int_equal(pending(), 2);
    fx_restart(x, true);
    uploader_stop(start(x)); /* it is unmounted */
    fx_store_is(x, "main/flying", "one");
    fx_store_is(x, "main/waiting", "two");
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_last_attempt),
        cmocka_unit_test(test_held_open),
        cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_large_and_busy),
        cmocka_unit_test(test_closed_and_dirty),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_left_to_the_next),
    };
    return cmocka_run_group_tests_name("uploader", tests, NULL, NULL);
}
