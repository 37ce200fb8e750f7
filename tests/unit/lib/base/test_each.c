/* SPDX-License-Identifier: Apache-2.0 */
/* Each index once, several at a time, until one fails; and whose progress it is. */
#include "lib/base/clock.h"
#include "lib/base/each.h"
#include "lib/base/progress.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define MANY    1000
#define THREADS 4

static atomic_uint calls[MANY], together, most_together;

static int count_call(void *user, size_t i, struct err *e)
{
    (void)e;
    unsigned now = atomic_fetch_add(&together, 1) + 1, most = most_together;
    while (now > most && !atomic_compare_exchange_weak(&most_together, &most, now))
        ;
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S;
         most_together < *(const unsigned *)user && clock_mono_ns() < until;)
        clock_sleep_ns(NS_PER_MS); /* the first ones wait for each other */
    atomic_fetch_add(&calls[i], 1);
    atomic_fetch_sub(&together, 1);
    return 0;
}

static void run_each(size_t n, unsigned threads, unsigned expected)
{
    struct err e = ERR_INIT;
    memset(calls, 0, sizeof calls);
    most_together = 0;
    assert_int_equal(each("each", n, threads, count_call, &expected, NULL, &e), 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(calls[i], i < n);
    assert_int_equal(most_together, expected);
}

static void test_each_once(void **state)
{
    (void)state;
    run_each(MANY, THREADS, THREADS);
    run_each(2, THREADS, 2);
    run_each(5, 1, 1);
    run_each(0, THREADS, 0);
}

static int fail_at(void *user, size_t i, struct err *e)
{
    atomic_fetch_add(&calls[i], 1);
    return i == *(const size_t *)user ? err_sys(e, EIO, "the one at %zu", i) : 0;
}

static void test_stops_at_a_failure(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    atomic_bool failed = false;
    size_t bad = 3;
    memset(calls, 0, sizeof calls);
    assert_int_equal(each("each", MANY, 1, fail_at, &bad, &failed, &e), -1);
    assert_true(failed);
    assert_int_equal(e.sys, EIO);
    assert_non_null(strstr(e.msg, "the one at 3"));
    assert_int_equal(calls[3], 1);
    assert_int_equal(calls[4], 0);
    memset(calls, 0, sizeof calls);
    assert_int_equal(each("each", MANY, THREADS, fail_at, &bad, NULL, NULL), -1);
    assert_int_equal(calls[3], 1);
}

static int mark(void *user, size_t i, struct err *e)
{
    (void)user;
    (void)i;
    (void)e;
    progress_mark();
    return 0;
}

static void test_is_progress_of_its_caller(void **state)
{
    (void)state;
    progress_of(7, 7);
    const struct progress_things mine = progress_mine();
    uint64_t before = progress_count(&mine);
    assert_int_equal(each("each", 100, THREADS, mark, NULL, NULL, NULL), 0);
    assert_int_equal(progress_count(&mine) - before, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once),
        cmocka_unit_test(test_stops_at_a_failure),
        cmocka_unit_test(test_is_progress_of_its_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
