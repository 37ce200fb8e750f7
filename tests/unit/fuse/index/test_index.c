/* SPDX-License-Identifier: Apache-2.0 */
/* Names, versions, references and listings of one index, and many threads in it. */
#include "tests/unit/fuse/index/index_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

static void test_versions(void **state)
{
    (void)state;
    static const char *const versions[] = {
        "",
        "a",
        "d41d8cd98f00b204e9800998ecf8427e",
        "D41D8CD98F00B204E9800998ECF8427E",
        "d41d8cd98f00b204e9800998ecf8427e-17",
        "d41d8cd98f00b204e9800998ecf8427e-017",
        "d41d8cd98f00b204e9800998ecf8427e-4294967296",
        "123456-1700000000123456789",
        "0123456-1700000000123456789",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "exactly-twenty-bytes",
        "exactly-twentyone-byte",
        "\"weird W/ etag that is long enough to need the heap, seventy-nine bytes of it..\"",
        "18446744073709551616-1-2-3-4-5",
    };
    struct inodes *ix = open_index(1, false, NULL);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
            char name[16];
            struct inode n;
            struct store_stat st = file_stat(
                i, versions[(i + (size_t)round) % ARRAY_LEN(versions)]);
            snprintf(name, sizeof name, "f%zu", i);
            put(ix, INODE_ROOT, name, &st, 1, round ? INODES_UPDATED : INODES_NEW);
            assert_true(inodes_find(ix, INODE_ROOT, name, &n));
            assert_string_equal(n.version, st.version);
            put(ix, INODE_ROOT, name, &st, 1, INODES_SAME);
        }
    inodes_close(ix, true);
}

/* What a store says of attributes holds, and is no more when it is no more; what it does not know
 * of, or what waits here to be told to it, stays. */
static void test_attributes(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat a = file_stat(5, "v1"), unknown = a;
    struct inode n;
    a.attr_known = true;
    a.attr = (struct store_attr){.has = STORE_MODE, .mode = 0751};
    uint64_t ino = put(ix, INODE_ROOT, "f", &a, 10, INODES_NEW);
    assert_int_equal(inodes_get(ix, ino, &n), 0);
    assert_true(n.mode == (S_IFREG | 0751) && n.uid == 7 && n.gid == 8 && n.attr == STORE_MODE);
    inodes_ref(ix, ino);
    put(ix, INODE_ROOT, "f", &unknown, 11, INODES_SAME);
    assert_int_equal(inodes_get(ix, ino, &n), 0);
    assert_int_equal(n.mode, S_IFREG | 0751);
    a.attr = (struct store_attr){.has = STORE_OWNER, .uid = 70, .gid = 80};
    put(ix, INODE_ROOT, "f", &a, 12, INODES_SAME);
    assert_int_equal(inodes_get(ix, ino, &n), 0);
    assert_true(n.mode == (S_IFREG | 0644) && n.uid == 70 && n.gid == 80 && n.attr == STORE_OWNER);
    n.mode = 0600;
    n.attr = STORE_MODE | STORE_OWNER;
    n.untold = STORE_MODE;
    inodes_set(ix, ino, INODES_MODE | INODES_ATTR, &n, 0, 0);
    a.attr = (struct store_attr){.has = STORE_MODE, .mode = 0777};
    put(ix, INODE_ROOT, "f", &a, 13, INODES_SAME);
    inodes_close(ix, true);
    ix = open_index(1, false, NULL);
    assert_true(inodes_find(ix, INODE_ROOT, "f", &n));
    assert_true(n.mode == (S_IFREG | 0600) && n.uid == 7 && n.gid == 8);
    assert_true(n.attr == STORE_MODE && n.untold == STORE_MODE);
    inodes_close(ix, true);
}

