/* SPDX-License-Identifier: Apache-2.0 */
/* What a crash left: of the process, of the machine, of an earlier version; and what the next life
 * of the mount makes of it. */
#include "tests/unit/fuse/file/crash_fixture.h"

#include "fuse/file/adopt.h"
#include "fuse/file/recover.h"
#include "fuse/file/sidecar.h"
#include "fuse/file/stage_name.h"
#include "lib/base/file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static void touch(struct fx *x, const char *name)
{
    cleanup_free char *path = path_join(x->stage_dir, name);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
}

static bool in_staging(struct fx *x, const char *name)
{
    cleanup_free char *path = path_join(x->stage_dir, name);
    return access(path, F_OK) == 0;
}

/* The process was killed, and with it the index: nothing is lost, and all of it is there before
 * anybody can ask. */
static void test_recover(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b, o, deep, gone;
    fx_put(x, "main/b", "hello");
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    assert_int_equal(fx_mkdir(x, "main/d/e", false), 0);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    assert_int_equal(fx_open(x, "main/b", O_WRONLY, &b), 0);
    assert_int_equal(fx_create(x, "other/o", O_WRONLY, false, &o), 0);
    assert_int_equal(fx_create(x, "main/d/e/deep", O_WRONLY, false, &deep), 0);
    assert_int_equal(fx_create(x, "main/gone", O_WRONLY, false, &gone), 0);
    fx_write(x, a.ino, 0, "new");
    fx_write(x, b.ino, 0, "J");
    fx_write(x, o.ino, 0, "elsewhere");
    fx_write(x, deep.ino, 0, "deep");
    assert_int_equal(fx_unlink(x, "main/gone", false), 0);
    fx_restart(x, false);
    touch(x, "99-1.path");
    touch(x, "98-1.7.new");
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, EIO, 0, 100); /* the store is away … */
    fake_store_fail(x->fake[0], FAKE_LIST, ERR_RETRY, EIO, 0, 100);
    recover_begin(x->files);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    assert_false(in_staging(x, "99-1.path"));
    assert_false(in_staging(x, "98-1.7.new"));
    fx_path_is(x, "main/a", "new"); /* … which is no matter to readers of what is here */
    fx_path_is(x, "main/b", "Jello");
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_NONE, 0, 0, 0);
    fake_store_fail(x->fake[0], FAKE_LIST, ERR_NONE, 0, 0, 0);
    fx_path_is(x, "main/d/e/deep", "deep");
    fx_path_is(x, "other/o", "elsewhere");
    assert_int_equal(fx_lookup(x, "main/gone", NULL), ENOENT);
    assert_true(fx_is_dirty(x, fx_ino(x, "main/a")));
    assert_true(fx_inode(x, fx_ino(x, "main/a")).flags & INODE_LOCAL);
    assert_false(fx_inode(x, fx_ino(x, "main/b")).flags & INODE_LOCAL);
    assert_int_equal(fx_staged(x), 8);
    fx_upload(x, "main/a", 0);
    fx_upload(x, "main/b", 0);
    fx_upload(x, "main/d/e/deep", 0);
    fx_upload(x, "other/o", 0);
    fx_store_is(x, "main/a", "new");
    fx_store_is(x, "main/b", "Jello");
    fx_store_is(x, "main/d/e/deep", "deep");
    fx_store_is(x, "other/o", "elsewhere");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* The file is written anew while what was left of it is being uploaded: the later one wins. */
static void *upload_thread(void *arg)
{
    struct fx *x = arg;
    struct err e = ERR_INIT;
    files_save(x->files, fx_ino(x, "main/ckpt"), true, &e);
    return NULL;
}

