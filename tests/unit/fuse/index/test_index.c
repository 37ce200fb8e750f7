/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/index/index.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[] = "/tmp/millrace-index.XXXXXX";
static char path[64];

static struct inodes *open_index(uint64_t identity, bool resume, bool *fresh)
{
    struct inodes_conf c = {.path = path,
        .identity = identity,
        .resume = resume,
        .uid = 7,
        .gid = 8,
        .dir_mode = 0755,
        .file_mode = 0644};
    struct err e = ERR_INIT;
    bool f;
    struct inodes *ix = inodes_open(&c, fresh ? fresh : &f, &e);
    if (!ix && !resume)
        fail_msg("%s", e.msg);
    return ix;
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/index", dir);
    unlink(path);
    return 0;
}

static struct store_stat file_stat(uint64_t size, const char *version)
{
    struct store_stat st = {.size = size, .mtime_ns = 1000};
    snprintf(st.version, sizeof st.version, "%s", version);
    return st;
}

static uint64_t put(struct inodes *ix, uint64_t d, const char *name, const struct store_stat *st,
    uint32_t now, enum inodes_change want)
{
    struct inode n;
    struct err e = ERR_INIT;
    enum inodes_change change;
    if (inodes_put(ix, d, name, st, now, &n, &change, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(change, want);
    return n.ino;
}

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

static void test_replace_and_forget(void **state)
{
    (void)state;
    struct inodes *ix = open_index(1, false, NULL);
    struct store_stat a = file_stat(5, "v1"), b = file_stat(6, "v2");
    struct inode n;
    uint64_t first = put(ix, INODE_ROOT, "f", &a, 10, INODES_NEW);
    /* the kernel does not know it: no harm */
    assert_int_equal(put(ix, INODE_ROOT, "f", &b, 11, INODES_UPDATED), first);
    inodes_ref(ix, first);
    uint64_t second = put(ix, INODE_ROOT, "f", &a, 12, INODES_REPLACED);
    assert_int_not_equal(first, second);
    assert_int_equal(inodes_get(ix, first, &n), 0);
    /* nobody opens it for writing */
    assert_int_equal(n.flags & (INODE_GONE | INODE_LOST), INODE_GONE | INODE_LOST);
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
    inodes_listed(ix, dirno, 20, NULL, NULL); /* a listing that showed neither */
    assert_int_equal(inodes_get(ix, old, &n), -1);
    assert_int_equal(inodes_get(ix, mine, &n), 0);
    /* nor the directory: but what nobody else has is in it */
    inodes_listed(ix, INODE_ROOT, 20, NULL, NULL);
    assert_int_equal(inodes_get(ix, dirno, &n), 0);
    assert_int_equal(n.listed_s, 20);
    put(ix, dirno, "new", &f, 30, INODES_SAME); /* the store's is older than ours */
    inodes_set(ix, mine, 0, NULL, 0, INODE_LOCAL | INODE_STAGED | INODE_DIRTY);
    inodes_listed(ix, INODE_ROOT, 40, NULL, NULL);
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
    assert_int_equal(inodes_put(ix, INODE_ROOT, longest, &st, 1, &n, &change, &e), -1);
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
    assert_int_equal(inodes_put(ix, INODE_ROOT, "a/b", &st, 1, &n, &change, &e), -1);
    assert_int_equal(inodes_put(ix, INODE_ROOT, "", &st, 1, &n, &change, &e), -1);
    inodes_close(ix, true);
}

/* ---- random operations against a shadow ---- */

#define SLOTS 400
struct shadow {
    bool used, is_dir;
    unsigned parent; /* slot; 0 is the root */
    char name[24];
    uint64_t ino, size;
};

static unsigned kids_of(const struct shadow *s, unsigned slot)
{
    unsigned n = 0;
    for (unsigned i = 1; i < SLOTS; i++)
        n += s[i].used && s[i].parent == slot;
    return n;
}

static unsigned find_shadow(const struct shadow *s, unsigned parent, const char *name)
{
    for (unsigned i = 1; i < SLOTS; i++)
        if (s[i].used && s[i].parent == parent && strcmp(s[i].name, name) == 0)
            return i;
    return 0;
}

static void drop_shadow(struct shadow *s, unsigned slot)
{
    for (unsigned i = 1; i < SLOTS; i++)
        if (s[i].used && s[i].parent == slot && i != slot)
            drop_shadow(s, i);
    s[slot].used = false;
}

static bool is_below(const struct shadow *s, unsigned slot, unsigned top)
{
    while (slot && slot != top)
        slot = s[slot].parent;
    return slot == top;
}

static int count_all(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)child;
    (void)cookie;
    ++*(unsigned *)user;
    return 0;
}

static void compare(struct inodes *ix, const struct shadow *s)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!s[i].used)
            continue;
        struct inode n;
        assert_int_equal(inodes_get(ix, s[i].ino, &n), 0);
        if (i) {
            assert_true(inodes_find(ix, s[s[i].parent].ino, s[i].name, &n));
            assert_int_equal(n.ino, s[i].ino);
            if (!s[i].is_dir)
                assert_int_equal(n.size, s[i].size);
        }
        if (i == 0 || s[i].is_dir) {
            unsigned count = 0;
            inodes_children(ix, s[i].ino, 0, false, count_all, &count);
            assert_int_equal(count, kids_of(s, i));
            inodes_get(ix, s[i].ino, &n);
            assert_int_equal(n.nchildren, count);
        }
    }
}

