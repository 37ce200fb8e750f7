/* SPDX-License-Identifier: Apache-2.0 */
/* Files that other users of the store change while they are open here: what is acknowledged is in
 * the store, and what is not is said to be. */
#include "tests/unit/fuse/file/file_fixture.h"

static int sync_by(struct fx *x, uint64_t ino, bool wrote)
{
    struct err e = ERR_INIT;
    return files_save(x->files, ino, wrote, &e) ? err_errno(&e) : 0;
}

/* A log that is held open and not written to for a while, replaced by another node and looked up
 * here: what is written to it would go nowhere. */
static void test_replaced_under_a_writer(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle w, r, now;
    fx_put(x, "main/log", "old");
    assert_int_equal(fx_open(x, "main/log", O_RDWR, &w), 0);
    assert_int_equal(fx_open(x, "main/log", O_RDONLY, &r), 0);
    assert_int_equal(r.ino, w.ino);
    fx_is(x, w.ino, "old");
    fx_put(x, "main/log", "another's");
    fx_path_is(x, "main/log", "another's");
    assert_int_equal(fx_write(x, w.ino, 3, " more"), ESTALE);
    assert_int_equal(fx_truncate(x, w.ino, 0, true), ESTALE);
    assert_int_equal(sync_by(x, w.ino, true), ESTALE);
    assert_int_equal(sync_by(x, w.ino, true), ESTALE); /* not only once */
    fx_is(x, r.ino, "old");                            /* readers keep what they opened */
    assert_int_equal(sync_by(x, r.ino, false), 0);
    assert_int_equal(fx_close(x, &r), 0);
    assert_int_equal(fx_close(x, &w), ESTALE);
    fx_store_is(x, "main/log", "another's");
    assert_int_equal(fx_staged(x), 0);
    /* whoever opens it again can write */
    assert_int_equal(fx_open(x, "main/log", O_WRONLY, &now), 0);
    assert_int_equal(fx_write(x, now.ino, 0, "An"), 0);
    assert_int_equal(fx_close(x, &now), 0);
    fx_store_is(x, "main/log", "Another's");
    fx_free(x);
}

static void test_removed_under_a_writer(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle w, own;
    fx_put(x, "main/a", "old");
    fx_put(x, "main/b", "old");
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &w), 0);
    assert_int_equal(fx_open(x, "main/b", O_RDWR, &own), 0);
    fake_store_delete(x->fake[0], "a");
    fx_expire(x, "main/a");
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    assert_int_equal(fx_write(x, w.ino, 0, "x"), ESTALE);
    assert_int_equal(fx_close(x, &w), ESTALE);
    fx_store_is(x, "main/a", NULL);
    /* a file that was removed here is its holder's own */
    assert_int_equal(fx_unlink(x, "main/b", false), 0);
    assert_int_equal(fx_write(x, own.ino, 0, "x"), 0);
    assert_int_equal(sync_by(x, own.ino, true), 0);
    fx_is(x, own.ino, "xld");
    assert_int_equal(fx_close(x, &own), 0);
    fx_store_is(x, "main/b", NULL);
    fx_free(x);
}

/* The directory above became a file, or is gone. */
static void test_directory_replaced(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b, dirty;
    fx_put(x, "main/d/below/a", "old");
    fx_put(x, "main/gone/below/b", "old");
    fx_put(x, "main/kept/below/c", "old");
    assert_int_equal(fx_open(x, "main/d/below/a", O_RDWR, &a), 0);
    assert_int_equal(fx_open(x, "main/gone/below/b", O_RDWR, &b), 0);
    assert_int_equal(fx_open(x, "main/kept/below/c", O_RDWR, &dirty), 0);
    assert_int_equal(fx_write(x, dirty.ino, 0, "x"), 0);
    fake_store_delete(x->fake[0], "d");
    fake_store_delete(x->fake[0], "gone");
    fake_store_delete(x->fake[0], "kept");
    fx_put(x, "main/d", "a file");
    fx_expire(x, "main/gone");
    fx_expire(x, "main/kept");
    fx_path_is(x, "main/d", "a file");
    assert_int_equal(fx_lookup(x, "main/gone", NULL), ENOENT);
    assert_int_equal(fx_write(x, a.ino, 0, "x"), ESTALE);
    assert_int_equal(fx_write(x, b.ino, 0, "x"), ESTALE);
    assert_int_equal(fx_close(x, &a), ESTALE);
    assert_int_equal(fx_close(x, &b), ESTALE);
    assert_int_equal(fx_lookup(x, "main/kept", NULL), 0); /* the store does not have all of it */
    fx_is(x, dirty.ino, "xld");
    fx_close(x, &dirty);
    fx_free(x);
}

/* Another node's change is a moment old: a writer begins from it, not from what was known. */
static void test_begins_from_what_is_there(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle w;
    struct err e = ERR_INIT;
    int32_t backing;
    fx_put(x, "main/log", "ours\n");
    uint64_t ino = fx_ino(x, "main/log");
    fx_is(x, ino, "ours\n");
    inodes_ref(x->inodes, ino); /* the kernel knows it, and for a while does not ask */
    fake_store_write(x->fake[0], "log", "ours\ntheirs\n");
    unsigned asked = fake_store_calls(x->fake[0], FAKE_STAT);
    assert_int_equal(
        files_open(x->files, ino, O_RDONLY, &backing, &e), 0); /* a reader may be late */
    files_close(x->files, ino, false, false);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), asked);
    assert_int_equal(files_open(x->files, ino, O_WRONLY, &backing, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE); /* the kernel looks the name up again */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), asked + 1);
    assert_int_equal(fx_open(x, "main/log", O_WRONLY, &w), 0);
    assert_int_not_equal(w.ino, ino);
    assert_int_equal(fx_write(x, w.ino, 12, "more\n"), 0);
    assert_int_equal(fx_close(x, &w), 0);
    fx_store_is(x, "main/log", "ours\ntheirs\nmore\n");
    inodes_forget(x->inodes, ino, 1);
    /* by its path, likewise */
    ino = fx_ino(x, "main/log");
    inodes_ref(x->inodes, ino);
    fake_store_write(x->fake[0], "log", "theirs");
    assert_int_equal(fx_truncate(x, ino, 0, false), ESTALE);
    fx_store_is(x, "main/log", "theirs");
    inodes_forget(x->inodes, ino, 1);
    /* while the store does not answer, what is known has to do */
    ino = fx_ino(x, "main/log");
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(files_open(x->files, ino, O_WRONLY, &backing, &e), 0);
    files_close(x->files, ino, true, false);
    fx_free(x);
}

