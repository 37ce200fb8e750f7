/* SPDX-License-Identifier: Apache-2.0 */
/* mutex_assert_held() lets the owner pass and ends the program for everybody else. */
#include "lib/base/mutex.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *check(void *arg)
{
    mutex_check_held(&mu, "mu", __FILE__, __LINE__);
    return arg;
}

static void held(void)
{
    pthread_mutex_lock(&mu);
    check(NULL);
    struct timespec past = {0};
    pthread_cond_timedwait(&never, &mu, &past);
    check(NULL);
    pthread_mutex_unlock(&mu);
}

static void not_held(void) { check(NULL); }

static void unlocked_again(void)
{
    pthread_mutex_lock(&mu);
    pthread_mutex_unlock(&mu);
    check(NULL);
}

static void held_by_another(void)
{
    pthread_t thread;
    pthread_mutex_lock(&mu);
    pthread_create(&thread, NULL, check, NULL);
    pthread_join(thread, NULL);
}

/* The signal that ended a child, 0 if none did. */
static int run_in_child(void (*fn)(void))
{
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL); /* the sanitizers' own handler would say more than is asked for */
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        fn();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_check(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(held), 0);
    assert_int_equal(run_in_child(not_held), SIGABRT);
    assert_int_equal(run_in_child(unlocked_again), SIGABRT);
    assert_int_equal(run_in_child(held_by_another), SIGABRT);
}

static void assert_now(void) { mutex_assert_held(&mu); }

static void test_sanitizer_builds_check(void **state)
{
    (void)state;
#ifdef MILLRACE_CHECKED
    assert_int_equal(run_in_child(assert_now), SIGABRT);
#else
    assert_int_equal(run_in_child(assert_now), 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_sanitizer_builds_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
