/* SPDX-License-Identifier: Apache-2.0 */
/* What `why` says of recorded answers of an API server: why.yaml. */
#include "fuse/cli/why.h"

#include "fuse/cli/facts.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/unit.h"
#include "tests/unit/fuse/cli/recorded.h"

#include <stdlib.h>
#include <string.h>

static json_t *recorded;

static int read_cases(void **state)
{
    (void)state;
    recorded = recorded_read("why.yaml");
    return recorded ? 0 : -1;
}

static int free_cases(void **state)
{
    (void)state;
    json_decref(recorded);
    return 0;
}

static const char *rank_name(enum why_rank rank)
{
    static const char *const names[] = {"fine", "slow", "waits", "fails"};
    return names[rank];
}

static unsigned wrong;

static void compare(const char *of, const char *what, const char *is, const char *expected)
{
    if (strcmp(is, expected) == 0)
        return;
    print_error("%s: the %s\n  is      %s\n  expects %s\n", of, what, is, expected);
    wrong++;
}

static void check_answer(const json_t *c, const struct why *w)
{
    const char *next = jget_str(c, "next", "*"), *name = jget_str(c, "name", "?");
    compare(name, "sentence", w->sentence, jget_str(c, "why", ""));
    compare(name, "rank", rank_name(w->rank), jget_str(c, "rank", ""));
    if (strcmp(next, "*") != 0)
        compare(name, "next command", w->next, next);
    if (w->rank != WHY_FINE)
        assert_true(*w->next);
}

static struct why_facts facts_in(const json_t *j)
{
    return (struct why_facts){"millrace", "team", jget_obj(j, "pod"), jget_arr(j, "events"),
        jget_arr(j, "claims"), jget_arr(j, "datasets"), jget_arr(j, "caches"),
        jget_arr(j, "elsewhere"), jget_arr(j, "attachments"), jget_arr(j, "nodes"),
        jget_arr(j, "csinodes"), jget_arr(j, "operators")};
}

static void pods_are_explained(void **state)
{
    (void)state;
    const json_t *c;
    size_t i;
    assert_true(jget_len(recorded, "cases") > 40);
    json_array_foreach (jget_arr(recorded, "cases"), i, c) {
        cleanup_json json_t *all = json_deep_copy(jget_obj(recorded, "base"));
        recorded_change(all, jget_obj(c, "change"));
        const struct why_facts f = facts_in(all);
        cleanup_why struct why w = {0};
        why_pod(&f, &w);
        check_answer(c, &w);
    }
    assert_int_equal(wrong, 0);
}

static void jobs_without_pods_are_explained(void **state)
{
    (void)state;
    const json_t *c;
    size_t i;
    assert_true(jget_len(recorded, "jobs") > 3);
    json_array_foreach (jget_arr(recorded, "jobs"), i, c) {
        cleanup_why struct why w = {0};
        const json_t *job = jget_obj(c, "job"), *operators = jget_arr(c, "operators");
        if (!why_object_unwatched(job, "tfjob", "team", operators, &w)
            && !why_tfjob_unrun(job, operators, &w))
            why_job(job, "team", jget_arr(c, "events"), &w);
        check_answer(c, &w);
    }
    assert_int_equal(wrong, 0);
}

static void datasets_and_dataloads_are_explained(void **state)
{
    (void)state;
    const json_t *c;
    size_t i;
    assert_true(jget_len(recorded, "datasets") > 3 && jget_len(recorded, "dataloads") > 2);
    json_array_foreach (jget_arr(recorded, "datasets"), i, c) {
        cleanup_why struct why w = {0};
        const json_t *object = jget_obj(c, "object"), *operators = jget_arr(c, "operators");
        if (!why_object_unwatched(object, "dataset", "team", operators, &w))
            why_of_dataset(object, "millrace", &w);
        check_answer(c, &w);
    }
    json_array_foreach (jget_arr(recorded, "dataloads"), i, c) {
        cleanup_why struct why w = {0};
        why_of_dataload(jget_obj(c, "object"), &w);
        check_answer(c, &w);
    }
    assert_int_equal(wrong, 0);
}