static void test_replace_and_forget(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat a = file_stat(5, "v1"), b = file_stat(6, "v2");
    struct inode n;
    uint64_t first = put(ix, INODE_ROOT, "f", &a, 10, INODES_NEW);
    assert_int_equal(inodes_get(ix, first, &n), 0);
    uint64_t was = n.generation;
    /* the kernel does not know it: no harm, but a file of the old version is not of the new one */
    assert_int_equal(put(ix, INODE_ROOT, "f", &b, 11, INODES_UPDATED), first);
    assert_int_equal(inodes_get(ix, first, &n), 0);
    assert_true(n.generation > was);
    inodes_ref(ix, first);
    uint64_t second = put(ix, INODE_ROOT, "f", &a, 12, INODES_REPLACED);
    assert_int_not_equal(first, second);
    assert_int_equal(inodes_get(ix, first, &n), 0);
    /* nobody opens it for writing */
    assert_int_equal(n.flags & (INODE_UNLINKED | INODE_ORPHANED), INODE_UNLINKED | INODE_ORPHANED);
    assert_string_equal(n.version, "v2"); /* who has it open still sees what he opened */
    uint64_t generation = n.generation;
    inodes_opened(ix, first, 1);
    inodes_forget(ix, first, 1);
    assert_int_equal(inodes_get(ix, first, &n), 0); /* still open */
    inodes_opened(ix, first, -1);
    assert_int_equal(inodes_get(ix, first, &n), -1);
    struct store_stat d = {.is_dir = true};
    /* the record is used again … */
    assert_int_equal(put(ix, INODE_ROOT, "d", &d, 12, INODES_NEW), first);
    inodes_get(ix, first, &n);
    assert_int_equal(n.generation, generation + 1); /* … and can be told apart */
    inodes_close(ix, true);
}

static void test_precious(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat d = {.is_dir = true}, f = file_stat(5, "v1");
    struct err e = ERR_INIT;
    uint64_t dirno = put(ix, INODE_ROOT, "d", &d, 10, INODES_NEW);
    uint64_t old = put(ix, dirno, "old", &f, 10, INODES_NEW);
    struct inode like = {.flags = INODE_LOCAL | INODE_STAGED | INODE_DIRTY,
                     .mode = S_IFREG | 0600,
                     .synced_s = 1},
                 n;
    assert_int_equal(inodes_create(ix, dirno, "new", &like, &n, &e), 0);
    uint64_t mine = n.ino;
    assert_int_equal(inodes_create(ix, dirno, "new", &like, &n, &e), -1);
    assert_int_equal(err_errno(&e), EEXIST);
    inodes_listed(ix, dirno, INODES_NOW, 20, NULL, NULL); /* a listing that showed neither */
    assert_int_equal(inodes_get(ix, old, &n), -1);
    assert_int_equal(inodes_get(ix, mine, &n), 0);
    /* nor the directory: but what nobody else has is in it */
    inodes_listed(ix, INODE_ROOT, INODES_NOW, 20, NULL, NULL);
    assert_int_equal(inodes_get(ix, dirno, &n), 0);
    assert_int_equal(n.listed_s, 20);
    put(ix, dirno, "new", &f, 30, INODES_SAME); /* the store's is older than ours */
    inodes_set(ix, mine, 0, NULL, 0, INODE_LOCAL | INODE_STAGED | INODE_DIRTY);
    inodes_listed(ix, INODE_ROOT, INODES_NOW, 40, NULL, NULL);
    assert_int_equal(inodes_get(ix, dirno, &n), -1);
    assert_int_equal(inodes_get(ix, mine, &n), -1);
    inodes_close(ix, true);
}

static int count_child(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)child;
    ((uint64_t *)user)[0]++;
    ((uint64_t *)user)[1] = cookie;
    return ((uint64_t *)user)[0] % 10 == 0;
}

static void test_cookies(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat st = file_stat(1, "v");
    char name[32];
    uint64_t seen[2] = {0, 0}, before = 1;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        put(ix, INODE_ROOT, name, &st, 1, INODES_NEW);
    }
    /* rm -r: ten are read, then removed, the position being that of one which is gone */
    while (seen[0] != before) {
        before = seen[0];
        inodes_children(ix, INODE_ROOT, seen[1], false, count_child, seen);
        for (uint64_t i = before; i < seen[0]; i++) {
            struct inode n;
            snprintf(name, sizeof name, "n%llu", (unsigned long long)i);
            assert_true(inodes_find(ix, INODE_ROOT, name, &n));
            inodes_remove(ix, n.ino);
        }
    }
    assert_int_equal(seen[0], 1000);
    struct inode root;
    inodes_get(ix, INODE_ROOT, &root);
    assert_int_equal(root.nchildren, 0);
    inodes_close(ix, true);
}