static void test_written_while_it_is_recovered(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    pthread_t t;
    fx_put(x, "main/ckpt", "the first one");
    assert_int_equal(fx_open(x, "main/ckpt", O_WRONLY | O_TRUNC, &h), 0);
    fx_write(x, h.ino, 0, "from before the crash");
    fx_restart(x, false);
    recover_begin(x->files);
    fake_store_hold(x->fake[0], FAKE_PUT);
    assert_int_equal(pthread_create(&t, NULL, upload_thread, x), 0);
    fake_store_wait_held(x->fake[0]);
    struct err e = ERR_INIT;
    uint64_t ino = fx_ino(x, "main/ckpt");
    assert_int_equal(fx_write(x, ino, 0, "WRITTEN SINCE, AND MORE"), 0);
    fake_store_go(x->fake[0]);
    pthread_join(t, NULL);
    assert_int_equal(files_save(x->files, ino, true, &e), 0);
    fx_store_is(x, "main/ckpt", "WRITTEN SINCE, AND MORE");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* Another node wrote it meanwhile: theirs stays, ours is kept, the caller is told. */
static void test_changed_by_another(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle b, n, r;
    char text[LAST_ERROR_MAX];
    fx_put(x, "main/b", "hello");
    assert_int_equal(fx_open(x, "main/b", O_WRONLY, &b), 0);
    assert_int_equal(fx_create(x, "main/new", O_WRONLY, false, &n), 0);
    fx_write(x, b.ino, 0, "J");
    fx_write(x, n.ino, 0, "ours");
    fx_restart(x, false);
    fake_store_write(x->fake[0], "b", "another's");
    fake_store_write(x->fake[0], "new", "theirs");
    recover_begin(x->files);
    assert_int_equal(fx_open(x, "main/b", O_RDONLY, &r), 0);
    fx_upload(x, "main/b", ESTALE);
    fx_upload(x, "main/new", ESTALE);
    fx_kept(x, 2, "b", KEPT_CONFLICT);
    fx_kept(x, 2, "new", KEPT_CONFLICT);
    fx_store_is(x, "main/b", "another's");
    fx_store_is(x, "main/new", "theirs");
    fx_path_is(x, "main/b", "another's"); /* the name is theirs … */
    fx_path_is(x, "main/new", "theirs");
    fx_is(x, r.ino, "Jello"); /* … and who had it open reads on */
    assert_true(files_last_error(x->files, r.ino, text));
    assert_non_null(strstr(text, "stage/kept/"));
    fx_close(x, &r);
    assert_int_equal(fx_staged(x), 0);
    fx_restart(x, false); /* kept for ever */
    recover_begin(x->files);
    fx_kept(x, 2, "b", KEPT_CONFLICT);
    fx_path_is(x, "main/b", "another's");
    fx_free(x);
}

/* Killed between moving the content to the kept copies and telling the index. */
static void test_killed_while_it_is_kept(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    char name[STAGE_NAME_MAX];
    fx_put(x, "main/b", "hello");
    assert_int_equal(fx_open(x, "main/b", O_WRONLY, &h), 0);
    fx_write(x, h.ino, 0, "J");
    const struct stage_name n = {inodes_epoch(x->inodes), h.ino, fx_inode(x, h.ino).generation};
    stage_name_format(&n, name);
    assert_int_equal(kept_add(x->stage_dir, name, NULL, &e), 0);
    fake_store_write(x->fake[0], "b", "another's");
    fx_restart(x, true);
    recover_begin(x->files);
    assert_int_equal(fx_inode(x, h.ino).flags & (INODE_STAGED | INODE_DIRTY), 0);
    fx_path_is(x, "main/b", "another's");
    fx_close(x, &h);
    fx_kept(x, 1, NULL, NULL);
    fx_free(x);
}

/* A close fails; the job goes on elsewhere and writes the same file; the late retry does not
 * replace it. */
static void test_late_retry(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/ckpt", "epoch 6");
    assert_int_equal(fx_open(x, "main/ckpt", O_WRONLY | O_TRUNC, &h), 0);
    fx_write(x, h.ino, 0, "epoch 7");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_close(x, &h), EIO);
    fake_store_write(x->fake[0], "ckpt", "EPOCH 9, of another node");
    fx_upload(x, "main/ckpt", ESTALE);
    fx_store_is(x, "main/ckpt", "EPOCH 9, of another node");
    fx_kept(x, 1, "ckpt", KEPT_CONFLICT);
    fx_path_is(x, "main/ckpt", "EPOCH 9, of another node");
    fx_free(x);
}

/* An upload was done and its answer lost; the file is written to since: no conflict with ourselves,
 * not even in the next life. */
