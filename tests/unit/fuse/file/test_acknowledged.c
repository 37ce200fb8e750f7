/* SPDX-License-Identifier: Apache-2.0 */
/* AsyncThrough: what close or fsync has said is kept stays so, whatever an upload that is under way
 * at that moment, or was before, comes to. */
#include "tests/unit/fuse/file/commit_fixture.h"

#include "fuse/file/recover.h"

#include <unistd.h>

static const struct fx_conf async = {.write = CONF_ASYNC_THROUGH};

static void save(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    assert_int_equal(files_save(x->files, ino, true, &e), 0);
}

/* More was saved while an upload was under way: that it fails takes none of it back. */
static void test_failed_upload_of_less(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct fx_behind b;
    struct sidecar note;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    save(x, h.ino);
    fx_begin_held(&b, x, h.ino);
    fx_write(x, h.ino, 3, " two");
    save(x, h.ino);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_end_held(&b), EIO);
    fx_note(x, h.ino, &note);
    assert_true(note.asked);
    assert_int_equal(note.asked_len, 7);
    save(x, h.ino);
    fx_power_cut(x);
    recover_begin(x->files);
    fx_path_is(x, "main/log", "one two");
    assert_int_equal(fx_behind(x, fx_ino(x, "main/log")), 0);
    fx_store_is(x, "main/log", "one two");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* An upload of what nobody asked to save, as of a file that is held open, reaches the store, and
 * its answer is lost: what is saved next is no other writer's. saved: it was asked for before;
 * meanwhile: the next is saved before the answer is missed. */
static void test_lost_answer_of_unsaved(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        bool saved = i & 1, meanwhile = i & 2, power = i & 4;
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        struct fx_behind b;
        assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "1");
        if (saved)
            save(x, h.ino);
        fx_write(x, h.ino, 1, "2");
        fake_store_lose_answer(x->fake[0]);
        fx_begin_held(&b, x, h.ino);
        if (meanwhile) {
            fx_write(x, h.ino, 2, "3");
            save(x, h.ino);
        }
        assert_int_equal(fx_end_held(&b), EIO);
        fx_store_is(x, "main/a", "12");
        if (!meanwhile) {
            fx_write(x, h.ino, 2, "3");
            save(x, h.ino);
        }
        if (power) {
            fx_power_cut(x);
            recover_begin(x->files);
        }
        assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), 0);
        fx_store_is(x, "main/a", "123");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* One upload fails, and its successor's answer is lost: the store has the latter. came: the first
 * one had come there as well. */
static void test_lost_answer_after_a_failure(void **state)
{
    (void)state;
    for (int came = 0; came < 2; came++) {
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        fx_make(x, "main/a", "1");
        if (came)
            fake_store_lose_answer(x->fake[0]);
        else
            fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), EIO);
        for (const char *text = "23"; *text; text++) {
            const char now[] = {*text, '\0'};
            assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
            fx_write(x, h.ino, 0, now);
            assert_int_equal(fx_close(x, &h), 0);
            if (text[1]) {
                fake_store_lose_answer(x->fake[0]);
                assert_int_equal(fx_behind(x, h.ino), EIO);
                fx_store_is(x, "main/a", now);
            }
        }
        assert_int_equal(fx_behind(x, h.ino), 0);
        fx_store_is(x, "main/a", "3");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* While the store does not say what it has of us, nothing else is sent there. */
static void test_nothing_is_sent_blindly(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    fx_make(x, "main/a", "1");
    fake_store_lose_answer(x->fake[0]);
    assert_int_equal(fx_behind(x, fx_ino(x, "main/a")), EIO);
    assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
    fx_write(x, h.ino, 0, "2");
    assert_int_equal(fx_close(x, &h), 0);
    unsigned puts = fake_store_calls(x->fake[0], FAKE_PUT);
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_behind(x, h.ino), EIO);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), puts);
    assert_int_equal(fx_behind(x, h.ino), 0);
    fx_store_is(x, "main/a", "2");
    fx_free(x);
}

/* The store has an upload without an answer, and does not say now that it is that: it is asked
 * again, and what was saved since does not go aside. */
