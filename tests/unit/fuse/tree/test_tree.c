/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups: which of them ask a store, what they answer while it fails, and what the kernel is
 * told. */
#include "tests/unit/fuse/tree/tree_fixture.h"

static const char *const one_mount[] = {"/", NULL};
static const char *const two_mounts[] = {"/", "/in/ner", NULL};
static const char *const inner_first[] = {"/in/mid/ner", "/in", NULL};
static const char *const apart[] = {"/data/a", "/data/b", NULL};

static uint64_t ino_of(struct fx *x, const char *path)
{
    struct inode n;
    assert_int_equal(fx_lookup(x, path, &n), 0);
    return n.ino;
}

/* What is known and fresh is answered without the store, and without a word to the request loop. */
static void test_fresh(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    fake_store_write(x->fake[0], "d/f", "12345");
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_true(n.size == 5 && !(n.flags & INODE_DIR) && n.mount == 0);
    assert_string_equal(n.version, "v1");
    unsigned lists = fake_store_calls(x->fake[0], FAKE_LIST), blocked = fx_blocked;
    assert_true(lists == 2 && blocked == 2); /* a page of the root, and one of d */
    fx_age(x, n.ino, 57);
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_int_equal(fx_blocked, blocked);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 0);
    fx_age(x, n.ino, 61);
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_int_equal(fx_blocked, blocked + 1);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 1);
    assert_int_equal(fx_lookup(x, "d/f", &n), 0); /* and is fresh again */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 1);
    assert_string_equal(x->changed, "");
    fx_free(x);
}

/* A complete listing answers for names that are absent, for a second where files can be written. */
static void test_absent(void **state)
{
    (void)state;
    for (int read_only = 0; read_only < 2; read_only++) {
        struct fx *x = fx_new(one_mount, read_only);
        fake_store_write(x->fake[0], "there", "1");
        assert_int_equal(fx_lookup(x, "absent", NULL), ENOENT);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 0);
        fx_age_listing(x, INODE_ROOT, 10);
        fake_store_write(x->fake[0], "new", "1");
        assert_int_equal(fx_lookup(x, "new", NULL), read_only ? ENOENT : 0);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), !read_only);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 1);
        if (!read_only) /* a listing that the kernel may have read has a name more */
            assert_string_equal(x->changed, "1/ ");
        fx_age_listing(x, INODE_ROOT, 61);
        assert_int_equal(fx_lookup(x, "new", NULL), 0);
        fx_free(x);
    }
}

static void test_changed_in_the_store(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n, old;
    char told[64];
    fake_store_write(x->fake[0], "f", "1");
    fake_store_write(x->fake[0], "g", "1");
    assert_int_equal(fx_lookup(x, "f", &old), 0);
    inodes_ref(x->inodes, old.ino); /* the kernel has it: another version is another inode */
    fake_store_write(x->fake[0], "f", "22");
    fx_age(x, old.ino, 100);
    assert_int_equal(fx_lookup(x, "f", &n), 0);
    assert_true(n.ino != old.ino && n.size == 2);
    assert_string_equal(x->changed, "1/f ");
    assert_int_equal(inodes_get(x->inodes, old.ino, &old), 0);
    assert_true((old.flags & INODE_UNLINKED) && (old.flags & INODE_ORPHANED) && old.size == 1);

    x->changed[0] = '\0';
    uint64_t g = ino_of(x, "g");
    inodes_ref(x->inodes, g);
    fake_store_delete(x->fake[0], "g");
    fx_age(x, g, 100);
    assert_int_equal(fx_lookup(x, "g", NULL), ENOENT);
    snprintf(told, sizeof told, "1/g 1/ ");
    assert_string_equal(x->changed, told);
    assert_int_equal(inodes_get(x->inodes, g, &n), 0);
    assert_true((n.flags & INODE_UNLINKED) && (n.flags & INODE_ORPHANED));
    fx_free(x);
}

