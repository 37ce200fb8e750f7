/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories that are removed: in which order, what a failing store leaves, and what
 * those see who have the file open. */
#include "tests/unit/fuse/file/file_fixture.h"

static void test_unlink(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/d/a", "hello");
    fx_path_is(x, "main/d/a", "hello");
    assert_int_equal(fx_unlink(x, "main/d/none", false), ENOENT);
    assert_int_equal(fx_unlink(x, "main/d/none", true), 0); /* the process before us did it */
    assert_int_equal(fx_unlink(x, "main/d", false), EISDIR);
    assert_int_equal(fx_unlink(x, "main/d", true), EISDIR);
    fx_put(x, "ro/a", "sealed");
    assert_int_equal(fx_unlink(x, "ro/a", false), EROFS);
    fx_store_is(x, "ro/a", "sealed");
    assert_int_equal(fx_unlink(x, "main/d/a", false), 0);
    fx_store_is(x, "main/d/a", NULL);
    assert_int_equal(fx_lookup(x, "main/d/a", NULL), ENOENT);
    fx_make(x, "main/d/a", "new"); /* the name is free */
    fx_store_is(x, "main/d/a", "new");
    fx_free(x);
}

static void test_unlink_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    uint64_t ino = fx_ino(x, "main/a");
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(fx_unlink(x, "main/a", false), EACCES);
    assert_int_equal(fx_ino(x, "main/a"), ino); /* what fails in the store has not happened */
    fx_is(x, ino, "hello");
    fake_store_delete(x->fake[0], "a"); /* somebody else was quicker */
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    fx_free(x);
}

static char *large_text(void)
{
    size_t len = 3 * (size_t)CACHE_BLOCK + 7;
    char *text = xmalloc(len + 1);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 23);
    text[len] = '\0';
    return text;
}

/* All of it is fetched before the store has it no more. */
static void test_unlink_while_open(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, again;
    cleanup_free char *text = large_text();
    fx_put(x, "main/a", text);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &again), 0);
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    fx_store_is(x, "main/a", NULL);
    fx_is(x, h.ino, text);
    assert_true(fx_inode(x, h.ino).flags & INODE_UNLINKED);
    fx_close(x, &again);
    assert_true(fx_inode(x, h.ino).flags & INODE_STAGED); /* it cannot be found again elsewhere */
    for (int i = 0; i < 100; i++) {                       /* however many others come by */
        char path[16];
        snprintf(path, sizeof path, "main/f%d", i);
        fx_put(x, path, "x");
        fx_path_is(x, path, "x");
    }
    fx_is(x, h.ino, text);
    fx_close(x, &h);
    struct inode n;
    assert_int_equal(inodes_get(x->inodes, h.ino, &n), -1);
    fx_free(x);
}

/* Removed, and replaced, while they are open; then the process is killed: their readers read on,
 * and a writer's bytes are nobody else's. */
static void removed_then_killed(const struct fx_conf *conf)
{
    struct fx *x = fx_new(conf);
    struct fx_handle gone, replaced;
    cleanup_free char *text = large_text();
    fx_put(x, "main/gone", text);
    fx_put(x, "main/replaced", "hello");
    fx_put(x, "main/twin", text);
    assert_int_equal(fx_open(x, "main/gone", O_RDWR, &gone), 0);
    assert_int_equal(fx_open(x, "main/replaced", O_RDONLY, &replaced), 0);
    fx_path_is(x, "main/twin", text);
    assert_int_equal(fx_unlink(x, "main/gone", false), 0);
    assert_int_equal(fx_rename(x, "main/twin", "main/replaced", 0, false), 0);
    for (int i = 0; i < 2; i++) {
        fx_is(x, gone.ino, text);
        fx_is(x, replaced.ino, "hello");
        fx_path_is(x, "main/replaced", text);
        fx_restart(x, true);
    }
    assert_int_equal(fx_write(x, gone.ino, 0, "written"), 0);
    fx_put(x, "main/gone", text); /* the same again */
    fx_path_is(x, "main/gone", text);
    fx_close(x, &gone);
    fx_close(x, &replaced);
    assert_int_equal(fx_staged(x), 0);
    fx_store_is(x, "main/gone", text);
    fx_free(x);
}

