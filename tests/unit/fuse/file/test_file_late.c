/* SPDX-License-Identifier: Apache-2.0 */
/* A store that answers late: what it was asked before a change was made here cannot undo that. */
#include "tests/unit/fuse/file/file_fixture.h"

#include <pthread.h>

struct question {
    struct fx *x;
    pthread_t thread;
    const char *path;
    bool lists; /* the directory of that name; else the name is looked up */
    int rc;     /* of the look-up */
    struct inode n;
};

static void *ask(void *arg)
{
    struct question *q = arg;
    struct err e = ERR_INIT;
    if (q->lists)
        q->rc = tree_fill_all(q->x->tree, fx_ino(q->x, q->path), &e) ? err_errno(&e) : 0;
    else
        q->rc = fx_lookup(q->x, q->path, &q->n);
    return NULL;
}

/* Its answer is of now, and comes when question_answered() lets it. */
static void question_begin(struct question *q, struct fx *x, const char *path, bool lists)
{
    *q = (struct question){.x = x, .path = path, .lists = lists};
    fake_store_hold_answer(x->fake[0], lists ? FAKE_LIST : FAKE_STAT);
    assert_int_equal(pthread_create(&q->thread, NULL, ask, q), 0);
    fake_store_wait_held(x->fake[0]);
}

static void question_answered(struct question *q)
{
    fake_store_go(q->x->fake[0]);
    assert_int_equal(pthread_join(q->thread, NULL), 0);
}

/* A listing of main that is older than may be shown; what is known of its names is not. */
static void expire_listing(struct fx *x) { inodes_unlist(x->inodes, fx_ino(x, "main")); }

static void expire_name(struct fx *x, const char *path)
{
    static const struct inode never;
    inodes_set(x->inodes, fx_ino(x, path), INODES_SYNCED, &never, 0, 0);
}

static struct fx *fx_with_file(void)
{
    struct fx *x = fx_new(NULL);
    fx_put(x, "main/f", "old");
    fx_put(x, "main/other", "1");
    fx_path_is(x, "main/f", "old");
    return x;
}

static void write_new(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    int32_t backing;
    assert_int_equal(files_open(x->files, ino, O_WRONLY, &backing, &e), 0);
    assert_int_equal(fx_write(x, ino, 0, "new"), 0);
    assert_int_equal(files_save(x->files, ino, true, &e), 0);
    files_close(x->files, ino, true, false);
}

/* Written and closed while the store is listed, or asked for it: who reads it then gets that. */
static void test_write(void **state)
{
    (void)state;
    for (int lists = 0; lists < 2; lists++) {
        struct fx *x = fx_with_file();
        struct question q;
        uint64_t ino = fx_ino(x, "main/f");
        inodes_ref(x->inodes, ino); /* the kernel knows it */
        expire_listing(x);
        if (!lists) {
            fx_ino(x, "main"); /* has no listing: it is looked up by itself */
            struct err e = ERR_INIT;
            assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
            expire_name(x, "main/f");
        }
        question_begin(&q, x, lists ? "main" : "main/f", lists);
        write_new(x, ino);
        question_answered(&q);
        assert_int_equal(q.rc, 0);
        if (!lists)
            assert_int_equal(q.n.ino, ino);
        assert_int_equal(fx_ino(x, "main/f"), ino);
        assert_false(fx_inode(x, ino).flags & INODE_UNLINKED);
        fx_is(x, ino, "new");
        fx_path_is(x, "main/f", "new");
        inodes_forget(x->inodes, ino, 1);
        fx_free(x);
    }
}

/* What was removed here does not come back. */
static void test_remove(void **state)
{
    (void)state;
    struct fx *x = fx_with_file();
    struct question q;
    fx_ino(x, "main/f");
    expire_listing(x);
    question_begin(&q, x, "main", true);
    assert_int_equal(fx_unlink(x, "main/f", false), 0);
    question_answered(&q);
    assert_int_equal(q.rc, 0);
    struct inode n;
    assert_false(inodes_find(x->inodes, fx_ino(x, "main"), "f", &n));
    assert_int_equal(fx_lookup(x, "main/f", NULL), ENOENT);
    fx_free(x);
}

/* A file was absent, and was made here: neither an answer nor a listing takes it away. */
static void test_create(void **state)
{
    (void)state;
    for (int lists = 0; lists < 2; lists++) {
        struct fx *x = fx_with_file();
        struct question q;
        struct fx_handle h;
        struct err e = ERR_INIT;
        assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
        assert_int_equal(fx_lookup(x, "main/f", NULL), 0);
        fake_store_delete(x->fake[0], "f"); /* by another node */
        expire_name(x, "main/f");
        if (lists)
            expire_listing(x);
        question_begin(&q, x, lists ? "main" : "main/f", lists);
        uint64_t old = fx_parent(x, "main/f", &(const char *){NULL});
        struct inode n;
        assert_true(inodes_find(x->inodes, old, "f", &n));
        inodes_remove(x->inodes, n.ino); /* as by a process that found it gone */
        assert_int_equal(fx_create(x, "main/f", O_WRONLY, false, &h), 0);
        assert_int_equal(fx_write(x, h.ino, 0, "made"), 0);
        assert_int_equal(fx_close(x, &h), 0);
        question_answered(&q);
        assert_true(inodes_find(x->inodes, old, "f", &n));
        assert_int_equal(n.ino, h.ino);
        fx_path_is(x, "main/f", "made");
        fx_free(x);
    }
}

