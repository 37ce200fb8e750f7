/* SPDX-License-Identifier: Apache-2.0 */
/* What a call tells that has failed at its deadline. */
#include "tests/lib/unit.h"

#include "fuse/store/impl.h"

#include <errno.h>

#define FAR (60 * NS_PER_S)

static void fails_of(struct err *e, enum err_class cls, const char *why)
{
    store_err(e, cls, EIO, REASON_STORE_ERROR, "file", ": %s", why);
}

/* A call that has failed of safe mode, and whose time is over; its last attempt began so long ago.
 */
static void call_ends(struct retry *r, int64_t began_ago_ns)
{
    struct err e = ERR_INIT;
    *r = (struct retry)RETRY_INIT(FAR, NULL);
    fails_of(&e, ERR_RETRY, "safe mode");
    assert_true(retry_again(r, &e, -1));
    r->begun_ns = clock_mono_ns() - began_ago_ns;
    r->deadline_ns = clock_mono_ns();
}

static void tells(struct retry *r, enum err_class cls, const char *why, const char *words)
{
    struct err e = ERR_INIT;
    fails_of(&e, cls, why);
    assert_false(retry_again(r, &e, -1));
    assert_non_null(strstr(e.msg, words));
}

static void what_the_deadline_cuts_is_no_cause(void **state)
{
    (void)state;
    struct retry r;
    call_ends(&r, -FAR); /* just now, also on a machine that stands still meanwhile */
    tells(&r, ERR_RETRY, "timed out", "safe mode");
    tells(&r, ERR_RETRY, "timed out", "safe mode"); /* asked by the caller of a step, too */
    call_ends(&r, -FAR);
    tells(&r, ERR_DENIED, "no rights", "no rights"); /* an answer, and the last one */
    call_ends(&r, FAR);
    tells(&r, ERR_RETRY, "timed out", "timed out"); /* it had its time */
}

static void the_first_failure_is_its_own_cause(void **state)
{
    (void)state;
    struct retry r = RETRY_INIT(0, NULL);
    tells(&r, ERR_RETRY, "timed out", "timed out");
    r = (struct retry)RETRY_INIT(FAR, NULL);
    r.max_attempts = 1;
    tells(&r, ERR_RETRY, "reset", "reset");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_the_deadline_cuts_is_no_cause),
        cmocka_unit_test(the_first_failure_is_its_own_cause)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
