/* SPDX-License-Identifier: Apache-2.0 */
/* An index whose checksum is right and whose content is not. */
#include "tests/lib/unit.h"

#include "fuse/index/format.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In place of the C library's: the disk has an I/O error at the bytes that are looked at next, but
 * for so many. */
static int reads_until_error = -1;

int madvise(void *at, size_t len, int advice)
{
    errno = EFAULT;
    if (advice == MADV_POPULATE_READ && reads_until_error >= 0 && reads_until_error-- == 0)
        return -1;
    return (int)syscall(SYS_madvise, at, len, advice);
}

static char dir[] = "/tmp/millrace-index.XXXXXX";
static char path[64];

static struct inodes *open_index(bool resume, bool *fresh)
{
    struct inodes_conf c = {.path = path,
        .identity = 1,
        .resume = resume,
        .dir_mode = 0755,
        .file_mode = 0644,
        .nmounts = 1};
    struct err e = ERR_INIT;
    return inodes_open(&c, fresh, &e);
}

static void put(struct inodes *ix, uint64_t d, const char *name, bool is_dir, uint64_t want)
{
    struct store_stat st = {
        .is_dir = is_dir, .version = "\"a version that is too long to be packed\""};
    struct inode n;
    struct err e = ERR_INIT;
    enum inodes_change change;
    assert_int_equal(inodes_put(ix, d, name, &st, INODES_NOW, 1, &n, &change, &e), 0);
    assert_int_equal(n.ino, want);
}

/* Record 2 is the directory "d", 3 the file "d/f", 4 the file "d/g", 5 is free. */
static struct inodes *make(void)
{
    bool fresh;
    unlink(path);
    struct inodes *ix = open_index(false, &fresh);
    assert_non_null(ix);
    put(ix, INODE_ROOT, "d", true, 2);
    put(ix, 2, "f", false, 3);
    put(ix, 2, "g", false, 4);
    put(ix, 2, "h", false, 5);
    inodes_remove(ix, 5);
    return ix;
}

#define HEAD(field)     0, offsetof(struct index_head, field), sizeof((struct index_head *)0)->field
#define REC(ino, field) ino, offsetof(struct rec, field), sizeof((struct rec *)0)->field

#define NOT_MENDED      3 /* the first of these */
static const struct {
    const char *what;
    unsigned rec; /* 0: the head */
    size_t offset, size;
    uint32_t value;
} cases[] = {
    {"a root that is no mount's", REC(1, flags), INODE_USED | INODE_DIR},
    {"no root", REC(1, flags), 0},
    {"no heap", HEAD(heap_units), 0},
    {"a version longer than any", REC(3, version[4]), 255},
    {"a version beyond the heap", REC(3, version[2]), 255},
    {"a version of no kind", REC(3, form), 7},
    {"packed digits beyond their room", REC(3, form), 31 << 3 | 1},
    {"a name beyond the heap", REC(3, name), 1 << 30},
    {"a name that is another's", REC(3, name), 1},
    {"no name", REC(3, name_len), 0},
    {"a directory that is not there", REC(3, parent), 1 << 20},
    {"a directory in itself", REC(2, parent), 2},
    {"a file that has children", REC(2, flags), INODE_USED},
    {"a directory that is no more", REC(2, flags), INODE_USED | INODE_DIR | INODE_UNLINKED},
    {"a ring of siblings", REC(4, next), 3},
    {"a sibling that is not there", REC(4, next), 1 << 20},
    {"a ring in a bucket", REC(3, chain), 3},
    {"a bucket that goes on elsewhere", REC(3, chain), 5},
    {"a mount that is not there", REC(3, mount), 77},
    {"a ring of free records", REC(5, next), 5},
    {"a free record that is not there", HEAD(free_rec), 1 << 20},
    {"a free record that is used", HEAD(free_rec), 3},
    {"a free place in the heap that is used", HEAD(heap_free[1]), 1},
    {"a free place beyond the heap", HEAD(heap_free[32]), 1 << 20},
    {"a wrong number of inodes", HEAD(live), 99},
};

