/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is killed at any instruction of a change: it is traced step by step, and what its
 * index file holds at each step where it differs is what the process after it would find. */
#include "fuse/index/format.h"
#include "tests/unit/fuse/index/index_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define V1       "\"the first version, which is too long to be packed\""
#define V2       "\"another one, which is too long as well, and longer\""
#define RECS_LEN 4096
#define HEAP_LEN 4096
#define MAP_LEN  4096

/* What is in use of a small index. */
struct image {
    char head[4096], recs[RECS_LEN], heap[HEAP_LEN], buckets[MAP_LEN];
};

static void image_io(struct image *im, const char *file, bool write_it)
{
    int fd = open(file, write_it ? O_RDWR | O_CREAT : O_RDONLY, 0600);
    assert_true(fd >= 0);
    const struct {
        char *at;
        size_t len;
        uint64_t off;
    } parts[] = {{im->head, sizeof im->head, 0},
        {im->recs, sizeof im->recs, index_regions[REGION_RECS].off},
        {im->heap, sizeof im->heap, index_regions[REGION_HEAP].off},
        {im->buckets, sizeof im->buckets, index_regions[REGION_BUCKETS].off}};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        assert_int_equal(write_it ? pwrite(fd, parts[i].at, parts[i].len, (off_t)parts[i].off)
                                  : pread(fd, parts[i].at, parts[i].len, (off_t)parts[i].off),
            parts[i].len);
    close(fd);
}

/* Without what says that a change is under way. */
static bool same_content(const struct image *a, const struct image *b)
{
    return memcmp(a->recs, b->recs, sizeof a->recs) == 0
        && memcmp(a->heap, b->heap, sizeof a->heap) == 0
        && memcmp(a->buckets, b->buckets, sizeof a->buckets) == 0;
}

enum change { CHANGE_UPDATE, CHANGE_SET, CHANGE_REPLACE, CHANGE_RENAME, CHANGE_REMOVE };

static void change(struct inodes *ix, enum change what, uint64_t ino)
{
    struct inode n;
    struct err e = ERR_INIT;
    enum inodes_change was;
    struct store_stat st = file_stat(2, V2);
    n = (struct inode){.size = 2};
    snprintf(n.version, sizeof n.version, "%s", V2);
    switch (what) {
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
        inodes_put(ix, INODE_ROOT, "f", &st, INODES_NOW, 2, &n, &was, &e);
        break;
    case CHANGE_SET:
        inodes_set(ix, ino, INODES_SIZE | INODES_VERSION, &n, 0, 0);
        break;
    case CHANGE_RENAME:
        inodes_rename(ix, ino, INODE_ROOT, "g", &e);
        break;
    case CHANGE_REMOVE:
        inodes_remove(ix, ino);
        break;
    }
}

/* What a successor finds: one of the two states, never a third. */
static void check_successor(const char *copy, enum change what, size_t step)
{
    struct inodes_conf c = {
        .path = copy, .identity = 1, .resume = true, .dir_mode = 0755, .file_mode = 0644};
    struct inode n, root;
    struct err e = ERR_INIT;
    bool fresh;
    struct inodes *ix = inodes_open(&c, &fresh, &e);
    if (!ix)
        fail_msg("change %d, killed at step %zu: %s", (int)what, step, e.msg);
    assert_int_equal(inodes_get(ix, INODE_ROOT, &root), 0);
    bool f = inodes_find(ix, INODE_ROOT, "f", &n);
    if (!f && what == CHANGE_RENAME)
        f = inodes_find(ix, INODE_ROOT, "g", &n);
    if (f && !(n.size == 1 && strcmp(n.version, V1) == 0)
        && !(n.size == 2 && strcmp(n.version, V2) == 0))
        fail_msg("change %d, killed at step %zu: size %d, version %s", (int)what, step, (int)n.size,
            n.version);
    /* a name is never absent for who asks no store, unless it was removed */
    if (!f && what != CHANGE_REMOVE && (root.flags & INODE_LISTED))
        fail_msg("change %d, killed at step %zu: the name is absent", (int)what, step);
    inodes_close(ix, false);
}

static void trace(enum change what)
{
    cleanup_free struct image *before = xcalloc(1, sizeof *before), *now = xcalloc(1, sizeof *now),
                              *last = xcalloc(1, sizeof *last);
    struct store_stat st = file_stat(1, V1);
    unlink(path);
    struct inodes *ix = open_index(1, false, NULL);
    uint64_t ino = put(ix, INODE_ROOT, "f", &st, 1, INODES_NEW);
    inodes_listed(ix, INODE_ROOT, INODES_NOW, 1, NULL, NULL);
    if (what == CHANGE_REPLACE)
        inodes_ref(ix, ino);
    image_io(before, path, false);
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        change(ix, what, ino);
        _exit(0);
    }
    assert_true(pid > 0);
    cleanup_free char *copy = path_join(dir, "copy");
    int status;
    size_t step = 0, states = 0, unmarked = 0;
    *last = *before;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        image_io(now, path, false);
        if (memcmp(now, last, sizeof *now) != 0) {
            unmarked += !atomic_load(&((struct index_head *)(void *)now->head)->busy)
                && !same_content(now, before) && !same_content(now, last);
            states++;
            image_io(now, copy, true);
            check_successor(copy, what, step);
            *last = *now;
        }
        step++;
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(states > 4);
    assert_int_equal(unmarked, 0); /* what is half done says so */
    inodes_close(ix, false);
    print_message("# change %d: %zu steps, %zu states\n", (int)what, step, states);
}

static void test_update(void **state)
{
    (void)state;
    trace(CHANGE_UPDATE);
}

static void test_set(void **state)
{
    (void)state;
    trace(CHANGE_SET);
}

static void test_replace(void **state)
{
    (void)state;
    trace(CHANGE_REPLACE);
}

static void test_rename(void **state)
{
    (void)state;
    trace(CHANGE_RENAME);
}

static void test_remove(void **state)
{
    (void)state;
    trace(CHANGE_REMOVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_update, setup),
        cmocka_unit_test_setup(test_set, setup),
        cmocka_unit_test_setup(test_replace, setup),
        cmocka_unit_test_setup(test_rename, setup),
        cmocka_unit_test_setup(test_remove, setup),
    };
    return run_index_tests(tests, sizeof tests / sizeof *tests);
}
