/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of files that are being written: what the store does not have stays dirty. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/kept.h"
#include "fuse/file/recover.h"
#include "lib/base/clock.h"

#include <unistd.h>

struct upload_job {
    struct fx *x;
    uint64_t ino;
    int rc;
};

static void *upload_thread(void *arg)
{
    struct upload_job *j = arg;
    struct err e = ERR_INIT;
    j->rc = files_save(j->x->files, j->ino, true, &e);
    return NULL;
}

/* What is written while an upload is under way is not in the store after it. */
static void test_write_during_upload(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    pthread_t t;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    fake_store_hold(x->fake[0], FAKE_PUT);
    struct upload_job j = {x, h.ino, -1};
    assert_int_equal(pthread_create(&t, NULL, upload_thread, &j), 0);
    fake_store_wait_held(x->fake[0]);
    assert_int_equal(fx_write(x, h.ino, 3, " two"), 0); /* does not wait for it */
    fx_is(x, h.ino, "one two");
    fake_store_go(x->fake[0]);
    pthread_join(t, NULL);
    assert_int_equal(j.rc, 0);
    fx_store_is(x, "main/a", "one");
    assert_true(fx_is_dirty(x, h.ino));
    assert_false(fx_inode(x, h.ino).flags & INODE_LOCAL); /* the store has the name */
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "one two");
    fx_free(x);
}

/* A write is in the middle of it: an upload that began then would count it, and not have its bytes.
 */
static void test_upload_waits_for_writes(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    pthread_t t;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    struct file *f = files_get(x->files, h.ino, &e);
    struct upload_job j = {x, h.ino, -1};
    pthread_rwlock_rdlock(&f->data_lock); /* as file_pwrite() has it */
    atomic_fetch_add(&f->written, 1);
    assert_int_equal(pthread_create(&t, NULL, upload_thread, &j), 0);
    for (int i = 0; i < 20 && !fake_store_calls(x->fake[0], FAKE_PUT); i++)
        clock_sleep_ns(10 * NS_PER_MS);
    assert_int_equal(pwrite(f->stage_fd, "two", 3, 0), 3);
    pthread_rwlock_unlock(&f->data_lock);
    pthread_join(t, NULL);
    assert_int_equal(j.rc, 0);
    files_put(f);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "two");
    fx_free(x);
}

static atomic_bool pwrite_armed, pwrite_held, pwrite_go; /* the next pwrite() is held up */

ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    if (atomic_exchange(&pwrite_armed, false)) {
        pwrite_held = true;
        while (!pwrite_go)
            clock_sleep_ns(NS_PER_MS);
    }
    return __real_pwrite(fd, buf, len, off);
}

static void *write_thread(void *arg)
{
    struct upload_job *j = arg;
    j->rc = fx_write(j->x, j->ino, 0, "two");
    return NULL;
}

/* The same by file_pwrite() itself: it has counted its change, and its bytes are not there yet. */
static void test_upload_waits_for_a_held_write(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    pthread_t t, w;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    fx_write(x, h.ino, 0, "first");
    struct upload_job up = {x, h.ino, -1}, change = {x, h.ino, -1};
    pwrite_armed = true;
    assert_int_equal(pthread_create(&w, NULL, write_thread, &change), 0);
    while (!pwrite_held)
        clock_sleep_ns(NS_PER_MS);
    assert_int_equal(pthread_create(&t, NULL, upload_thread, &up), 0);
    for (int i = 0; i < 20 && !fake_store_calls(x->fake[0], FAKE_PUT); i++)
        clock_sleep_ns(10 * NS_PER_MS);
    pwrite_go = true;
    pthread_join(w, NULL);
    pthread_join(t, NULL);
    assert_int_equal(up.rc, 0);
    assert_int_equal(change.rc, 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "twost");
    fx_free(x);
}

/* A bit of a staged file flips before the upload that is tried again: what is not as it was to be
 * saved goes to no store, and is told of. */
