/* SPDX-License-Identifier: Apache-2.0 */
/* Who brings staged files to the disk at the same time does it together, and each is told of its
 * own. */
#include "tests/lib/unit.h"

#include "fuse/file/stage_sync.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TOGETHER 16

struct caller {
    struct stage_sync *sync;
    int fd, rc;
    struct err e;
    pthread_t thread;
};

static void *call(void *user)
{
    struct caller *c = user;
    c->rc = stage_sync(c->sync, c->fd, -1, &c->e);
    return NULL;
}

static char *new_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = xasprintf("%s/millrace-sync.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void set_busy(struct stage_sync *s, bool busy)
{
    pthread_mutex_lock(&s->mu);
    s->busy = busy;
    pthread_cond_broadcast(&s->ended);
    pthread_mutex_unlock(&s->mu);
}

static void test_one(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct stage_sync s;
    cleanup_free char *dir = new_dir(), *name = path_join(dir, "f");
    stage_sync_init(&s, dir);
    cleanup_fd int fd = open(name, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(stage_sync(&s, fd, fd, &e), 0);
    assert_int_equal(stage_sync(&s, -1, -1, &e), 0); /* names alone */
    assert_int_equal(s.rounds, 2);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(stage_sync(&s, pipes[0], -1, &e), -1); /* no file that could be flushed */
    assert_int_equal(err_errno(&e), EINVAL);
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(file_remove_tree(dir, &e), 0);
    err_clear(&e);
    assert_int_equal(stage_sync(&s, fd, -1, &e), -1);
    assert_int_equal(err_errno(&e), ENOENT);
    stage_sync_destroy(&s);
}

static void test_together(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct stage_sync s;
    struct caller callers[TOGETHER];
    cleanup_free char *dir = new_dir();
    stage_sync_init(&s, dir);
    set_busy(&s, true); /* a round is under way */
    for (unsigned i = 0; i < TOGETHER; i++) {
        cleanup_free char *name = xasprintf("%s/%u", dir, i);
        callers[i] = (struct caller){.sync = &s, .fd = open(name, O_RDWR | O_CREAT, 0600), .rc = 1};
        assert_true(callers[i].fd >= 0);
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (unsigned waiting = 0; waiting < TOGETHER; clock_sleep_ns(NS_PER_MS)) {
        pthread_mutex_lock(&s.mu);
        waiting = s.nwaiting;
        pthread_mutex_unlock(&s.mu);
    }
    assert_int_equal(s.rounds, 0);
    set_busy(&s, false);
    for (unsigned i = 0; i < TOGETHER; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].rc, 0);
        close(callers[i].fd);
    }
    assert_int_equal(s.rounds, 1); /* for all of them */
    stage_sync_destroy(&s);
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
