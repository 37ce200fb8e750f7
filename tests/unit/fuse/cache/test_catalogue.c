/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue against a model: many short lives and a few long ones of random operations.
 * MILLRACE_SEED=N repeats the one that failed. */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "tests/unit/fuse/cache/catalogue_drive.h"

static struct model model;

static void run(uint64_t seed, size_t len)
{
    uint8_t *data = malloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(hash64_mix(seed, i) >> 17);
    unsigned steps;
    const char *failure = model_run(&model, data, len, &steps);
    free(data);
    if (failure)
        fail_msg("MILLRACE_SEED=%llu, %zu bytes: %s", (unsigned long long)seed, len, failure);
    assert_true(steps > len / 16); /* the bytes were spent on operations */
}

static void lives(unsigned n, size_t len)
{
    const char *given = getenv("MILLRACE_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)clock_real_ns();
    for (unsigned i = 0; i < (given ? 1 : n); i++)
        run(seed + i, len);
}

static void test_short_lives(void **state)
{
    (void)state;
    lives(400, 600);
}

static void test_long_lives(void **state)
{
    (void)state;
    lives(6, 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_lives),
        cmocka_unit_test(test_long_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
