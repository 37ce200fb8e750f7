/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/ops/readdirplus_auto.h"

#include <string.h>

static void list_many(struct habit *h, uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        habit_listed(h, first + i);
}

static void look(struct habit *h, uint64_t dir, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        habit_looked(h, dir);
}

static void test_names_only(void **state)
{
    (void)state;
    struct habit h = {0};
    for (uint64_t dir = 1; dir < 1000; dir++)
        assert_false(habit_listed(&h, dir));
}

static void test_who_looks_gets_attributes(void **state)
{
    (void)state;
    struct habit h = {0};
    assert_false(habit_listed(&h, 1));
    look(&h, 1, HABIT_LOOKS - 1);
    assert_false(habit_listed(&h, 2));
    habit_looked(&h, 2); /* of whichever directory */
    for (int i = 0; i < HABIT_LISTINGS; i++)
        assert_true(habit_listed(&h, 3));
}

/* With attributes nobody need look up anything: whether they are wanted is seen again without. */
static void test_it_ends(void **state)
{
    (void)state;
    struct habit h = {0};
    habit_listed(&h, 1);
    look(&h, 1, HABIT_LOOKS);
    list_many(&h, 2, HABIT_LISTINGS);
    assert_false(habit_listed(&h, 1000));
    look(&h, 1000, HABIT_LOOKS);
    assert_true(habit_listed(&h, 1001));
}

static void test_long_ago(void **state)
{
    (void)state;
    struct habit h = {0};
    habit_listed(&h, 1);
    list_many(&h, 2, HABIT_RECENT);
    look(&h, 1, 10 * HABIT_LOOKS); /* not what was listed a moment ago */
    look(&h, 5000, 10 * HABIT_LOOKS);
    assert_false(habit_listed(&h, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_only),
        cmocka_unit_test(test_who_looks_gets_attributes),
        cmocka_unit_test(test_it_ends),
        cmocka_unit_test(test_long_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
