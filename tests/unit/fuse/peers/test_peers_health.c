/* SPDX-License-Identifier: Apache-2.0 */
/* Which workers are asked: after its pause, one that was down is tried by one reader, not by all.
 */
#include "tests/lib/unit.h"

#include "fuse/peers/priv.h"

#include <pthread.h>
#include <stdatomic.h>

#define ASKERS 8

struct asker {
    struct peer *w;
    pthread_barrier_t *together;
    unsigned yes, probes;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    bool probe;
    pthread_barrier_wait(a->together);
    for (int i = 0; i < 1000; i++) {
        probe = false;
        a->yes += peer_may_be_asked(a->w, &probe);
        a->probes += probe;
    }
    return NULL;
}

static void ask_all(struct peer *w, unsigned *yes, unsigned *probes)
{
    pthread_barrier_t together;
    pthread_t threads[ASKERS];
    struct asker askers[ASKERS];
    *yes = *probes = 0;
    pthread_barrier_init(&together, NULL, ASKERS);
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){w, &together, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        *yes += askers[i].yes;
        *probes += askers[i].probes;
    }
    pthread_barrier_destroy(&together);
}

static void test_one_probe(void **state)
{
    (void)state;
    char url[] = "http://worker";
    struct peer w = {.url = url, .mu = PTHREAD_MUTEX_INITIALIZER};
    unsigned yes, probes;
    ask_all(&w, &yes, &probes);
    assert_int_equal(yes, ASKERS * 1000); /* it is up */
    assert_int_equal(probes, 0);
    peer_failed(&w, "on purpose");
    w.down_until_ns = clock_mono_ns() + 3600 * NS_PER_S;
    ask_all(&w, &yes, &probes);
    assert_int_equal(yes, 0);
    /* the pause is over; the next one is longer than this test */
    w.down_until_ns = clock_mono_ns();
    w.backoff_ns = 3600 * NS_PER_S;
    ask_all(&w, &yes, &probes);
    assert_int_equal(yes, 1);
    assert_int_equal(probes, 1);
    peer_answered(&w);
    ask_all(&w, &yes, &probes);
    assert_int_equal(yes, ASKERS * 1000);
    assert_int_equal(probes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_probe)};
    return cmocka_run_group_tests_name("peers_health", tests, NULL, NULL);
}
