/* SPDX-License-Identifier: Apache-2.0 */
/* The note beside a staged file is true at any moment: it says what is not in the store, and
 * nothing of what is. */
#include "tests/unit/fuse/file/commit_fixture.h"

#include "fuse/file/recover.h"
#include "fuse/file/stage_sync.h"

#include <sys/stat.h>
#include <unistd.h>

static char *note_of(struct fx *x, uint64_t ino)
{
    cleanup_free char *content = fx_staging_file(x, ino);
    return xasprintf("%s.path", content);
}

static bool has_note(struct fx *x, uint64_t ino)
{
    cleanup_free char *note = note_of(x, ino);
    return access(note, F_OK) == 0;
}

/* What a failed fsync asked for was saved by a later one, with more: content as of the first, which
 * a power cut brings back, does not replace it. */
static void test_mark_is_over(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    fx_upload(x, "main/log", EIO);
    fx_write(x, h.ino, 3, " two");
    fx_upload(x, "main/log", 0);
    fx_write(x, h.ino, 7, " three");
    cleanup_free char *content = fx_staging_file(x, h.ino);
    assert_int_equal(truncate(content, 3), 0); /* what was not flushed is gone */
    fx_power_cut(x);
    recover_begin(x->files);
    fx_upload(x, "main/log", 0);
    fx_store_is(x, "main/log", "one two");
    fx_kept(x, 1, "log", KEPT_UNFINISHED);
    fx_free(x);
}

static unsigned note_syncs, name_syncs;
static const char *awaited; /* a file that is there when a note comes to the disk, */
static bool missed;         /* or was not */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    note_syncs += fx_fd_is(fd, ".new") || fx_fd_is(fd, ".path");
    name_syncs += fx_fd_is(fd, "/stage");
    missed |= awaited && fx_fd_is(fd, ".new") && access(awaited, F_OK) != 0;
    return __real_fsync(fd);
}

/* The note that says what was asked for is on the disk, and so is the one that takes its place when
 * the file gets another name, or is found by the next process: where it was not, some file systems
 * have an empty one after a power cut. Other notes are promised to nobody. */
static void test_mark_stays_on_disk(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    note_syncs = 0;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(note_syncs, 0);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    fx_upload(x, "main/b", EIO);
    assert_int_equal(note_syncs, 1);
    assert_int_equal(fx_rename(x, "main/b", "main/c", 0, false), 0);
    assert_in_range(note_syncs, 2, 3);
    note_syncs = 0;
    fx_power_cut(x);
    recover_begin(x->files);
    assert_in_range(note_syncs, 1, 2);
    fx_upload(x, "main/c", 0);
    fx_store_is(x, "main/c", "text");
    fx_free(x);
}

/* The process before us had it on the disk that it is to be saved, and had not told anybody else:
 * when it is removed or renamed then, or uploaded and removed, a power cut brings back none of it.
 */
static void test_mark_of_another_process(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct fx *x = fx_new(&(struct fx_conf){.write = CONF_ASYNC_THROUGH});
        bool renamed = i == 1;
        fx_make(x, "main/a", "text");
        if (i == 3)
            assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), 0);
        fx_restart(x, true);
        recover_begin(x->files);
        if (i != 3) /* what it had removed itself */
            stage_sync_settle(files_stage_sync(x->files));
        if (i == 2)
            assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), 0);
        if (i == 4)
            fx_make(x, "main/b", "newer");
        name_syncs = 0;
        if (renamed)
            assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
        else if (i == 4)
            assert_int_equal(fx_rename(x, "main/b", "main/a", 0, false), 0);
        else
            assert_int_equal(fx_unlink(x, "main/a", false), 0);
        assert_true(name_syncs > 0);
        fx_free(x);
    }
}

/* What the store was found to have of it, or has got, is not in its note any more: that is on the
 * disk before more is sent, or a power cut would bring the former note back, which has no room for
 * the latter. done: of an upload that ended while more was saved. */
static void test_answer_is_noted(void **state)
{
    (void)state;
    for (int done = 0; done < 2; done++) {
        struct fx *x = fx_new(&(struct fx_conf){.write = CONF_ASYNC_THROUGH});
        struct fx_handle h;
        struct fx_behind b;
        struct err e = ERR_INIT;
        fx_make(x, "main/a", "1");
        if (!done)
            fake_store_lose_answer(x->fake[0]);
        assert_int_equal(fx_open(x, "main/a", O_WRONLY, &h), 0);
        fx_begin_held(&b, x, h.ino);
        fx_write(x, h.ino, 1, "2");
        assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
        assert_int_equal(fx_end_held(&b), done ? 0 : EIO);
        name_syncs = 0;
        fx_begin_held(&b, x, h.ino);
        assert_true(name_syncs > 0);
        assert_int_equal(fx_end_held(&b), 0);
        fx_store_is(x, "main/a", "12");
        fx_close(x, &h);
        fx_free(x);
    }
}