static void test_refresh(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_write(x->fake[0], "f", "1");
    fake_store_write(x->fake[0], "g", "1");
    uint64_t f = ino_of(x, "f"), g = ino_of(x, "g");
    fake_store_write(x->fake[0], "f", "22");
    assert_int_equal(tree_refresh(x->tree, f, &n, &e), 0);
    assert_true(n.size == 1 && fake_store_calls(x->fake[0], FAKE_STAT) == 0);
    fx_age(x, f, 100); /* no one in the kernel has it: the same inode is brought up to date */
    assert_int_equal(tree_refresh(x->tree, f, &n, &e), 0);
    assert_true(n.ino == f && n.size == 2);
    inodes_ref(x->inodes, f);
    fake_store_write(x->fake[0], "f", "333");
    fx_age(x, f, 100);
    assert_int_equal(tree_refresh(x->tree, f, &n, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    /* it has no name any more: what is known is all there is */
    assert_int_equal(tree_refresh(x->tree, f, &n, &e), 0);
    assert_true((n.flags & INODE_UNLINKED) && n.size == 2);
    inodes_ref(x->inodes, g);
    fake_store_delete(x->fake[0], "g");
    fx_age(x, g, 100);
    assert_int_equal(tree_refresh(x->tree, g, &n, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    assert_int_equal(tree_refresh(x->tree, 99999, &n, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    fx_free(x);
}

/* What is local here is not looked at, however old it is. */
static void test_ours(void **state)
{
    (void)state;
    static const unsigned ours[] = {INODE_LOCAL, INODE_STAGED, INODE_DIRTY};
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_write(x->fake[0], "f", "1");
    uint64_t f = ino_of(x, "f");
    fake_store_delete(x->fake[0], "f");
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        inodes_set(x->inodes, f, 0, NULL, ours[i], 0);
        fx_age(x, f, 1000);
        assert_int_equal(fx_lookup(x, "f", &n), 0);
        assert_int_equal(tree_refresh(x->tree, f, &n, &e), 0);
        assert_true(tree_valid_for(x->tree, &n, 30) == 30);
        inodes_set(x->inodes, f, 0, NULL, 0, ours[i]);
    }
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), 0);
    fx_free(x);
}

/* A store that cannot be reached: what was known is served; what was not fails, at once for a
 * while. */
static void test_store_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_write(x->fake[0], "f", "1");
    fake_store_mkdir(x->fake[0], "d");
    uint64_t f = ino_of(x, "f");
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, 0, 0, 1000);
    fake_store_fail(x->fake[0], FAKE_LIST, ERR_RETRY, 0, 0, 1000);
    fx_age(x, f, 100);
    assert_int_equal(fx_lookup(x, "f", &n), 0);
    assert_int_equal(n.size, 1);
    unsigned stats = fake_store_calls(x->fake[0], FAKE_STAT);
    assert_int_equal(stats, 1);
    assert_int_equal(fx_lookup(x, "f", &n), 0); /* it is left alone */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), stats);
    /* a listing of the last minute says what is absent, though it would be asked about otherwise */
    fx_age_listing(x, INODE_ROOT, 10);
    assert_int_equal(fx_lookup(x, "absent", NULL), ENOENT);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), stats);
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_lookup(x->tree, INODE_ROOT, "absent", &n, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_non_null(strstr(e.msg, "did not answer a moment ago"));
    assert_non_null(strstr(e.msg, "on purpose"));
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), stats);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 1);
    fx_free(x);
}

/* Refused is as good as down; a malformed answer is not. */
static void test_kinds_of_failure(void **state)
{
    (void)state;
    static const struct {
        enum err_class cls;
        bool served;
    } cases[] = {{ERR_RETRY, true}, {ERR_DENIED, true}, {ERR_INVALID, false}, {ERR_FATAL, false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(one_mount, false);
        struct inode n;
        struct err e = ERR_INIT;
        fake_store_write(x->fake[0], "f", "1");
        uint64_t f = ino_of(x, "f");
        fx_age(x, f, 100);
        fake_store_fail(x->fake[0], FAKE_STAT, cases[i].cls, 0, 0, 1);
        assert_int_equal(tree_lookup(x->tree, INODE_ROOT, "f", &n, &e), cases[i].served ? 0 : -1);
        assert_true(cases[i].served || e.cls == cases[i].cls);
        /* the next look-up asks again, unless the store is left alone */
        assert_int_equal(fx_lookup(x, "f", &n), 0);
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_STAT), cases[i].served ? 1 : 2);
        fx_free(x);
    }
}