/* Asked for by its old name while it gets another: it keeps the one that it has, and who holds it
 * open can go on. */
static void test_rename(void **state)
{
    (void)state;
    struct fx *x = fx_with_file();
    struct question q;
    struct fx_handle h;
    struct err e = ERR_INIT;
    assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
    uint64_t ino = fx_ino(x, "main/f");
    assert_int_equal(fx_open(x, "main/f", O_RDWR, &h), 0);
    fake_store_delete(x->fake[0], "f"); /* as it is once the store has renamed it */
    expire_name(x, "main/f");
    question_begin(&q, x, "main/f", false);
    fake_store_write(x->fake[0], "f", "old");
    static const struct inode unknown;
    inodes_set(x->inodes, ino, INODES_VERSION, &unknown, 0, 0);
    inodes_set(
        x->inodes, ino, INODES_SYNCED, &(struct inode){.synced_s = (uint32_t)time(NULL)}, 0, 0);
    assert_int_equal(fx_rename(x, "main/f", "main/g", 0, false), 0);
    question_answered(&q);
    assert_int_equal(q.rc, ENOENT);
    assert_int_equal(fx_ino(x, "main/g"), ino);
    assert_int_equal(fx_write(x, ino, 0, "new"), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/g", "new");
    fx_free(x);
}

/* The store has renamed it, and has not said so yet: nobody takes it for gone. */
struct change {
    struct fx *x;
    pthread_t thread;
    int rc;
};

static void *rename_it(void *arg)
{
    struct change *c = arg;
    c->rc = fx_rename(c->x, "main/f", "main/g", 0, false);
    return NULL;
}

static void test_rename_under_way(void **state)
{
    (void)state;
    struct fx *x = fx_with_file();
    struct change c = {.x = x};
    struct err e = ERR_INIT;
    assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
    uint64_t ino = fx_ino(x, "main/f");
    fake_store_hold_answer(x->fake[0], FAKE_RENAME);
    assert_int_equal(pthread_create(&c.thread, NULL, rename_it, &c), 0);
    fake_store_wait_held(x->fake[0]);
    expire_name(x, "main/f");
    assert_int_equal(fx_lookup(x, "main/f", NULL), 0);
    fx_lookup(x, "main/g", NULL);
    expire_listing(x);
    assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
    fake_store_go(x->fake[0]);
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    assert_int_equal(c.rc, 0);
    assert_int_equal(fx_ino(x, "main/g"), ino);
    fx_is(x, ino, "old");
    assert_int_equal(fx_lookup(x, "main/f", NULL), ENOENT);
    fx_free(x);
}

static void *claim_it(void *arg)
{
    struct change *c = arg;
    struct fx_handle h;
    c->rc = fx_create(c->x, "main/new", O_WRONLY | O_EXCL, false, &h);
    return c->rc || fx_close(c->x, &h) ? c : NULL;
}

/* Likewise an exclusive create: it is not another's that was there before. */
static void test_claim_under_way(void **state)
{
    (void)state;
    struct fx *x = fx_with_file();
    struct change c = {.x = x};
    struct err e = ERR_INIT;
    void *failed;
    assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
    fake_store_hold_answer(x->fake[0], FAKE_PUT);
    assert_int_equal(pthread_create(&c.thread, NULL, claim_it, &c), 0);
    fake_store_wait_held(x->fake[0]);
    expire_listing(x);
    assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
    fx_lookup(x, "main/new", NULL);
    fake_store_go(x->fake[0]);
    assert_int_equal(pthread_join(c.thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(c.rc, 0);
    fx_path_is(x, "main/new", "");
    fx_free(x);
}

/* A directory got another name while one of its files was asked for, and while it was listed. */
static void test_directory_moved(void **state)
{
    (void)state;
    for (int lists = 0; lists < 2; lists++)
        for (int copies = 0; copies < 2 - lists; copies++) { /* what is copied is listed first */
            struct fx *x = fx_new(&(struct fx_conf){.caps = copies ? STORE_CAP_WRITE : FX_CAPS});
            struct question q;
            struct fx_handle h;
            struct err e = ERR_INIT;
            fx_put(x, "main/d/f", "old");
            uint64_t dir = fx_ino(x, "main/d");
            assert_int_equal(fx_open(x, "main/d/f", O_RDONLY, &h), 0);
            assert_int_equal(tree_fill_all(x->tree, fx_ino(x, "main"), &e), 0);
            assert_int_equal(tree_fill_all(x->tree, dir, &e), 0);
            fake_store_delete(x->fake[0], "d/f"); /* as it is once the store has renamed it */
            if (lists)
                inodes_unlist(x->inodes, dir);
            expire_name(x, "main/d/f");
            question_begin(&q, x, lists ? "main/d" : "main/d/f", lists);
            fake_store_write(x->fake[0], "d/f", "old");
            assert_int_equal(fx_rename(x, "main/d", "main/e", 0, false), 0);
            question_answered(&q);
            struct inode n;
            assert_true(inodes_find(x->inodes, dir, "f", &n));
            assert_int_equal(fx_lookup(x, "main/e/f", NULL), 0);
            fx_path_is(x, "main/e/f", "old");
            assert_int_equal(fx_close(x, &h), 0);
            fx_free(x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_write), cmocka_unit_test(test_remove),
        cmocka_unit_test(test_create), cmocka_unit_test(test_rename),
        cmocka_unit_test(test_rename_under_way), cmocka_unit_test(test_claim_under_way),
        cmocka_unit_test(test_directory_moved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
