/* SPDX-License-Identifier: Apache-2.0 */
/* How a store's limits show: a server that asks for fewer requests, and one that does not answer.
 */
#include "tests/lib/unit.h"

#include "fuse/store/breaker.h"
#include "fuse/store/pace.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <string.h>

#define MANY 16
#define MOST 100

static const atomic_bool cancelled = true;

static void test_a_crowd_is_halved_once(void **state)
{
    (void)state;
    struct pace p;
    int64_t began[MANY];
    pace_init(&p, MOST);
    for (unsigned i = 0; i < MANY; i++)
        began[i] = pace_enter(&p, INT64_MAX, NULL);
    for (unsigned i = 0; i < MANY; i++)
        pace_leave(&p, began[i], true);
    assert_int_equal(p.window, MANY / 2);
    for (unsigned i = 0; i < MANY / 2; i++)
        began[i] = pace_enter(&p, INT64_MAX, NULL);
    int64_t now = clock_mono_ns();
    pace_enter(&p, now + 100 * NS_PER_MS, NULL); /* waits for its turn, and for no longer */
    assert_true(clock_mono_ns() - now >= 100 * NS_PER_MS);
    pace_enter(&p, INT64_MAX, &cancelled); /* or not at all */
    assert_int_equal(p.inside, MANY / 2 + 2);
    pace_leave(&p, began[0], true); /* of a crowd after the cut */
    assert_int_equal(p.window, MANY / 4);
    pace_fini(&p);
}

static void test_it_grows_by_one_a_round(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, MOST);
    int64_t began = pace_enter(&p, INT64_MAX, NULL);
    pace_leave(&p, began, true);
    assert_int_equal(p.window, 1); /* never none */
    for (unsigned window = 1; window < MOST; window++) {
        assert_int_equal(p.window, window);
        for (unsigned i = 0; i < window; i++) {
            began = pace_enter(&p, INT64_MAX, NULL);
            pace_leave(&p, began, false);
        }
    }
    for (unsigned i = 0; i < MOST; i++)
        pace_enter(&p, INT64_MAX, NULL);
    pace_leave(&p, began, false);
    assert_int_equal(p.window, MOST); /* and no more */
    pace_fini(&p);
}

/* One call: 0 if it was let in. */
static int call(struct breaker *b, enum err_class cls, int sys)
{
    int64_t began;
    struct err e = ERR_INIT, why = {.cls = cls, .sys = sys, .msg = "the cause"};
    if (breaker_enter(b, &began, &e)) {
        assert_int_equal(e.cls, ERR_RETRY);
        assert_non_null(strstr(e.msg, "the cause"));
        return -1;
    }
    assert_int_equal(breaker_leave(b, began, cls ? -1 : 0, &why), cls ? -1 : 0);
    return 0;
}

static void test_a_silent_store(void **state)
{
    (void)state;
    struct breaker b;
    struct err e = ERR_INIT, why = {.cls = ERR_RETRY, .sys = EIO, .msg = "the cause"};
    int64_t began[2 * BREAKER_TRYING_MAX], early;
    breaker_init(&b);
    assert_int_equal(call(&b, ERR_NOTFOUND, ENOENT), 0); /* a refusal is an answer */
    assert_int_equal(call(&b, ERR_RETRY, ECANCELED), 0); /* and this is none of the store's */
    assert_false(breaker_is_silent(&b));
    assert_int_equal(breaker_enter(&b, &early, &e), 0);
    assert_int_equal(call(&b, ERR_NONE, 0), 0);
    breaker_leave(&b, early, -1, &why); /* it answered others meanwhile */
    assert_false(breaker_is_silent(&b));
    for (unsigned i = 0; i < 2 * BREAKER_TRYING_MAX; i++)
        assert_int_equal(breaker_enter(&b, &began[i], &e), 0); /* no limit while it answers */
    for (unsigned i = BREAKER_TRYING_MAX; i < 2 * BREAKER_TRYING_MAX; i++)
        breaker_leave(&b, began[i], -1, &why);
    assert_true(breaker_is_silent(&b));
    assert_int_equal(call(&b, ERR_NONE, 0), -1); /* so many wait for it already */
    breaker_leave(&b, began[0], -1, &why);
    assert_int_equal(call(&b, ERR_RETRY, EIO), 0);
    assert_true(breaker_is_silent(&b));
    assert_int_equal(call(&b, ERR_NONE, 0), 0);
    assert_false(breaker_is_silent(&b));
    breaker_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_crowd_is_halved_once),
        cmocka_unit_test(test_it_grows_by_one_a_round), cmocka_unit_test(test_a_silent_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
