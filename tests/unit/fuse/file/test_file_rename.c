/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories that get another name: free or taken, while they are open or dirty, in
 * stores that fail in the middle, and by a request that is sent again. */
#include "tests/unit/fuse/file/file_fixture.h"

#define RENAME_EXCHANGED 2u /* RENAME_EXCHANGE of the kernel */

static void test_rename(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_path_is(x, "main/a", "hello");
    fx_fill(x, "main/a");
    uint64_t ino = fx_ino(x, "main/a");
    fake_store_set_mtime(x->fake[0], 77);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    fx_store_is(x, "main/a", NULL);
    fx_store_is(x, "main/b", "hello");
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    assert_int_equal(fx_ino(x, "main/b"), ino);
    struct inode n = fx_inode(x, ino);
    assert_string_equal(n.version, "v2"); /* the store made another one */
    assert_int_equal(n.mtime_ns, 77);
    fx_is(x, ino, "hello");
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 1); /* what is cached came along */
    fx_expire(x, "main/b");
    assert_int_equal(fx_ino(x, "main/b"), ino); /* the index knows which version it is */
    fx_free(x);
}

/* Somebody else has replaced it since it was looked at: what gets the new name is whole, and what
 * was cached of the old one is not taken for it. */
static void test_rename_of_another_version(void **state)
{
    (void)state;
    static const char *const texts[] = {"hello, much longer than before", "h", "HELLO"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct fx *x = fx_new(NULL);
        fx_put(x, "main/a", "hello");
        fx_fill(x, "main/a");
        fake_store_write(x->fake[0], "a", texts[i]);
        assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
        fx_store_is(x, "main/b", texts[i]);
        fx_path_is(x, "main/b", texts[i]);
        assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
        fx_free(x);
    }
}

/* A time that a user has set stays. */
static void test_rename_keeps_times(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    fx_put(x, "main/a", "hello");
    struct inode n, to = {.mtime_ns = 5};
    uint64_t ino = fx_ino(x, "main/a");
    assert_int_equal(files_setattr(x->files, ino, INODES_MTIME, &to, false, &n, &e), 0);
    fake_store_set_mtime(x->fake[0], 77);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fx_inode(x, ino).mtime_ns, 5);
    fx_free(x);
}

static void test_what_cannot_be_renamed(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_put(x, "main/b", "other");
    fx_put(x, "main/d/in", "in");
    fx_put(x, "main/e/in", "in");
    fx_put(x, "other/b", "other");
    fx_put(x, "ro/a", "sealed");
    assert_int_equal(fx_rename(x, "main/none", "main/c", 0, false), ENOENT);
    assert_int_equal(fx_rename(x, "main/a", "main/b", RENAME_EXCHANGED, false), EINVAL);
    assert_int_equal(fx_rename(x, "main/a", "main/b", RENAME_NOREPLACE, false), EEXIST);
    assert_int_equal(fx_rename(x, "main/a", "main/d", 0, false), EISDIR);
    assert_int_equal(fx_rename(x, "main/d", "main/a", 0, false), ENOTDIR);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), ENOTEMPTY);
    assert_int_equal(fx_rename(x, "main/a", "other/a", 0, false), EXDEV);
    assert_int_equal(fx_rename(x, "ro/a", "ro/b", 0, false), EROFS);
    assert_int_equal(fx_rename(x, "main", "mine", 0, false), EROFS);
    assert_int_equal(fx_rename(x, "main/a", "main/a", 0, false), 0); /* nothing to do */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_RENAME), 0);
    fx_path_is(x, "main/a", "hello");
    fx_path_is(x, "main/b", "other");
    assert_int_equal(fx_rename(x, "main/a", "main/c", RENAME_NOREPLACE, false), 0);
    fx_path_is(x, "main/c", "hello");
    fx_free(x);
}

