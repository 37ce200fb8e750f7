/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and reading files, what a user may ask for about their cached bytes, and which opens are
 * passed through to the kernel. */
#include "tests/unit/fuse/file/file_fixture.h"

static void test_read(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, again;
    fx_put(x, "main/d/a", "hello");
    assert_int_equal(fx_open(x, "main/d/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 0);
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    assert_int_equal(x->blocked, 0); /* to read it will not take long by itself */
    fx_is(x, h.ino, "hello");
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, h.ino, &e);
    char buf[16];
    assert_int_equal(file_pread(f, buf, sizeof buf, 3, &e), 2);
    assert_memory_equal(buf, "lo", 2);
    assert_int_equal(file_pread(f, buf, sizeof buf, 5, &e), 0);
    files_put(f);
    assert_int_equal(fx_open(x, "main/d/a", O_RDONLY, &again), 0);
    assert_int_equal(fx_inode(x, h.ino).opens, 2);
    assert_int_equal(fx_close(x, &again), 0);
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_inode(x, h.ino).opens, 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 1);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    fx_free(x);
}

static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    int32_t backing;
    fx_put(x, "ro/a", "sealed");
    fake_store_mkdir(x->fake[0], "d");
    assert_int_equal(fx_open(x, "main/none", O_RDONLY, &h), ENOENT);
    assert_int_equal(fx_open(x, "ro/a", O_WRONLY, &h), EROFS);
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    fx_is(x, h.ino, "sealed");
    assert_int_equal(fx_write(x, h.ino, 0, "x"), EROFS); /* a sealed mount's kernel opens unasked */
    fx_is(x, h.ino, "sealed");
    fx_close(x, &h);
    assert_int_equal(fx_open(x, "main/d", O_RDONLY, &h), EISDIR);
    assert_int_equal(files_open(x->files, 12345, O_RDONLY, &backing, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    assert_null(files_get(x->files, 12345, &e));
    assert_int_equal(err_errno(&e), ESTALE);
    fx_free(x);
}

/* A record may become another file's: what was known of the first is not the second's. */
static void test_another_generation(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    struct inode n;
    char text[LAST_ERROR_MAX];
    fx_put(x, "main/a", "first");
    uint64_t ino = fx_ino(x, "main/a");
    fx_is(x, ino, "first");
    struct file *f = files_get(x->files, ino, &e);
    err_set(&e, ERR_FATAL, "the first one's");
    files_note_error(x->files, ino, &e);
    assert_true(files_last_error(x->files, ino, text));
    assert_non_null(strstr(text, " the first one's"));
    fake_store_delete(x->fake[0], "a");
    fx_expire(x, "main/a");
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
    assert_int_equal(file_inode(f, &n, &e), -1);
    fx_put(x, "main/b", "second");
    assert_int_equal(fx_ino(x, "main/b"), ino); /* the same record */
    assert_int_equal(file_inode(f, &n, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    fx_is(x, ino, "second"); /* while the first is in use */
    files_put(f);
    fx_is(x, ino, "second");
    assert_false(files_last_error(x->files, ino, text));
    fx_free(x);
}

/* A reader keeps the version that he opened. */
static void test_changed_while_open(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, now;
    fx_put(x, "main/a", "old");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    fx_is(x, h.ino, "old");
    fx_put(x, "main/a", "newer");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &now), 0);
    assert_int_not_equal(now.ino, h.ino);
    fx_is(x, now.ino, "newer");
    fx_is(x, h.ino, "old");
    /* to write to what has no name any more makes no sense: the name is to be looked up again */
    struct err e = ERR_INIT;
    int32_t backing;
    assert_int_equal(files_open(x->files, h.ino, O_WRONLY, &backing, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    assert_int_equal(files_open(x->files, h.ino, O_RDONLY, &backing, &e), 0); /* it has content */
    files_close(x->files, h.ino, false, false);
    fx_close(x, &h);
    fx_close(x, &now);
    fx_free(x);
}

/* A read finds that another user of the store has removed or replaced it: its name is looked at
 * again at once, not when the metadata sync interval is over. */
static void test_read_finds_out(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle gone, other;
    int errnum = 0;
    fx_put(x, "ro/gone", "hello");
    fx_put(x, "ro/other", "hello");
    assert_int_equal(fx_open(x, "ro/gone", O_RDONLY, &gone), 0);
    assert_int_equal(fx_open(x, "ro/other", O_RDONLY, &other), 0);
    fake_store_delete(x->fake[2], "gone");
    fake_store_write(x->fake[2], "other", "replaced");
    assert_int_equal(fx_lookup(x, "ro/gone", NULL), 0); /* nobody knows */
    assert_null(fx_read(x, gone.ino, &errnum));
    assert_int_equal(errnum, ENOENT);
    assert_int_equal(fx_lookup(x, "ro/gone", NULL), ENOENT);
    assert_null(fx_read(x, other.ino, &errnum));
    assert_int_equal(errnum, ESTALE);
    fx_path_is(x, "ro/other", "replaced");
    fx_close(x, &gone);
    fx_close(x, &other);
    fx_free(x);
}

static void *upload_thread(void *arg)
{
    struct fx *x = arg;
    struct err e = ERR_INIT;
    files_save(x->files, fx_ino(x, "main/a"), true, &e);
    return NULL;
}

/* An upload may take hours: who only reads what is being uploaded does not wait for it. */
static void test_read_while_it_is_uploaded(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle w, r;
    pthread_t t;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &w), 0);
    fx_write(x, w.ino, 0, "written");
    fake_store_hold(x->fake[0], FAKE_PUT);
    assert_int_equal(pthread_create(&t, NULL, upload_thread, x), 0);
    fake_store_wait_held(x->fake[0]);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &r), 0);
    fx_is(x, r.ino, "written");
    fx_close(x, &r);
    assert_int_equal(fx_inode(x, w.ino).opens, 1);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &r), 0);
    fake_store_go(x->fake[0]);
    pthread_join(t, NULL);
    assert_int_equal(fx_close(x, &w), 0);
    assert_int_equal(fx_staged(x), 1); /* the reader has it */
    fx_is(x, r.ino, "written");
    fx_close(x, &r);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