static void test_staged_rot(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) { /* or its end is gone */
        struct fx *x = fx_new(NULL);
        struct fx_handle h;
        struct err e = ERR_INIT;
        struct kept kept;
        fx_put(x, "main/a", "before");
        assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
        assert_int_equal(fx_write(x, h.ino, 0, "precious"), 0);
        fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
        assert_int_equal(files_save(x->files, h.ino, true, &e), -1);
        cleanup_free char *staged = fx_staging_file(x, h.ino);
        cleanup_fd int fd = open(staged, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        if (cut)
            assert_int_equal(ftruncate(fd, 7), 0);
        else
            assert_int_equal(__real_pwrite(fd, "q", 1, 0), 1);
        unsigned puts = fake_store_calls(x->fake[0], FAKE_PUT);
        assert_int_equal(files_save(x->files, h.ino, true, &e), -1);
        assert_int_equal(err_errno(&e), EIO);
        assert_non_null(strstr(e.msg, "changed by itself"));
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), puts);
        fx_store_is(x, "main/a", "before");
        kept_list(x->stage_dir, &kept);
        assert_int_equal(kept.files, 1);
        assert_string_equal(kept.shown[0].path, "a");
        assert_string_equal(kept.shown[0].why, KEPT_DAMAGED);
        kept_free(&kept);
        assert_int_equal(fx_write(x, h.ino, 0, "more"), ESTALE);
        files_close(x->files, h.ino, false, false);
        inodes_forget(x->inodes, h.ino, 1);
        fx_path_is(x, "main/a", "before");
        fx_free(x);
    }
}

static unsigned summed; /* a file was read to be compared */

int __real_content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e);
int __wrap_content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e);
int __wrap_content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e)
{
    summed++;
    return __real_content_crc(fd, size, crc, e);
}

static void upload_fails(struct fx *x, uint64_t ino, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        struct err e = ERR_INIT;
        assert_int_equal(files_save(x->files, ino, true, &e), -1);
    }
}

/* A large file is not read at each attempt: not while the store is down, and once in a while where
 * it refuses. */
static void test_staged_rot_is_looked_for_seldom(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "precious"), 0);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    summed = 0;
    upload_fails(x, h.ino, 1);
    assert_int_equal(summed, 1); /* the mark */
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, EIO, 0, 5);
    unsigned puts = fake_store_calls(x->fake[0], FAKE_PUT);
    upload_fails(x, h.ino, 5);
    assert_int_equal(summed, 1);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), puts);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_DENIED, EACCES, 0, 5);
    upload_fails(x, h.ino, 5);
    assert_int_equal(summed, 2);
    cleanup_free char *staged = fx_staging_file(x, h.ino);
    cleanup_fd int fd = open(staged, O_WRONLY | O_CLOEXEC);
    assert_int_equal(__real_pwrite(fd, "q", 1, 0), 1);
    struct file *f = files_get(x->files, h.ino, &e);
    f->marked_ok_ns -= 3600 * NS_PER_S;
    files_put(f);
    upload_fails(x, h.ino, 1);
    assert_int_equal(summed, 3);
    fx_store_is(x, "main/a", NULL);
    fx_free(x);
}

/* Another content is compared, whatever was found of the one before. */
static void test_staged_rot_of_what_is_new(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fx_write(x, h.ino, 0, i ? "second" : "first_"), 0);
        fake_store_fail(x->fake[0], FAKE_PUT, ERR_DENIED, EACCES, 0, 2);
        summed = 0;
        upload_fails(x, h.ino, 2);
        assert_int_equal(summed, 2);
    }
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "second");
    fx_free(x);
}

/* … and written to since, it is another content. */
static void test_staged_changed(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "first"), 0);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(files_save(x->files, h.ino, true, &e), -1);
    assert_int_equal(fx_write(x, h.ino, 0, "other"), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "other");
    fx_free(x);
}

/* What is written while an attempt is compared with what was to be saved is no damage: at other
 * moments of it, each time at the end, which is read last. */
static void test_written_while_compared(void **state)
{
    (void)state;
    enum { SIZE = 16 * CACHE_BLOCK };
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    for (int i = 0; i < 40; i++) {
        struct upload_job j = {x, h.ino, -1};
        pthread_t t;
        assert_int_equal(fx_write(x, h.ino, SIZE - 1, "x"), 0);
        fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
        assert_int_equal(files_save(x->files, h.ino, true, &e), -1);
        assert_int_equal(pthread_create(&t, NULL, upload_thread, &j), 0);
        clock_sleep_ns(i * NS_PER_MS / 2);
        assert_int_equal(fx_write(x, h.ino, SIZE - 1, "y"), 0);
        pthread_join(t, NULL);
        assert_int_equal(j.rc, 0);
    }
    assert_int_equal(fx_close(x, &h), 0);
    fx_free(x);
}

