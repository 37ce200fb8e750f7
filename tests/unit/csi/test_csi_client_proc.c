/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "csi/client_proc.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/unit/csi/csi_env.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pid in run/pid, if such a process lives. */
static int alive(const char *run)
{
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(run, "pid"), *text = file_read(path, 64, NULL, &e);
    int pid = text ? atoi(text) : 0;
    return pid > 0 && kill(pid, 0) == 0 ? pid : 0;
}

static int wait_alive(const char *run, int other)
{
    int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    for (;;) {
        int pid = alive(run);
        if ((pid && pid != other) || clock_mono_ns() > until)
            return pid;
        clock_sleep_ns(10 * NS_PER_MS);
    }
}

static void test_life(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *run = path_join(env->dir, "run"), *dir = path_join(env->dir, "volume"),
                      *cache = path_join(dir, "cache");
    cleanup_free char *secret = path_join(run, "secrets/0/secret-access-key");
    struct client_proc_secret secrets[] = {{"secret-access-key", "do-not-show-this"}};
    struct client_proc_secret bad[] = {{"../../escape", "x"}};
    struct client_proc_conf conf = {.binary = FAKE_CLIENT, .dir = dir, .run_dir = run};
    assert_int_equal(file_mkdirs(cache, 0700, &e), 0);
    assert_int_equal(client_proc_write(run, "{}", bad, 1, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_int_equal(client_proc_write(run, "{}", secrets, 1, &e), 0);
    struct stat st;
    assert_int_equal(stat(run, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(secret, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    struct client_proc *c = client_proc_start(&conf, &e);
    assert_non_null(c);
    int first = alive(run);
    assert_true(first > 0);
    cleanup_free char *cmdline_path = xasprintf("/proc/%d/cmdline", first);
    clock_sleep_ns(100 * NS_PER_MS);
    size_t len = 0;
    cleanup_free char *cmdline = file_read(cmdline_path, 65536, &len, &e);
    assert_non_null(cmdline);
    assert_null(memmem(cmdline, len, "do-not-show-this", 16));

    kill(first, SIGKILL); /* it is started again */
    int second = wait_alive(run, first);
    assert_true(second > 0 && second != first);

    client_proc_leave(c); /* we end, it goes on … */
    assert_int_equal(alive(run), second);
    c = client_proc_start(&conf, &e); /* … and is taken over by the next of us */
    assert_non_null(c);
    assert_int_equal(alive(run), second);
    client_proc_stop(c);
    /* ended; as nobody knew that it is ours, nobody has waited for it */
    assert_int_equal(waitpid(second, NULL, WNOHANG), second);
    assert_int_equal(access(run, F_OK), -1);
}

static void test_no_program(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *run = path_join(env->dir, "run");
    struct client_proc_conf conf = {
        .binary = "/nonexistent/millrace-fuse", .dir = env->dir, .run_dir = run};
    assert_null(client_proc_start(&conf, &e)); /* no configuration */
    assert_int_equal(client_proc_write(run, "{}", NULL, 0, &e), 0);
    err_clear(&e);
    assert_null(client_proc_start(&conf, &e));
    assert_non_null(strstr(e.msg, "/nonexistent/millrace-fuse"));
    client_proc_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_no_program, csi_env_setup, csi_env_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