static void test_rename_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_put(x, "main/b", "other");
    uint64_t a = fx_ino(x, "main/a"), b = fx_ino(x, "main/b");
    fake_store_fail(x->fake[0], FAKE_RENAME, ERR_DENIED, EACCES, 0, 3);
    assert_int_equal(fx_rename(x, "main/a", "main/c", 0, false), EACCES);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), EACCES);
    /* both are locked once more: ThreadSanitizer sees in which order */
    assert_int_equal(fx_rename(x, "main/b", "main/a", 0, false), EACCES);
    assert_int_equal(fx_ino(x, "main/a"), a);
    assert_int_equal(fx_ino(x, "main/b"), b);
    assert_int_equal(fx_lookup(x, "main/c", NULL), ENOENT);
    fx_is(x, a, "hello");
    fx_is(x, b, "other");
    fx_free(x);
}

/* Who has the file open that loses its name goes on reading it. */
static void test_rename_over_an_open_file(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, w;
    fx_put(x, "main/a", "new");
    fx_put(x, "main/b", "old");
    uint64_t a = fx_ino(x, "main/a");
    assert_int_equal(fx_open(x, "main/b", O_RDONLY, &h), 0);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fx_ino(x, "main/b"), a);
    fx_store_is(x, "main/b", "new");
    fx_is(x, h.ino, "old");
    fx_is(x, a, "new");
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    fx_close(x, &h);
    struct inode n;
    assert_int_equal(inodes_get(x->inodes, h.ino, &n), -1);
    /* one that is written just now: what was written goes nowhere */
    fx_put(x, "main/c", "newest");
    assert_int_equal(fx_open(x, "main/b", O_RDWR, &w), 0);
    fx_write(x, w.ino, 0, "lost");
    assert_int_equal(fx_rename(x, "main/c", "main/b", 0, false), 0);
    fx_is(x, w.ino, "lost");
    assert_int_equal(fx_staged(x), 1); /* no sidecar leads a later process to it */
    assert_int_equal(fx_close(x, &w), 0);
    fx_store_is(x, "main/b", "newest");
    fx_path_is(x, "main/b", "newest");
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* One that nobody has open is not fetched to be replaced. */
static void test_rename_over_a_closed_file(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "new");
    fx_put(x, "main/b", "old");
    fx_ino(x, "main/a");
    fx_ino(x, "main/b");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 0);
    fx_path_is(x, "main/b", "new");
    fx_free(x);
}

/* How programs save: write a new file, then rename it over the old one. */
static void test_rename_of_what_is_only_here(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/old", "old");
    fx_ino(x, "main/old");
    assert_int_equal(fx_create(x, "main/tmp", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "new");
    /* a free name is taken without the store … */
    assert_int_equal(fx_rename(x, "main/tmp", "main/tmp2", 0, false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_RENAME), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    cleanup_free char *sidecar = fx_sidecar(x, h.ino);
    assert_string_equal(sidecar, "0\n\ntmp2\n"); /* a later process would find the new one */
    /* … what the store has is replaced there */
    assert_int_equal(fx_rename(x, "main/tmp2", "main/old", 0, false), 0);
    fx_store_is(x, "main/old", "new");
    fx_store_is(x, "main/tmp2", NULL);
    assert_int_equal(fx_ino(x, "main/old"), h.ino);
    fx_write(x, h.ino, 3, "er");
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/old", "newer");
    fx_store_is(x, "main/tmp", NULL);
    fx_path_is(x, "main/old", "newer");
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

static void test_rename_over_what_is_only_here(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &b), 0);
    fx_write(x, a.ino, 0, "A");
    fx_write(x, b.ino, 0, "B");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    assert_int_equal(fx_close(x, &b), 0); /* nobody can ever read it by name */
    fx_store_is(x, "main/b", NULL);
    assert_int_equal(fx_close(x, &a), 0);
    fx_store_is(x, "main/b", "A");
    fx_store_is(x, "main/a", NULL);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

static void test_upload_before_rename_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/old", "old");
    fx_ino(x, "main/old");
    assert_int_equal(fx_create(x, "main/tmp", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "new");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_rename(x, "main/tmp", "main/old", 0, false), EIO);
    fx_path_is(x, "main/old", "old");
    fx_path_is(x, "main/tmp", "new");
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/old", "old");
    fx_store_is(x, "main/tmp", "new");
    fx_free(x);
}

/* In the store, and dirty: the store renames what it has, the rest is uploaded to the new name. */
static void test_rename_of_a_dirty_file(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_WRONLY, &h), 0);
    fx_write(x, h.ino, 0, "J");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    fx_store_is(x, "main/a", NULL);
    fx_store_is(x, "main/b", "hello");
    cleanup_free char *sidecar = fx_sidecar(x, h.ino);
    assert_string_equal(sidecar, "0\nv2\nb\n");
    fx_is(x, h.ino, "Jello");
    assert_true(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/b", "Jello");
    fx_store_is(x, "main/a", NULL);
    fx_free(x);
}

