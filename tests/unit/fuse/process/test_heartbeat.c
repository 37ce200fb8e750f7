/* SPDX-License-Identifier: Apache-2.0 */
/* Beats, and who hears that there are none. */
#include "tests/lib/unit.h"

#include "fuse/process/heartbeat.h"
#include "lib/base/clock.h"
#include "tests/lib/eventually.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define S NS_PER_S

static void test_missed(void **state)
{
    (void)state;
    struct heartbeat_ear ear = {0};
    int64_t now = 1000 * S;
    for (int i = 0; i < 60; i++) /* it has not begun */
        assert_false(heartbeat_missed(&ear, 0, now += S, 20 * S));
    for (uint64_t i = 1; i < 60; i++)
        assert_false(heartbeat_missed(&ear, i, now += S, 20 * S));
    assert_false(heartbeat_missed(&ear, 60, now += S, 20 * S));
    for (int i = 1; i < 20; i++)
        assert_false(heartbeat_missed(&ear, 60, now += S, 20 * S));
    assert_true(heartbeat_missed(&ear, 60, now += S, 20 * S));
    assert_true(heartbeat_missed(&ear, 60, now += S, 20 * S));
    assert_false(heartbeat_missed(&ear, 61, now += S, 20 * S));
    for (int i = 0; i < 60; i++)
        assert_false(heartbeat_missed(&ear, 61, now += S, 0)); /* nobody minds */
}

/* The machine sleeps, or all of us were stopped: the other end has had no time to beat. */
static void test_who_slept(void **state)
{
    (void)state;
    struct heartbeat_ear ear = {0};
    int64_t now = 1000 * S;
    assert_false(heartbeat_missed(&ear, 1, now, 20 * S));
    for (int i = 0; i < 6; i++)
        assert_false(heartbeat_missed(&ear, 1, now += 3600 * S, 20 * S));
    assert_true(heartbeat_missed(&ear, 1, now += 3600 * S, 20 * S));
}

static atomic_bool serves;

static bool does_serve(void *user)
{
    assert_ptr_equal(user, &serves);
    return serves;
}

static void test_beats(void **state)
{
    (void)state;
    static struct heartbeats shared;
    struct err e = ERR_INIT;
    struct heartbeat *h = heartbeat_start(&shared, getpid(), 0, &e);
    assert_non_null(h);
    eventually(shared.serving >= 2);
    heartbeat_watch(h, does_serve, &serves);
    uint64_t before = shared.serving;
    clock_sleep_ns(2500 * NS_PER_MS);
    assert_int_equal(shared.serving, before); /* threads hang */
    serves = true;
    eventually(shared.serving > before);
    serves = false;
    heartbeat_watch(h, NULL, NULL);
    before = shared.serving;
    eventually(shared.serving > before);
    heartbeat_stop(h);
    heartbeat_stop(NULL);
    heartbeat_watch(NULL, NULL, NULL);
}

/* A supervisor that is stopped goes on; one that was never heard is not told anything. */
static void test_supervisor_is_stopped(void **state)
{
    (void)state;
    static struct heartbeats shared;
    struct err e = ERR_INIT;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(7);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    shared.supervisor = 0;
    struct heartbeat *h = heartbeat_start(&shared, pid, 2 * S, &e);
    assert_non_null(h);
    clock_sleep_ns(4 * S);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    shared.supervisor = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    heartbeat_stop(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missed),
        cmocka_unit_test(test_who_slept),
        cmocka_unit_test(test_beats),
        cmocka_unit_test(test_supervisor_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