static void test_asked_again(void **state)
{
    (void)state;
    static const enum fake_call calls[] = {FAKE_STAT, FAKE_READ, FAKE_READ};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        bool more = i == 2;
        fx_make(x, "main/a", "1");
        uint64_t ino = fx_ino(x, "main/a");
        fake_store_lose_answer(x->fake[0]);
        assert_int_equal(fx_behind(x, ino), EIO);
        if (more) {
            assert_int_equal(fx_open(x, "main/a", O_WRONLY, &h), 0);
            fx_write(x, h.ino, 1, "2");
            assert_int_equal(fx_close(x, &h), 0);
        } else if (calls[i] == FAKE_STAT) { /* the look at what failed is not meant */
            struct err e = ERR_INIT;
            struct file *f = files_get(x->files, ino, &e);
            atomic_store(&f->marked_ok_ns, clock_mono_ns());
            files_put(f);
        }
        /* for store_put(), which looks by itself, and for who is told what that says */
        fake_store_fail(x->fake[0], calls[i], ERR_RETRY, EIO, 0, 2);
        assert_int_equal(fx_behind(x, ino), EIO);
        fake_store_fail(x->fake[0], calls[i], ERR_RETRY, EIO, 0, 0);
        assert_int_equal(fx_behind(x, ino), 0);
        fx_store_is(x, "main/a", more ? "12" : "1");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* What was given up has not come there: that more was saved meanwhile does not say so. */
static void test_given_up(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct fx_behind b;
    struct sidecar note;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "1");
    save(x, h.ino);
    fake_store_heed_cancel(x->fake[0]);
    struct file *f = files_get(x->files, h.ino, &e);
    fx_begin_held(&b, x, h.ino);
    fx_write(x, h.ino, 1, "2");
    save(x, h.ino);
    atomic_store(&f->stop, true);
    assert_int_equal(fx_end_held(&b), ECANCELED);
    fake_store_lose_answer(x->fake[0]);
    assert_int_equal(fx_behind(x, h.ino), EIO);
    fx_store_is(x, "main/log", "12");
    fx_write(x, h.ino, 2, "3");
    save(x, h.ino);
    fx_note(x, h.ino, &note);
    assert_true(note.sent && note.sent_len == 2);
    assert_int_equal(fx_behind(x, h.ino), 0);
    fx_store_is(x, "main/log", "123");
    fx_kept(x, 0, NULL, NULL);
    files_put(f);
    fx_free(x);
}

/* What it replaces was sent once, without an answer, and saved with something else since: it is the
 * former that the store has. Nobody waits for that. */
static void test_replaces_two(void **state)
{
    (void)state;
    for (int power = 0; power < 2; power++) {
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        fx_make(x, "main/final", "1");
        fake_store_lose_answer(x->fake[0]);
        assert_int_equal(fx_behind(x, fx_ino(x, "main/final")), EIO);
        assert_int_equal(fx_open(x, "main/final", O_WRONLY | O_TRUNC, &h), 0);
        fx_write(x, h.ino, 0, "2");
        assert_int_equal(fx_close(x, &h), 0);
        unsigned puts = fake_store_calls(x->fake[0], FAKE_PUT);
        fx_make(x, "main/tmp", "3");
        assert_int_equal(fx_rename(x, "main/tmp", "main/final", 0, false), 0);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), puts);
        if (power) {
            fx_power_cut(x);
            recover_begin(x->files);
        }
        assert_int_equal(fx_behind(x, fx_ino(x, "main/final")), 0);
        fx_store_is(x, "main/final", "3");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* The process before us was killed in the middle of an upload that nothing says anything of: what
 * replaces that goes through the store. */
static void test_replaces_who_knows_what(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/final", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "1");
    fake_store_write(x->fake[0], "final", "1"); /* it came there */
    fx_restart(x, true);
    recover_begin(x->files);
    fx_make(x, "main/tmp", "3");
    assert_int_equal(fx_rename(x, "main/tmp", "main/final", 0, false), 0);
    fx_store_is(x, "main/final", "3");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

/* Who waits for the file is let through before its content is sent, too, and nobody who writes to
 * it waits until then; that an earlier attempt may have come there stays known. */
static void test_gives_way_before_it_sends(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) { /* the look at what failed; at what came of it */
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        struct fx_behind b;
        struct err e = ERR_INIT;
        assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "1");
        save(x, h.ino);
        fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
        assert_int_equal(fx_behind(x, h.ino), EIO);
        if (more) {
            fx_write(x, h.ino, 1, "2");
            save(x, h.ino);
        }
        struct file *f = files_get(x->files, h.ino, &e);
        atomic_store(&f->marked_ok_ns, more ? clock_mono_ns() : 0);
        unsigned puts = fake_store_calls(x->fake[0], FAKE_PUT);
        fx_begin_held_in(&b, x, h.ino, FAKE_STAT);
        assert_int_equal(atomic_load(&f->sending), 0);
        atomic_store(&f->stop, true);
        assert_int_equal(fx_end_held(&b), ECANCELED);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), puts);
        assert_int_equal(atomic_load(&f->begun), !more); /* there, the store has said no */
        files_put(f);
        assert_int_equal(fx_behind(x, h.ino), 0);
        fx_store_is(x, "main/a", more ? "12" : "1");
        fx_free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_upload_of_less),
        cmocka_unit_test(test_lost_answer_of_unsaved),
        cmocka_unit_test(test_lost_answer_after_a_failure),
        cmocka_unit_test(test_nothing_is_sent_blindly),
        cmocka_unit_test(test_asked_again),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_gives_way_before_it_sends),
        cmocka_unit_test(test_replaces_two),
        cmocka_unit_test(test_replaces_who_knows_what),
    };
    return cmocka_run_group_tests_name("acknowledged", tests, NULL, NULL);
}