static void pin(struct fx *x, const char *path)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, fx_ino(x, path), &e);
    assert_int_equal(file_pin(f, 0, UINT64_MAX / 4, &e), 0);
    files_put(f);
}

static void test_rename_unpins(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    fx_put(x, "main/b", "other");
    fx_put(x, "main/c", "third");
    pin(x, "main/a");
    pin(x, "main/b");
    pin(x, "main/c");
    assert_int_equal(fx_pinned(x), 3);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fx_pinned(x), 1);
    fx_put(x, "main/d", "never read: its content does not push out the other's");
    assert_int_equal(fx_rename(x, "main/d", "main/c", 0, false), 0);
    assert_int_equal(fx_pinned(x), 0);
    fx_free(x);
}

/* -- requests that are sent again ------------------------------------------------------------- */

static void test_resent(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "hello");
    uint64_t ino = fx_ino(x, "main/a");
    /* all of it was done */
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, true), 0);
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), ENOENT);
    assert_int_equal(fx_ino(x, "main/b"), ino);
    assert_int_equal(fx_rename(x, "main/none", "main/nor", 0, true), ENOENT);
    /* the store had done it, the index does not know */
    fake_store_delete(x->fake[0], "b");
    fake_store_write(x->fake[0], "c", "hello");
    assert_int_equal(fx_rename(x, "main/b", "main/c", 0, false), ENOENT);
    assert_int_equal(fx_ino(x, "main/b"), ino);
    assert_int_equal(fx_rename(x, "main/b", "main/c", 0, true), 0);
    assert_int_equal(fx_ino(x, "main/c"), ino);
    assert_string_equal(fx_inode(x, ino).version, "v3");
    fx_is(x, ino, "hello");
    /* what is there is not what was renamed: the error stands */
    fake_store_delete(x->fake[0], "c");
    fake_store_write(x->fake[0], "d", "another");
    assert_int_equal(fx_rename(x, "main/c", "main/d", 0, true), ENOENT);
    fx_free(x);
}

/* The new name is old knowledge: the store is asked whether it is there. */
static void test_resent_and_gone(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/b", "hello");
    fx_ino(x, "main/b");
    fake_store_delete(x->fake[0], "b");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, true), ENOENT);
    fx_free(x);
}

/* -- more than one at a time ------------------------------------------------------------------ */

struct rename_thread_job {
    struct fx *x;
    const char *from, *to;
    uint64_t dir;
    int rc;
};

static void *many_renames_thread(void *arg)
{
    struct rename_thread_job *j = arg;
    for (unsigned i = 0; i < 500; i++) {
        struct err e = ERR_INIT;
        struct rename_request r = {j->dir, j->from, j->dir, j->to, 0, false};
        if (files_rename(j->x->files, &r, &e)) {
            int errnum = err_errno(&e);
            j->rc |= errnum != ENOENT && errnum != ESTALE;
        }
        struct inode n;
        struct new_name w = {.dir = j->dir, .name = j->from, .mode = 0600};
        if (files_mknod(j->x->files, &w, &n, &e) == 0) /* there is something to rename again */
            inodes_ref(j->x->inodes, n.ino);           /* the kernel knows it */
        else
            j->rc |= err_errno(&e) != EEXIST && err_errno(&e) != ENOENT && err_errno(&e) != ESTALE;
    }
    return NULL;
}