static void test_earlier_attempt(void **state)
{
    (void)state;
    for (int restarted = 0; restarted < 2; restarted++) {
        struct fx *x = fx_new(NULL);
        struct fx_handle h;
        assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "one");
        fake_store_lose_answer(x->fake[0]);
        fx_upload(x, "main/log", EIO);
        fx_store_is(x, "main/log", "one");
        fx_write(x, h.ino, 3, " two");
        if (restarted) {
            fx_restart(x, false);
            recover_begin(x->files);
        }
        fx_upload(x, "main/log", 0);
        fx_store_is(x, "main/log", "one two");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* Uploaded while it is held open, written to again, killed: what the store has is our own. */
static void test_held_open(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fx_upload(x, "main/log", 0);
    fx_write(x, h.ino, 3, " two");
    fx_restart(x, false);
    recover_begin(x->files);
    fx_upload(x, "main/log", 0);
    fx_store_is(x, "main/log", "one two");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* After a power cut: what somebody asked to save is saved, if it is whole; what nobody had closed
 * may be torn, and does not replace what is good. */
static void test_power_cut(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle asked, torn, more, half, empty;
    fx_put(x, "main/open", "good");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 3);
    assert_int_equal(fx_create(x, "main/asked", O_WRONLY, false, &asked), 0);
    assert_int_equal(fx_create(x, "main/torn", O_WRONLY, false, &torn), 0);
    assert_int_equal(fx_create(x, "main/more", O_WRONLY, false, &more), 0);
    fx_write(x, asked.ino, 0, "asked");
    fx_write(x, torn.ino, 0, "torn?");
    fx_write(x, more.ino, 0, "more!");
    assert_int_equal(fx_close(x, &asked), EIO);
    assert_int_equal(fx_close(x, &torn), EIO);
    assert_int_equal(fx_close(x, &more), EIO);
    assert_int_equal(fx_open(x, "main/more", O_WRONLY, &more), 0);
    fx_write(x, more.ino, 0, "MORE"); /* and not asked again */
    assert_int_equal(fx_open(x, "main/open", O_WRONLY, &half), 0);
    fx_write(x, half.ino, 0, "half");
    assert_int_equal(fx_create(x, "main/empty", O_WRONLY, false, &empty), 0);
    cleanup_free char *hole = fx_staging_file(x, torn.ino);
    cleanup_fd int fd = open(hole, O_RDWR);
    assert_int_equal(pwrite(fd, "\0\0", 2, 1), 2); /* of the length that it had */
    fx_power_cut(x);
    recover_begin(x->files);
    fx_kept(x, 3, "torn", KEPT_UNFINISHED);
    fx_kept(x, 3, "more", KEPT_UNFINISHED);
    fx_kept(x, 3, "open", KEPT_UNFINISHED);
    assert_int_equal(fx_staged(x), 2);
    fx_path_is(x, "main/asked", "asked");
    fx_path_is(x, "main/open", "good");
    assert_int_equal(fx_lookup(x, "main/empty", NULL), ENOENT);
    fx_power_cut(x); /* and another one before it could be uploaded */
    recover_begin(x->files);
    fx_upload(x, "main/asked", 0);
    fx_store_is(x, "main/asked", "asked");
    fx_store_is(x, "main/torn", NULL);
    fx_store_is(x, "main/open", "good");
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
static void test_other_mounts(void **state)
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
    fx_kept(x, 1, "o", KEPT_HOMELESS); /* no mount has it */
    fx_upload(x, "main/a", 0);
    free(x->mounts[0].mount_point);
    x->mounts[0].mount_point = was;
    fx_restart(x, false); /* it is back */
    recover_begin(x->files);
    fx_kept(x, 0, NULL, NULL);
    fx_upload(x, "other/o", 0);
    swap_mounts(x);
    fx_store_is(x, "main/a", "of main");
    fx_store_is(x, "other/o", "of other");
    fx_store_is(x, "main/o", NULL);
    fx_store_is(x, "other/a", NULL);
    fx_free(x);
}

/* Its mount is for readers now: what was to be written to it is kept, and goes where it belongs
 * once that may be written to again; with the index of before (keep) or without. */
static void became_read_only(bool keep)
{
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/old", "old");
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "mine");
    struct fx_handle old;
    assert_int_equal(fx_open(x, "main/old", O_RDWR, &old), 0);
    fx_write(x, old.ino, 0, "new");
    x->mounts[0].read_only = true;
    fx_restart(x, keep);
    recover_begin(x->files);
    fx_kept(x, 2, "a", KEPT_HOMELESS);
    fx_kept(x, 2, "old", KEPT_HOMELESS);
    fx_path_is(x, "main/old", "old");
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    fx_store_is(x, "main/a", NULL);
    fx_store_is(x, "main/old", "old");
    fx_restart(x, keep); /* still */
    recover_begin(x->files);
    fx_kept(x, 2, "a", KEPT_HOMELESS);
    x->mounts[0].read_only = false;
    fx_restart(x, keep);
    recover_begin(x->files);
    fx_kept(x, 0, NULL, NULL);
    fx_upload(x, "main/a", 0);
    fx_upload(x, "main/old", 0);
    fx_store_is(x, "main/a", "mine");
    fx_store_is(x, "main/old", "new");
    fx_free(x);
}

