/* SPDX-License-Identifier: Apache-2.0 */
/* Which hundredths a container gets, and a thousand random allocations that a checker with books of
 * its own looks at. */
#include "tests/lib/unit.h"

#include "csi/gpu/units.h"
#include "lib/base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS        4
#define ALLOCATIONS 1000

static void test_names(void **state)
{
    (void)state;
    unsigned minor, unit;
    struct err e = ERR_INIT;
    char name[UNIT_ID_MAX];
    unit_print(253, 7, name);
    assert_string_equal(name, "gpu253-07");
    assert_int_equal(unit_parse("gpu253-07", &minor, &unit, &e), 0);
    assert_int_equal(minor, 253);
    assert_int_equal(unit, 7);
    static const char *const bad[] = {"", "gpu", "gpu0", "gpu0-", "gpu0-7", "gpu0-007", "gpu0-100",
        "gpu256-00", "gpu-1-00", "gpu 0-00", "gpu+0-00", "gpu0--1", "gpu0-00 ", "GPU0-00",
        "gpu99999999999999999999-00", "gpu0-0x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err why = ERR_INIT;
        if (unit_parse(bad[i], &minor, &unit, &why) == 0)
            fail_msg("'%s' is taken for gpu%u-%02u", bad[i], minor, unit);
        assert_int_equal(why.cls, ERR_INVALID);
    }
}

/* Free units of GPUs, of each the first n; the caller's array holds the strings. */
static size_t free_list(const size_t *n, size_t gpus, char names[][UNIT_ID_MAX], char **list)
{
    size_t k = 0;
    for (unsigned g = 0; g < gpus; g++)
        for (unsigned u = 0; u < n[g]; u++, k++) {
            unit_print(g, u, names[k]);
            list[k] = names[k];
        }
    return k;
}

static void test_best_fit(void **state)
{
    (void)state;
    static const struct {
        size_t left[GPUS], n;
        int gpu; /* -1: none */
    } cases[] = {
        {{100, 100, 100, 100}, 100, 0},
        {{100, 30, 20, 25}, 20, 2},
        {{100, 30, 20, 25}, 21, 3},
        {{100, 30, 20, 25}, 31, 0},
        {{0, 0, 0, 1}, 1, 3},
        {{50, 50, 50, 50}, 50, 0},
        {{50, 50, 50, 50}, 51, -1},
        {{0, 0, 0, 0}, 1, -1},
    };
    char names[GPUS * GPU_UNITS][UNIT_ID_MAX], *list[GPUS * GPU_UNITS], *chosen[GPU_UNITS];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        unsigned minor = 99;
        size_t n = free_list(cases[i].left, GPUS, names, list);
        int rc = units_choose(list, n, NULL, 0, cases[i].n, chosen, &e);
        if (rc != (cases[i].gpu < 0 ? -1 : 0))
            fail_msg("case %zu: %d %s", i, rc, e.msg);
        if (rc)
            assert_int_equal(e.cls, ERR_EXHAUSTED);
        else if (units_gpu(chosen, cases[i].n, &minor, &e) || (int)minor != cases[i].gpu)
            fail_msg("case %zu: gpu%u instead of gpu%d %s", i, minor, cases[i].gpu, e.msg);
    }
}

static void test_must_include(void **state)
{
    (void)state;
    char names[GPUS * GPU_UNITS][UNIT_ID_MAX], *list[GPUS * GPU_UNITS], *chosen[GPU_UNITS];
    struct err e = ERR_INIT;
    unsigned minor;
    size_t n = free_list((size_t[]){10, 100, 0, 0}, GPUS, names, list);
    char *must[] = {(char *)"gpu1-40", (char *)"gpu1-41"};
    assert_int_equal(units_choose(list, n, must, 2, 5, chosen, &e), 0);
    assert_int_equal(units_gpu(chosen, 5, &minor, &e), 0);
    assert_int_equal(minor, 1); /* gpu0 would fit better */
    assert_string_equal(chosen[0], "gpu1-40");
    assert_string_equal(chosen[1], "gpu1-41");
    char *of_two[] = {(char *)"gpu0-01", (char *)"gpu1-41"};
    assert_int_equal(units_choose(list, n, of_two, 2, 5, chosen, &e), -1);
    char *of_small[] = {(char *)"gpu0-01"};
    assert_int_equal(units_choose(list, n, of_small, 1, 11, chosen, &e), -1);
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    assert_int_equal(units_choose(list, n, must, 2, 1, chosen, &e), -1);
}