/* One store that fails is not the other one. */
static void test_two_mounts(void **state)
{
    (void)state;
    struct fx *x = fx_new(apart, false);
    struct inode n;
    struct err e = ERR_INIT;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    fake_store_write(x->fake[0], "s/f", "1");
    fake_store_write(x->fake[1], "s/f", "22");
    assert_int_equal(fx_lookup(x, "data/a/s/f", &n), 0);
    assert_true(n.size == 1 && n.mount == 0);
    uint64_t f0 = n.ino;
    assert_int_equal(fx_lookup(x, "data/b/s/f", &n), 0);
    assert_true(n.size == 2 && n.mount == 1);
    uint64_t f1 = n.ino;
    assert_int_equal(tree_where(x->tree, f1, &store, &mount, path, &e), 0);
    assert_true(store == x->stores[1] && mount == 1);
    assert_string_equal(path, "s/f");
    fake_store_fail(x->fake[0], FAKE_STAT, ERR_RETRY, 0, 0, 1000);
    fx_age(x, f0, 100);
    fx_age(x, f1, 100);
    assert_int_equal(fx_lookup(x, "data/a/s/f", &n), 0);
    assert_int_equal(fx_lookup(x, "data/b/s/f", &n), 0);
    assert_int_equal(fake_store_calls(x->fake[1], FAKE_STAT), 1);
    /* above the mounts there is no store */
    uint64_t data = ino_of(x, "data");
    assert_int_equal(tree_where(x->tree, data, &store, &mount, path, &e), -1);
    assert_int_equal(err_errno(&e), EROFS);
    assert_int_equal(tree_where_child(x->tree, data, "new", &store, &mount, path, &e), -1);
    assert_int_equal(err_errno(&e), EROFS);
    assert_int_equal(fx_lookup(x, "data/c", NULL), ENOENT);
    assert_string_equal(fx_children(x, data), "a b ");
    fx_free(x);
}