static void test_became_read_only(void **state)
{
    (void)state;
    became_read_only(false);
}

static void test_became_read_only_while_served(void **state)
{
    (void)state;
    became_read_only(true);
}

/* Two servers have a store of that name: what is for the one does not go to the other. */
static void test_other_server(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct conf_pair endpoint = {(char *)"endpoint", (char *)"http://a"};
    x->mounts[0].options = &endpoint;
    x->mounts[0].noptions = 1;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "for server a");
    endpoint.value = (char *)"http://b";
    fx_restart(x, false);
    recover_begin(x->files);
    fx_kept(x, 1, "a", KEPT_HOMELESS);
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    endpoint.value = (char *)"http://a";
    fx_restart(x, false);
    recover_begin(x->files);
    fx_kept(x, 0, NULL, NULL);
    fx_upload(x, "main/a", 0);
    fx_store_is(x, "main/a", "for server a");
    x->mounts[0].noptions = 0;
    fx_free(x);
}

/* A note that says nothing. */
static void test_damaged_note(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "damaged");
    cleanup_free char *content = fx_staging_file(x, a.ino), *note = xasprintf("%s.path", content);
    assert_int_equal(file_write_atomic(note, "\0\0\0", 3, 0600, &e), 0);
    fx_restart(x, false);
    recover_begin(x->files);
    fx_kept(x, 1, "?", KEPT_UNREADABLE);
    fx_free(x);
}

#define PAIRS 4

/* Two lives have left something for one name: the later one goes on, the other one is kept. */
static void test_two_for_one_name(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    static const struct timespec long_ago[2] = {{1, 0}, {1, 0}};
    char path[16];
    for (int life = 0; life < 2; life++) {
        for (int i = 0; i < PAIRS; i++) {
            snprintf(path, sizeof path, "main/%d", i);
            assert_int_equal(fx_create(x, path, O_WRONLY, false, &h), 0);
            fx_write(x, h.ino, 0, life ? "newer" : "older");
            cleanup_free char *file = fx_staging_file(x, h.ino);
            if (!life)
                assert_int_equal(utimensat(AT_FDCWD, file, long_ago, 0), 0);
        }
        fx_restart(x, false);
    }
    recover_begin(x->files);
    fx_kept(x, PAIRS, "0", KEPT_CONFLICT);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(path, sizeof path, "main/%d", i);
        fx_path_is(x, path, "newer");
        fx_upload(x, path, 0);
        fx_store_is(x, path, "newer");
    }
    fx_free(x);
}

/* It was killed when an inode was there for what a crash before had left, and not its content. */
static void test_killed_while_adopting(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    cleanup_free char *content = fx_staging_file(x, h.ino);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_close(x, &h), EIO);
    fx_restart(x, true);
    assert_int_equal(
        stage_move(x->stage_dir, strrchr(content, '/') + 1, "s0000000000000001-77-7"), 0);
    recover_begin(x->files);
    fx_path_is(x, "main/a", "text");
    fx_upload(x, "main/a", 0);
    fx_store_is(x, "main/a", "text");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recover),
        cmocka_unit_test(test_written_while_it_is_recovered),
        cmocka_unit_test(test_changed_by_another),
        cmocka_unit_test(test_killed_while_it_is_kept),
        cmocka_unit_test(test_late_retry),
        cmocka_unit_test(test_earlier_attempt),
        cmocka_unit_test(test_held_open),
        cmocka_unit_test(test_power_cut),
        cmocka_unit_test(test_other_mounts),
        cmocka_unit_test(test_became_read_only),
        cmocka_unit_test(test_became_read_only_while_served),
        cmocka_unit_test(test_other_server),
        cmocka_unit_test(test_damaged_note),
        cmocka_unit_test(test_two_for_one_name),
        cmocka_unit_test(test_killed_while_adopting),
    };
    return cmocka_run_group_tests_name("recover", tests, NULL, NULL);
}