static void test_read_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    int errnum = 0;
    fx_put(x, "main/a", "hello");
    uint64_t ino = fx_ino(x, "main/a");
    fake_store_fail(x->fake[0], FAKE_READ, ERR_DENIED, EACCES, 0, 100);
    assert_null(fx_read(x, ino, &errnum));
    assert_int_equal(errnum, EACCES);
    fake_store_fail(x->fake[0], FAKE_READ, ERR_NONE, 0, 0, 0);
    fx_is(x, ino, "hello");
    fx_free(x);
}

static void test_first_reads(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    fx_put(x, "main/a", "hello");
    fx_put(x, "main/b", "hello");
    struct file *f = files_get(x->files, fx_ino(x, "main/a"), &e);
    assert_int_equal(file_fill(f, 0, 5, &e), 0); /* ahead of readers: is none */
    assert_int_equal(x->first_reads, 0);
    files_put(f);
    uint64_t b = fx_ino(x, "main/b");
    fx_is(x, b, "hello");
    fx_is(x, b, "hello");
    assert_int_equal(x->first_reads, 1);
    fx_make(x, "main/c", "written here");
    x->first_reads = 0;
    struct fx_handle h;
    assert_int_equal(fx_open(x, "main/c", O_WRONLY, &h), 0);
    fx_write(x, h.ino, 0, "x");
    fx_is(x, h.ino, "xritten here"); /* staged: there is nothing to prefetch */
    assert_int_equal(x->first_reads, 0);
    fx_close(x, &h);
    fx_free(x);
}

/* Closed files are kept ready, so many. */
static void test_idle_files(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.max_idle = 2});
    struct err e = ERR_INIT;
    uint64_t ino[4];
    char name[8], path[16];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "f%d", i);
        snprintf(path, sizeof path, "main/%s", name);
        fx_put(x, path, name);
        ino[i] = fx_ino(x, path);
        fx_is(x, ino[i], name);
    }
    x->first_reads = 0;
    fx_is(x, ino[3], "f3");
    fx_is(x, ino[2], "f2");
    assert_int_equal(x->first_reads, 0); /* were ready */
    fx_is(x, ino[0], "f0");
    assert_int_equal(x->first_reads, 1); /* was not */
    struct file *f = files_get(x->files, ino[1], &e), *g = files_get(x->files, ino[1], &e);
    assert_ptr_equal(f, g);
    files_put(f);
    files_put(g);
    fx_free(x);
}

