/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/ctl/plan.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *text)
{
    struct err e = ERR_INIT;
    json_t *j = json_parse(text, strlen(text), &e);
    if (!j)
        fail_msg("%s: %s", text, e.msg);
    return j;
}

#define CR \
    "{\"metadata\":{\"name\":\"d\",\"namespace\":\"n\",\"uid\":\"u1\",\"resourceVersion\":\"9\""

static void expect(const struct plan *p, const char *text)
{
    cleanup_json json_t *got = plan_json(p);
    cleanup_free char *got_text = json_text(got);
    assert_string_equal(got_text, text);
}

static void finalizers_are_added_and_taken_away_once(void **state)
{
    (void)state;
    static const struct {
        const char *cr;
        bool want;
        const char *plan;
    } cases[] = {
        {CR "}}", true,
            "[{\"key\":\"n/d\",\"op\":\"patch\",\"patch\":{\"metadata\":{\"finalizers\":[\"f\"],\"resourceVersion\":\"9\"}},\"resource\":\"datasets\"}]"},
        {CR ",\"finalizers\":[\"x\"]}}", true,
            "[{\"key\":\"n/d\",\"op\":\"patch\",\"patch\":{\"metadata\":{\"finalizers\":[\"x\",\"f\"],\"resourceVersion\":\"9\"}},\"resource\":\"datasets\"}]"},
        {CR ",\"finalizers\":[\"f\"]}}", true, "[]"},
        {CR ",\"deletionTimestamp\":\"t\"}}", true, "[]"},
        {CR ",\"finalizers\":[\"f\",\"x\"]}}", false,
            "[{\"key\":\"n/d\",\"op\":\"patch\",\"patch\":{\"metadata\":{\"finalizers\":[\"x\"],\"resourceVersion\":\"9\"}},\"resource\":\"datasets\"}]"},
        {CR ",\"finalizers\":[\"x\"]}}", false, "[]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_plan struct plan p = PLAN_INIT;
        cleanup_json json_t *cr = parse(cases[i].cr);
        (cases[i].want ? plan_finalizer_add : plan_finalizer_remove)(&p, &kube_datasets, cr, "f");
        expect(&p, cases[i].plan);
    }
}

static void an_unchanged_child_costs_nothing(void **state)
{
    (void)state;
    const char *desired = "{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"},\"spec\":{\"a\":1}}";
    struct plan p = PLAN_INIT;
    plan_apply(&p, &kube_services, parse(desired), NULL);
    assert_int_equal(p.n, 1);
    expect(&p,
        "[{\"key\":\"n/c\",\"object\":{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"},\"spec\":{\"a\":1}},"
        "\"op\":\"apply\",\"resource\":\"services\"}]");
    cleanup_json json_t *applied = json_deep_copy(p.actions[0].body);
    assert_int_equal(strlen(kube_annotation(applied, ANNOTATION_HASH)), 16);
    /* what the server adds does not matter */
    json_object_set_new(applied, "status", json_pack("{s:i}", "serverSide", 1));
    plan_clear(&p);
    plan_apply(&p, &kube_services, parse(desired), applied);
    assert_int_equal(p.n, 0);
    plan_apply(&p, &kube_services,
        parse("{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"},\"spec\":{\"a\":2}}"), applied);
    assert_int_equal(p.n, 1);
    p.resync = true;
    plan_apply(&p, &kube_services, parse(desired), applied);
    assert_int_equal(p.n, 2);
    plan_clear(&p);
}

static void what_is_going_already_is_left_alone(void **state)
{
    (void)state;
    cleanup_plan struct plan p = PLAN_INIT;
    cleanup_json json_t *alive = parse(CR "}}");
    cleanup_json json_t *going = parse(
        CR ",\"deletionTimestamp\":\"t\",\"deletionGracePeriodSeconds\":30}}");
    plan_delete(&p, &kube_pods, going, -1, NULL);
    plan_delete(&p, &kube_pods, going, 30, NULL);
    assert_int_equal(p.n, 0);
    plan_delete(&p, &kube_pods, alive, -1, NULL);
    plan_delete(&p, &kube_pods, going, 0, "Background");
    expect(&p,
        "[{\"key\":\"n/d\",\"op\":\"delete\",\"resource\":\"pods\",\"uid\":\"u1\"},"
        "{\"graceSeconds\":0,\"key\":\"n/d\",\"op\":\"delete\",\"propagation\":\"Background\",\"resource\":\"pods\",\"uid\":\"u1\"}]");
}

