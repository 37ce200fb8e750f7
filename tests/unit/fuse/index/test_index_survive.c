/* SPDX-License-Identifier: Apache-2.0 */
/* What an index is after operations in random order, against a shadow of it, after a process that
 * was killed in the middle of one, and after its file was tampered with. */
#include "tests/unit/fuse/index/index_unit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

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

/* Inodes of two indexes have the same numbers: what tells them apart stays as long as the index,
 * and comes with the first use of one that an earlier version has made. */
static void test_epoch(void **state)
{
    (void)state;
    bool fresh;
    struct inodes *ix = open_index(1, false, &fresh);
    uint64_t first = inodes_epoch(ix);
    assert_true(first != 0);
    inodes_close(ix, false);
    ix = open_index(1, true, &fresh); /* the next process */
    assert_true(inodes_epoch(ix) == first);
    inodes_close(ix, true);
    ix = open_index(1, false, &fresh); /* the next mount, of the same index */
    assert_false(fresh);
    assert_true(inodes_epoch(ix) == first);
    inodes_close(ix, false);
    ix = open_index(1, false, &fresh); /* another index */
    assert_true(fresh);
    uint64_t second = inodes_epoch(ix);
    assert_true(second != 0 && second != first);
    inodes_close(ix, true);
    char head[4096];
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    char *at = memmem(head, sizeof head, &second, sizeof second);
    assert_non_null(at);
    assert_int_equal(pwrite(fd, &(uint64_t){0}, 8, at - head), 8);
    close(fd);
    ix = open_index(1, false, &fresh);
    assert_false(fresh);
    assert_true(inodes_epoch(ix) != 0 && inodes_epoch(ix) != second);
    inodes_close(ix, true);
}

/* What is not in the store yet is found by its notes, which tell what a power cut has left of it:
 * the next mount does not believe an index that was closed with some. */
static void test_closed_with_dirty_files(void **state)
{
    (void)state;
    struct store_stat st = file_stat(1, "v");
    bool fresh;
    struct inodes *ix = open_index(1, false, &fresh);
    uint64_t ino = put(ix, INODE_ROOT, "file", &st, 1, INODES_NEW);
    inodes_set(ix, ino, 0, NULL, INODE_DIRTY, 0);
    inodes_close(ix, true);
    ix = open_index(1, false, &fresh);
    assert_true(fresh);
    ino = put(ix, INODE_ROOT, "file", &st, 1, INODES_NEW);
    inodes_set(ix, ino, 0, NULL, INODE_DIRTY, 0);
    inodes_set(ix, ino, 0, NULL, 0, INODE_DIRTY); /* uploaded */
    inodes_close(ix, true);
    inodes_close(open_index(1, false, &fresh), true);
    assert_false(fresh);
}

/* That of a newer release, after a roll-back: a mount that is to go on is told why it cannot, and
 * the file is as it was, for a roll forward; a new mount makes its own. */
static void test_newer(void **state)
{
    (void)state;
    struct store_stat st = file_stat(1, "v");
    struct err e = ERR_INIT;
    bool fresh;
    char before[4096], after[4096];
    struct inodes *ix = open_index(1, false, &fresh);
    put(ix, INODE_ROOT, "file", &st, 1, INODES_NEW);
    inodes_close(ix, true);
    int fd = open(path, O_RDWR);
    /* behind magic and identity */
    assert_int_equal(pwrite(fd, &(uint32_t){99}, 4, 16), 4);
    assert_int_equal(pread(fd, before, sizeof before, 0), sizeof before);
    const struct inodes_conf resume = {.path = path, .identity = 1, .resume = true};
    for (int i = 0; i < 2; i++) {
        assert_null(inodes_open(&resume, &fresh, &e));
        assert_int_equal(e.cls, ERR_FATAL);
        assert_non_null(strstr(e.msg, "a newer release made it"));
        assert_int_equal(pread(fd, after, sizeof after, 0), sizeof after);
        assert_memory_equal(before, after, sizeof before);
    }
    close(fd);
    ix = open_index(1, false, &fresh);
    assert_true(fresh);
    put(ix, INODE_ROOT, "file", &st, 1, INODES_NEW);
    inodes_close(ix, true);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_random, setup),
        cmocka_unit_test_setup(test_killed, setup),
        cmocka_unit_test_setup(test_epoch, setup),
        cmocka_unit_test_setup(test_closed_with_dirty_files, setup),
        cmocka_unit_test_setup(test_newer, setup),
        cmocka_unit_test_setup(test_distrust, setup),
    };
    return run_index_tests(tests, sizeof tests / sizeof *tests);
}
