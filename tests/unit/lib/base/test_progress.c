/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for a lock gets on as long as its holder does, and no longer. */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define HELD   7 /* what the holder works on */
#define MINE   9
#define WAIT   (1500 * NS_PER_MS) /* it has looked meanwhile */
#define MARKED (5 * NS_PER_MS)

static struct progress_things of(uint64_t thing)
{
    return (struct progress_things){.a = thing, .b = thing};
}

static uint64_t count(uint64_t thing)
{
    const struct progress_things p = of(thing);
    return progress_count(&p);
}

static void mark_for(uint64_t thing, int64_t ns)
{
    progress_of(thing, thing);
    for (int64_t until = clock_mono_ns() + ns; clock_mono_ns() < until;) {
        progress_mark();
        clock_sleep_ns(MARKED);
    }
}

static void test_steps(void **state)
{
    (void)state;
    uint64_t held = count(HELD), mine = count(MINE), other = count(77), any = count(PROGRESS_ANY);
    progress_of(HELD, HELD);
    progress_also(MINE);
    progress_mark();
    assert_int_equal(count(HELD), held + 1);
    assert_int_equal(count(MINE), mine + 1);
    progress_of(HELD, MINE);
    progress_mark();
    assert_int_equal(count(HELD), held + 2);
    assert_int_equal(count(MINE), mine + 2); /* once */
    assert_int_equal(count(77), other);
    assert_int_equal(count(PROGRESS_ANY), any + 2);
    progress_of(PROGRESS_ANY, PROGRESS_ANY);
    progress_mark();
    assert_int_equal(count(77), other + 1);
    progress_of(0, 0);
}

struct waiter {
    pthread_t thread;
    pthread_mutex_t *mu;
    pthread_rwlock_t *lock;
    uint64_t a, b, waits_for;
    atomic_bool ready;
};

static void *waiter_thread(void *arg)
{
    struct waiter *w = arg;
    progress_of(w->a, w->b);
    atomic_store(&w->ready, true);
    if (w->mu) {
        progress_lock(w->mu, w->waits_for);
        pthread_mutex_unlock(w->mu);
    } else {
        progress_rdlock(w->lock, w->waits_for);
        pthread_rwlock_unlock(w->lock);
    }
    return NULL;
}

static void start(struct waiter *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, waiter_thread, w), 0);
    while (!atomic_load(&w->ready))
        clock_sleep_ns(NS_PER_MS);
    clock_sleep_ns(10 * NS_PER_MS);
}

/* Who waits behind one that waits gets on with the holder, and hangs with it. */
static void test_lock(void **state)
{
    (void)state;
    pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    struct waiter w = {.mu = &mu, .a = MINE, .b = HELD, .waits_for = HELD};
    pthread_mutex_lock(&mu);
    start(&w);
    uint64_t before = count(MINE);
    mark_for(HELD, WAIT);
    assert_true(count(MINE) > before);
    clock_sleep_ns(WAIT);
    before = count(MINE);
    clock_sleep_ns(2 * WAIT);
    assert_int_equal(count(MINE), before); /* nor by itself */
    uint64_t held = count(HELD);
    mark_for(77, WAIT);
    assert_int_equal(count(MINE), before);
    assert_int_equal(count(HELD), held);
    pthread_mutex_unlock(&mu);
    pthread_join(w.thread, NULL);
    progress_of(0, 0);
}

/* Two that wait for anybody do not keep each other going. */
static void test_rdlock(void **state)
{
    (void)state;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    struct waiter w[2] = {{.lock = &lock, .a = MINE, .b = MINE, .waits_for = PROGRESS_ANY},
        {.lock = &lock, .a = HELD, .b = HELD, .waits_for = PROGRESS_ANY}};
    pthread_rwlock_wrlock(&lock);
    start(&w[0]);
    start(&w[1]);
    uint64_t before = count(MINE);
    mark_for(77, WAIT);
    assert_true(count(MINE) > before);
    clock_sleep_ns(WAIT);
    before = count(MINE);
    clock_sleep_ns(2 * WAIT);
    assert_int_equal(count(MINE), before);
    pthread_rwlock_unlock(&lock);
    pthread_join(w[0].thread, NULL);
    pthread_join(w[1].thread, NULL);
    progress_of(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_rdlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
