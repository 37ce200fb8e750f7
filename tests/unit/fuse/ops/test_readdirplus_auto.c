/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/ops/readdirplus_auto.h"

#include <string.h>

static void list_many(struct readdirplus_auto *h, uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        readdirplus_auto_listed(h, first + i);
}

static void look(struct readdirplus_auto *h, uint64_t dir, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        readdirplus_auto_looked_up(h, dir);
}

static void test_names_only(void **state)
{
    (void)state;
    struct readdirplus_auto h = {0};
    for (uint64_t dir = 1; dir < 1000; dir++)
        assert_false(readdirplus_auto_listed(&h, dir));
}

static void test_who_looks_gets_attributes(void **state)
{
    (void)state;
    struct readdirplus_auto h = {0};
    assert_false(readdirplus_auto_listed(&h, 1));
    look(&h, 1, READDIRPLUS_AUTO_LOOKS - 1);
    assert_false(readdirplus_auto_listed(&h, 2));
    readdirplus_auto_looked_up(&h, 2); /* of whichever directory */
    for (int i = 0; i < READDIRPLUS_AUTO_LISTINGS; i++)
        assert_true(readdirplus_auto_listed(&h, 3));
}

/* With attributes nobody need look up anything: whether they are wanted is seen again without. */
static void test_it_ends(void **state)
{
    (void)state;
    struct readdirplus_auto h = {0};
    readdirplus_auto_listed(&h, 1);
    look(&h, 1, READDIRPLUS_AUTO_LOOKS);
    list_many(&h, 2, READDIRPLUS_AUTO_LISTINGS);
    assert_false(readdirplus_auto_listed(&h, 1000));
    look(&h, 1000, READDIRPLUS_AUTO_LOOKS);
    assert_true(readdirplus_auto_listed(&h, 1001));
}

static void test_long_ago(void **state)
{
    (void)state;
    struct readdirplus_auto h = {0};
    readdirplus_auto_listed(&h, 1);
    list_many(&h, 2, READDIRPLUS_AUTO_RECENT);
    look(&h, 1, 10 * READDIRPLUS_AUTO_LOOKS); /* not what was listed a moment ago */
    look(&h, 5000, 10 * READDIRPLUS_AUTO_LOOKS);
    assert_false(readdirplus_auto_listed(&h, 100));
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
