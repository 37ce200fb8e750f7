/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that get another name, in one piece or by parts, with what is open below them. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/dir_move.h"
#include "tests/lib/eventually.h"

#include <unistd.h>

static void fill_dir(struct fx *x)
{
    fx_put(x, "main/d/a", "hello");
    fx_put(x, "main/d/sub/b", "below");
    fx_path_is(x, "main/d/a", "hello");
    fx_path_is(x, "main/d/sub/b", "below");
    fx_fill(x, "main/d/a");
}

static void test_rename_dir(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, w;
    fill_dir(x);
    uint64_t d = fx_ino(x, "main/d"), a = fx_ino(x, "main/d/a");
    assert_int_equal(fx_open(x, "main/d/sub/b", O_RDWR, &w), 0);
    fx_write(x, w.ino, 0, "B");
    assert_int_equal(fx_create(x, "main/d/new", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_RENAME), 1);
    assert_int_equal(fx_ino(x, "main/e"), d);
    assert_int_equal(fx_ino(x, "main/e/a"), a);
    assert_int_equal(fx_lookup(x, "main/d", NULL), ENOENT);
    unsigned reads = fake_store_calls(x->fake[0], FAKE_READ);
    fx_path_is(x, "main/e/a", "hello");
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), reads);
    cleanup_free char *sidecar = fx_sidecar(x, w.ino);
    assert_string_equal(sidecar, "0\nv2\ne/sub/b\n");
    assert_int_equal(fx_close(x, &w), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/e/sub/b", "Below");
    fx_store_is(x, "main/e/new", "");
    assert_false(fake_store_has(x->fake[0], "d"));
    fx_free(x);
}

static void test_rename_dir_over_another(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    fill_dir(x);
    assert_int_equal(fx_mkdir(x, "main/e", false), 0);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0); /* it is empty */
    fx_path_is(x, "main/e/a", "hello");
    assert_int_equal(fx_mkdir(x, "main/f", false), 0);
    assert_int_equal(fx_rename(x, "main/f", "main/e", 0, false), ENOTEMPTY);
    fx_path_is(x, "main/e/a", "hello");
    assert_int_equal(fx_lookup(x, "main/f", NULL), 0);
    fake_store_fail(x->fake[0], FAKE_RENAME, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(fx_rename(x, "main/e", "main/g", 0, false), EACCES);
    fx_path_is(x, "main/e/a", "hello");
    assert_int_equal(fx_lookup(x, "main/g", NULL), ENOENT);
    assert_int_equal(fx_rename(x, "main/e", "main/g", 0, false), 0);
    assert_int_equal(fx_rename(x, "main/e", "main/g", 0, true), 0); /* sent again */
    fx_path_is(x, "main/g/a", "hello");
    fx_free(x);
}

/* A store that cannot rename a directory: file by file. */
static void test_rename_dir_by_parts(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    struct fx_handle h;
    fill_dir(x);
    for (int i = 0; i < 70; i++) { /* more than fit at once */
        char path[32];
        snprintf(path, sizeof path, "main/d/many%d", i);
        fx_put(x, path, path);
    }
    uint64_t a = fx_ino(x, "main/d/a");
    assert_int_equal(fx_create(x, "main/d/new", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_COPY), 72); /* not what is only here */
    assert_false(fake_store_has(x->fake[0], "d"));
    assert_int_equal(fx_ino(x, "main/e/a"), a);
    fx_store_is(x, "main/e/sub/b", "below");
    fx_store_is(x, "main/e/many69", "main/d/many69");
    fx_path_is(x, "main/e/many0", "main/d/many0");
    fx_path_is(x, "main/e/sub/b", "below"); /* under its new version, or the store would refuse */
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/e/new", "");
    fx_free(x);
}

/* Somebody else has replaced one of them. */
static void test_rename_dir_with_another_version(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    fill_dir(x);
    fake_store_write(x->fake[0], "d/a", "much longer than before");
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    fx_path_is(x, "main/e/a", "much longer than before");
    fx_path_is(x, "main/e/sub/b", "below");
    fx_free(x);
}

static void put_three(struct fx *x)
{
    fx_put(x, "main/d/a", "one");
    fx_put(x, "main/d/sub/b", "two");
    fx_put(x, "main/d/c", "three");
    fx_ino(x, "main/d/a");
}

/* All three are below one of the two, and nothing of the other is in the store. */
static void three_are_in(struct fx *x, const char *dir, const char *not_in)
{
    static const char *const names[] = {"a", "sub/b", "c"},
                             *const texts[] = {"one", "two", "three"};
    assert_false(fake_store_has(x->fake[0], not_in));
    for (int i = 0; i < 3; i++) {
        cleanup_free char *path = xasprintf("main/%s/%s", dir, names[i]);
        fx_store_is(x, path, texts[i]);
        fx_path_is(x, path, texts[i]);
    }
}