static void test_refusals(void **state)
{
    (void)state;
    char names[GPUS * GPU_UNITS][UNIT_ID_MAX], *list[GPUS * GPU_UNITS], *chosen[GPU_UNITS];
    struct err e = ERR_INIT;
    unsigned minor;
    size_t n = free_list((size_t[]){100, 100, 0, 0}, GPUS, names, list);
    assert_int_equal(units_choose(list, n, NULL, 0, 101, chosen, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(strstr(e.msg, "nvidia.com/gpu"));
    assert_int_equal(units_choose(list, n, NULL, 0, 0, chosen, &e), -1);
    char *apart[] = {(char *)"gpu0-00", (char *)"gpu1-00"};
    assert_int_equal(units_gpu(apart, 2, &minor, &e), -1);
    assert_non_null(strstr(e.msg, "pieces of gpu0 and gpu1"));
    char *twice[] = {(char *)"gpu0-00", (char *)"gpu0-00"};
    assert_int_equal(units_gpu(twice, 2, &minor, &e), -1);
    assert_int_equal(units_gpu(NULL, 0, &minor, &e), -1);
    char *foreign[] = {(char *)"GPU-1234"};
    assert_int_equal(units_choose(foreign, 1, NULL, 0, 1, chosen, &e), -1);
    assert_int_equal(units_choose(list, 10, NULL, 0, 11, chosen, &e), -1);
    assert_non_null(strstr(e.msg, "more than 10 % free"));
}

/* The checker's books: who holds "gpuG-UU", by its name as text alone. */
struct books {
    int holder[GPUS][GPU_UNITS]; /* 0: nobody */
};

static int *books_of(struct books *b, const char *name)
{
    if (strlen(name) != 7 || name[3] < '0' || name[3] >= '0' + GPUS)
        fail_msg("no such unit: %s", name);
    return &b->holder[name[3] - '0'][(name[5] - '0') * 10 + name[6] - '0'];
}

static size_t books_free(const struct books *b, int gpu)
{
    size_t n = 0;
    for (size_t i = 0; i < GPU_UNITS; i++)
        n += b->holder[gpu][i] == 0;
    return n;
}

/* The fewest free units of a GPU that are enough; 0: none has enough. */
static size_t books_tightest(const struct books *b, size_t n)
{
    size_t best = 0;
    for (int g = 0; g < GPUS; g++) {
        size_t left = books_free(b, g);
        if (left >= n && (best == 0 || left < best))
            best = left;
    }
    return best;
}

static void books_allocate(struct books *b, int who, char *const *chosen, size_t n)
{
    size_t tightest = books_tightest(b, n);
    if (tightest == 0)
        fail_msg("%zu units were given, and no GPU had them", n);
    assert_int_equal(books_free(b, chosen[0][3] - '0'), tightest);
    for (size_t i = 0; i < n; i++) {
        if (chosen[i][3] != chosen[0][3])
            fail_msg("%s and %s are of different GPUs", chosen[0], chosen[i]);
        int *holder = books_of(b, chosen[i]);
        if (*holder)
            fail_msg("%s is of container %d already", chosen[i], *holder);
        *holder = who;
    }
}

static void test_random(void **state)
{
    (void)state;
    struct books b = {0};
    unsigned seed = 20240117;
    size_t given = 0, refused = 0;
    static char names[GPUS][GPU_UNITS][UNIT_ID_MAX];
    for (int who = 1; given < ALLOCATIONS; who++) {
        char *list[GPUS * GPU_UNITS], *chosen[GPU_UNITS];
        size_t n = 0, size = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 3 ? 20 : 100);
        if (who > 1 && rand_r(&seed) % 2) { /* somebody ends */
            int who_ends = 1 + rand_r(&seed) % (who - 1);
            for (size_t i = 0; i < GPUS * GPU_UNITS; i++)
                if (b.holder[i / GPU_UNITS][i % GPU_UNITS] == who_ends)
                    b.holder[i / GPU_UNITS][i % GPU_UNITS] = 0;
        }
        for (unsigned i = 0; i < GPUS * GPU_UNITS; i++) {
            char *name = names[i / GPU_UNITS][i % GPU_UNITS];
            snprintf(name, UNIT_ID_MAX, "gpu%u-%02u", i / GPU_UNITS, i % GPU_UNITS);
            if (b.holder[i / GPU_UNITS][i % GPU_UNITS] == 0)
                list[n++] = name;
        }
        for (size_t i = n; i > 1; i--) { /* kubelet's order is that of a hash table */
            size_t k = (size_t)rand_r(&seed) % i;
            char *swap = list[i - 1];
            list[i - 1] = list[k];
            list[k] = swap;
        }
        struct err e = ERR_INIT;
        unsigned minor = GPUS;
        if (units_choose(list, n, NULL, 0, size, chosen, &e)) {
            assert_int_equal(e.cls, ERR_EXHAUSTED);
            if (books_tightest(&b, size))
                fail_msg("%zu units are refused and would fit: %s", size, e.msg);
            refused++;
            memset(&b.holder[rand_r(&seed) % GPUS], 0, sizeof b.holder[0]); /* a GPU's pods end */
            continue;
        }
        books_allocate(&b, who, chosen, size);
        assert_int_equal(units_gpu(chosen, size, &minor, &e), 0);
        assert_int_equal(minor, chosen[0][3] - '0');
        given++;
    }
    print_message("# %zu allocations, %zu refused for want of room\n", given, refused);
    assert_true(refused > 50); /* the GPUs were full again and again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_must_include),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