static struct file_cache_state cached(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    struct file_cache_state s = {0};
    struct file *f = files_get(x->files, ino, &e);
    assert_int_equal(file_cache_state(f, 0, UINT64_MAX / 4, &s, &e), 0);
    files_put(f);
    return s;
}

static void test_pins(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    uint64_t freed = 0;
    fx_put(x, "main/a", "hello");
    uint64_t ino = fx_ino(x, "main/a");
    assert_int_equal(cached(x, ino).cached, 0);
    struct file *f = files_get(x->files, ino, &e);
    assert_int_equal(file_pin(f, 0, 5, &e), 0);
    assert_int_equal(cached(x, ino).cached, 5);
    assert_true(cached(x, ino).pinned);
    assert_int_equal(fx_pinned(x), 1);
    assert_int_equal(file_drop(f, &freed, &e), 0); /* pinned: nothing happens */
    assert_int_equal(freed, 0);
    assert_int_equal(cached(x, ino).cached, 5);
    assert_int_equal(files_unpin(x->files, ino, &e), 0);
    assert_int_equal(fx_pinned(x), 0);
    assert_int_equal(file_drop(f, &freed, &e), 0);
    assert_int_equal(freed, 5);
    files_put(f);
    assert_int_equal(cached(x, ino).cached, 0);
    fx_is(x, ino, "hello");
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 2);
    /* one that is being written is neither pinned nor dropped */
    struct fx_handle h;
    assert_int_equal(fx_open(x, "main/a", O_WRONLY, &h), 0);
    fx_write(x, h.ino, 0, "j");
    f = files_get(x->files, ino, &e);
    assert_int_equal(file_pin(f, 0, 5, &e), -1);
    assert_int_equal(err_errno(&e), EBUSY);
    assert_true(cached(x, ino).staged);
    files_put(f);
    fx_close(x, &h);
    /* nor is one that was removed, and is open */
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    f = files_get(x->files, ino, &e);
    freed = 0;
    assert_int_equal(file_drop(f, &freed, &e), 0);
    assert_int_equal(freed, 0);
    assert_int_equal(file_pin(f, 0, 5, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    files_put(f);
    fx_is(x, h.ino, "jello");
    fx_close(x, &h);
    fx_free(x);
}

/* -- passthrough ------------------------------------------------------------------------------ */

static void test_passthrough(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.passthrough = true});
    struct fx_handle h, again, first;
    fx_put(x, "ro/a", "hello");
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &first), 0);
    assert_int_equal(first.backing, 0); /* nothing is here yet */
    fx_is(x, first.ino, "hello");
    fx_fill(x, "ro/a"); /* what a reader has may be on its way to the disk still */
    /* all opens of an inode in one way: as long as one goes through us, all do */
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &again), 0);
    assert_int_equal(again.backing, 0);
    assert_int_equal(x->next_id, 0);
    fx_close(x, &first);
    fx_close(x, &again);
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 1);
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &again), 0);
    assert_int_equal(again.backing, 1);
    assert_int_equal(fx_inode(x, h.ino).opens, 2);
    fx_close(x, &again);
    fx_close(x, &h);
    assert_int_equal(fx_inode(x, h.ino).opens, 0);
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 1); /* the same id */
    assert_int_equal(x->next_id, 1);
    fx_close(x, &h);
    fx_free(x);
}

/* The node plugin registers files of the cache's directory: what is in memory is no refusal of the
 * kernel, it is never asked. */