static bool has_journal(struct fx *x)
{
    cleanup_free char *moves = xasprintf("%s/moves", x->stage_dir);
    return access(moves, F_OK) == 0;
}

/* It fails while it copies: nothing has happened, and it can be tried again. */
static void test_rename_dir_by_parts_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    put_three(x);
    fake_store_fail(x->fake[0], FAKE_COPY, ERR_DENIED, EACCES, 1, 1);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), EACCES);
    three_are_in(x, "d", "e");
    assert_int_equal(fx_lookup(x, "main/e", NULL), ENOENT);
    assert_false(has_journal(x));
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    three_are_in(x, "e", "d");
    assert_false(has_journal(x));
    fx_free(x);
}

/* The store ends to answer while it copies: what was copied goes when it is back. */
static void test_rename_dir_is_undone(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    put_three(x);
    fake_store_fail(x->fake[0], FAKE_COPY, ERR_RETRY, EIO, 2, 1);
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 1, 1);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), EIO);
    assert_true(fake_store_has(x->fake[0], "e"));
    assert_true(has_journal(x));
    fx_restart(x, true);
    fake_store_write(x->fake[0], "e/other", "somebody else's");
    dir_move_resume(x->files);
    assert_false(has_journal(x));
    fx_store_is(x, "main/e/other", "somebody else's"); /* who has begun to use the name */
    fake_store_delete(x->fake[0], "e");
    three_are_in(x, "d", "e");
    fx_free(x);
}

/* The old name is used again, with the same content, before what is left of it has gone: that goes
 * first, or nothing is made. */
static void test_rename_dir_name_again(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    struct err e = ERR_INIT;
    put_three(x);
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 100); /* several are at once */
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    assert_true(has_journal(x));
    const char *name;
    uint64_t dir = fx_parent(x, "main/d", &name);
    struct new_name w = {.dir = dir, .name = name, .mode = S_IFDIR | 0755};
    struct inode n;
    assert_int_equal(files_mkdir(x->files, &w, &n, &e), -1);
    assert_non_null(strstr(e.msg, "must go first"));
    assert_true(has_journal(x));
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_NONE, 0, 0, 0);
    assert_int_equal(files_mkdir(x->files, &w, &n, &e), 0);
    assert_false(has_journal(x));
    fx_make(x, "main/d/a", "one");
    dir_move_resume(x->files);
    fx_store_is(x, "main/d/a", "one");
    fx_store_is(x, "main/e/a", "one");
    fx_free(x);
}

/* It has copied: the new name is whole, and the old one goes when the store is back. */
static void test_rename_dir_is_ended(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    put_three(x);
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 1, 1);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    fx_path_is(x, "main/e/a", "one");
    fx_path_is(x, "main/e/sub/b", "two");
    assert_true(fake_store_has(x->fake[0], "d"));
    assert_true(has_journal(x));
    fx_restart(x, false);
    dir_move_resume(x->files);
    three_are_in(x, "e", "d");
    assert_false(has_journal(x));
    fx_free(x);
}

struct thread_job {
    struct fx *x;
    const char *from, *to;
    uint64_t ino, dir;
    atomic_bool done;
    int rc;
};

static void *upload_thread(void *arg)
{
    struct thread_job *j = arg;
    struct err e = ERR_INIT;
    j->rc = files_save(j->x->files, j->ino, true, &e);
    j->done = true;
    return NULL;
}

static void *rename_thread(void *arg)
{
    struct thread_job *j = arg;
    struct err e = ERR_INIT;
    struct rename_request r = {j->dir, j->from, j->dir, j->to, 0, false};
    j->rc = files_rename(j->x->files, &r, &e);
    j->done = true;
    return NULL;
}

/* An upload that is under way goes to the path that there is. */
static void test_rename_waits_for_uploads(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    pthread_t up, re;
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    uint64_t main_dir = fx_ino(x, "main");
    assert_int_equal(fx_create(x, "main/d/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    fake_store_hold(x->fake[0], FAKE_PUT);
    struct thread_job u = {.x = x, .ino = h.ino},
                      r = {.x = x, .from = "d", .to = "e", .dir = main_dir};
    assert_int_equal(pthread_create(&up, NULL, upload_thread, &u), 0);
    fake_store_wait_held(x->fake[0]);
    assert_int_equal(pthread_create(&re, NULL, rename_thread, &r), 0);
    clock_sleep_ns(50 * NS_PER_MS);
    assert_false(r.done);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_RENAME), 0);
    fake_store_go(x->fake[0]);
    pthread_join(up, NULL);
    pthread_join(re, NULL);
    assert_int_equal(u.rc, 0);
    assert_int_equal(r.rc, 0);
    fx_store_is(x, "main/e/a", "text");
    assert_false(fake_store_has(x->fake[0], "d"));
    assert_int_equal(fx_close(x, &h), 0);
    fx_path_is(x, "main/e/a", "text");
    fx_free(x);
}