static void test_removed_then_killed(void **state)
{
    (void)state;
    removed_then_killed(NULL);
    removed_then_killed(&(struct fx_conf){.memory = true});
}

/* One that nobody has open is not fetched to be removed. */
static void test_unlink_closed(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_ino(x, "main/a");
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 0);
    fx_free(x);
}

/* The store does not give it: it is removed all the same. */
static void test_unlink_unreadable(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    int errnum = 0;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    fake_store_fail(x->fake[0], FAKE_READ, ERR_DENIED, EACCES, 0, 1000);
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    fx_store_is(x, "main/a", NULL);
    assert_null(fx_read(x, h.ino, &errnum));
    assert_int_not_equal(errnum, 0);
    fx_close(x, &h);
    fx_free(x);
}

/* Written and never uploaded: the store is not asked, and never gets it. */
static void test_unlink_local(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_REMOVE), 0);
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    assert_int_equal(fx_staged(x), 1); /* its content; no sidecar leads a later process to it */
    fx_is(x, h.ino, "text");
    assert_int_equal(fx_write(x, h.ino, 4, " and more"), 0);
    fx_is(x, h.ino, "text and more");
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_staged(x), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    fx_store_is(x, "main/a", NULL);
    fx_free(x);
}

/* Dirty, and in the store: likewise, but the store is told. */
static void test_unlink_dirty(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, r;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_WRONLY, &h), 0);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &r), 0);
    fx_write(x, h.ino, 0, "J");
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    fx_store_is(x, "main/a", NULL);
    assert_int_equal(fx_close(x, &h), 0);
    fx_is(x, r.ino, "Jello");
    fx_close(x, &r);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    assert_int_equal(fx_staged(x), 0);
    /* what a failing upload left goes with its name */
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_create(x, "main/b", O_RDWR, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_close(x, &h), EIO);
    assert_int_equal(fx_staged(x), 2);
    assert_int_equal(fx_unlink(x, "main/b", false), 0);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* An upload of it failed, or its answer was lost: what that brought to the store goes with it, and
 * another node's does not; nor is it removed while nobody knows. */
static void test_unlink_sent(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "ours");
    fake_store_lose_answer(x->fake[0]);
    assert_int_equal(fx_close(x, &h), EIO);
    fx_store_is(x, "main/a", "ours");
    fake_store_fail(x->fake[0], FAKE_READ, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_unlink(x, "main/a", false), EIO);
    fx_store_is(x, "main/a", "ours");
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    fx_store_is(x, "main/a", NULL);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "ours");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_close(x, &h), EIO);
    fake_store_write(x->fake[0], "b", "another's");
    assert_int_equal(fx_unlink(x, "main/b", false), 0);
    fx_store_is(x, "main/b", "another's");
    /* the process was killed before it noted what it had sent */
    assert_int_equal(fx_create(x, "main/c", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "ours");
    assert_int_equal(fx_create(x, "main/d", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "ours");
    fake_store_write(x->fake[0], "c", "ours");
    fake_store_write(x->fake[0], "d", "their");
    fx_restart(x, true);
    assert_int_equal(fx_unlink(x, "main/c", false), 0);
    fx_store_is(x, "main/c", NULL);
    assert_int_equal(fx_unlink(x, "main/d", false), 0);
    fx_store_is(x, "main/d", "their");
    fx_free(x);
}

/* First written to after it was removed. */
static void test_write_after_unlink(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "J"), 0);
    fx_is(x, h.ino, "Jello");
    assert_int_equal(fx_staged(x), 1);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", NULL);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

static void pin(struct fx *x, const char *path)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, fx_ino(x, path), &e);
    assert_int_equal(file_pin(f, 0, UINT64_MAX / 4, &e), 0);
    files_put(f);
}

/* What has no name cannot be unpinned by it. */
static void test_unlink_unpins(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_put(x, "main/b", "hello");
    pin(x, "main/a");
    pin(x, "main/b");
    assert_int_equal(fx_pinned(x), 2);
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(fx_pinned(x), 1);
    fx_free(x);
}

