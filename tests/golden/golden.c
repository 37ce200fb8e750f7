/* SPDX-License-Identifier: Apache-2.0 */
/* The runner: the cases of a kind as a cmocka group. */
#include "tests/golden/golden.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/yaml.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX      ((size_t)8 << 20)
#define FOLLOW_ROUNDS 40
#define SUFFIX        ".yaml"
/* cases of this name show objects whole, and are what others refer to */
#define WHOLE "build-"
#define FIRST "build-plain" SUFFIX /* their references win */

struct group {
    const struct golden_kind *kind;
    char *root;   /* owned; tests/golden */
    json_t *base; /* owned */
    json_t *refs; /* owned */
};

struct test_case {
    struct group *group;
    char *name; /* owned; without the suffix */
    char *path; /* owned */
};

static char *read_text(const char *path)
{
    struct err e = ERR_INIT;
    char *text = file_read(path, FILE_MAX, NULL, &e);
    if (!text)
        golden_refuse("%s", e.msg);
    return text;
}

static json_t *parse(const char *path, const char *text)
{
    struct err e = ERR_INIT;
    json_t *j = yaml_parse(text, strlen(text), &e);
    if (!j)
        golden_refuse("%s: %s", path, e.msg);
    return j;
}

static void check_words(const struct golden_kind *kind, const char *path, json_t *c)
{
    static const char *const common[] = {"like", "now", "was", "metadata", "spec", "status", "gone",
        "objects", "edit", "world", "follow", "plan"};
    const char *word;
    json_t *v;
    json_object_foreach (c, word, v) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(common); i++)
            known |= !strcmp(common[i], word);
        for (size_t i = 0; kind->words[i]; i++)
            known |= !strcmp(kind->words[i], word);
        if (!known)
            golden_refuse("%s: a case has no '%s'", path, word);
    }
}

static json_t *load_case(const struct group *g, const char *path, const char *text)
{
    cleanup_json json_t *own = parse(path, text);
    const char *like = jget_str(own, "like", NULL);
    json_t *c = like ? json_deep_copy(json_object_get(jget(g->base, "cases"), like))
                     : json_object();
    if (!c)
        golden_refuse("%s: the base has no case '%s'", path, like);
    json_object_update_recursive(c, own); /* no merge patch: nulls are for the patches in it */
    check_words(g->kind, path, c);
    return c;
}

/* Nothing is left to do in the world that the plan makes. */
static void check_idempotent(
    const struct golden_kind *kind, const json_t *cr, const json_t *world, const struct plan *p)
{
    cleanup_json json_t *cr2 = json_deep_copy(cr), *world2 = json_deep_copy(world);
    cleanup_plan struct plan again = PLAN_INIT;
    golden_apply(cr2, world2, p, GOLDEN_LINGER, SIZE_MAX);
    kind->plan(cr2, world2, &again);
    if (golden_has_writes(&again)) {
        cleanup_json json_t *refs = json_object();
        const struct golden_show s = {.cr = cr2, .world = world2, .refs = refs};
        cleanup_free char *text = golden_text(&s, &again);
        fail_msg("the plan for the world after the plan still writes:\n%s", text);
    }
}

static void check_rest(const struct golden_kind *kind, const json_t *cr, const json_t *world)
{
    cleanup_json json_t *cr2 = json_deep_copy(cr), *world2 = json_deep_copy(world);
    for (int round = 0; round < GOLDEN_ROUNDS; round++) {
        cleanup_plan struct plan p = PLAN_INIT;
        kind->plan(cr2, world2, &p);
        if (!golden_has_writes(&p))
            return;
        golden_apply(cr2, world2, &p, GOLDEN_GONE, SIZE_MAX);
    }
    fail_msg("plans still write after %d rounds", GOLDEN_ROUNDS);
}

/* ---- what comes of it ---- */

static void make_all_ready(const struct group *g, json_t *world)
{
    size_t n;
    cleanup_free const json_t **pods = golden_objects(world, "Pod", &n);
    for (size_t i = 0; i < n; i++)
        g->kind->make_ready(g->base, (json_t *)(uintptr_t)pods[i], world);
}

/* Plan after plan until nothing is left to do: deleted objects go, and pods are ready at once. */
static void follow(const struct group *g, const json_t *cr, const json_t *world,
    const struct plan *first, struct buf *out)
{
    cleanup_json json_t *cr2 = json_deep_copy(cr), *world2 = json_deep_copy(world);
    golden_apply(cr2, world2, first, GOLDEN_GONE, SIZE_MAX);
    for (int round = 0; round < FOLLOW_ROUNDS; round++) {
        cleanup_plan struct plan p = PLAN_INIT;
        make_all_ready(g, world2);
        g->kind->plan(cr2, world2, &p);
        if (!golden_has_writes(&p))
            return;
        const struct golden_show s = {
            .cr = cr2, .world = world2, .refs = g->refs, .children = true};
        cleanup_free char *text = golden_text(&s, &p);
        if (*text)
            buf_adds(out, "then\n");
        for (char *save, *line = strtok_r(text, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save))
            buf_addf(out, "  %s\n", line);
        golden_apply(cr2, world2, &p, GOLDEN_GONE, SIZE_MAX);
    }
    fail_msg("plans still write after %d rounds", FOLLOW_ROUNDS);
}