static atomic_uint journal_syncs, stage_syncs; /* of directories */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    journal_syncs += fx_fd_is(fd, "/moves");
    stage_syncs += fx_fd_is(fd, "/stage");
    return __real_fsync(fd);
}

/* A power cut finds the journal of what was begun in the store: of copies before the first one, of
 * the end before anything is deleted. */
static void test_rename_dir_journal_is_on_disk(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    put_three(x);
    for (unsigned deleting = 0; deleting < 2; deleting++) {
        pthread_t re;
        struct thread_job r = {.x = x, .from = deleting ? "e" : "d", .to = deleting ? "d" : "e"};
        r.dir = fx_ino(x, "main");
        journal_syncs = stage_syncs = 0;
        fake_store_hold(x->fake[0], deleting ? FAKE_REMOVE : FAKE_COPY);
        assert_int_equal(pthread_create(&re, NULL, rename_thread, &r), 0);
        fake_store_wait_held(x->fake[0]);
        assert_int_equal(stage_syncs, 1);
        assert_int_equal(journal_syncs, 1 + deleting);
        fake_store_go(x->fake[0]);
        pthread_join(re, NULL);
        assert_int_equal(r.rc, 0);
    }
    three_are_in(x, "d", "e");
    fx_free(x);
}

struct maker {
    struct fx *x;
    struct progress_things things;
    uint64_t dir;
    atomic_bool done;
};

static void *maker_thread(void *arg)
{
    struct maker *m = arg;
    struct err e = ERR_INIT;
    struct new_name w = {.dir = m->dir, .name = "d", .mode = S_IFDIR | 0755};
    struct inode n;
    progress_here(&m->things);
    progress_of(m->dir, m->dir);
    assert_int_equal(files_mkdir(m->x->files, &w, &n, &e), 0);
    m->done = true;
    return NULL;
}

static void *resume_thread(void *arg)
{
    dir_move_resume(arg);
    return NULL;
}

/* What is left under the old name goes, by another thread, file by file: who waits for its end gets
 * on with it. */
static void test_rename_dir_waits_for_another(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    pthread_t resume, make;
    const char *name;
    put_three(x);
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    struct maker m = {.x = x, .dir = fx_parent(x, "main/d", &name)};
    fake_store_hold(x->fake[0], FAKE_REMOVE);
    assert_int_equal(pthread_create(&resume, NULL, resume_thread, x->files), 0);
    fake_store_wait_held(x->fake[0]);
    assert_int_equal(pthread_create(&make, NULL, maker_thread, &m), 0);
    clock_sleep_ns(200 * NS_PER_MS); /* it waits by now */
    uint64_t before = progress_count(&m.things);
    progress_of(DIR_MOVE_JOURNALS, DIR_MOVE_JOURNALS); /* as who deletes them marks it */
    progress_mark();
    progress_of(0, 0);
    clock_sleep_ns(1500 * NS_PER_MS);
    assert_true(progress_count(&m.things) > before);
    assert_false(m.done);
    fake_store_go(x->fake[0]);
    pthread_join(resume, NULL);
    pthread_join(make, NULL);
    fx_free(x);
}

/* Another node replaces a file, by one of the same size, once it was copied: it stays where it was
 * put, in a rename and in one that is undone. */
static void test_rename_dir_beside_a_writer(void **state)
{
    (void)state;
    for (int undo = 0; undo < 2; undo++) {
        struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
        pthread_t re;
        const char *victim = undo ? "e/c" : "d/c";
        struct thread_job r = {.x = x, .from = "d", .to = "e"};
        put_three(x);
        r.dir = fx_ino(x, "main");
        if (undo)
            fake_store_fail(x->fake[0], FAKE_COPY, ERR_RETRY, EIO, 2, 1);
        fake_store_hold(x->fake[0], FAKE_REMOVE); /* of a, when all was listed */
        assert_int_equal(pthread_create(&re, NULL, rename_thread, &r), 0);
        fake_store_wait_held(x->fake[0]);
        fake_store_write(x->fake[0], victim, "newer");
        fake_store_go(x->fake[0]);
        pthread_join(re, NULL);
        assert_int_equal(r.rc, undo ? -1 : 0);
        cleanup_free char *path = xasprintf("main/%s", victim);
        fx_store_is(x, path, "newer");
        fx_store_is(x, undo ? "main/d/c" : "main/e/c", "three");
        assert_false(fake_store_has(x->fake[0], undo ? "e/a" : "d/a"));
        assert_false(has_journal(x));
        fx_free(x);
    }
}

