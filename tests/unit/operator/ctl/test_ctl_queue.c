/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "operator/ctl/queue.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct queue *q;

static int setup(void **state)
{
    (void)state;
    q = queue_new(&(struct queue_backoff){10 * NS_PER_MS, 80 * NS_PER_MS}, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    queue_free(q);
    return 0;
}

static void expect(const char *key, bool resync)
{
    bool got_resync = !resync;
    cleanup_free char *got = queue_get(q, &got_resync);
    assert_string_equal(got, key);
    assert_int_equal(got_resync, resync);
}

static void keys_come_once_and_in_order(void **state)
{
    (void)state;
    queue_add(q, "a");
    queue_add(q, "b");
    queue_add(q, "a");
    assert_int_equal(queue_len(q), 2);
    expect("a", false);
    expect("b", false);
    queue_done(q, "a");
    queue_done(q, "b");
    assert_int_equal(queue_len(q), 0);
}

static void a_key_that_is_worked_on_comes_again_afterwards(void **state)
{
    (void)state;
    queue_add(q, "a");
    expect("a", false);
    queue_add(q, "a");
    queue_add(q, "a");
    queue_add(q, "b");
    expect("b", false); /* not a: somebody has it */
    queue_done(q, "b");
    assert_int_equal(queue_len(q), 0);
    queue_done(q, "a");
    expect("a", false);
    queue_done(q, "a");
    assert_int_equal(queue_len(q), 0);
}

static void delays_are_kept_and_the_earlier_wins(void **state)
{
    (void)state;
    int64_t begun = clock_mono_ns();
    queue_add_after(q, "late", 60 * NS_PER_MS);
    queue_add_after(q, "soon", 20 * NS_PER_MS);
    queue_add_after(q, "soon", 500 * NS_PER_MS);
    queue_add_after(q, "never", 3600 * NS_PER_S);
    queue_add_resync(q, "late", 40 * NS_PER_MS);
    expect("soon", false);
    assert_true(clock_mono_ns() - begun >= 20 * NS_PER_MS);
    expect("late", true);
    assert_true(clock_mono_ns() - begun >= 40 * NS_PER_MS);
    queue_done(q, "late");
    queue_add(q, "late");
    expect("late", false);             /* the resync was used up */
    assert_int_equal(queue_len(q), 1); /* never */
}

static void take(const char *key)
{
    expect(key, false);
    queue_done(q, key);
}

static void what_is_begun_goes_before_what_is_new(void **state)
{
    (void)state;
    queue_add_new(q, "new1");
    queue_add_new(q, "new2");
    queue_add_new(q, "new3");
    queue_add_new(q, "new1"); /* keeps its place */
    queue_add_after(q, "late", 3600 * NS_PER_S);
    queue_add(q, "begun");
    /* begun, by another's doing: the earlier time wins */
    queue_add_after(q, "new3", 10 * NS_PER_S);
    queue_add_resync(q, "new2", 10 * NS_PER_S); /* that alone is no reason */
    assert_int_equal(queue_len(q), 5);
    take("new3");
    take("begun");
    expect("new1", false);
    queue_add_new(q, "new1"); /* made anew while somebody works on it */
    expect("new2", true);
    queue_done(q, "new2");
    queue_done(q, "new1");
    take("new1"); /* what is not due is not waited for */
    queue_add_after(q, "late", NS_PER_MS);
    take("late");
    assert_int_equal(queue_len(q), 0);
}

static void what_is_new_has_its_share(void **state)
{
    (void)state;
    queue_add_new(q, "new");
    queue_add_new(q, "newer");
    for (int i = 1; i < QUEUE_SHARE; i++) {
        queue_add(q, "busybody");
        take("busybody");
    }
    queue_add(q, "busybody");
    take("new");
    take("busybody");
    take("newer");
}

static void failures_back_off(void **state)
{
    (void)state;
    static const int64_t base_ms[] = {10, 20, 40, 80, 80, 80};
    for (unsigned i = 0; i < ARRAY_LEN(base_ms); i++) {
        queue_add(q, "a");
        expect("a", false);
        assert_int_equal(queue_failures(q, "a"), i);
        int64_t wait = queue_fail(q, "a", 0);
        assert_in_range(wait, base_ms[i] * NS_PER_MS * 8 / 10, base_ms[i] * NS_PER_MS * 12 / 10);
    }
    queue_add(q, "a");
    expect("a", false);
    int64_t wait = queue_fail(q, "a", NS_PER_S);
    assert_in_range(wait, NS_PER_S * 8 / 10, NS_PER_S * 12 / 10);
    queue_add(q, "a"); /* an event does not wait for the back-off */
    expect("a", false);
    queue_done(q, "a");
    assert_int_equal(queue_failures(q, "a"), 0);
}

static void a_failed_key_comes_back_by_itself(void **state)
{
    (void)state;
    queue_add(q, "a");
    expect("a", false);
    int64_t begun = clock_mono_ns(), wait = queue_fail(q, "a", 0);
    expect("a", false);
    assert_true(clock_mono_ns() - begun >= wait);
    queue_done(q, "a");
}

#define KEYS    50
#define WORKERS 8
static atomic_int busy[KEYS], turns[KEYS], overlaps;

static void *work(void *user)
{
    (void)user;
    bool resync;
    for (char *key; (key = queue_get(q, &resync)); free(key)) {
        int i = atoi(key);
        if (atomic_fetch_add(&busy[i], 1))
            atomic_fetch_add(&overlaps, 1);
        atomic_fetch_add(&turns[i], 1);
        if (i % 7 == 0)
            clock_sleep_ns(NS_PER_MS / 10);
        atomic_fetch_sub(&busy[i], 1);
        if (i % 5 == 0 && atomic_load(&turns[i]) % 3 == 0)
            queue_fail(q, key, 0);
        else
            queue_done(q, key);
    }
    return NULL;
}

static void *add_many(void *user)
{
    (void)user;
    for (int i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i * 31 % KEYS);
        if (i % 4)
            queue_add_after(q, key, i % 3 * NS_PER_MS / 10);
        else
            queue_add_new(q, key);
    }
    return NULL;
}

