/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that waits, with a mutex of its own and with one of its caller's. */
#include "lib/base/clock.h"
#include "lib/base/task.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <pthread.h>

struct counter {
    struct task task;
    pthread_mutex_t mu;
    unsigned work; /* mu */
    int64_t every_ns;
    atomic_uint turns, done;
    char name[16];
};

/* Counts how often it wakes: by itself every so long, or when it is told to. */
static void count_turns(void *user)
{
    struct counter *c = user;
    pthread_getname_np(pthread_self(), c->name, sizeof c->name);
    while (!task_wait(&c->task, c->every_ns ? clock_mono_ns() + c->every_ns : TASK_FOREVER))
        atomic_fetch_add(&c->turns, 1);
}

static void test_wake_and_stop(void **state)
{
    (void)state;
    struct counter c = {0};
    task_stop(&c.task); /* never started: nothing happens */
    assert_int_equal(task_start(&c.task, "counts", count_turns, &c, NULL), 0);
    task_wake(&c.task);
    eventually(atomic_load(&c.turns) == 1);
    task_wake(&c.task);
    eventually(atomic_load(&c.turns) == 2);
    assert_false(atomic_load(&c.task.stop));
    task_stop(&c.task);
    assert_true(atomic_load(&c.task.stop));
    assert_int_equal(atomic_load(&c.turns), 2);
    assert_string_equal(c.name, "counts");
    task_stop(&c.task); /* twice is fine */

    assert_int_equal(task_start(&c.task, "counts", count_turns, &c, NULL), 0); /* and again */
    task_wake(&c.task);
    eventually(atomic_load(&c.turns) == 3);
    task_cancel(&c.task);
    task_stop(&c.task);
    assert_int_equal(atomic_load(&c.turns), 3);
}

static void test_time(void **state)
{
    (void)state;
    struct counter c = {.every_ns = NS_PER_MS};
    assert_int_equal(task_start(&c.task, "ticks", count_turns, &c, NULL), 0);
    eventually(atomic_load(&c.turns) >= 3); /* without a wake */
    task_stop(&c.task);
}

static void work_off(void *user)
{
    struct counter *c = user;
    pthread_mutex_lock(&c->mu);
    while (!task_wait(&c->task, c->work ? 0 : TASK_FOREVER)) {
        if (!c->work)
            continue;
        c->work--;
        pthread_mutex_unlock(&c->mu);
        atomic_fetch_add(&c->done, 1);
        pthread_mutex_lock(&c->mu);
    }
    pthread_mutex_unlock(&c->mu);
}

static void test_borrowed_mutex(void **state)
{
    (void)state;
    struct counter c = {.mu = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(task_start_with(&c.task, &c.mu, "works", work_off, &c, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) {
        pthread_mutex_lock(&c.mu);
        c.work++;
        task_wake(&c.task);
        pthread_mutex_unlock(&c.mu);
    }
    eventually(atomic_load(&c.done) == 1000); /* no wake is lost */
    task_stop(&c.task);
    assert_int_equal(c.work, 0);
    assert_int_equal(pthread_mutex_trylock(&c.mu), 0); /* the thread left it unlocked */
    pthread_mutex_unlock(&c.mu);
    pthread_mutex_destroy(&c.mu);
}

static void wait_at_once(void *user)
{
    struct counter *c = user;
    task_wait(&c->task, 0);
    atomic_store(&c->done, 1);
}

static void test_no_time_to_wait(void **state)
{
    (void)state;
    struct counter c = {0};
    assert_int_equal(task_start(&c.task, "returns", wait_at_once, &c, NULL), 0);
    eventually(atomic_load(&c.done) == 1);
    task_stop(&c.task); /* it has ended by itself */
}

static void cancel_itself(void *user)
{
    struct counter *c = user;
    task_cancel(&c->task);
    atomic_store(&c->done, task_wait(&c->task, TASK_FOREVER));
}

static void test_cancels_itself(void **state)
{
    (void)state;
    struct counter c = {0};
    assert_int_equal(task_start(&c.task, "cancels", cancel_itself, &c, NULL), 0);
    task_stop(&c.task);
    assert_int_equal(atomic_load(&c.done), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wake_and_stop),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_borrowed_mutex),
        cmocka_unit_test(test_no_time_to_wait),
        cmocka_unit_test(test_cancels_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