static void test_names(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat st = file_stat(1, "v"), d = {.is_dir = true};
    struct err e = ERR_INIT;
    struct inode n;
    enum inodes_change change;
    char longest[INODE_NAME_MAX + 2], every[256], got[INODE_PATH_MAX];
    memset(longest, 'x', sizeof longest);
    longest[INODE_NAME_MAX + 1] = '\0';
    assert_int_equal(inodes_put(ix, INODE_ROOT, longest, &st, INODES_NOW, 1, &n, &change, &e), -1);
    assert_int_equal(err_errno(&e), ENAMETOOLONG);
    longest[INODE_NAME_MAX] = '\0';
    put(ix, INODE_ROOT, longest, &st, 1, INODES_NEW);
    size_t len = 0;
    for (int c = 1; c < 256; c++)
        if (c != '/')
            every[len++] = (char)c;
    every[len] = '\0';
    uint64_t ino = put(ix, INODE_ROOT, every, &st, 1, INODES_NEW);
    unsigned mount;
    assert_int_equal(inodes_path(ix, ino, got, &mount, &e), 0);
    assert_string_equal(got, every);
    uint64_t at = put(ix, INODE_ROOT, "deep", &d, 1, INODES_NEW);
    for (int i = 0; i < 14; i++)
        at = put(ix, at, longest, &d, 1, INODES_NEW);
    assert_int_equal(inodes_path(ix, at, got, &mount, &e), 0);
    assert_int_equal(strlen(got), 4 + 14 * 256);
    for (int i = 0; i < 3; i++)
        at = put(ix, at, longest, &d, 1, INODES_NEW);
    assert_int_equal(inodes_path(ix, at, got, &mount, &e), -1);
    assert_int_equal(err_errno(&e), ENAMETOOLONG);
    assert_int_equal(inodes_put(ix, INODE_ROOT, "a/b", &st, INODES_NOW, 1, &n, &change, &e), -1);
    assert_int_equal(inodes_put(ix, INODE_ROOT, "", &st, INODES_NOW, 1, &n, &change, &e), -1);
    inodes_close(ix, true);
}

static void test_size(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat st = file_stat(123456, "d41d8cd98f00b204e9800998ecf8427e");
    char name[32];
    enum { N = 100000 };
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%016d", i);
        put(ix, INODE_ROOT, name, &st, 1, INODES_NEW);
    }
    struct inodes_stats s;
    inodes_stats(ix, &s);
    struct stat on_disk;
    assert_int_equal(stat(path, &on_disk), 0);
    assert_int_equal(s.inodes, N + 1);
    assert_int_equal(s.name_bytes, N * 16);
    /* 100 bytes and the name, and what is reserved ahead */
    assert_in_range(on_disk.st_blocks * 512, N * 116, N * 116 * 5 / 4 + (16 << 20));
    inodes_close(ix, true);
}

static void *hammer(void *arg)
{
    struct inodes *ix = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 20000; i++) {
        char name[16];
        struct inode n;
        struct err e = ERR_INIT;
        enum inodes_change change;
        snprintf(name, sizeof name, "f%d", rand_r(&seed) % 50);
        struct store_stat st = file_stat(
            (uint64_t)rand_r(&seed) % 3, rand_r(&seed) % 2 ? "a" : "b");
        switch (rand_r(&seed) % 6) {
        case 0:
            inodes_put(ix, INODE_ROOT, name, &st, INODES_NOW, 1, &n, &change, &e);
            break;
        case 1:
            if (inodes_find(ix, INODE_ROOT, name, &n)) {
                inodes_ref(ix, n.ino);
                inodes_forget(ix, n.ino, 1);
            }
            break;
        case 2:
            if (inodes_find(ix, INODE_ROOT, name, &n))
                inodes_remove(ix, n.ino);
            break;
        case 3:
            inodes_find(ix, INODE_ROOT, name, &n);
            break;
        case 4: {
            unsigned count = 0;
            inodes_children(ix, INODE_ROOT, 0, false, count_all, &count);
            break;
        }
        default:
            if (inodes_find(ix, INODE_ROOT, name, &n))
                inodes_set(ix, n.ino, INODES_SIZE, &n, 0, 0);
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    pthread_t t[4];
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, hammer, ix), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    struct inode root;
    unsigned count = 0;
    inodes_children(ix, INODE_ROOT, 0, false, count_all, &count);
    inodes_get(ix, INODE_ROOT, &root);
    assert_int_equal(root.nchildren, count);
    inodes_close(ix, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_versions, setup),
        cmocka_unit_test_setup(test_attributes, setup),
        cmocka_unit_test_setup(test_replace_and_forget, setup),
        cmocka_unit_test_setup(test_precious, setup),
        cmocka_unit_test_setup(test_cookies, setup),
        cmocka_unit_test_setup(test_names, setup),
        cmocka_unit_test_setup(test_size, setup),
        cmocka_unit_test_setup(test_threads, setup),
    };
    return run_index_tests(tests, sizeof tests / sizeof *tests);
}
