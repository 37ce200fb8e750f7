/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/index/index.h"
#include "fuse/session/invalidate.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A pipe in the place of /dev/fuse. */
struct world {
    struct invalidator *v;
    int kernel, fuse_fd;
};

struct message {
    struct fuse_out_header h;
    union {
        struct fuse_notify_inval_entry_out entry;
        struct fuse_notify_inval_inode_out inode;
    } o;
    char name[INODE_NAME_MAX + 1];
};

static struct world world_new(void)
{
    int p[2];
    struct err e = ERR_INIT;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct world w = {invalidator_new(&e), p[0], p[1]};
    assert_non_null(w.v);
    return w;
}

static void start(struct world *w)
{
    struct err e = ERR_INIT;
    assert_int_equal(invalidator_start(w->v, w->fuse_fd, &e), 0);
}

/* Everybody has gone who could write to it: the helper has ended. */
static void world_free(struct world *w)
{
    char c;
    invalidator_stop(w->v);
    close(w->fuse_fd);
    while (read(w->kernel, &c, 1) > 0)
        continue;
    close(w->kernel);
    while (wait(NULL) > 0)
        continue;
}

static void read_all(int fd, void *buf, size_t len)
{
    for (size_t have = 0; have < len;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 60000), 1);
        ssize_t n = read(fd, (char *)buf + have, len - have);
        assert_true(n > 0);
        have += (size_t)n;
    }
}

static struct message next(struct world *w)
{
    struct message m = {0};
    read_all(w->kernel, &m.h, sizeof m.h);
    assert_in_range(m.h.len, sizeof m.h + 1, sizeof m);
    assert_int_equal(m.h.unique, 0);
    size_t len = m.h.len - sizeof m.h;
    char body[sizeof m];
    read_all(w->kernel, body, len);
    if (m.h.error == FUSE_NOTIFY_INVAL_INODE) {
        assert_int_equal(len, sizeof m.o.inode);
        memcpy(&m.o.inode, body, len);
        return m;
    }
    assert_int_equal(m.h.error, FUSE_NOTIFY_INVAL_ENTRY);
    assert_true(len > sizeof m.o.entry);
    memcpy(&m.o.entry, body, sizeof m.o.entry);
    assert_int_equal(len, sizeof m.o.entry + m.o.entry.namelen + 1);
    memcpy(m.name, body + sizeof m.o.entry, m.o.entry.namelen + 1);
    assert_int_equal(strlen(m.name), m.o.entry.namelen);
    return m;
}

static void assert_entry(struct world *w, uint64_t dir, const char *name)
{
    struct message m = next(w);
    assert_int_equal(m.h.error, FUSE_NOTIFY_INVAL_ENTRY);
    assert_int_equal(m.o.entry.parent, dir);
    assert_string_equal(m.name, name);
}

static void test_messages(void **state)
{
    (void)state;
    char longest[INODE_NAME_MAX + 1], too_long[INODE_NAME_MAX + 2];
    memset(longest, 'n', sizeof longest - 1);
    memset(too_long, 'n', sizeof too_long - 1);
    longest[sizeof longest - 1] = too_long[sizeof too_long - 1] = '\0';
    struct world w = world_new();
    invalidator_add(w.v, 7, "before the start");
    start(&w);
    invalidator_add(w.v, UINT64_C(1) << 40, longest);
    invalidator_add(w.v, 8, too_long);
    invalidator_add(w.v, 9, "");
    invalidator_add(w.v, 10, "a");
    assert_entry(&w, 7, "before the start");
    assert_entry(&w, UINT64_C(1) << 40, longest);
    struct message m = next(&w);
    assert_int_equal(m.h.error, FUSE_NOTIFY_INVAL_INODE);
    assert_int_equal(m.o.inode.ino, 9);
    assert_int_equal(m.o.inode.off, 0);
    assert_int_equal(m.o.inode.len, 0);
    assert_entry(&w, 10, "a");
    world_free(&w);
}

static void test_never_blocks(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    struct world w = world_new();
    char name[16];
    for (int i = 0; i < MANY; i++) { /* nobody reads them */
        snprintf(name, sizeof name, "%d", i);
        invalidator_add(w.v, 1, name);
    }
    start(&w);
    invalidator_add(w.v, 2, "dropped, too, or the last");
    int n = 0;
    for (; n < 200; n++) { /* what there was room for came in order */
        snprintf(name, sizeof name, "%d", n);
        assert_entry(&w, 1, name);
    }
    world_free(&w);
}

/* The helper: this process has no other child. 0: none. */
static pid_t helper(void)
{
    cleanup_free char *path = xasprintf("/proc/self/task/%d/children", getpid()),
                      *text = file_read(path, 4096, NULL, NULL);
    return text ? (pid_t)atoi(text) : 0;
}

static int fds_of(pid_t pid)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        cleanup_free char *path = xasprintf("/proc/%d/fd/%d", pid, fd);
        char to[64];
        n += readlink(path, to, sizeof to) > 0;
    }
    return n;
}

/* It would keep locked what it has open when the serving process is killed. */
static void test_has_no_other_files(void **state)
{
    (void)state;
    struct world w = world_new();
    start(&w);
    invalidator_add(w.v, 1, "a");
    assert_entry(&w, 1, "a");
    assert_int_equal(fds_of(helper()), 2);
    world_free(&w);
}

static void test_helper_is_replaced(void **state)
{
    (void)state;
    struct world w = world_new();
    start(&w);
    for (int i = 0; i < 3; i++) {
        pid_t pid = helper();
        assert_true(pid > 0);
        invalidator_add(w.v, 1, "a");
        assert_entry(&w, 1, "a");
        assert_int_equal(kill(pid, SIGKILL), 0);
        /* its files are closed some time before that: what is added between the two waits for the
         * next */
        siginfo_t dead;
        assert_int_equal(waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOWAIT), 0);
        invalidator_add(w.v, 2, "b");
        assert_entry(&w, 2, "b");
        assert_int_not_equal(helper(), pid);
    }
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_never_blocks),
        cmocka_unit_test(test_has_no_other_files),
        cmocka_unit_test(test_helper_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