/* One of two saved files takes the other's name: a power cut in the middle of that leaves one. */
static void test_replaced_in_one_step(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.write = CONF_ASYNC_THROUGH});
    fx_make(x, "main/a", "old");
    fx_make(x, "main/b", "new");
    cleanup_free char *old = note_of(x, fx_ino(x, "main/a"));
    awaited = old;
    missed = false;
    note_syncs = 0;
    assert_int_equal(fx_rename(x, "main/b", "main/a", 0, false), 0);
    awaited = NULL;
    assert_true(note_syncs > 0);
    assert_false(missed);
    assert_int_equal(access(old, F_OK), -1);
    fx_free(x);
}

static void *upload_log(void *arg)
{
    fx_upload(arg, "main/log", 0);
    return NULL;
}

/* The same where it was written to while it was being saved, and not since. */
static void test_mark_is_over_at_once(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    pthread_t t;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    fx_upload(x, "main/log", EIO);
    fx_write(x, h.ino, 3, " two");
    fake_store_hold(x->fake[0], FAKE_PUT);
    assert_int_equal(pthread_create(&t, NULL, upload_log, x), 0);
    fake_store_wait_held(x->fake[0]);
    fx_write(x, h.ino, 7, " three");
    fake_store_go(x->fake[0]);
    pthread_join(t, NULL);
    fx_restart(x, false);
    recover_begin(x->files);
    fx_upload(x, "main/log", 0); /* no conflict with ourselves */
    fx_store_is(x, "main/log", "one two three");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* All of it is in the store: who comes after us has nothing to bring back. */
static void test_saved_has_no_note(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, b;
    fx_put(x, "main/b", "hello");
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_open(x, "main/b", O_WRONLY, &b), 0);
    fx_write(x, h.ino, 0, "ours");
    fx_write(x, b.ino, 0, "J");
    fx_upload(x, "main/a", 0);
    fx_upload(x, "main/b", 0);
    assert_false(has_note(x, h.ino));
    fx_restart(x, false);
    fake_store_delete(x->fake[0], "a");
    fake_store_write(x->fake[0], "b", "another's");
    recover_begin(x->files);
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    fx_path_is(x, "main/b", "another's");
    fx_upload(x, "main/b", 0);
    fx_store_is(x, "main/a", NULL);
    fx_kept(x, 0, NULL, NULL);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* The next process writes to a file that the one before it had saved and held open; and the one
 * after that has lost the index. */
static void test_written_after_a_restart(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fx_upload(x, "main/log", 0);
    fx_restart(x, true);
    assert_int_equal(fx_write(x, h.ino, 3, " two"), 0);
    fx_restart(x, false);
    recover_begin(x->files);
    fx_upload(x, "main/log", 0);
    fx_store_is(x, "main/log", "one two");
    fx_free(x);
}

/* Renamed when it was saved, and written to after that. */
static void test_renamed_when_saved(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fx_upload(x, "main/log", 0);
    assert_int_equal(fx_rename(x, "main/log", "main/log.1", 0, false), 0);
    assert_false(has_note(x, h.ino));
    fx_write(x, h.ino, 3, " two");
    fx_restart(x, false);
    recover_begin(x->files);
    assert_int_equal(fx_lookup(x, "main/log", NULL), ENOENT);
    fx_upload(x, "main/log.1", 0);
    fx_store_is(x, "main/log.1", "one two");
    fx_free(x);
}

/* Without a note the content would not be found again: nothing is written. */
static void test_no_room_for_the_note(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fx_upload(x, "main/log", 0);
    cleanup_free char *note = note_of(x, h.ino);
    assert_int_equal(mkdir(note, 0700), 0); /* nothing takes its place */
    assert_int_equal(fx_write(x, h.ino, 3, " two"), EISDIR);
    assert_int_equal(fx_truncate(x, h.ino, 1, true), EISDIR);
    fx_is(x, h.ino, "one");
    assert_false(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_unlink(x, "main/log", false), 0);
    assert_int_equal(fx_write(x, h.ino, 3, " two"), 0); /* has no name: needs none */
    fx_is(x, h.ino, "one two");
    assert_int_equal(rmdir(note), 0);
    fx_close(x, &h);
    fx_free(x);
}

/* That a note cannot be looked at does not say that there is none. */
static void test_note_out_of_reach(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    cleanup_free char *note = note_of(x, h.ino);
    assert_int_equal(unlink(note), 0);
    assert_int_equal(symlink(note, note), 0); /* ELOOP */
    fx_restart(x, false);
    recover_begin(x->files);
    fx_kept(x, 1, "?", KEPT_UNREADABLE);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mark_is_over),
        cmocka_unit_test(test_mark_stays_on_disk),
        cmocka_unit_test(test_mark_of_another_process),
        cmocka_unit_test(test_answer_is_noted),
        cmocka_unit_test(test_replaced_in_one_step),
        cmocka_unit_test(test_mark_is_over_at_once),
        cmocka_unit_test(test_saved_has_no_note),
        cmocka_unit_test(test_written_after_a_restart),
        cmocka_unit_test(test_renamed_when_saved),
        cmocka_unit_test(test_no_room_for_the_note),
        cmocka_unit_test(test_note_out_of_reach),
    };
    return cmocka_run_group_tests_name("stage_note", tests, NULL, NULL);
}
