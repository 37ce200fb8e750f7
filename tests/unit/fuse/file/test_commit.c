/* SPDX-License-Identifier: Apache-2.0 */
/* AsyncThrough: close returns when the node's disk has it, and what is done to the file before the
 * store has it ends as if it had waited. */
#include "tests/unit/fuse/file/commit_fixture.h"

#include "fuse/file/recover.h"

#include <unistd.h>

#define SOON_NS (20 * NS_PER_S)

static const struct fx_conf async = {.write = CONF_ASYNC_THROUGH};
static const struct fx_conf async_s3 = {
    .write = CONF_ASYNC_THROUGH, .caps = STORE_CAP_WRITE | STORE_CAP_DIRS};

static struct uploader *start(struct fx *x)
{
    struct err e = ERR_INIT;
    struct uploader *u = uploader_start(x->files, &e);
    assert_non_null(u);
    return u;
}

static void wait_until(bool (*is)(struct fx *x, const char *path), struct fx *x, const char *path)
{
    for (int64_t until = clock_mono_ns() + SOON_NS; !is(x, path);) {
        assert_true(clock_mono_ns() < until);
        clock_sleep_ns(10 * NS_PER_MS);
    }
}

static bool is_stored(struct fx *x, const char *path) { return fake_store_has(x->fake[0], path); }

static void test_close_does_not_wait(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct uploader *u = start(x);
    struct inode n;
    fx_make(x, "main/a", "text");
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    uint64_t ino = fx_ino(x, "main/a");
    assert_true(fx_is_dirty(x, ino));
    fx_path_is(x, "main/a", "text");
    unsigned lists = fake_store_calls(x->fake[0], FAKE_LIST),
             stats = fake_store_calls(x->fake[0], FAKE_STAT);
    fx_due(x, ino);
    wait_until(is_stored, x, "a");
    uploader_stop(u);
    fx_store_is(x, "main/a", "text");
    assert_false(fx_is_dirty(x, ino));
    assert_int_equal(fx_staged(x), 0); /* it stays in the cache */
    fx_path_is(x, "main/a", "text");
    assert_int_equal(fx_lookup(x, "main/a", &n), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 1);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), lists); /* nothing else was asked */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), stats);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 0);
    fx_free(x);
}

/* What is closed again in a moment goes up once, and what is closed all the time goes up too. */
static void test_soon_rewritten(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct err e = ERR_INIT;
    struct fx_handle h;
    fx_make(x, "main/a", "one");
    struct file *f = files_get(x->files, fx_ino(x, "main/a"), &e);
    int64_t first = atomic_load(&f->due_ns);
    assert_true(first > clock_mono_ns());
    clock_sleep_ns(10 * NS_PER_MS);
    assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
    assert_false(commit_is_due(f, INT64_MAX)); /* it is being written again */
    fx_write(x, h.ino, 0, "two");
    assert_int_equal(fx_close(x, &h), 0);
    assert_true(atomic_load(&f->due_ns) > first);
    assert_true(commit_is_due(f, INT64_MAX));
    atomic_store(&f->dirty_ns, clock_mono_ns() - 60 * NS_PER_S);
    assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
    fx_write(x, h.ino, 0, "three");
    assert_int_equal(fx_close(x, &h), 0);
    assert_true(commit_is_due(f, clock_mono_ns()));
    files_put(f);
    assert_int_equal(fx_behind(x, h.ino), 0);
    fx_store_is(x, "main/a", "three");
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 1);
    fx_free(x);
}

/* close and fsync do not wait for an upload that is under way, and neither does who opens. */
static void test_nobody_waits(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct err e = ERR_INIT;
    struct fx_handle h, r;
    struct fx_behind b;
    fx_make(x, "main/log", "one");
    uint64_t ino = fx_ino(x, "main/log");
    fx_begin_held(&b, x, ino);
    assert_int_equal(fx_open(x, "main/log", O_WRONLY, &h), 0);
    assert_int_equal(fx_open(x, "main/log", O_RDONLY, &r), 0);
    fx_write(x, ino, 3, " two"); /* behind what is being sent */
    assert_int_equal(files_save(x->files, ino, true, &e), 0);
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_close(x, &r), 0);
    fx_is(x, ino, "one two");
    assert_int_equal(fx_end_held(&b), 0);
    fx_store_is(x, "main/log", "one");
    assert_true(fx_is_dirty(x, ino));
    /* the note of the second close stands, and its content begins from what the store has now */
    struct sidecar note;
    fx_note(x, ino, &note);
    assert_true(note.asked && note.asked_len == 7 && !note.sent);
    assert_string_equal(note.version, fx_inode(x, ino).version);
    assert_int_equal(fx_behind(x, ino), 0);
    fx_store_is(x, "main/log", "one two");
    fx_free(x);
}

struct change {
    struct fx *x;
    int (*fn)(struct fx *x, uint64_t ino);
    uint64_t ino;
    int rc;
};

static int do_rename(struct fx *x, uint64_t ino)
{
    (void)ino;
    return fx_rename(x, "main/a", "main/b", 0, false);
}