static unsigned pick_dir(const struct shadow *s, unsigned *seed)
{
    for (int tries = 0; tries < 50; tries++) {
        unsigned i = (unsigned)rand_r(seed) % SLOTS;
        if (s[i].used && (i == 0 || s[i].is_dir))
            return i;
    }
    return 0;
}

/* One change in both. */
static void step(struct inodes *ix, struct shadow *s, unsigned *seed)
{
    struct err e = ERR_INIT;
    unsigned d = pick_dir(s, seed), what = (unsigned)rand_r(seed) % 10,
             slot = 1 + (unsigned)rand_r(seed) % (SLOTS - 1);
    char name[24];
    snprintf(
        name, sizeof name, "name-%u%s", (unsigned)rand_r(seed) % 60, what & 1 ? "-with-more" : "");
    unsigned there = find_shadow(s, d, name);
    if (what < 5) {
        bool is_dir = rand_r(seed) % 3 == 0;
        if (there || s[slot].used)
            return;
        char version[40];
        snprintf(version, sizeof version, "%08x%08x%08x%08x", (unsigned)rand_r(seed),
            (unsigned)rand_r(seed), 1u, 2u);
        struct store_stat st = file_stat((uint64_t)rand_r(seed), version);
        st.is_dir = is_dir;
        uint64_t ino = put(ix, s[d].ino, name, &st, 1, INODES_NEW);
        s[slot] = (struct shadow){
            .used = true, .is_dir = is_dir, .parent = d, .ino = ino, .size = is_dir ? 0 : st.size};
        memcpy(s[slot].name, name, sizeof name);
    } else if (what < 7) {
        if (!s[slot].used)
            return;
        inodes_remove(ix, s[slot].ino);
        drop_shadow(s, slot);
    } else if (what == 7) {
        struct inode n;
        if (!s[slot].used || s[slot].is_dir)
            return;
        assert_int_equal(inodes_renew(ix, s[slot].ino, &e), 0);
        assert_true(inodes_find(ix, s[s[slot].parent].ino, s[slot].name, &n));
        s[slot].ino = n.ino;
    } else {
        if (!s[slot].used || is_below(s, d, slot) || there == slot
            || (there && (is_below(s, slot, there) || kids_of(s, there))))
            return;
        assert_int_equal(inodes_rename(ix, s[slot].ino, s[d].ino, name, &e), 0);
        if (there)
            drop_shadow(s, there);
        s[slot].parent = d;
        memcpy(s[slot].name, name, sizeof name);
    }
}

static void test_random(void **state)
{
    (void)state;
    unsigned seed = (unsigned)time(NULL);
    print_message("# seed %u\n", seed);
    struct shadow *s = xcalloc(SLOTS, sizeof *s);
    struct inodes *ix = open_index(1, false, NULL);
    s[0] = (struct shadow){.used = true, .is_dir = true, .ino = INODE_ROOT};
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 500; i++)
            step(ix, s, &seed);
        compare(ix, s);
        bool fresh;
        if (round % 10 == 3) { /* taken over by another process, or mounted again */
            inodes_close(ix, round % 20 == 3);
            ix = open_index(1, round % 20 != 3, &fresh);
            assert_false(fresh);
            compare(ix, s);
        }
    }
    struct inodes_stats st;
    inodes_stats(ix, &st);
    assert_true(st.records < 2 * SLOTS); /* records are used again */
    inodes_close(ix, true);
    free(s);
}

/* A child makes changes until it is killed; whatever it was doing, the index is whole afterwards.
 */