/* A mount below another one: what is above it is there, whatever the outer store says. */
static void test_nested_mounts(void **state)
{
    (void)state;
    struct fx *x = fx_new(two_mounts, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_write(x->fake[0], "top", "1");
    fake_store_write(x->fake[1], "f", "22");
    assert_int_equal(fx_lookup(x, "in/ner/f", &n), 0);
    assert_true(n.mount == 1 && n.size == 2);
    uint64_t in = ino_of(x, "in");
    assert_int_equal(tree_fill_all(x->tree, in, &e), 0); /* the outer store has no such directory */
    assert_string_equal(fx_children(x, in), "ner ");
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_string_equal(fx_children(x, INODE_ROOT), "in top ");
    /* nor does a file of its name in the store hide it */
    fake_store_write(x->fake[0], "in", "file");
    fx_age_listing(x, INODE_ROOT, 100);
    assert_int_equal(tree_fill_all(x->tree, INODE_ROOT, &e), 0);
    assert_int_equal(ino_of(x, "in"), in);
    fx_free(x);
}

/* In whatever order they are configured, a directory on the way to an inner mount is the outer
 * one's. */
static void test_mounts_in_any_order(void **state)
{
    (void)state;
    struct fx *x = fx_new(inner_first, false);
    struct inode n;
    fake_store_write(x->fake[1], "mid/f", "1");
    fake_store_write(x->fake[0], "f", "22");
    assert_int_equal(fx_lookup(x, "in/mid", &n), 0);
    assert_int_equal(n.mount, 1);
    assert_int_equal(fx_lookup(x, "in/mid/f", &n), 0);
    assert_true(n.mount == 1 && n.size == 1);
    assert_int_equal(fx_lookup(x, "in/mid/ner/f", &n), 0);
    assert_true(n.mount == 0 && n.size == 2);
    fx_free(x);
}

static void test_where(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct err e = ERR_INIT;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX], name[INODE_NAME_MAX + 2];
    fake_store_write(x->fake[0], "d/f", "1");
    uint64_t d = ino_of(x, "d");
    assert_int_equal(tree_where_child(x->tree, d, "new", &store, &mount, path, &e), 0);
    assert_string_equal(path, "d/new");
    assert_int_equal(tree_where_child(x->tree, INODE_ROOT, "new", &store, &mount, path, &e), 0);
    assert_string_equal(path, "new");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(tree_where_child(x->tree, d, name, &store, &mount, path, &e), -1);
    assert_int_equal(err_errno(&e), ENAMETOOLONG);
    assert_int_equal(fx_lookup(x, name, NULL), ENAMETOOLONG);
    assert_int_equal(fx_lookup(x, "d/f/g", NULL), ENOTDIR);
    inodes_ref(x->inodes, d);
    inodes_remove(x->inodes, d);
    struct inode n;
    assert_int_equal(tree_lookup(x->tree, d, "f", &n, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    assert_int_equal(tree_where(x->tree, d, &store, &mount, path, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    struct store *was = x->stores[0];
    x->stores[0] = NULL; /* it cannot be used */
    assert_int_equal(tree_where(x->tree, INODE_ROOT, &store, &mount, path, &e), -1);
    assert_int_equal(err_errno(&e), EIO);
    assert_false(tree_writable(x->tree, 0));
    x->stores[0] = was;
    assert_true(tree_writable(x->tree, 0));
    assert_false(tree_writable(x->tree, 1));
    struct fake_store *sealed = fake_store_new(0); /* one that takes nothing */
    x->stores[0] = fake_store(sealed);
    assert_false(tree_writable(x->tree, 0));
    x->stores[0] = was;
    fake_store_free(sealed);
    x->mounts[0].read_only = true;
    assert_false(tree_writable(x->tree, 0));
    fx_free(x);
}

/* For how long the kernel may keep what it was told. */
static void test_valid_for(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, false);
    struct inode n;
    struct err e = ERR_INIT;
    fake_store_write(x->fake[0], "d/f", "1");
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_true(tree_valid_for(x->tree, &n, 5) == 5);
    fx_age(x, n.ino, 40);
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    double left = tree_valid_for(x->tree, &n, 1000);
    assert_true(left > 17 && left <= 20);
    fx_age(x, n.ino, 61);
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    assert_true(tree_valid_for(x->tree, &n, 1000) == 0);

    /* a directory no longer than its listing, as long as that is fresh */
    assert_int_equal(fx_lookup(x, "d", &n), 0);
    assert_false(tree_is_old(x->tree, &n));
    fx_age_listing(x, n.ino, 50);
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    left = tree_valid_for(x->tree, &n, 1000);
    assert_true(left > 7 && left <= 10);
    left = tree_absence_valid_for(x->tree, n.ino, 1000);
    assert_true(left > 7 && left <= 10);
    assert_true(tree_absence_valid_for(x->tree, n.ino, 3) == 3);
    assert_false(tree_is_old(x->tree, &n));
    fx_age_listing(x, n.ino, 61);
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    assert_true(tree_is_old(x->tree, &n));
    assert_true(tree_valid_for(x->tree, &n, 1000) > 50); /* of its own: it says nothing here */
    assert_true(tree_absence_valid_for(x->tree, n.ino, 1000) == 1000);
    assert_true(tree_absence_valid_for(x->tree, 99999, 1000) == 0);
    assert_int_equal(tree_fill_all(x->tree, n.ino, &e), 0);
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    assert_false(tree_is_old(x->tree, &n));
    fx_free(x);
}

/* One mount that does not change while it is mounted beside one that may. */
static void test_immutable(void **state)
{
    (void)state;
    static const char *const paths[] = {"/images", "/labels", NULL};
    struct fx *x = fx_new(paths, true);
    struct inode n, images, labels;
    struct err e = ERR_INIT;
    x->mounts[0].immutable = CONF_IMMUTABLE_TRUE;
    x->mounts[1].immutable = CONF_IMMUTABLE_FALSE;
    for (int i = 0; i < 2; i++)
        fake_store_write(x->fake[i], "f", "1");
    assert_int_equal(fx_lookup(x, "images", &images), 0);
    assert_int_equal(fx_lookup(x, "labels", &labels), 0);
    for (int i = 0; i < 2; i++) {
        const char *file = i ? "labels/f" : "images/f", *none = i ? "labels/g" : "images/g";
        uint64_t dir = i ? labels.ino : images.ino;
        assert_int_equal(fx_lookup(x, file, &n), 0);
        assert_int_equal(fx_lookup(x, none, NULL), ENOENT);
        assert_int_equal(tree_fill_all(x->tree, dir, &e), 0);
        fx_age(x, n.ino, 900);
        fx_age_listing(x, dir, 900);
        fake_store_write(x->fake[i], "f", "another");
        fake_store_write(x->fake[i], "g", "new");
        unsigned before = fake_store_calls(x->fake[i], FAKE_LIST)
            + fake_store_calls(x->fake[i], FAKE_STAT);
        assert_int_equal(fx_lookup(x, file, &n), 0);
        assert_int_equal(n.size, i ? 7 : 1);
        assert_int_equal(fx_lookup(x, none, NULL), i ? 0 : ENOENT);
        assert_int_equal(tree_fill_all(x->tree, dir, &e), 0);
        assert_int_equal(
            fake_store_calls(x->fake[i], FAKE_LIST) + fake_store_calls(x->fake[i], FAKE_STAT)
                == before,
            i == 0);
    }
    fx_free(x);
}

/* It changes all the same, and a read finds that out: the kernel forgets it, and it is looked up.
 */
static void test_doubt(void **state)
{
    (void)state;
    struct fx *x = fx_new(one_mount, true);
    struct inode n, d;
    x->mounts[0].immutable = CONF_IMMUTABLE_TRUE;
    fake_store_write(x->fake[0], "d/f", "1");
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_int_equal(fx_lookup(x, "d", &d), 0);
    fake_store_write(x->fake[0], "d/f", "other");
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_int_equal(n.size, 1);
    x->changed[0] = '\0';
    tree_doubt(x->tree, n.ino);
    cleanup_free char *told = xasprintf("%llu/f ", (unsigned long long)d.ino);
    assert_string_equal(x->changed, told);
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_int_equal(n.size, 5);
    tree_doubt(x->tree, 99999); /* it is gone */
    fx_free(x);
}

/* The kernel may believe it for an hour, whatever may be written beside it. */
static void test_immutable_valid_for(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/labels", NULL};
    struct fx *x = fx_new(paths, false);
    struct inode n, root;
    x->mounts[0].read_only = true;
    x->mounts[0].immutable = CONF_IMMUTABLE_TRUE;
    fake_store_write(x->fake[0], "d/f", "1");
    fake_store_write(x->fake[1], "f", "1");
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    fx_age(x, n.ino, 900);
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    assert_true(tree_valid_for(x->tree, &n, 1) == 3600);
    assert_int_equal(fx_lookup(x, "d/g", NULL), ENOENT);
    assert_int_equal(inodes_get(x->inodes, n.parent, &root), 0);
    assert_false(tree_is_old(x->tree, &root));
    assert_true(tree_absence_valid_for(x->tree, root.ino, 1) == 3600);
    assert_int_equal(fx_lookup(x, "labels/f", &n), 0); /* a mount inside of it is not it */
    assert_true(tree_valid_for(x->tree, &n, 1) == 1);
    /* known from before it was mounted: it may have changed in between */
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    fx_age(x, n.ino, FX_MOUNTED_S + 60); /* more than this test takes */
    assert_int_equal(inodes_get(x->inodes, n.ino, &n), 0);
    assert_true(tree_valid_for(x->tree, &n, 1) == 0);
    fake_store_write(x->fake[0], "d/f", "other");
    assert_int_equal(fx_lookup(x, "d/f", &n), 0);
    assert_int_equal(n.size, 5);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_changed_in_the_store),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_ours),
        cmocka_unit_test(test_store_fails),
        cmocka_unit_test(test_kinds_of_failure),
        cmocka_unit_test(test_two_mounts),
        cmocka_unit_test(test_nested_mounts),
        cmocka_unit_test(test_mounts_in_any_order),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_valid_for),
        cmocka_unit_test(test_immutable),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_immutable_valid_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