static void a_status_is_written_if_it_differs(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *patch; /* NULL: none */
    } cases[] = {
        {NULL, "{\"a\":1}", "{\"a\":1}"},
        {"{\"a\":1}", "{\"a\":1}", NULL},
        {"{\"a\":1}", "{\"a\":1,\"b\":null}", NULL},
        {"{\"a\":1,\"b\":2}", "{\"a\":1}", "{\"b\":null}"},
        {"{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"x\":1,\"y\":3}}", "{\"a\":{\"y\":3}}"},
        {"{\"a\":[1,2]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"{\"a\":[1]}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
        {"{\"a\":{\"b\":1}}", "{\"a\":\"x\"}", "{\"a\":\"x\"}"},
        {"{}", "{\"a\":{}}", "{\"a\":{}}"},
        {"{\"a\":{\"b\":1}}", "{\"a\":{}}", "{\"a\":{\"b\":null}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_plan struct plan p = PLAN_INIT;
        cleanup_json json_t *cr = parse(CR "}}");
        if (cases[i].from)
            json_object_set_new(cr, "status", parse(cases[i].from));
        plan_status(&p, &kube_datasets, cr, parse(cases[i].to));
        if (!cases[i].patch) {
            assert_int_equal(p.n, 0);
            continue;
        }
        assert_int_equal(p.n, 1);
        assert_int_equal(p.actions[0].op, PLAN_STATUS);
        assert_string_equal(p.actions[0].uid, "u1");
        cleanup_free char *patch = json_text(json_object_get(p.actions[0].body, "status"));
        assert_string_equal(patch, cases[i].patch);
    }
}

/* What RFC 7386 says a patch does. */
static json_t *merged(json_t *into_take, const json_t *patch)
{
    if (!json_is_object(patch)) {
        json_decref(into_take);
        return json_deep_copy(patch);
    }
    if (!json_is_object(into_take)) {
        json_decref(into_take);
        into_take = json_object();
    }
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)patch, key, value) {
        if (json_is_null(value))
            json_object_del(into_take, key);
        else
            json_object_set_new(
                into_take, key, merged(json_incref(json_object_get(into_take, key)), value));
    }
    return into_take;
}

static json_t *random_json(unsigned *seed, int depth)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    int kind = rand_r(seed) % (depth ? 6 : 3);
    if (kind < 2)
        return json_integer(rand_r(seed) % 3);
    if (kind == 2)
        return json_string("s");
    if (kind == 3) {
        json_t *array = json_array();
        for (int n = rand_r(seed) % 3; n > 0; n--)
            json_array_append_new(array, random_json(seed, depth - 1));
        return array;
    }
    json_t *object = json_object();
    for (int n = rand_r(seed) % 4; n > 0; n--)
        json_object_set_new(object, keys[rand_r(seed) % 4], random_json(seed, depth - 1));
    return object;
}

static void a_diff_turns_one_into_the_other(void **state)
{
    (void)state;
    unsigned seed = 1, diffs = 0;
    for (int i = 0; i < 20000; i++) {
        cleanup_json json_t *from = random_json(&seed, 4), *to = random_json(&seed, 4);
        cleanup_json json_t *diff = plan_merge_diff(from, to);
        cleanup_json json_t *result = diff ? merged(json_deep_copy(from), diff)
                                           : json_deep_copy(from);
        diffs += diff != NULL;
        if (!json_equal(result, to)) {
            cleanup_free char *a = json_text(from), *b = json_text(to);
            fail_msg("%s -> %s", a, b);
        }
    }
    assert_true(diffs > 10000);
}

static void events_and_requeues_are_shown(void **state)
{
    (void)state;
    cleanup_plan struct plan p = PLAN_INIT;
    cleanup_json json_t *cr = parse(CR "}}");
    plan_event(&p, &kube_datasets, cr, true, "Bad", "%d of %s", 3, "x");
    plan_requeue(&p, 1500000000);
    expect(&p,
        "[{\"key\":\"n/d\",\"message\":\"3 of x\",\"op\":\"event\",\"reason\":\"Bad\",\"resource\":\"datasets\",\"type\":\"Warning\"},"
        "{\"afterMs\":1500,\"op\":\"requeue\"}]");
    plan_create(&p, &kube_pods, parse("{\"metadata\":{\"name\":\"p\"}}"));
    plan_patch(&p, &kube_datasets, cr, parse("{\"x\":1}"));
    assert_string_equal(p.actions[3].uid, "u1");
}

static void a_plan_moves_behind_another(void **state)
{
    (void)state;
    cleanup_plan struct plan p = PLAN_INIT, more = PLAN_INIT;
    plan_move(&p, &more);
    assert_int_equal(p.n, 0);
    plan_requeue(&p, 1000000);
    for (int i = 0; i < 20; i++)
        plan_create(&more, &kube_pods, parse("{\"metadata\":{\"name\":\"p\"}}"));
    plan_move(&p, &more);
    assert_int_equal(p.n, 21);
    assert_int_equal(p.actions[0].op, PLAN_REQUEUE);
    assert_string_equal(p.actions[20].name, "p");
    assert_int_equal(more.n, 0);
    plan_requeue(&more, 1); /* and is as good as new */
    assert_int_equal(more.n, 1);
}

static void what_is_in_a_secret_is_not_shown(void **state)
{
    (void)state;
    cleanup_plan struct plan p = PLAN_INIT;
    plan_create(&p, &kube_secrets,
        parse(
            "{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\"},\"stringData\":{\"key\":\"abc\"}}"));
    expect(&p,
        "[{\"key\":\"n/s\",\"object\":{\"metadata\":{\"name\":\"s\",\"namespace\":\"n\"}},\"op\":\"create\",\"resource\":\"secrets\"}]");
    assert_string_equal(jget_str(p.actions[0].body, "stringData.key", ""), "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finalizers_are_added_and_taken_away_once),
        cmocka_unit_test(an_unchanged_child_costs_nothing),
        cmocka_unit_test(what_is_going_already_is_left_alone),
        cmocka_unit_test(a_status_is_written_if_it_differs),
        cmocka_unit_test(a_diff_turns_one_into_the_other),
        cmocka_unit_test(events_and_requeues_are_shown),
        cmocka_unit_test(a_plan_moves_behind_another),
        cmocka_unit_test(what_is_in_a_secret_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
