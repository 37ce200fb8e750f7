/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "fuse/store/timed_call.h"
#include "lib/base/mem.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SOON_NS  (30 * NS_PER_MS)
#define NEVER_NS (60 * NS_PER_S)

/* A file system that can be stopped: calls wait at the gate. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t opened;
    bool shut;         /* mu */
    unsigned ended;    /* mu */
    atomic_uint alive; /* jobs that were not dropped */
} fs = {.mu = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

static void set_gate(bool shut)
{
    pthread_mutex_lock(&fs.mu);
    fs.shut = shut;
    pthread_cond_broadcast(&fs.opened);
    pthread_mutex_unlock(&fs.mu);
}

static unsigned ended(void)
{
    pthread_mutex_lock(&fs.mu);
    unsigned n = fs.ended;
    pthread_mutex_unlock(&fs.mu);
    return n;
}

struct answer {
    struct timed_job job;
    int question, answer;
    bool open; /* does not wait at the gate */
    char *bytes;
};

static void run(struct timed_job *job)
{
    struct answer *a = (struct answer *)job;
    pthread_mutex_lock(&fs.mu);
    while (fs.shut && !a->open)
        pthread_cond_wait(&fs.opened, &fs.mu);
    fs.ended++;
    pthread_mutex_unlock(&fs.mu);
    a->answer = a->question + 1;
    memset(a->bytes, 'x', 4096);
}

static void drop(struct timed_job *job)
{
    struct answer *a = (struct answer *)job;
    free(a->bytes);
    free(a);
    atomic_fetch_sub(&fs.alive, 1);
}

static struct answer *ask(int question)
{
    struct answer *a = xcalloc(1, sizeof *a);
    a->job.run = run;
    a->job.drop = drop;
    a->job.what = "file:///x/f";
    a->question = question;
    a->bytes = xmalloc(4096);
    atomic_fetch_add(&fs.alive, 1);
    return a;
}

static int call_job(struct timed_calls *g, struct answer *a, int64_t ns, struct err *e)
{
    int want = a->question + 1;
    if (timed_call(g, &a->job, clock_mono_ns() + ns, NULL, e))
        return -1;
    assert_int_equal(a->answer, want);
    assert_int_equal(a->bytes[4095], 'x');
    drop(&a->job);
    return 0;
}

static int call(struct timed_calls *g, int question, int64_t ns, struct err *e)
{
    return call_job(g, ask(question), ns, e);
}

static struct timed_stats stats(struct timed_calls *g)
{
    struct timed_stats s;
    timed_calls_stats(g, &s);
    return s;
}

static void assert_no_answer(const struct err *e)
{
    assert_int_equal(e->cls, ERR_RETRY);
    assert_int_equal(err_errno(e), EIO);
    assert_string_equal(store_reason(e), "Unreachable");
    assert_non_null(strstr(
        e->msg, "file:///x/f: Unreachable: the file system of /x has not answered since 20"));
}

static int setup(void **state)
{
    set_gate(false);
    *state = timed_calls_new(&(struct timed_conf){.name = "/x", .max_stuck = 8, .max_trying = 2});
    return 0;
}

static int teardown(void **state)
{
    set_gate(false);
    timed_calls_free(*state);
    eventually(atomic_load(&fs.alive) == 0);
    return 0;
}

static void what_returns_in_time_is_the_callers(void **state)
{
    struct err e = ERR_INIT;
    for (int i = 0; i < 100; i++)
        assert_int_equal(call(*state, i, NEVER_NS, &e), 0);
    assert_int_equal(stats(*state).threads, 1); /* the same helper, again and again */
    assert_int_equal(stats(*state).stuck, 0);
}

static void what_does_not_return_is_given_up_and_tidied_up_later(void **state)
{
    struct err e = ERR_INIT;
    unsigned before = ended();
    set_gate(true);
    int64_t begun = clock_mono_ns();
    assert_int_equal(call(*state, 1, SOON_NS, &e), -1);
    assert_true(clock_mono_ns() - begun >= SOON_NS);
    assert_no_answer(&e);
    assert_int_equal(stats(*state).stuck, 1);
    assert_true(stats(*state).silent);
    assert_int_equal(atomic_load(&fs.alive), 1); /* still that helper's */
    set_gate(false);
    eventually(stats(*state).stuck == 0);
    assert_int_equal(atomic_load(&fs.alive), 0);
    assert_int_equal(ended() - before, 1);
    assert_false(stats(*state).silent);
    assert_int_equal(call(*state, 2, NEVER_NS, &e), 0);
}

static void it_is_tried_again_and_the_first_answer_ends_the_silence(void **state)
{
    struct err e = ERR_INIT;
    set_gate(true);
    assert_int_equal(call(*state, 1, SOON_NS, &e), -1);
    struct answer *other = ask(2);
    other->open = true;
    /* another file, whose server is well */
    assert_int_equal(call_job(*state, other, NEVER_NS, &e), 0);
    assert_false(stats(*state).silent);
    assert_int_equal(stats(*state).stuck, 1);
}

static void no_more_helpers_are_stuck_than_may_be(void **state)
{
    struct err e = ERR_INIT;
    set_gate(true);
    for (int i = 0; i < 8; i++)
        assert_int_equal(call(*state, i, SOON_NS, &e), -1);
    assert_int_equal(stats(*state).stuck, 8);
    int64_t begun = clock_mono_ns();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(call(*state, i, NEVER_NS, &e), -1);
        assert_no_answer(&e);
    }
    assert_true(clock_mono_ns() - begun < NEVER_NS); /* at once */
    assert_int_equal(stats(*state).threads, 8);
    assert_int_equal(atomic_load(&fs.alive), 8);
    set_gate(false);
    eventually(stats(*state).stuck == 0);
    assert_int_equal(call(*state, 2, NEVER_NS, &e), 0);
}