/* An id is what it was, or nothing; and nothing else gets it. */
static void check_mended(struct inodes *ix, const char *what)
{
    static const char *const names[] = {[2] = "d", [3] = "f", [4] = "g"};
    struct inode n;
    bool there[5] = {false};
    if (!index_check(ix))
        fail_msg("%s: opened as it is", what);
    for (uint64_t i = 2; i <= 4; i++) {
        uint64_t parent = i == 2 ? INODE_ROOT : 2;
        there[i] = inodes_get(ix, i, &n) == 0;
        if (there[i]
            && (n.parent != parent || !inodes_find(ix, parent, names[i], &n) || n.ino != i))
            fail_msg("%s: inode %d is another one", what, (int)i);
    }
    assert_true(there[2] || !(there[3] || there[4]));
    assert_int_equal(inodes_get(ix, INODE_ROOT, &n), 0);
    for (int i = 0; i < 8; i++) {
        char name[8];
        struct store_stat st = {.version = "v"};
        struct err e = ERR_INIT;
        enum inodes_change change;
        snprintf(name, sizeof name, "new%d", i);
        assert_int_equal(inodes_put(ix, INODE_ROOT, name, &st, INODES_NOW, 1, &n, &change, &e), 0);
        if (n.ino >= 2 && n.ino <= 4)
            fail_msg("%s: inode %d was given away", what, (int)n.ino);
    }
    assert_true(index_check(ix));
}

static void test_unsound(void **state)
{
    (void)state;
    bool fresh;
    for (size_t i = 0; i < ARRAY_LEN(cases) * 2; i++) {
        bool resume = i % 2;
        struct inodes *ix = make();
        char *at = cases[i / 2].rec ? (char *)&ix->recs[cases[i / 2].rec] : (char *)ix->h;
        memcpy(at + cases[i / 2].offset, &cases[i / 2].value, cases[i / 2].size);
        inodes_close(ix, !resume);
        ix = open_index(resume, &fresh);
        bool refused = resume && i / 2 < NOT_MENDED;
        if (refused != !ix || (ix && fresh == resume))
            fail_msg("%s: %s", cases[i / 2].what, ix ? "trusted" : "refused");
        if (ix && resume)
            check_mended(ix, cases[i / 2].what);
        inodes_close(ix, true);
        if (resume && !refused) { /* the next mount may have the ids again */
            ix = open_index(false, &fresh);
            assert_true(ix && !fresh && index_check(ix));
            assert_int_equal(ix->h->unlinked, 0);
            inodes_close(ix, true);
        }
    }
}

/* One that was being changed when its process was killed is linked anew, if that is possible. */
static void test_rebuilt(void **state)
{
    (void)state;
    bool fresh;
    struct inode n;
    struct inodes *ix = make();
    atomic_store(&ix->h->busy, 1);
    ix->recs[3].next = ix->recs[4].chain = ix->h->free_rec = 77;
    inodes_close(ix, false);
    ix = open_index(true, &fresh);
    assert_non_null(ix);
    assert_true(inodes_find(ix, 2, "g", &n) && n.ino == 4);
    inodes_close(ix, true);
    for (int damage = 0; damage < 4; damage++) {
        ix = make();
        atomic_store(&ix->h->busy, 1);
        if (damage == 0)
            ix->recs[3].name = 1 << 30;
        else if (damage == 1)
            ix->recs[2].parent = 2;
        else if (damage == 2) { /* it says that it was dropped */
            ix->recs[3].flags |= INODE_DROPPED;
            ix->recs[3].name = 1 << 30;
        } else
            ix->recs[4].name = ix->recs[3].name;
        inodes_close(ix, false);
        ix = open_index(true, &fresh);
        assert_non_null(ix);
        check_mended(ix, "killed, and damaged");
        inodes_close(ix, true);
    }
    ix = make();
    atomic_store(&ix->h->busy, 1);
    inodes_close(ix, true); /* nobody closes one in the middle of a change */
    ix = open_index(false, &fresh);
    assert_true(ix && fresh);
    inodes_close(ix, true);
}

/* Whoever touched it would be killed, again and again: it is not gone on with, and made anew for
 * the next mount. */
static void test_unreadable(void **state)
{
    (void)state;
    for (int at = 0; at < 4; at++) { /* head, records, names, hash */
        struct inodes *ix = make();
        bool fresh;
        inodes_close(ix, false);
        struct inodes_conf c = {.path = path, .identity = 1, .resume = true, .nmounts = 1};
        struct err e = ERR_INIT;
        reads_until_error = at;
        assert_null(inodes_open(&c, &fresh, &e));
        assert_int_equal(reads_until_error, -1);
        assert_non_null(strstr(e.msg, "its disk cannot be read"));
        ix = open_index(true, &fresh); /* it was for once */
        assert_true(ix && !fresh);
        inodes_close(ix, true);
        reads_until_error = at;
        ix = open_index(false, &fresh);
        assert_true(ix && fresh);
        put(ix, INODE_ROOT, "again", true, 2);
        inodes_close(ix, true);
    }
    reads_until_error = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unsound),
        cmocka_unit_test(test_rebuilt), cmocka_unit_test(test_unreadable)};
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/index", dir);
    int rc = cmocka_run_group_tests_name("inode_check", tests, NULL, NULL);
    file_remove_tree(dir, NULL);
    return rc;
}