/* Two files change places for a while: each locks both. */
static void test_renames_meet(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    pthread_t t[2];
    fx_make(x, "main/a", "a");
    fx_make(x, "main/b", "b");
    struct rename_thread_job j[2] = {
        {.x = x, .from = "a", .to = "b"}, {.x = x, .from = "b", .to = "a"}};
    inodes_ref(x->inodes, fx_ino(x, "main/a"));
    inodes_ref(x->inodes, fx_ino(x, "main/b"));
    for (int i = 0; i < 2; i++) {
        j[i].dir = fx_ino(x, "main");
        assert_int_equal(pthread_create(&t[i], NULL, many_renames_thread, &j[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(j[i].rc, 0);
    }
    fx_free(x);
}

/* It is not in the store as far as we know: what is there under its name is another node's. */
static void test_rename_leaves_anothers(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/tmp", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "ours");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_close(x, &h), EIO);
    fake_store_write(x->fake[0], "tmp", "another's");
    assert_int_equal(fx_rename(x, "main/tmp", "main/a", 0, false), 0);
    fx_store_is(x, "main/tmp", "another's");
    fx_free(x);
}

/* An upload over which another file is renamed may have come to the store. */
static void test_rename_over_a_lost_answer(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b;
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &b), 0);
    fx_write(x, b.ino, 0, "B");
    fake_store_lose_answer(x->fake[0]);
    assert_int_equal(fx_close(x, &b), EIO);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "A");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    assert_int_equal(fx_close(x, &a), 0);
    fx_store_is(x, "main/b", "A");
    fx_store_is(x, "main/a", NULL);
    fx_free(x);
}

/* RENAME_NOREPLACE is for all who use the store. */
static void test_rename_excludes_other_nodes(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/a", "ours");
    fx_ino(x, "main/a");
    assert_int_equal(fx_lookup(x, "main/b", NULL), ENOENT);
    fake_store_write(x->fake[0], "b", "another's");
    assert_int_equal(fx_rename(x, "main/a", "main/b", RENAME_NOREPLACE, false), EEXIST);
    fx_store_is(x, "main/b", "another's");
    fx_path_is(x, "main/b", "another's");
    assert_int_equal(fx_rename(x, "main/a", "main/c", RENAME_NOREPLACE, false), 0);
    fx_store_is(x, "main/c", "ours");
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rename),
        cmocka_unit_test(test_rename_of_another_version),
        cmocka_unit_test(test_rename_keeps_times),
        cmocka_unit_test(test_what_cannot_be_renamed),
        cmocka_unit_test(test_rename_fails),
        cmocka_unit_test(test_rename_over_an_open_file),
        cmocka_unit_test(test_rename_over_a_closed_file),
        cmocka_unit_test(test_rename_of_what_is_only_here),
        cmocka_unit_test(test_rename_over_what_is_only_here),
        cmocka_unit_test(test_upload_before_rename_fails),
        cmocka_unit_test(test_rename_of_a_dirty_file),
        cmocka_unit_test(test_rename_unpins),
        cmocka_unit_test(test_resent),
        cmocka_unit_test(test_resent_and_gone),
        cmocka_unit_test(test_renames_meet),
        cmocka_unit_test(test_rename_leaves_anothers),
        cmocka_unit_test(test_rename_over_a_lost_answer),
        cmocka_unit_test(test_rename_excludes_other_nodes),
    };
    return cmocka_run_group_tests_name("file_rename", tests, NULL, NULL);
}