struct caller {
    pthread_t thread;
    struct timed_calls *g;
    int64_t ns, took_ns;
    const atomic_bool *cancel;
    int rc;
    struct err e;
};

static void *call_on_thread(void *arg)
{
    struct caller *c = arg;
    struct answer *a = ask(1);
    int64_t begun = clock_mono_ns();
    c->rc = timed_call(c->g, &a->job, begun + c->ns, c->cancel, &c->e);
    c->took_ns = clock_mono_ns() - begun;
    if (c->rc == 0)
        drop(&a->job);
    return NULL;
}

static void while_nothing_returns_few_wait(void **state)
{
    struct err e = ERR_INIT;
    struct caller callers[2];
    set_gate(true);
    assert_int_equal(call(*state, 1, SOON_NS, &e), -1);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        callers[i] = (struct caller){.g = *state, .ns = NEVER_NS};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_on_thread, &callers[i]), 0);
    }
    eventually(stats(*state).threads == 3);
    int64_t asked = clock_mono_ns();
    /* there are two who find out whether it is back */
    assert_int_equal(call(*state, 1, NEVER_NS, &e), -1);
    assert_true(clock_mono_ns() - asked < NEVER_NS / 2);
    assert_no_answer(&e);
    struct answer *rest = ask(5); /* of something that is open */
    rest->job.goes_on = true;
    assert_int_equal(call_job(*state, rest, SOON_NS, &e), -1);
    assert_int_equal(stats(*state).stuck, 2);
    set_gate(false);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].rc, 0);
    }
}

static void a_change_waits_for_one_that_was_given_up(void **state)
{
    struct err e = ERR_INIT;
    set_gate(true);
    struct answer *first = ask(1), *second = ask(2), *third = ask(3), *look = ask(4);
    first->job.change = second->job.change = third->job.change = true;
    look->open = second->open = third->open = true;
    assert_int_equal(call_job(*state, first, SOON_NS, &e), -1);
    assert_int_equal(call_job(*state, look, NEVER_NS, &e), 0);
    unsigned before = ended();
    assert_int_equal(call_job(*state, second, SOON_NS, &e), -1); /* it could be overtaken */
    assert_no_answer(&e);
    assert_int_equal(ended(), before);
    set_gate(false);
    eventually(stats(*state).stuck == 0);
    assert_int_equal(call_job(*state, third, NEVER_NS, &e), 0);
}

static void who_is_cancelled_does_not_wait(void **state)
{
    atomic_bool cancel = false;
    struct caller c = {.g = *state, .ns = NEVER_NS, .cancel = &cancel};
    set_gate(true);
    assert_int_equal(pthread_create(&c.thread, NULL, call_on_thread, &c), 0);
    eventually(stats(*state).threads == 1);
    atomic_store(&cancel, true);
    pthread_join(c.thread, NULL);
    assert_int_equal(c.rc, -1);
    assert_int_equal(c.e.sys, ECANCELED);
    assert_true(c.took_ns < NEVER_NS / 2);
    assert_false(stats(*state).silent); /* that says nothing about the file system */
}

static void many_at_once(void **state)
{
    struct caller callers[16];
    for (int round = 0; round < 20; round++) {
        set_gate(round % 2);
        for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
            callers[i] = (struct caller){.g = *state, .ns = (int64_t)i * NS_PER_MS};
            assert_int_equal(
                pthread_create(&callers[i].thread, NULL, call_on_thread, &callers[i]), 0);
        }
        clock_sleep_ns(8 * NS_PER_MS);
        set_gate(false); /* answers and deadlines meet */
        for (size_t i = 0; i < ARRAY_LEN(callers); i++)
            pthread_join(callers[i].thread, NULL);
    }
    eventually(stats(*state).stuck == 0);
    assert_int_equal(atomic_load(&fs.alive), 0);
}

static void it_goes_while_helpers_are_stuck(void **state)
{
    (void)state;
    struct timed_calls *g = timed_calls_new(&(struct timed_conf){.name = "/x"});
    struct err e = ERR_INIT;
    set_gate(false);
    assert_int_equal(call(g, 1, NEVER_NS, &e), 0);
    set_gate(true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(call(g, i, SOON_NS, &e), -1);
    timed_calls_free(g);
    assert_int_equal(atomic_load(&fs.alive), 3);
    set_gate(false);
    eventually(atomic_load(&fs.alive) == 0);
}

/* The last test: they are still there when the program ends. */
static void the_end_does_not_wait_either(void **state)
{
    (void)state;
    struct timed_calls *g = timed_calls_new(&(struct timed_conf){.name = "/x"});
    struct err e = ERR_INIT;
    set_gate(true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(call(g, i, SOON_NS, &e), -1);
    timed_calls_free(g);
    assert_int_equal(atomic_load(&fs.alive), 3);
}

#define with_guard(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {with_guard(what_returns_in_time_is_the_callers),
        with_guard(what_does_not_return_is_given_up_and_tidied_up_later),
        with_guard(it_is_tried_again_and_the_first_answer_ends_the_silence),
        with_guard(no_more_helpers_are_stuck_than_may_be),
        with_guard(while_nothing_returns_few_wait),
        with_guard(a_change_waits_for_one_that_was_given_up),
        with_guard(who_is_cancelled_does_not_wait), with_guard(many_at_once),
        cmocka_unit_test(it_goes_while_helpers_are_stuck),
        cmocka_unit_test(the_end_does_not_wait_either)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