static int do_unlink(struct fx *x, uint64_t ino)
{
    (void)ino;
    return fx_unlink(x, "main/a", false);
}

static int do_truncate(struct fx *x, uint64_t ino) { return fx_truncate(x, ino, 1, true); }

static int do_overwrite(struct fx *x, uint64_t ino) { return fx_write(x, ino, 0, "X"); }

static void *change_thread(void *user)
{
    struct change *c = user;
    c->rc = c->fn(c->x, c->ino);
    return NULL;
}

/* A change of what is being uploaded: it is given up, where that can still be done. Then the store
 * has the outcome, and nothing under another name. */
static void test_change_while_uploading(void **state)
{
    (void)state;
    static const struct {
        int (*fn)(struct fx *x, uint64_t ino);
        const char *a, *b;
    } cases[] = {{do_rename, NULL, "text"}, {do_unlink, NULL, NULL}, {do_truncate, "t", NULL},
        {do_overwrite, "Xext", NULL}};
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(&async);
        struct change c = {x, cases[i / 2].fn, 0, -1};
        struct fx_behind b;
        struct fx_handle h;
        pthread_t t;
        assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "text");
        struct err e = ERR_INIT;
        assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
        c.ino = h.ino;
        if (i % 2 == 0)
            fake_store_heed_cancel(x->fake[0]);
        fx_begin_held(&b, x, h.ino);
        assert_int_equal(pthread_create(&t, NULL, change_thread, &c), 0);
        struct file *f = files_get(x->files, h.ino, &e);
        while (!atomic_load(&f->stop)) /* it is told */
            clock_sleep_ns(NS_PER_MS);
        if (i % 2) /* too late */
            fx_end_held(&b);
        else
            assert_int_equal(fx_end_held(&b), ECANCELED);
        pthread_join(t, NULL);
        assert_int_equal(c.rc, 0);
        files_put(f);
        assert_int_equal(fx_close(x, &h), 0);
        if (cases[i / 2].fn != do_unlink)
            assert_int_equal(fx_behind(x, h.ino), 0);
        fx_store_is(x, "main/a", cases[i / 2].a);
        fx_store_is(x, "main/b", cases[i / 2].b);
        fx_free(x);
    }
}

/* Who gives way all the time would never come there. */
static void test_gives_way_so_often(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct err e = ERR_INIT;
    fx_make(x, "main/a", "text");
    struct file *f = files_get(x->files, fx_ino(x, "main/a"), &e);
    file_want_state(f);
    assert_int_equal(fx_behind(x, f->ino), ECANCELED); /* somebody waits for it: not begun */
    file_got_state(f);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    fake_store_heed_cancel(x->fake[0]);
    for (int i = 0; i < 5; i++) {
        struct fx_behind b;
        fx_begin_held(&b, x, f->ino);
        atomic_store(&f->stop, true);
        assert_int_equal(fx_end_held(&b), ECANCELED);
        assert_false(atomic_load(&f->begun));
    }
    struct fx_behind b;
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_behind(x, f->ino), EIO);
    fx_begin_held(&b, x, f->ino); /* what failed begins anew */
    atomic_store(&f->stop, true);
    assert_int_equal(fx_end_held(&b), ECANCELED);
    f->stopped = 5;
    fx_begin_held(&b, x, f->ino);
    atomic_store(&f->stop, true);
    assert_int_equal(fx_end_held(&b), 0);
    fx_store_is(x, "main/a", "text");
    files_put(f);
    fx_free(x);
}

/* torch.save(tmp), os.replace(tmp, final), again and again, with a store that does not answer: no
 * call waits, and in the end it has the last one. */
static void test_replace_without_the_store(void **state)
{
    (void)state;
    for (int begun = 0; begun < 3; begun++) {
        struct fx *x = fx_new(&async);
        fx_put(x, "main/final", "zero");
        fx_path_is(x, "main/final", "zero");
        fx_make(x, "main/tmp", "one");
        fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 100);
        fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, EIO, 0, 100);
        fake_store_fail(x->fake[0], FAKE_RENAME, ERR_RETRY, EIO, 0, 100);
        fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 100);
        assert_int_equal(fx_rename(x, "main/tmp", "main/final", 0, false), 0);
        fx_path_is(x, "main/final", "one");
        fx_store_is(x, "main/final", "zero");
        if (begun == 1)
            assert_int_equal(fx_behind(x, fx_ino(x, "main/final")), EIO);
        if (begun == 2) { /* it came there, and nobody knows */
            fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 0);
            fake_store_lose_answer(x->fake[0]);
            assert_int_equal(fx_behind(x, fx_ino(x, "main/final")), EIO);
            fx_store_is(x, "main/final", "one");
        }
        fx_make(x, "main/tmp", "twofold");
        assert_int_equal(fx_rename(x, "main/tmp", "main/final", 0, false), 0);
        fx_path_is(x, "main/final", "twofold");
        assert_int_equal(fx_lookup(x, "main/tmp", NULL), ENOENT);
        for (int call = 0; call < FAKE_CALLS; call++)
            fake_store_fail(x->fake[0], (enum fake_call)call, ERR_RETRY, EIO, 0, 0);
        fx_restart(x, true); /* nor does it matter who brings it there */
        recover_begin(x->files);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/final")), 0);
        fx_store_is(x, "main/final", "twofold");
        fx_store_is(x, "main/tmp", NULL);
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* The machine goes down: what was closed is there again, to the length that it had, and under the
 * name that it had. */
