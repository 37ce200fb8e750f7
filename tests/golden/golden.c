/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/golden.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX ((size_t)8 << 20)

struct test_case {
    char *dir; /* owned */
    golden_plan fn;
};

static json_t *load(const char *dir, const char *name)
{
    cleanup_free char *path = path_join(dir, name);
    struct err e = ERR_INIT;
    size_t len;
    cleanup_free char *text = file_read(path, FILE_MAX, &len, &e);
    json_error_t at;
    json_t *j = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at) : NULL;
    if (!text)
        fail_msg("%s", e.msg);
    if (!j)
        fail_msg("%s: line %d: %s", path, at.line, at.text);
    return j;
}

static void make(golden_plan fn, const json_t *cr, const json_t *world, struct plan *p)
{
    struct err e = ERR_INIT;
    if (fn(json_is_null(cr) ? NULL : cr, world, p, &e))
        fail_msg("the plan failed: %s", e.msg);
}

static char *text_of(const struct plan *p)
{
    cleanup_json json_t *j = plan_json(p);
    cleanup_free char *text = json_dumps(j, JSON_INDENT(2) | JSON_SORT_KEYS);
    assert_non_null(text);
    return xasprintf("%s\n", text);
}

static void show_difference(const char *want, const char *got)
{
    int line = 1;
    while (*want && *want == *got) {
        line += *want == '\n';
        want++;
        got++;
    }
    fprintf(stderr, "from line %d on, wanted:\n%.600s\n… but got:\n%.600s\n…\n", line, want, got);
}

static void check_plan(const char *dir, const struct plan *p)
{
    cleanup_free char *got = text_of(p), *path = path_join(dir, "plan.json");
    struct err e = ERR_INIT;
    const char *update = getenv("MILLRACE_UPDATE_GOLDEN");
    if (update && *update == '1') {
        if (file_write_atomic(path, got, strlen(got), 0644, &e))
            fail_msg("%s", e.msg);
        return;
    }
    cleanup_free char *want = file_read(path, FILE_MAX, NULL, &e);
    if (!want)
        fail_msg("%s (MILLRACE_UPDATE_GOLDEN=1 writes it)", e.msg);
    if (!strcmp(want, got))
        return;
    show_difference(want, got);
    fail_msg("%s: the plan is another one (MILLRACE_UPDATE_GOLDEN=1 rewrites it)", path);
}

/* Nothing is left to do in the world that the plan makes. */
static void check_idempotent(
    golden_plan fn, const json_t *cr, const json_t *world, const struct plan *p)
{
    cleanup_json json_t *cr2 = json_deep_copy(cr), *world2 = json_deep_copy(world);
    cleanup_plan struct plan again = PLAN_INIT;
    golden_apply(cr2, world2, p, GOLDEN_LINGER, SIZE_MAX);
    make(fn, cr2, world2, &again);
    if (plan_has_writes(&again)) {
        cleanup_free char *text = text_of(&again);
        fail_msg("the plan for the world after the plan still writes:\n%s", text);
    }
}

static void check_rest(golden_plan fn, const json_t *cr, const json_t *world)
{
    cleanup_json json_t *cr2 = json_deep_copy(cr), *world2 = json_deep_copy(world);
    for (int round = 0; round < GOLDEN_ROUNDS; round++) {
        cleanup_plan struct plan p = PLAN_INIT;
        make(fn, cr2, world2, &p);
        if (!plan_has_writes(&p))
            return;
        golden_apply(cr2, world2, &p, GOLDEN_GONE, SIZE_MAX);
    }
    fail_msg("plans still write after %d rounds", GOLDEN_ROUNDS);
}

static void run_case(void **state)
{
    const struct test_case *c = *state;
    cleanup_json json_t *cr = load(c->dir, "cr.json"), *world = load(c->dir, "world.json");
    cleanup_plan struct plan p = PLAN_INIT;
    make(c->fn, cr, world, &p);
    check_plan(c->dir, &p);
    check_idempotent(c->fn, cr, world, &p);
    check_rest(c->fn, cr, world);
}

static int visible(const struct dirent *d) { return d->d_name[0] != '.'; }

int golden_run(const char *dir, golden_plan fn)
{
    const char *source = getenv("MILLRACE_SOURCE");
    cleanup_free char *root = xasprintf("%s/tests/golden/%s", source ? source : ".", dir);
    struct dirent **entries;
    int n = scandir(root, &entries, visible, alphasort);
    if (n <= 0) {
        fprintf(stderr, "%s: no cases\n", root);
        return 1;
    }
    struct CMUnitTest *tests = xcalloc((size_t)n, sizeof *tests);
    struct test_case *cases = xcalloc((size_t)n, sizeof *cases);
    for (int i = 0; i < n; i++) {
        cases[i] = (struct test_case){path_join(root, entries[i]->d_name), fn};
        tests[i] = (struct CMUnitTest){
            .name = entries[i]->d_name, .test_func = run_case, .initial_state = &cases[i]};
    }
    int failures = _cmocka_run_group_tests(dir, tests, (size_t)n, NULL, NULL);
    for (int i = 0; i < n; i++) {
        free(cases[i].dir);
        free(entries[i]);
    }
    free(entries);
    free(cases);
    free(tests);
    return failures;
}
