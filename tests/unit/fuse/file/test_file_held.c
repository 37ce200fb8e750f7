/* SPDX-License-Identifier: Apache-2.0 */
/* Open files that lose their name, and the process that is killed meanwhile. */
#include "tests/unit/fuse/file/file_fixture.h"

#include "lib/base/file.h"

#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

struct rename_job {
    struct fx *x;
    int rc;
};

static void *rename_thread(void *arg)
{
    struct rename_job *j = arg;
    j->rc = fx_rename(j->x, "main/a", "main/b", 0, false);
    return NULL;
}

/* Whoever kills the process while an open file is replaced leaves an index that has its opens, and
 * no more: what is counted here nobody would count off. */
static void test_rename_counts_no_open(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    pthread_t t;
    fx_make(x, "main/a", "new");
    fx_make(x, "main/b", "old");
    assert_int_equal(fx_open(x, "main/b", O_RDONLY, &h), 0);
    fake_store_hold(x->fake[0], FAKE_RENAME);
    struct rename_job j = {x, -1};
    assert_int_equal(pthread_create(&t, NULL, rename_thread, &j), 0);
    fake_store_wait_held(x->fake[0]);
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    fake_store_go(x->fake[0]);
    pthread_join(t, NULL);
    assert_int_equal(j.rc, 0);
    fx_is(x, h.ino, "old");
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    uint64_t ino = h.ino;
    struct inode n;
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_not_equal(inodes_get(x->inodes, ino, &n), 0);
    assert_int_equal(fx_staged(x), 0);
    fx_path_is(x, "main/b", "new");
    fx_free(x);
}

/* The process is killed between a file's losing its name and what follows: nothing of it stays, and
 * what was written to it goes nowhere. */
static void test_killed_while_held(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct inodes_stats before, after;
    struct inode n;
    struct err e = ERR_INIT;
    fx_make(x, "main/a", "new");
    inodes_stats(x->inodes, &before);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "old"), 0);
    files_close(x->files, h.ino, false, false); /* dirty, and open no more */
    inodes_forget(x->inodes, h.ino, 1);
    inodes_hold(x->inodes, h.ino);
    inodes_remove(x->inodes, h.ino);
    assert_int_equal(inodes_get(x->inodes, h.ino, &n), 0);
    fx_restart(x, true);
    struct uploader *w = uploader_start(x->files, &e);
    assert_non_null(w);
    uploader_stop(w);
    assert_int_not_equal(inodes_get(x->inodes, h.ino, &n), 0);
    inodes_stats(x->inodes, &after);
    assert_int_equal(after.inodes, before.inodes);
    assert_int_equal(fx_staged(x), 0);
    fx_store_is(x, "main/b", NULL);
    fx_free(x);
}

#define CACHED_SIZE 4321

static char *linked;

static int link_cached(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type != FTW_F || st->st_size != CACHED_SIZE || !strstr(path, "/blocks/"))
        return 0;
    assert_int_equal(link(path, linked), 0);
    return 1;
}

/* What is cached has another name, that of another cached file: who writes to a removed file does
 * not write to that. */
static void test_removed_and_shared(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    char text[CACHED_SIZE + 1];
    memset(text, 'x', CACHED_SIZE);
    text[CACHED_SIZE] = '\0';
    fx_put(x, "main/a", text);
    fx_fill(x, "main/a");
    linked = path_join(x->dir, "shared");
    assert_int_equal(nftw(x->dir, link_cached, 16, FTW_PHYS), 1);
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
    fx_is(x, h.ino, text);
    assert_int_equal(fx_unlink(x, "main/a", false), 0);
    assert_int_equal(fx_write(x, h.ino, 0, "changed"), 0);
    cleanup_free char *now = file_read(linked, CACHED_SIZE + 1, NULL, &e);
    assert_non_null(now);
    assert_string_equal(now, text);
    assert_int_equal(fx_close(x, &h), 0);
    free(linked);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rename_counts_no_open),
        cmocka_unit_test(test_killed_while_held),
        cmocka_unit_test(test_removed_and_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