/* A store far away answers late: it is asked for all of them at once, to copy and to delete. */
static void test_rename_dir_at_once(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    struct thread_job r = {.x = x, .from = "d", .to = "e"};
    pthread_t re;
    for (int i = 0; i < 8; i++) {
        cleanup_free char *path = xasprintf("main/d/%d", i);
        fx_put(x, path, path);
    }
    r.dir = fx_ino(x, "main");
    fake_store_hold(x->fake[0], FAKE_COPY);
    assert_int_equal(pthread_create(&re, NULL, rename_thread, &r), 0);
    eventually(fake_store_calls(x->fake[0], FAKE_COPY) == 8);
    fake_store_hold(x->fake[0], FAKE_REMOVE);
    fake_store_go_on(x->fake[0], FAKE_COPY);
    eventually(fake_store_calls(x->fake[0], FAKE_REMOVE) == 8);
    fake_store_go(x->fake[0]);
    pthread_join(re, NULL);
    assert_int_equal(r.rc, 0);
    fx_path_is(x, "main/e/7", "main/d/7");
    assert_false(fake_store_has(x->fake[0], "d"));
    fx_free(x);
}

/* What is written under a name whose rename waits for the store is no copy, whatever its size. */
static void test_rename_dir_left_over(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    put_three(x);
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
    assert_true(has_journal(x));
    fake_store_write(x->fake[0], "d/a", "new");
    dir_move_resume(x->files);
    fx_store_is(x, "main/d/a", "new");
    fx_store_is(x, "main/e/a", "one");
    assert_false(fake_store_has(x->fake[0], "d/sub"));
    assert_false(has_journal(x));
    /* the same where it is undone */
    fx_put(x, "main/f/a", "one");
    fake_store_fail(x->fake[0], FAKE_COPY, ERR_RETRY, EIO, 1, 1);
    fx_put(x, "main/f/b", "two");
    fake_store_fail(x->fake[0], FAKE_REMOVE, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_rename(x, "main/f", "main/g", 0, false), EIO);
    assert_true(has_journal(x));
    fake_store_write(x->fake[0], "g/a", "new");
    dir_move_resume(x->files);
    fx_store_is(x, "main/g/a", "new");
    fx_store_is(x, "main/f/a", "one");
    fx_free(x);
}

/* Another node has made a directory of the new name since we looked. */
static void test_rename_dir_by_parts_over_anothers(void **state)
{
    (void)state;
    struct fx *x = fx_new(&(struct fx_conf){.caps = STORE_CAP_WRITE | STORE_CAP_DIRS});
    fake_store_write(x->fake[0], "d/a", "one");
    fake_store_write(x->fake[0], "d/sub/b", "two");
    fake_store_write(x->fake[0], "d/c", "three");
    fx_ino(x, "main/d/a");
    assert_int_equal(fx_lookup(x, "main/e", NULL), ENOENT);
    fake_store_write(x->fake[0], "e/a", "another's");
    assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), ENOTEMPTY);
    fx_store_is(x, "main/e/a", "another's");
    assert_false(has_journal(x));
    fx_path_is(x, "main/d/a", "one");
    fx_path_is(x, "main/e/a", "another's");
    /* an empty one is nobody's loss */
    fake_store_mkdir(x->fake[0], "g");
    assert_int_equal(fx_rename(x, "main/d", "main/g", 0, false), 0);
    three_are_in(x, "g", "d");
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rename_dir),
        cmocka_unit_test(test_rename_dir_over_another),
        cmocka_unit_test(test_rename_dir_by_parts),
        cmocka_unit_test(test_rename_dir_with_another_version),
        cmocka_unit_test(test_rename_dir_is_undone),
        cmocka_unit_test(test_rename_dir_name_again),
        cmocka_unit_test(test_rename_dir_is_ended),
        cmocka_unit_test(test_rename_dir_by_parts_fails),
        cmocka_unit_test(test_rename_waits_for_uploads),
        cmocka_unit_test(test_rename_dir_left_over),
        cmocka_unit_test(test_rename_dir_waits_for_another),
        cmocka_unit_test(test_rename_dir_journal_is_on_disk),
        cmocka_unit_test(test_rename_dir_beside_a_writer),
        cmocka_unit_test(test_rename_dir_at_once),
        cmocka_unit_test(test_rename_dir_by_parts_over_anothers),
    };
    return cmocka_run_group_tests_name("file_rename_dir", tests, NULL, NULL);
}