static void the_worst_pod_speaks_for_a_job(void **state)
{
    (void)state;
    const json_t *base = jget_obj(recorded, "base");
    cleanup_json json_t *pods = json_array(), *claims = json_deep_copy(jget_arr(base, "claims"));
    for (int i = 0; i < 3; i++) {
        json_t *pod = json_deep_copy(jget_obj(base, "pod"));
        char name[16];
        snprintf(name, sizeof name, "train-%d", i);
        json_object_set_new(json_object_get(pod, "metadata"), "name", json_string(name));
        if (i)
            json_object_set_new(json_object_get(pod, "status"), "phase", json_string("Failed"));
        json_array_append_new(pods, pod);
    }
    struct facts f = {.claims = claims};
    cleanup_why struct why w = {0};
    size_t like;
    facts_worst(&f, "team", pods, &w, &like);
    assert_int_equal(w.rank, WHY_FAILS);
    assert_int_equal(like, 2);
    assert_false(why_all_succeeded(pods));
    for (int i = 0; i < 3; i++)
        json_object_set_new(json_object_get(json_array_get(pods, (size_t)i), "status"), "phase",
            json_string("Succeeded"));
    assert_true(why_all_succeeded(pods));
    assert_non_null(strstr(w.sentence, "pod train-1 has failed"));
}

static json_t *failed_and(const char *made, const char *phase, const char *index)
{
    const char *label = "batch.kubernetes.io/job-completion-index";
    return json_pack("[{s:{s:s, s:s, s:{s:s}, s:[{s:b, s:s}]}, s:{s:s, s:[{s:{s:{s:s}}}]}},"
                     " {s:{s:s, s:s, s:{s:s}, s:[{s:b, s:s}]}, s:{s:s}}]",
        "metadata", "name", "old", "creationTimestamp", "2026-01-01T00:00:00Z", "labels", label,
        "0", "ownerReferences", "controller", 1, "uid", "job-uid", "status", "phase", "Failed",
        "containerStatuses", "state", "terminated", "finishedAt", "2026-01-01T00:05:00Z",
        "metadata", "name", "new", "creationTimestamp", made, "labels", label, index,
        "ownerReferences", "controller", 1, "uid", "job-uid", "status", "phase", phase);
}

static void replaced_pods_do_not_count(void **state)
{
    (void)state;
    static const struct {
        const char *made, *phase, *index;
        size_t left;
    } cases[] = {
        {"2026-01-01T00:05:10Z", "Running", "0", 1}, {"2026-01-01T00:05:10Z", "Succeeded", "0", 1},
        {"2026-01-01T00:05:10Z", "Failed", "0", 2},
        {"2026-01-01T00:05:10Z", "Running", "1", 2}, /* of another index */
        {"2026-01-01T00:00:03Z", "Running", "0", 2}, /* ran beside it */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_json json_t *pods = failed_and(cases[i].made, cases[i].phase, cases[i].index);
        why_drop_replaced(pods);
        assert_int_equal(json_array_size(pods), cases[i].left);
        assert_string_equal(kube_name(json_array_get(pods, cases[i].left - 1)), "new");
    }
}

static void similar_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *near;
    } cases[] = {{"imagnet", "imagenet"}, {"imagenet-1k", "imagenet"}, {"image", "imagenet"},
        {"labels", "labels"}, {"lables", "labels"}, {"voices", NULL}, {"x", NULL}};
    cleanup_json json_t *objects = json_pack(
        "[{s:{s:s}}, {s:{s:s}}]", "metadata", "name", "imagenet", "metadata", "name", "labels");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *near = similar_name(objects, cases[i].name);
        assert_string_equal(near ? near : "(none)", cases[i].near ? cases[i].near : "(none)");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_are_explained),
        cmocka_unit_test(jobs_without_pods_are_explained),
        cmocka_unit_test(datasets_and_dataloads_are_explained),
        cmocka_unit_test(the_worst_pod_speaks_for_a_job),
        cmocka_unit_test(replaced_pods_do_not_count),
        cmocka_unit_test(similar_names),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