static void test_killed(void **state)
{
    (void)state;
    for (int round = 0; round < 25; round++) {
        inodes_close(open_index(1, false, NULL), true);
        pid_t pid = fork();
        if (pid == 0) {
            struct shadow *s = xcalloc(SLOTS, sizeof *s);
            unsigned seed = (unsigned)round * 77 + 5;
            struct inodes *ix = open_index(1, false, NULL);
            for (;;) {
                memset(s, 0, SLOTS * sizeof *s);
                s[0] = (struct shadow){.used = true, .is_dir = true, .ino = INODE_ROOT};
                for (int i = 0; i < 2000; i++)
                    step(ix, s, &seed);
                drop_shadow(s, 0);
                struct inode n;
                for (unsigned i = 0; i < 60; i++)
                    for (int more = 0; more < 2; more++) {
                        char name[24];
                        snprintf(name, sizeof name, "name-%u%s", i, more ? "-with-more" : "");
                        if (inodes_find(ix, INODE_ROOT, name, &n))
                            inodes_remove(ix, n.ino);
                    }
            }
        }
        assert_true(pid > 0);
        usleep((useconds_t)(20000 + round * 3000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        bool fresh;
        struct inodes *ix = open_index(1, true, &fresh);
        assert_non_null(ix);
        assert_false(fresh);
        /* every name that can be listed can be found, and goes away when it is removed */
        struct inode root, n;
        struct inodes_stats st;
        inodes_get(ix, INODE_ROOT, &root);
        unsigned listed = 0;
        inodes_children(ix, INODE_ROOT, 0, false, count_all, &listed);
        assert_int_equal(listed, root.nchildren);
        for (unsigned i = 0; i < 60; i++)
            for (int more = 0; more < 2; more++) {
                char name[24];
                snprintf(name, sizeof name, "name-%u%s", i, more ? "-with-more" : "");
                if (inodes_find(ix, INODE_ROOT, name, &n)) {
                    inodes_remove(ix, n.ino);
                    listed--;
                }
            }
        assert_int_equal(listed, 0);
        inodes_stats(ix, &st);
        assert_int_equal(st.inodes, 1);
        inodes_close(ix, true);
    }
}

static void test_distrust(void **state)
{
    (void)state;
    struct store_stat st = file_stat(1, "v");
    struct inode n;
    bool fresh;
    struct inodes *ix = open_index(1, false, &fresh);
    assert_true(fresh);
    put(ix, INODE_ROOT, "f", &st, 1, INODES_NEW);
    inodes_close(ix, true);
    ix = open_index(1, false, &fresh);
    assert_false(fresh);
    assert_true(inodes_find(ix, INODE_ROOT, "f", &n));
    inodes_close(ix, false); /* as if it had crashed, and nobody took the mount over */
    ix = open_index(1, false, &fresh);
    assert_true(fresh);
    assert_false(inodes_find(ix, INODE_ROOT, "f", &n));
    inodes_close(ix, true);
    ix = open_index(2, false, &fresh); /* another dataset */
    assert_true(fresh);
    inodes_close(ix, true);
    assert_null(open_index(3, true, &fresh));
    for (int at = 0; at < 200; at += 4) { /* garbage anywhere in the head is found out */
        unlink(path);
        ix = open_index(2, false, &fresh);
        put(ix, INODE_ROOT, "f", &st, 1, INODES_NEW);
        inodes_close(ix, true);
        int fd = open(path, O_RDWR);
        uint32_t junk = 0xfffffff1u ^ (uint32_t)at;
        assert_int_equal(pwrite(fd, &junk, sizeof junk, at), sizeof junk);
        close(fd);
        ix = open_index(2, false, &fresh);
        assert_non_null(ix);
        /* "closed in good order", whatever it says but no; the checksum does not count it */
        bool harmless = at == 64;
        if (fresh == harmless || inodes_find(ix, INODE_ROOT, "f", &n) != harmless)
            fail_msg("garbage at %d: it is %s", at, fresh ? "made anew" : "trusted");
        put(ix, INODE_ROOT, "f", &st, 1, harmless ? INODES_SAME : INODES_NEW);
        put(ix, INODE_ROOT, "g", &st, 1, INODES_NEW);
        inodes_close(ix, true);
        ix = open_index(2, false, &fresh); /* what was made anew is good */
        assert_false(fresh);
        assert_true(inodes_find(ix, INODE_ROOT, "g", &n));
        inodes_close(ix, true);
    }
    static const off_t where[] = {96, 232, 300, 1 << 20, (1 << 20) + 96, (1 << 20) + 96 * 3,
        INT64_C(24) << 30, INT64_C(56) << 30};
    for (size_t i = 0; i < ARRAY_LEN(where); i++) { /* a single bit of whatever is in use */
        unlink(path);
        ix = open_index(2, false, &fresh);
        put(ix, INODE_ROOT, "a", &st, 1, INODES_NEW);
        put(ix, INODE_ROOT, "b", &st, 1, INODES_NEW);
        inodes_close(ix, true);
        int fd = open(path, O_RDWR);
        unsigned char byte = 0;
        assert_int_equal(pread(fd, &byte, 1, where[i] + 8), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, where[i] + 8), 1);
        close(fd);
        ix = open_index(2, false, &fresh);
        assert_true(fresh);
        inodes_close(ix, true);
    }
    assert_int_equal(truncate(path, 100), 0);
    ix = open_index(2, false, &fresh);
    assert_true(fresh);
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
    assert_in_range(on_disk.st_blocks * 512, N * 116, N * 116 * 5 / 4 + (3 << 20));
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
            inodes_put(ix, INODE_ROOT, name, &st, 1, &n, &change, &e);
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
        cmocka_unit_test_setup(test_replace_and_forget, setup),
        cmocka_unit_test_setup(test_precious, setup),
        cmocka_unit_test_setup(test_cookies, setup),
        cmocka_unit_test_setup(test_names, setup),
        cmocka_unit_test_setup(test_random, setup),
        cmocka_unit_test_setup(test_killed, setup),
        cmocka_unit_test_setup(test_distrust, setup),
        cmocka_unit_test_setup(test_size, setup),
        cmocka_unit_test_setup(test_threads, setup),
    };
    if (!mkdtemp(dir))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(dir, NULL);
    return rc;
}