/* ---- the plan of the file ---- */

static char *indented(const char *text)
{
    struct buf b = BUF_INIT(FILE_MAX);
    cleanup_free char *copy = xstrdup(text);
    buf_adds(&b, "plan: |\n");
    for (char *save, *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        buf_addf(&b, "  %s\n", line);
    return buf_take(&b);
}

/* Everything from the line "plan:" on is the plan's: it is the last of a case. */
static void write_plan(const struct test_case *c, char *text, const char *plan)
{
    struct err e = ERR_INIT;
    char *old = strstr(text, "\nplan:");
    if (old)
        old[1] = '\0';
    cleanup_free char *new = indented(plan);
    cleanup_free char *all = xasprintf("%s%s", text, new);
    if (file_write_atomic(c->path, all, strlen(all), 0644, &e))
        fail_msg("%s", e.msg);
}

static void check_plan(const struct test_case *c, char *text, const char *want, const char *got)
{
    const char *update = getenv("MILLRACE_UPDATE_GOLDEN");
    if (!strcmp(want, got))
        return;
    if (update && *update == '1') {
        write_plan(c, text, got);
        return;
    }
    cleanup_free char *diff = golden_diff(want, got);
    fprintf(stderr, "%s: - is what the case says, + what the plan is now:\n%s", c->path, diff);
    fail_msg("%s: the plan is another one (MILLRACE_UPDATE_GOLDEN=1 rewrites it)", c->path);
}

static void run_case(void **state)
{
    const struct test_case *c = *state;
    const struct golden_kind *kind = c->group->kind;
    cleanup_free char *text = read_text(c->path);
    cleanup_json json_t *spec = load_case(c->group, c->path, text), *cr = NULL, *world = NULL;
    golden_expand(kind, c->group->base, spec, &cr, &world);
    cleanup_plan struct plan p = PLAN_INIT;
    kind->plan(cr, world, &p);
    const struct golden_show s = {.cr = cr,
        .world = world,
        .refs = c->group->refs,
        .whole = strncmp(c->name, WHOLE, strlen(WHOLE)) == 0};
    cleanup_free char *plan = golden_text(&s, &p);
    cleanup_buf struct buf got = BUF_INIT(FILE_MAX);
    buf_adds(&got, plan);
    if (jget_bool(spec, "follow", false))
        follow(c->group, cr, world, &p, &got);
    check_plan(c, text, jget_str(spec, "plan", ""), buf_str(&got));
    check_idempotent(kind, cr, world, &p);
    check_rest(kind, cr, world);
}

/* ---- the group ---- */

static int is_case(const struct dirent *d)
{
    size_t len = strlen(d->d_name);
    return d->d_name[0] != '.' && len > strlen(SUFFIX)
        && !strcmp(d->d_name + len - strlen(SUFFIX), SUFFIX);
}

static void refer_to(const struct group *g, const char *dir, const char *file)
{
    cleanup_free char *path = path_join(dir, file), *text = read_text(path);
    cleanup_json json_t *c = load_case(g, path, text), *cr = NULL, *world = NULL;
    cleanup_plan struct plan p = PLAN_INIT;
    golden_expand(g->kind, g->base, c, &cr, &world);
    g->kind->plan(cr, world, &p);
    golden_refs(g->refs, &p);
}

static void load_group(struct group *g, const char *dir, struct dirent **entries, int n)
{
    cleanup_free char *path = xasprintf("%s/base/%s" SUFFIX, g->root, g->kind->base);
    cleanup_free char *text = read_text(path);
    g->base = parse(path, text);
    g->refs = json_object();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < n; i++)
            if (strncmp(entries[i]->d_name, WHOLE, strlen(WHOLE)) == 0
                && (strcmp(entries[i]->d_name, FIRST) == 0) == (round == 0))
                refer_to(g, dir, entries[i]->d_name);
}

int golden_run(const struct golden_kind *kind)
{
    const char *source = getenv("MILLRACE_SOURCE");
    struct group g = {kind, xasprintf("%s/tests/golden", source ? source : "."), NULL, NULL};
    cleanup_free char *dir = path_join(g.root, kind->dir);
    struct dirent **entries;
    int n = scandir(dir, &entries, is_case, alphasort);
    if (n <= 0)
        golden_refuse("%s: no cases", dir);
    load_group(&g, dir, entries, n);
    struct CMUnitTest *tests = xcalloc((size_t)n, sizeof *tests);
    struct test_case *cases = xcalloc((size_t)n, sizeof *cases);
    for (int i = 0; i < n; i++) {
        size_t len = strlen(entries[i]->d_name) - strlen(SUFFIX);
        cases[i] = (struct test_case){
            &g, xstrndup(entries[i]->d_name, len), path_join(dir, entries[i]->d_name)};
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = run_case, .initial_state = &cases[i]};
    }
    int failures = _cmocka_run_group_tests(kind->dir, tests, (size_t)n, NULL, NULL);
    for (int i = 0; i < n; i++) {
        free(cases[i].name);
        free(cases[i].path);
        free(entries[i]);
    }
    free(entries);
    free(cases);
    free(tests);
    json_decref(g.base);
    json_decref(g.refs);
    free(g.root);
    return failures;
}
