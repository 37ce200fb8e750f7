/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that all programs have, what they print, and the signals that are left to one thread.
 */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct program flags_only = {
    "millrace-test", "test", "millrace-test [FLAGS]", "Is tested.", false};
static const struct program takes_arguments = {
    "millrace-test", "test", "millrace-test [FLAGS] FILE", "Is tested.", true};

/* Runs program_flags in a child; its status, or 100 + *first if it goes on, and what it printed. */
static int flags(const struct program *p, char *out, size_t cap, char **argv)
{
    int pipes[2], argc = 0, status = -1;
    while (argv[argc])
        argc++;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        const char *color = "blue";
        const struct opt table[] = {{"color", OPT_STRING, &color, "NAME", "of it"}};
        int first = 0, rc = program_flags(p, table, ARRAY_LEN(table), argc, argv, &first);
        if (rc < 0)
            printf("%s %s", color, log_enabled(LOG_DEBUG) ? "debug" : "quiet");
        fflush(stdout);
        _exit(rc < 0 ? 100 + first : rc);
    }
    close(pipes[1]);
    size_t got = 0;
    for (ssize_t n; (n = read(pipes[0], out + got, cap - 1 - got)) > 0;)
        got += (size_t)n;
    out[got] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_flags(void **state)
{
    (void)state;
    static const struct {
        const struct program *p;
        const char *argv[4];
        int status;
        const char *says;
    } cases[] = {
        {&flags_only, {"p"}, 100, "blue quiet"},
        {&flags_only, {"p", "--color=red", "--log-level=debug"}, 100, "red debug"},
        {&flags_only, {"p", "--version"}, 0, "millrace-test " MILLRACE_VERSION "\n"},
        {&flags_only, {"p", "--help"}, 0, "--color NAME"},
        {&flags_only, {"p", "--help"}, 0, "--log-level LEVEL"},
        {&flags_only, {"p", "file"}, 2, "millrace-test: unexpected argument \"file\""},
        {&flags_only, {"p", "--shade"}, 2, "millrace-test: unknown flag --shade"},
        {&flags_only, {"p", "--log-level=loud"}, 2, "--log-level must be"},
        {&takes_arguments, {"p", "--color=red", "file"}, 102, "red quiet"},
        {&takes_arguments, {"p"}, 101, "blue quiet"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[4096];
        int status = flags(cases[i].p, out, sizeof out, (char **)cases[i].argv);
        if (status != cases[i].status || !strstr(out, cases[i].says))
            fail_msg("case %zu: status %d: %s", i, status, out);
    }
}

static void test_signals(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        sigset_t stop;
        int sig = 0, pipes[2];
        program_start(&stop);
        kill(getpid(), SIGTERM);
        bool ok = pipe(pipes) == 0 && close(pipes[0]) == 0 && write(pipes[1], "x", 1) == -1;
        _exit(ok && sigwait(&stop, &sig) == 0 && sig == SIGTERM ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The core limits of a program that was started with this in its environment. */
static struct rlimit core_limit(const char *dumps)
{
    struct rlimit l = {1, 1};
    int pipes[2], status = -1;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        sigset_t stop;
        if (dumps)
            setenv(ENV_CORE_DUMPS, dumps, 1);
        program_start(&stop);
        _exit(getrlimit(RLIMIT_CORE, &l) || write(pipes[1], &l, sizeof l) != sizeof l);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipes[0], &l, sizeof l), sizeof l);
    close(pipes[0]);
    close(pipes[1]);
    return l;
}

/* Keys are not left on the disk by a crash, unless somebody wants to look into it. */
static void test_no_core_dumps(void **state)
{
    (void)state;
    struct rlimit before, now;
    unsetenv(ENV_CORE_DUMPS);
    assert_int_equal(getrlimit(RLIMIT_CORE, &before), 0);
    assert_true(before.rlim_max > 0); /* of who runs the tests */
    now = core_limit(NULL);
    assert_true(now.rlim_cur == 0 && now.rlim_max == 0);
    now = core_limit("true");
    assert_true(now.rlim_cur == before.rlim_cur && now.rlim_max == before.rlim_max);
    assert_int_equal(core_limit("no").rlim_max, 0);
}

/* A container is started with few descriptors, and may have more. */
static void test_descriptors(void **state)
{
    (void)state;
    struct rlimit before;
    int status = -1;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit l = {MIN(before.rlim_max, (rlim_t)256), before.rlim_max};
        bool ok = setrlimit(RLIMIT_NOFILE, &l) == 0;
        program_limits();
        ok &= getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_max == before.rlim_max;
        _exit(ok && l.rlim_cur == MIN(before.rlim_max, (rlim_t)1 << 20) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flags), cmocka_unit_test(test_signals),
        cmocka_unit_test(test_no_core_dumps), cmocka_unit_test(test_descriptors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