static void a_key_is_never_with_two_workers(void **state)
{
    (void)state;
    pthread_t workers[WORKERS], adders[3];
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (size_t i = 0; i < ARRAY_LEN(adders); i++)
        pthread_create(&adders[i], NULL, add_many, NULL);
    for (size_t i = 0; i < ARRAY_LEN(adders); i++)
        pthread_join(adders[i], NULL);
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; queue_len(q) && clock_mono_ns() < until;)
        clock_sleep_ns(NS_PER_MS);
    assert_int_equal(queue_len(q), 0);
    queue_stop(q);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    assert_int_equal(overlaps, 0);
    for (int i = 0; i < KEYS; i++)
        assert_true(turns[i] > 0);
}

static void a_stopped_queue_gives_nothing(void **state)
{
    (void)state;
    bool resync;
    queue_add(q, "a");
    queue_stop(q);
    queue_add(q, "b");
    assert_null(queue_get(q, &resync));
    assert_int_equal(queue_len(q), 1);
}

static void thousands_of_delays_come_in_order(void **state)
{
    (void)state;
    bool resync;
    char key[16];
    /* Far in the future first, then pulled forward in a known order: the heap is stirred
     * thoroughly.
     */
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "%d", i);
        queue_add_after(q, key, (1000 + i * 7919 % 3000) * NS_PER_S);
    }
    assert_int_equal(queue_len(q), 3000);
    for (int i = 2999; i >= 0; i--) {
        snprintf(key, sizeof key, "%d", i);
        queue_add(q, key);
    }
    for (int i = 2999; i >= 0; i--) {
        cleanup_free char *got = queue_get(q, &resync);
        assert_int_equal(atoi(got), i);
        queue_done(q, got);
    }
    assert_int_equal(queue_len(q), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_come_once_and_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_key_that_is_worked_on_comes_again_afterwards, setup, teardown),
        cmocka_unit_test_setup_teardown(delays_are_kept_and_the_earlier_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_begun_goes_before_what_is_new, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_new_has_its_share, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_back_off, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_key_comes_back_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_is_never_with_two_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_queue_gives_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(thousands_of_delays_come_in_order, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
