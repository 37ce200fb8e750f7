/* SPDX-License-Identifier: Apache-2.0 */
/* What was made exclusively is known again by who made it, and by nobody else: of every kind. */
#include "tests/lib/unit.h"

#include "tests/unit/fuse/store/store_kinds.h"

#include <errno.h>

static bool makes_file(struct store *s, uint64_t mark)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    if (store_put(s, "file", &(struct store_put){.fd = -1, .expect = "", .mark = mark}, &st, &e)
        == 0)
        return st.size == 0;
    fails(-1, &e, ERR_CONFLICT, EEXIST);
    return false;
}

static void test_own_file(void **state)
{
    struct subject *t = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    assert_true(makes_file(t->s, 1) && makes_file(t->s, 1)); /* made, and asked for again */
    assert_false(makes_file(t->s, 0));
    assert_false(makes_file(t->s, 2));
    ok(store_put(t->s, "file", &(struct store_put){.fd = -1}, &st, &e), &e);
    assert_false(makes_file(t->s, 1)); /* somebody has written to it */
}

static bool makes_dir(struct store *s, uint64_t mark)
{
    struct err e = ERR_INIT;
    if (store_mkdir(s, "dir", mark, &e) == 0)
        return true;
    fails(-1, &e, ERR_EXISTS, EEXIST);
    return false;
}

static void test_own_directory(void **state)
{
    struct subject *t = *state;
    struct err e = ERR_INIT;
    assert_true(makes_dir(t->s, 1) && makes_dir(t->s, 1));
    assert_false(makes_dir(t->s, 0));
    assert_false(makes_dir(t->s, 2));
    ok(store_rmdir(t->s, "dir", &e), &e);
    assert_true(makes_dir(t->s, 0)); /* somebody else's */
    assert_false(makes_dir(t->s, 1));
}

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct subject file = {0}, dir = {0};
        kinds[i].open(&file);
        kinds[i].open(&dir);
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(test_own_file, &file),
            cmocka_unit_test_prestate(test_own_directory, &dir),
        };
        failed += cmocka_run_group_tests_name(kinds[i].name, tests, NULL, NULL);
        subject_close(&file);
        subject_close(&dir);
    }
    return failed;
}