static void test_read_only_and_truncated(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    int32_t backing;
    assert_true(open_writes(O_RDONLY | O_TRUNC) && open_writes(O_WRONLY) && open_writes(O_RDWR));
    assert_false(open_writes(O_RDONLY));
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY | O_TRUNC, &h), 0);
    fx_is(x, h.ino, "");
    assert_int_equal(fx_inode(x, h.ino).size, 0);
    assert_true(fx_is_dirty(x, h.ino));
    h.write = true; /* as ops says */
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "");
    fx_put(x, "ro/a", "hello");
    assert_int_equal(files_open(x->files, fx_ino(x, "ro/a"), O_RDONLY | O_TRUNC, &backing, &e), -1);
    assert_int_equal(err_errno(&e), EROFS);
    fx_free(x);
}

/* Whoever asks: what is dirty is written to the store. */
static void test_fsync_by_a_reader(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle w, r;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &w), 0);
    fx_write(x, w.ino, 0, "text");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &r), 0);
    assert_int_equal(sync_by(x, r.ino, false), 0);
    fx_store_is(x, "main/a", "text");
    assert_false(fx_is_dirty(x, w.ino));
    fx_write(x, w.ino, 4, " more");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(sync_by(x, r.ino, false), EIO);
    assert_int_equal(fx_close(x, &r), 0);
    assert_int_equal(fx_close(x, &w), 0);
    fx_store_is(x, "main/a", "text more");
    fx_free(x);
}

/* The store has it, its answer was lost: removed or renamed here, it does not come back. */
static void test_lost_answer(void **state)
{
    (void)state;
    static const bool killed[] = {false, true};
    for (size_t i = 0; i < ARRAY_LEN(killed); i++) {
        struct fx *x = fx_new(NULL);
        struct fx_handle h;
        assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "text");
        fake_store_lose_answer(x->fake[0]);
        assert_int_equal(fx_close(x, &h), EIO);
        fx_store_is(x, "main/a", "text");
        if (killed[i])
            fx_restart(x, true);
        fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 1);
        assert_int_equal(fx_unlink(x, "main/a", false), EIO);
        assert_int_equal(fx_unlink(x, "main/a", false), 0);
        fx_store_is(x, "main/a", NULL);
        fx_expire(x, "main/a");
        assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
        assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "text");
        fake_store_lose_answer(x->fake[0]);
        assert_int_equal(fx_close(x, &h), EIO);
        if (killed[i])
            fx_restart(x, true);
        assert_int_equal(fx_rename(x, "main/b", "main/c", 0, false), 0);
        fx_store_is(x, "main/b", NULL);
        struct err e = ERR_INIT;
        assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
        fx_store_is(x, "main/c", "text");
        fx_free(x);
    }
}

/* The store has an earlier state, its answer was lost, and more failed after it: that is no other
 * writer. */
static void test_lost_answer_and_failures(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fake_store_lose_answer(x->fake[0]);
    assert_int_equal(sync_by(x, h.ino, true), EIO);
    fx_store_is(x, "main/log", "one");
    fx_write(x, h.ino, 3, " two");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(sync_by(x, h.ino, true), EIO);
    fx_write(x, h.ino, 7, " three");
    assert_int_equal(sync_by(x, h.ino, true), 0);
    fx_store_is(x, "main/log", "one two three");
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

/* A directory of an object store, renamed with what another node has put into it since it was read
 * here some seconds ago. */
static void test_directory_renamed_with_all(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    struct err e = ERR_INIT;
    fx_put(x, "main/d/a", "hello");
    uint64_t d = fx_ino(x, "main/d");
    assert_int_equal(tree_fill_all(x->tree, d, &e), 0);
    uint32_t then = (uint32_t)(clock_real_ns() / NS_PER_S) - 3;
    inodes_listed(x->inodes, d, INODES_NOW, then, NULL, NULL);
    fake_store_write(x->fake[0], "d/others", "theirs");
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    fx_store_is(x, "main/e/others", "theirs");
    fx_path_is(x, "main/e/others", "theirs");
    assert_false(fake_store_has(x->fake[0], "d/others"));
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced_under_a_writer),
        cmocka_unit_test(test_removed_under_a_writer),
        cmocka_unit_test(test_directory_replaced),
        cmocka_unit_test(test_begins_from_what_is_there),
        cmocka_unit_test(test_read_only_and_truncated),
        cmocka_unit_test(test_fsync_by_a_reader),
        cmocka_unit_test(test_lost_answer),
        cmocka_unit_test(test_lost_answer_and_failures),
        cmocka_unit_test(test_directory_renamed_with_all),
    };
    return cmocka_run_group_tests_name("file_shared", tests, NULL, NULL);
}
