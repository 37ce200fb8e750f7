/* SPDX-License-Identifier: Apache-2.0 */
/* Two who are about one note at the same time: it says what was promised last. */
#include "tests/unit/fuse/file/commit_fixture.h"

#include "fuse/file/content.h"
#include "fuse/file/recover.h"
#include "fuse/file/stage_sync.h"

#include <sys/stat.h>
#include <unistd.h>

static const struct fx_conf async = {.write = CONF_ASYNC_THROUGH};

/* The next call is held up: before it, or after it. */
static struct hand {
    atomic_bool armed, held, go;
} sum_hand, read_hand, sync_hand;

static void hand_arm(struct hand *h)
{
    h->held = h->go = false;
    h->armed = true;
}

static bool hand_here(struct hand *h)
{
    if (!atomic_exchange(&h->armed, false))
        return false;
    h->held = true;
    while (!h->go)
        clock_sleep_ns(NS_PER_MS);
    return true;
}

static void hand_wait(struct hand *h)
{
    while (!h->held)
        clock_sleep_ns(NS_PER_MS);
}

int __real_content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e);
int __wrap_content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e);
int __wrap_content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e)
{
    hand_here(&sum_hand);
    return __real_content_crc(fd, size, crc, e);
}

int __real_sidecar_read(const char *file, struct sidecar *out, struct err *e);
int __wrap_sidecar_read(const char *file, struct sidecar *out, struct err *e);
int __wrap_sidecar_read(const char *file, struct sidecar *out, struct err *e)
{
    int rc = __real_sidecar_read(file, out, e);
    hand_here(&read_hand);
    return rc;
}

/* The one that is held up fails. */
int __real_stage_sync(struct stage_sync *s, int content, int note, struct err *e);
int __wrap_stage_sync(struct stage_sync *s, int content, int note, struct err *e);
int __wrap_stage_sync(struct stage_sync *s, int content, int note, struct err *e)
{
    int rc = __real_stage_sync(s, content, note, e);
    return hand_here(&sync_hand) ? err_sys(e, EIO, "bring it to the disk") : rc;
}

struct call {
    struct fx *x;
    uint64_t ino;
    int (*fn)(struct fx *x, uint64_t ino);
    int rc;
    atomic_bool done;
    pthread_t thread;
};

static void *call_thread(void *user)
{
    struct call *c = user;
    c->rc = c->fn(c->x, c->ino);
    c->done = true;
    return NULL;
}

static void call_begin(
    struct call *c, struct fx *x, uint64_t ino, int (*fn)(struct fx *x, uint64_t ino))
{
    c->x = x;
    c->ino = ino;
    c->fn = fn;
    c->done = false;
    assert_int_equal(pthread_create(&c->thread, NULL, call_thread, c), 0);
}

/* It ends, or waits for somebody. */
static void call_let(struct call *c)
{
    for (int i = 0; i < 20 && !c->done; i++)
        clock_sleep_ns(10 * NS_PER_MS);
}

static int call_end(struct call *c)
{
    pthread_join(c->thread, NULL);
    return c->rc;
}

static int do_save(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    return files_save(x->files, ino, true, &e) ? err_errno(&e) : 0;
}

static int do_unlink(struct fx *x, uint64_t ino)
{
    (void)ino;
    return fx_unlink(x, "main/a", false);
}

static int do_replace(struct fx *x, uint64_t ino)
{
    (void)ino;
    return fx_rename(x, "main/b", "main/a", 0, false);
}

/* It is removed, or replaced, in the middle of an fsync: what that notes down does not stay behind
 * it. */
static void test_removed_while_saved(void **state)
{
    (void)state;
    for (int replace = 0; replace < 2; replace++) {
        struct fx *x = fx_new(&async);
        struct fx_handle h;
        struct call save, removal;
        if (replace)
            fx_make(x, "main/b", "new");
        assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
        fx_write(x, h.ino, 0, "old");
        hand_arm(&sum_hand);
        call_begin(&save, x, h.ino, do_save);
        hand_wait(&sum_hand);
        call_begin(&removal, x, h.ino, replace ? do_replace : do_unlink);
        call_let(&removal);
        sum_hand.go = true;
        assert_int_equal(call_end(&save), 0);
        assert_int_equal(call_end(&removal), 0);
        fx_power_cut(x); /* and it was open all the time */
        recover_begin(x->files);
        if (replace)
            fx_path_is(x, "main/a", "new");
        else
            assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT);
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

static int do_write(struct fx *x, uint64_t ino) { return fx_write(x, ino, 2, "3"); }

/* Another writer renews the note, as the disk had no room for that before, while one saves: what
 * that promised stays in it. */
static void test_renewed_while_saved(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct fx_behind b;
    struct call save, change;
    struct sidecar note;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "1");
    assert_int_equal(do_save(x, h.ino), 0);
    fx_begin_held(&b, x, h.ino);
    fx_write(x, h.ino, 1, "2");
    cleanup_free char *content = fx_staging_file(x, h.ino), *name = xasprintf("%s.path", content);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkdir(name, 0700), 0); /* nothing takes its place */
    assert_int_equal(fx_end_held(&b), 0);
    assert_int_equal(rmdir(name), 0);
    hand_arm(&sum_hand);
    call_begin(&save, x, h.ino, do_save);
    hand_wait(&sum_hand);
    hand_arm(&read_hand);
    call_begin(&change, x, h.ino, do_write);
    hand_wait(&read_hand);
    sum_hand.go = true;
    call_let(&save);
    read_hand.go = true;
    assert_int_equal(call_end(&change), 0);
    assert_int_equal(call_end(&save), 0);
    fx_note(x, h.ino, &note);
    assert_true(note.asked);
    assert_int_equal(note.asked_len, 2);
    fx_free(x);
}

/* The disk refuses what was saved first, and tells so after it has taken more: that stays promised,
 * whatever the store gets of the former. */
static void test_refused_late(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct fx_behind b;
    struct call save;
    struct sidecar note;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "1");
    hand_arm(&sync_hand);
    call_begin(&save, x, h.ino, do_save);
    hand_wait(&sync_hand);
    fx_begin_held(&b, x, h.ino);
    fx_write(x, h.ino, 1, "2");
    assert_int_equal(do_save(x, h.ino), 0);
    sync_hand.go = true;
    assert_int_equal(call_end(&save), EIO);
    assert_int_equal(fx_end_held(&b), 0);
    fx_note(x, h.ino, &note);
    assert_true(note.asked);
    assert_int_equal(note.asked_len, 2);
    fx_free(x);
}

/* Another one cuts it off while it is read for its checksum: what it has now is saved. */
static void test_cut_off_while_saved(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct call save;
    struct sidecar note;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "123");
    hand_arm(&sum_hand);
    call_begin(&save, x, h.ino, do_save);
    hand_wait(&sum_hand);
    assert_int_equal(fx_truncate(x, h.ino, 1, true), 0);
    sum_hand.go = true;
    assert_int_equal(call_end(&save), 0);
    fx_note(x, h.ino, &note);
    assert_true(note.asked);
    assert_int_equal(note.asked_len, 1);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed_while_saved),
        cmocka_unit_test(test_renewed_while_saved),
        cmocka_unit_test(test_refused_late),
        cmocka_unit_test(test_cut_off_while_saved),
    };
    return cmocka_run_group_tests_name("note_races", tests, NULL, NULL);
}
