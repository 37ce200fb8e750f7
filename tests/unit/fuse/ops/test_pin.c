/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests about cached files can be done: they come from whoever has the mount. */
#include "tests/lib/unit.h"

#include "fuse/ops/pin.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <string.h>

static void test_requests(void **state)
{
    (void)state;
    const struct pin_msg ok = {.op = PIN_LOAD, .len = PIN_PIECE};
    static const struct {
        uint32_t op, flags, unused;
        uint64_t off, len;
        const char *name;
        bool dir;
        int errnum; /* 0: fine */
    } cases[] = {
        {PIN_LOAD, 0, 0, 0, PIN_PIECE, "", false, 0},
        {PIN_SET, 0, 0, INT64_MAX, 0, "", false, 0},
        {PIN_ASK, 0, 0, 0, INT64_MAX, "", false, 0},
        {PIN_FREE, 0, 0, 0, INT64_MAX, "a", true, 0},
        {PIN_CLEAR, 0, 0, 0, 0, "\xff\n", true, 0},
        {PIN_CLEAR_ALL, 0, 0, 0, 0, "", true, 0},
        {PIN_CLEAR_ALL, 0, 0, 0, 0, "", false, 0},
        {PIN_LOAD, 0, 0, 0, 1, "...", true, 0},
        {PIN_LOAD, 0, 0, 0, 1, ".a", true, 0},
        {0, 0, 0, 0, 1, "", false, ENOTTY},
        {PIN_CLEAR_ALL + 1, 0, 0, 0, 1, "", false, ENOTTY},
        {UINT32_MAX, 0, 0, 0, 1, "", false, ENOTTY},
        {PIN_LOAD, 1, 0, 0, 1, "", false, EINVAL},
        {PIN_LOAD, 0, 1, 0, 1, "", false, EINVAL},
        {PIN_LOAD, 0, 0, 0, PIN_PIECE + 1, "", false, EINVAL},
        {PIN_SET, 0, 0, 0, UINT64_MAX, "", false, EINVAL},
        {PIN_LOAD, 0, 0, UINT64_MAX, 1, "", false, EINVAL},
        {PIN_ASK, 0, 0, 0, UINT64_MAX, "", false, EINVAL},
        {PIN_LOAD, 0, 0, 0, 1, "a", false, EINVAL},
        {PIN_CLEAR_ALL, 0, 0, 0, 0, "a", true, EINVAL},
        {PIN_LOAD, 0, 0, 0, 1, "a/b", true, EINVAL},
        {PIN_LOAD, 0, 0, 0, 1, "/", true, EINVAL},
        {PIN_LOAD, 0, 0, 0, 1, ".", true, EINVAL},
        {PIN_LOAD, 0, 0, 0, 1, "..", true, EINVAL},
        {PIN_LOAD, 0, 0, 0, 1, "", true, EISDIR},
        {PIN_FREE, 0, 0, 0, 1, "", true, EISDIR},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pin_msg m = ok;
        struct err e = ERR_INIT;
        m.op = cases[i].op;
        m.flags = cases[i].flags;
        m.unused = cases[i].unused;
        m.off = cases[i].off;
        m.len = cases[i].len;
        strcpy(m.name, cases[i].name);
        int rc = pin_check(&m, cases[i].dir, &e);
        if (rc != (cases[i].errnum ? -1 : 0) || e.sys != cases[i].errnum)
            print_error("case %zu: %d %s\n", i, rc, e.msg);
        assert_int_equal(rc, cases[i].errnum ? -1 : 0);
        assert_int_equal(e.sys, cases[i].errnum);
    }
}

static void test_names(void **state)
{
    (void)state;
    struct pin_msg m = {.op = PIN_LOAD, .len = 1};
    struct err e = ERR_INIT;
    memset(m.name, 'x', sizeof m.name - 1);
    assert_int_equal(pin_check(&m, true, &e), 0);
    m.name[sizeof m.name - 1] = 'x'; /* it does not end */
    assert_int_equal(pin_check(&m, true, &e), -1);
    assert_int_equal(e.sys, EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