static void test_rmdir(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/d/a", "hello");
    fx_put(x, "ro/d/a", "sealed");
    assert_int_equal(fx_rmdir(x, "main/d", false), ENOTEMPTY);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_RMDIR), 0); /* it is looked at before */
    assert_int_equal(fx_rmdir(x, "main/d/a", false), ENOTDIR);
    assert_int_equal(fx_rmdir(x, "main/none", false), ENOENT);
    assert_int_equal(fx_rmdir(x, "main/none", true), 0);
    assert_int_equal(fx_rmdir(x, "main", false), EBUSY);
    assert_int_equal(fx_rmdir(x, "ro/d", false), EROFS);
    assert_int_equal(fx_rmdir(x, "main/d", false), ENOTEMPTY);
    assert_int_equal(fx_unlink(x, "main/d/a", false), 0);
    /* a file that is only here is in it, too */
    assert_int_equal(fx_create(x, "main/d/new", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_rmdir(x, "main/d", false), ENOTEMPTY);
    assert_int_equal(fx_unlink(x, "main/d/new", false), 0);
    fx_close(x, &h);
    fake_store_fail(x->fake[0], FAKE_RMDIR, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(fx_rmdir(x, "main/d", false), EACCES);
    assert_int_equal(fx_lookup(x, "main/d", NULL), 0);
    assert_int_equal(fx_rmdir(x, "main/d", false), 0);
    assert_false(fake_store_has(x->fake[0], "d"));
    assert_int_equal(fx_lookup(x, "main/d", NULL), ENOENT);
    fx_free(x);
}

/* What somebody else put there is not removed with it. */
static void test_rmdir_of_what_was_filled(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct inode d;
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    fake_store_write(x->fake[0], "d/theirs", "hello");
    assert_int_equal(fx_rmdir(x, "main/d", false), ENOTEMPTY);
    fx_store_is(x, "main/d/theirs", "hello");
    assert_int_equal(fx_lookup(x, "main/d", &d), 0);
    fx_path_is(x, "main/d/theirs", "hello"); /* and is seen now: the listing is not trusted */
    fake_store_delete(x->fake[0], "d");
    assert_int_equal(fx_unlink(x, "main/d/theirs", false), 0);
    assert_int_equal(fx_rmdir(x, "main/d", false), 0); /* gone already: fine */
    fx_free(x);
}

/* What may wait for a store says so, or those who wait for a dead one take all threads. */
static void test_announced(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(x->blocked, 0); /* this node alone */
    assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
    assert_int_equal(x->blocked, 1);
    assert_int_equal(files_save(x->files, h.ino, true, &e), 0); /* nothing to do */
    assert_int_equal(x->blocked, 1);
    fx_close(x, &h);
    x->blocked = 0;
    assert_int_equal(fx_truncate(x, fx_ino(x, "main/a"), 1, false), 0);
    assert_true(x->blocked > 0);
    x->blocked = 0;
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(x->blocked, 1);
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    assert_int_equal(x->blocked, 2);
    assert_int_equal(fx_rmdir(x, "main/d", false), 0);
    assert_int_equal(x->blocked, 3);
    assert_int_equal(fx_create(x, "main/one", O_WRONLY | O_EXCL, false, &h), 0);
    assert_int_equal(x->blocked, 4);
    fx_close(x, &h);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_announced),
        cmocka_unit_test(test_unlink),
        cmocka_unit_test(test_unlink_fails),
        cmocka_unit_test(test_unlink_while_open),
        cmocka_unit_test(test_removed_then_killed),
        cmocka_unit_test(test_unlink_closed),
        cmocka_unit_test(test_unlink_unreadable),
        cmocka_unit_test(test_unlink_local),
        cmocka_unit_test(test_unlink_dirty),
        cmocka_unit_test(test_unlink_sent),
        cmocka_unit_test(test_write_after_unlink),
        cmocka_unit_test(test_unlink_unpins),
        cmocka_unit_test(test_rmdir),
        cmocka_unit_test(test_rmdir_of_what_was_filled),
    };
    return cmocka_run_group_tests_name("file_remove", tests, NULL, NULL);
}