static void test_memory_is_not_passed_through(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.passthrough = true, .memory = true});
    size_t len = (size_t)2 << 20; /* more than a block: a file of its own */
    cleanup_free char *text = xcalloc(1, len + 1);
    char why[BACKINGS_REFUSAL_MAX];
    struct fx_handle h;
    memset(text, 'm', len);
    fx_put(x, "ro/a", text);
    fx_fill(x, "ro/a");
    x->refuse = ERR_DENIED;
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 0);
    fx_is(x, h.ino, text);
    fx_close(x, &h);
    backings_refusal(x->backings, why);
    assert_string_equal(why, "");
    fx_free(x);
    x = fx_new(&(struct fx_conf){.passthrough = true});
    fx_put(x, "ro/a", text);
    fx_fill(x, "ro/a");
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 1); /* on a disk */
    fx_close(x, &h);
    fx_free(x);
}

static void test_not_passed_through(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.passthrough = true});
    struct fx_handle h;
    /* a small file that somebody may write to */
    fx_put(x, "main/small", "hello");
    fx_fill(x, "main/small");
    assert_int_equal(fx_open(x, "main/small", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 0);
    fx_close(x, &h);
    /* one that was written here */
    fx_make(x, "main/new", "text");
    assert_int_equal(fx_open(x, "main/new", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 0);
    fx_close(x, &h);
    assert_int_equal(x->next_id, 0);
    /* one that the kernel refused is not tried again, but where it may go later */
    fx_put(x, "ro/a", "hello");
    fx_fill(x, "ro/a");
    x->refuse = ERR_RETRY;
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 0);
    fx_close(x, &h);
    x->refuse = ERR_NONE;
    assert_int_equal(fx_open(x, "ro/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 1);
    fx_close(x, &h);
    fx_put(x, "ro/b", "hello");
    fx_fill(x, "ro/b");
    x->refuse = ERR_DENIED;
    assert_int_equal(fx_open(x, "ro/b", O_RDONLY, &h), 0);
    fx_close(x, &h);
    x->refuse = ERR_NONE;
    assert_int_equal(fx_open(x, "ro/b", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 0);
    fx_close(x, &h);
    fx_free(x);
}

/* Readers of the backing file keep it; a writer gets an inode of his own. */
static void test_writer_beside_passthrough(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.passthrough = true});
    struct fx_handle h, w;
    char *large = xmalloc(CACHE_BLOCK + 2);
    memset(large, 'x', CACHE_BLOCK + 1);
    large[CACHE_BLOCK + 1] = '\0';
    fx_put(x, "main/a", large);
    fx_fill(x, "main/a");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    assert_int_equal(h.backing, 1);
    uint64_t ino = h.ino;
    x->blocked = 0;
    assert_int_equal(fx_open(x, "main/a", O_WRONLY, &w), ESTALE);
    assert_int_equal(x->blocked, 1);
    inodes_forget(x->inodes, w.ino, 1);
    assert_int_equal(fx_open(x, "main/a", O_WRONLY, &w), 0); /* as the kernel does then */
    assert_int_not_equal(w.ino, ino);
    assert_int_equal(fx_write(x, w.ino, 0, "y"), 0);
    fx_is(x, ino, large);
    assert_int_equal(fx_close(x, &w), 0);
    fx_is(x, ino, large);
    fx_close(x, &h);
    large[0] = 'y';
    fx_path_is(x, "main/a", large);
    fx_store_is(x, "main/a", large);
    free(large);
    fx_free(x);
}

/* A release that is sent again may have been counted already. */
static void test_resent_release(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &h), 0);
    files_close(x->files, h.ino, false, true);
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    files_close(x->files, h.ino, false, false);
    assert_int_equal(fx_inode(x, h.ino).opens, 0);
    inodes_forget(x->inodes, h.ino, 1);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_another_generation),
        cmocka_unit_test(test_changed_while_open),
        cmocka_unit_test(test_read_finds_out),
        cmocka_unit_test(test_read_while_it_is_uploaded),
        cmocka_unit_test(test_read_fails),
        cmocka_unit_test(test_first_reads),
        cmocka_unit_test(test_idle_files),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_passthrough),
        cmocka_unit_test(test_memory_is_not_passed_through),
        cmocka_unit_test(test_not_passed_through),
        cmocka_unit_test(test_writer_beside_passthrough),
        cmocka_unit_test(test_resent_release),
    };
    return cmocka_run_group_tests_name("file_open", tests, NULL, NULL);
}