/* Whenever an upload comes in between: what the store does not have is dirty, in the index, too. */
static void test_uploads_between_writes(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    char *large = xmalloc(CACHE_BLOCK + 1);
    memset(large, 'x', CACHE_BLOCK);
    large[CACHE_BLOCK] = '\0';
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    for (int i = 0; i < 100; i++) {
        struct upload_job j = {x, h.ino, -1};
        pthread_t t;
        fx_write(x, h.ino, 0, "first");
        assert_int_equal(pthread_create(&t, NULL, upload_thread, &j), 0);
        fx_write(x, h.ino, 0, large);
        pthread_join(t, NULL);
        assert_int_equal(j.rc, 0);
        fx_is_dirty(x, h.ino); /* asserts that the index says the same */
    }
    free(large);
    fx_close(x, &h);
    fx_free(x);
}

/* The process before us may have counted it, so there may be fewer than are counted: what is saved
 * is not held back for those, which would hide what other nodes write. */
static void test_create_resent(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, reader;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    fx_restart(x, true);
    assert_int_equal(fx_create(x, "main/a", O_RDWR, true, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "ours"), 0);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &reader), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "ours");
    assert_int_equal(fx_staged(x), 0);
    fx_is(x, reader.ino, "ours"); /* one that is there has it from the cache */
    fx_put(x, "main/a", "theirs");
    fx_path_is(x, "main/a", "theirs");
    assert_int_equal(fx_close(x, &reader), 0);
    fx_free(x);
}

/* The same of a release, and of an open; but a file without a name has its content here alone. */
static void test_counted_twice(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, reader;
    struct err e = ERR_INIT;
    fx_make(x, "main/a", "old");
    assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "ours"), 0);
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &reader), 0);
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_staged(x), 1); /* for the reader */
    files_close(x->files, reader.ino, false, true);
    assert_int_equal(fx_staged(x), 0);
    fx_put(x, "main/a", "theirs");
    fx_path_is(x, "main/a", "theirs");
    assert_int_equal(fx_create(x, "main/b", O_RDWR, false, &h), 0);
    files_open_resent(x->files, h.ino);
    assert_int_equal(fx_write(x, h.ino, 0, "mine"), 0);
    assert_int_equal(fx_open(x, "main/b", O_RDONLY, &reader), 0);
    assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "MINE"), 0);
    assert_int_equal(fx_unlink(x, "main/b", false), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_is(x, reader.ino, "MINE");
    assert_int_equal(fx_close(x, &reader), 0);
    assert_int_equal(fx_staged(x), 0);
    /* the last one is closed: from here on it is known again */
    assert_int_equal(fx_create(x, "main/c", O_RDWR, false, &h), 0);
    files_open_resent(x->files, h.ino);
    assert_true(fx_inode(x, h.ino).flags & INODE_MISCOUNTED);
    uint64_t ino = h.ino;
    assert_int_equal(fx_close(x, &h), 0);
    assert_false(fx_inode(x, ino).flags & INODE_MISCOUNTED);
    fx_free(x);
}

/* The process before us saved it, and was killed before it was done with it. */
static void test_saved_and_killed(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(fx_create(x, "main/a", O_RDWR, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "ours"), 0);
    assert_int_equal(files_save(x->files, h.ino, true, &e), 0);
    assert_int_equal(inodes_opened(x->inodes, h.ino, -1), 0);
    fx_restart(x, true);
    recover_begin(x->files);
    assert_int_equal(fx_staged(x), 0);
    fx_path_is(x, "main/a", "ours");
    fx_put(x, "main/a", "theirs");
    fx_path_is(x, "main/a", "theirs");
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_during_upload),
        cmocka_unit_test(test_upload_waits_for_writes),
        cmocka_unit_test(test_upload_waits_for_a_held_write),
        cmocka_unit_test(test_staged_rot),
        cmocka_unit_test(test_staged_rot_is_looked_for_seldom),
        cmocka_unit_test(test_staged_rot_of_what_is_new),
        cmocka_unit_test(test_staged_changed),
        cmocka_unit_test(test_written_while_compared),
        cmocka_unit_test(test_uploads_between_writes),
        cmocka_unit_test(test_create_resent),
        cmocka_unit_test(test_counted_twice),
        cmocka_unit_test(test_saved_and_killed),
    };
    return cmocka_run_group_tests_name("upload", tests, NULL, NULL);
}