static void test_power_cut(void **state)
{
    (void)state;
    static const char *const behind_it[] = {"", " and a torn part"};
    for (size_t i = 0; i < ARRAY_LEN(behind_it); i++) {
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        struct err e = ERR_INIT;
        assert_int_equal(fx_create(x, "main/tmp", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "whole");
        assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
        assert_int_equal(fx_rename(x, "main/tmp", "main/a", 0, false), 0);
        if (*behind_it[i])
            fx_write(x, h.ino, 5, behind_it[i]);
        fx_power_cut(x);
        recover_begin(x->files);
        fx_path_is(x, "main/a", "whole");
        assert_int_equal(fx_lookup(x, "main/tmp", NULL), ENOENT);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), 0);
        fx_store_is(x, "main/a", "whole");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* Closed, uploaded without an answer, closed again with something else, and killed: the store has
 * the first one, which is ours. */
static void test_killed_between(void **state)
{
    (void)state;
    for (int power = 0; power < 2; power++) {
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        fx_make(x, "main/a", "first");
        fake_store_lose_answer(x->fake[0]);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), EIO);
        fx_store_is(x, "main/a", "first");
        assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
        fx_write(x, h.ino, 0, "and second");
        assert_int_equal(fx_close(x, &h), 0);
        if (power)
            fx_power_cut(x);
        else
            fx_restart(x, true);
        recover_begin(x->files);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), 0);
        fx_store_is(x, "main/a", "and second");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* What the store got of it without an answer moves with its name, and is known there as ours. */
static void test_renamed_between(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    fx_make(x, "main/a", "zero");
    assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), 0);
    fx_make(x, "main/a", "first");
    fake_store_lose_answer(x->fake[0]);
    assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), EIO);
    fx_store_is(x, "main/a", "first");
    assert_int_equal(fx_rename(x, "main/a", "main/b", 0, false), 0);
    fx_store_is(x, "main/b", "first");
    assert_int_equal(fx_open(x, "main/b", O_WRONLY | O_TRUNC, &h), 0);
    fx_write(x, h.ino, 0, "and second");
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_behind(x, h.ino), 0);
    fx_store_is(x, "main/b", "and second");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* The disk says no: so does close. */
static void test_no_room_for_the_note(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct err e = ERR_INIT;
    char text[LAST_ERROR_MAX];
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    cleanup_free char *aside = xasprintf("%s.aside", x->stage_dir);
    assert_int_equal(rename(x->stage_dir, aside), 0);
    assert_int_equal(files_save(x->files, h.ino, true, &e), -1);
    assert_int_equal(err_errno(&e), ENOENT);
    assert_true(files_last_error(x->files, h.ino, text));
    assert_int_equal(rename(aside, x->stage_dir), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

/* A directory is renamed while its files go up: it waits for none of them to come to its end, and
 * they go where they belong then. */
static void test_directory_moves(void **state)
{
    (void)state;
    for (int s3 = 0; s3 < 2; s3++) {
        struct fx *x = fx_new(s3 ? &async_s3 : &async);
        assert_int_equal(fx_mkdir(x, "main/d", false), 0);
        fx_make(x, "main/d/a", "text");
        uint64_t ino = fx_ino(x, "main/d/a");
        files_hold_uploads(x->files);
        assert_int_equal(fx_behind(x, ino), ECANCELED);
        files_let_uploads(x->files);
        assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
        fx_power_cut(x);
        recover_begin(x->files);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/e/a")), 0);
        fx_store_is(x, "main/e/a", "text");
        fx_store_is(x, "main/d/a", NULL);
        fx_free(x);
    }
}

/* By another writer first: nothing is replaced, and ours is kept. */
static void test_conflict(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    fx_make(x, "main/a", "ours");
    fake_store_write(x->fake[0], "a", "theirs");
    assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), ESTALE);
    fx_store_is(x, "main/a", "theirs");
    fx_path_is(x, "main/a", "theirs");
    fx_kept(x, 1, "a", KEPT_CONFLICT);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_does_not_wait),
        cmocka_unit_test(test_soon_rewritten),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_change_while_uploading),
        cmocka_unit_test(test_gives_way_so_often),
        cmocka_unit_test(test_replace_without_the_store),
        cmocka_unit_test(test_power_cut),
        cmocka_unit_test(test_killed_between),
        cmocka_unit_test(test_renamed_between),
        cmocka_unit_test(test_no_room_for_the_note),
        cmocka_unit_test(test_directory_moves),
        cmocka_unit_test(test_conflict),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
