/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs run once each, in the order of their lanes, together as far as there are threads; a bounded
 * queue makes the caller wait. */
#include "lib/base/clock.h"
#include "lib/base/pool.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

static atomic_int ran, together, most_together;

static void count(void *arg)
{
    int now = atomic_fetch_add(&together, 1) + 1, most = most_together;
    while (now > most && !atomic_compare_exchange_weak(&most_together, &most, now))
        ;
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S;
         most_together < THREADS && clock_mono_ns() < until;)
        clock_sleep_ns(NS_PER_MS); /* the first ones wait for each other */
    clock_sleep_ns(NS_PER_MS);
    atomic_fetch_sub(&together, 1);
    atomic_fetch_add(&ran, (int)(intptr_t)arg);
}

static void test_all_run(void **state)
{
    (void)state;
    ran = 0;
    struct pool *p = pool_new(&(struct pool_conf){.name = "pool", .threads = THREADS});
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(pool_add(p, i % POOL_LANES, count, (void *)1), 0);
    pool_free(p); /* runs what is queued */
    assert_int_equal(ran, 100);
    assert_int_equal(most_together, THREADS);
    pool_free(NULL);
}

static atomic_bool closed; /* a gate that jobs wait at */
static char order[8];      /* letters of the jobs that ran; of the one thread */

static void wait_at_gate(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
    while (atomic_load(&closed))
        clock_sleep_ns(NS_PER_MS);
}

static void note_letter(void *arg) { strncat(order, arg, 1); }

static void test_lanes(void **state)
{
    (void)state;
    struct pool *p = pool_new(&(struct pool_conf){.name = "lanes", .threads = 1});
    atomic_bool running = false;
    closed = true;
    assert_int_equal(pool_add(p, 2, wait_at_gate, &running), 0);
    eventually(atomic_load(&running));
    static const struct {
        unsigned lane;
        const char *letter;
    } jobs[] = {{2, "e"}, {1, "c"}, {0, "a"}, {1, "d"}, {0, "b"}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        assert_int_equal(pool_add(p, jobs[i].lane, note_letter, (void *)jobs[i].letter), 0);
    assert_int_equal(pool_queued(p, 0), 2);
    assert_int_equal(pool_queued(p, 2), 1);
    closed = false;
    pool_free(p);
    assert_string_equal(order, "abcde");
}

/* While one runs, two more of its lane may wait for that thread; the third wakes another. */
static void test_batch(void **state)
{
    (void)state;
    struct pool *p = pool_new(
        &(struct pool_conf){.name = "batch", .threads = 2, .batch = {[0] = 2}});
    atomic_bool running[4] = {false};
    closed = true;
    assert_int_equal(pool_add(p, 0, wait_at_gate, &running[0]), 0);
    eventually(atomic_load(&running[0]));
    assert_int_equal(pool_add(p, 0, wait_at_gate, &running[1]), 0);
    assert_int_equal(pool_add(p, 0, wait_at_gate, &running[2]), 0);
    clock_sleep_ns(20 * NS_PER_MS);
    assert_false(atomic_load(&running[1]));
    assert_int_equal(pool_queued(p, 0), 2);
    assert_int_equal(pool_add(p, 0, wait_at_gate, &running[3]), 0);
    eventually(atomic_load(&running[1]));
    closed = false;
    pool_free(p);
    assert_true(atomic_load(&running[3]));
}

struct adder {
    struct pool *p;
    atomic_int added;
    atomic_bool running[6];
};

static void *add_six(void *arg)
{
    struct adder *a = arg;
    for (int i = 0; i < 6; i++) {
        pool_add(a->p, 0, wait_at_gate, &a->running[i]);
        atomic_fetch_add(&a->added, 1);
    }
    return NULL;
}

static void test_bounded(void **state)
{
    (void)state;
    struct adder a = {
        .p = pool_new(&(struct pool_conf){.name = "bounded", .threads = 1, .queue_max = 2})};
    closed = true;
    pthread_t adder;
    assert_int_equal(pthread_create(&adder, NULL, add_six, &a), 0);
    eventually(atomic_load(&a.added) == 3); /* one runs, two wait */
    clock_sleep_ns(20 * NS_PER_MS);
    assert_int_equal(atomic_load(&a.added), 3);
    closed = false;
    pthread_join(adder, NULL);
    pool_free(a.p);
    for (int i = 0; i < 6; i++)
        assert_true(atomic_load(&a.running[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_run),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
