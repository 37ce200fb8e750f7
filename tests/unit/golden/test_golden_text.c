/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a plan leaves nothing out: whatever of a plan is another, its text is another. */
#include "tests/lib/unit.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/golden/golden_tfjob.h"

#include <stdlib.h>
#include <string.h>

#define COND(type, status, generation)                                                            \
    "{\"type\": \"" type "\", \"status\": \"" status "\", \"reason\": \"R\", \"message\": \"m\"," \
    " \"lastTransitionTime\": \"2026-01-31T11:00:00Z\"" generation "}"
#define OF_1 ", \"observedGeneration\": 1"

static json_t *json(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    return j;
}

static json_t *pod(const char *name, const char *env)
{
    json_t *p = json(
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"namespace\": \"ns\","
        " \"labels\": {\"a\": \"1\", \"b\": \"true\"}}, \"spec\": {\"empty\": {},"
        " \"none\": null, \"on\": true, \"containers\": [{\"name\": \"c\", \"args\":"
        " [\"x\", \"y\"], \"env\": [{\"name\": \"CONFIG\"}, {\"name\": \"B\"}]},"
        " {\"name\": \"d\", \"port\": 80}]}}");
    json_object_set_new(json_object_get(p, "metadata"), "name", json_string(name));
    json_t *containers = json_object_get(json_object_get(p, "spec"), "containers");
    json_t *first = json_array_get(json_object_get(json_array_get(containers, 0), "env"), 0);
    json_object_set_new(first, "value", json_string(env));
    return p;
}

struct fixture {
    json_t *cr, *world;
    struct plan plan;
};

static void make(struct fixture *f)
{
    f->cr = json(
        "{\"kind\": \"TFJob\", \"metadata\": {\"name\": \"j\", \"namespace\": \"ns\", \"uid\":"
        " \"u\", \"generation\": 2}, \"status\": {\"old\": 1, \"conditions\": [" COND("Kept",
            "True", OF_1) ", " COND("Gone", "True", OF_1) ", " COND("Turned", "True", OF_1) "]}}");
    f->world = json("{\"now\": \"" GOLDEN_NOW "\", \"objects\": [{\"kind\": \"Pod\", \"metadata\":"
                    " {\"name\": \"p-9\", \"namespace\": \"ns\", \"uid\": \"u9\"}}]}");
    const json_t *there = golden_find(f->world, "Pod", "ns", "p-9");
    plan_create(&f->plan, &kube_pods, pod("p-0", "{\"a\":1,\"b\":{\"c\":\"d\"}}"));
    plan_apply(&f->plan, &kube_pods, pod("p-1", "{\"unsorted\":1,\"but\":2}"), NULL);
    plan_delete(&f->plan, &kube_pods, there, 0, "Background");
    plan_patch(&f->plan, &kube_pods, there, json("{\"spec\": {\"n\": 1}}"));
    plan_status(&f->plan, &kube_tfjobs, f->cr,
        json("{\"long\": {\"aaaaaaaaaaaaaaaa\": 1, \"bbbbbbbbbbbbbbbb\": [1]},"
             " \"n\": {\"x\": 1, \"y\": [\"z\"]}, \"at\": \"" GOLDEN_NOW
             "\", \"conditions\": [" COND("Kept", "True", OF_1) ", " COND("Turned", "False",
                 ", \"observedGeneration\": 2") ", " COND("New", "Unknown", "") "]}"));
    plan_event(&f->plan, &kube_tfjobs, f->cr, true, "Reason", "%s", "message");
    plan_requeue(&f->plan, NS_PER_S);
}

static void clear(struct fixture *f)
{
    plan_clear(&f->plan);
    json_decref(f->cr);
    json_decref(f->world);
}

struct check {
    const struct golden_show *show;
    const struct plan *plan;
    const char *text; /* of the plan as it was */
    const char *what; /* is shown in this way */
};

static void expect_another(const struct check *c, const char *changed)
{
    cleanup_free char *text = golden_text(c->show, c->plan);
    if (!strcmp(text, c->text))
        fail_msg("%s: %s is another, the text is not:\n%s", c->what, changed, text);
}

static json_t *other(const json_t *v)
{
    if (json_is_string(v)) {
        cleanup_free char *text = xasprintf("%s~", json_string_value(v));
        return json_string(text);
    }
    return json_is_integer(v) ? json_integer(json_integer_value(v) + 1)
        : json_is_true(v)     ? json_false()
                              : json_string("other");
}

static void change_all(const struct check *c, json_t *in);

static void change_members(const struct check *c, json_t *in)
{
    cleanup_json json_t *was = json_deep_copy(in);
    const char *key;
    json_t *v;
    json_object_foreach (was, key, v) {
        change_all(c, json_object_get(in, key));
        if (strcmp(key, ANNOTATION_HASH) != 0) { /* its value follows from the rest */
            json_object_set_new(in, key, other(v));
            expect_another(c, key);
        }
        json_object_del(in, key);
        expect_another(c, key);
        json_object_set_new(in, key, json_deep_copy(v));
    }
    json_object_set_new(in, "more", json_true());
    expect_another(c, "one more member");
    json_object_del(in, "more");
}

static void change_items(const struct check *c, json_t *in)
{
    for (size_t i = 0; i < json_array_size(in); i++) {
        change_all(c, json_array_get(in, i));
        cleanup_json json_t *was = json_incref(json_array_get(in, i));
        json_array_set_new(in, i, other(was));
        expect_another(c, "an item");
        json_array_remove(in, i);
        expect_another(c, "an item that is gone");
        if (json_array_size(in)) { /* at another place */
            json_array_insert(in, i ? 0 : json_array_size(in), was);
            expect_another(c, "the order");
            json_array_remove(in, i ? 0 : json_array_size(in) - 1);
        }
        json_array_insert(in, i, was);
    }
}

/* Changes, takes away and adds whatever is in there, and puts it back. */
static void change_all(const struct check *c, json_t *in)
{
    if (json_is_object(in))
        change_members(c, in);
    else
        change_items(c, in);
}

static void change_text(const struct check *c, char **field, const char *name)
{
    char *was = *field, *changed = xasprintf("%s~", was ? was : "");
    *field = changed;
    expect_another(c, name);
    *field = was;
    free(changed);
}

static void change_action(const struct check *c, struct plan_action *a)
{
    if (a->op == PLAN_REQUEUE) {
        a->after_ns += NS_PER_S;
        expect_another(c, "after_ns");
        a->after_ns -= NS_PER_S;
        return;
    }
    change_text(c, &a->name, "name");
    change_text(c, &a->ns, "ns");
    if (a->op != PLAN_CREATE && a->op != PLAN_APPLY)
        change_text(c, &a->uid, "uid");
    if (a->op == PLAN_DELETE) {
        change_text(c, &a->propagation, "propagation");
        a->grace_s++;
        expect_another(c, "grace_s");
        a->grace_s--;
    }
    if (a->op == PLAN_EVENT) {
        change_text(c, &a->reason, "reason");
        change_text(c, &a->message, "message");
        a->warning = !a->warning;
        expect_another(c, "warning");
        a->warning = !a->warning;
    }
    change_all(c, a->body);
}

static void check_shown(struct fixture *f, const json_t *refs, bool whole, const char *what)
{
    const struct golden_show show = {.cr = f->cr, .world = f->world, .refs = refs, .whole = whole};
    cleanup_free char *text = golden_text(&show, &f->plan);
    const struct check c = {&show, &f->plan, text, what};
    for (size_t i = 0; i < f->plan.n; i++) {
        struct plan_action *a = &f->plan.actions[i];
        change_action(&c, a);
        enum plan_op was = a->op;
        a->op = was == PLAN_CREATE ? PLAN_APPLY : was == PLAN_APPLY ? PLAN_CREATE : was;
        if (was != a->op)
            expect_another(&c, "op");
        a->op = was;
    }
    cleanup_free char *again = golden_text(&show, &f->plan);
    assert_string_equal(again, text); /* all is as it was */
}

static void test_whole(void **state)
{
    (void)state;
    struct fixture f = {.plan = PLAN_INIT};
    make(&f);
    cleanup_json json_t *none = json_object();
    check_shown(&f, none, true, "whole");
    check_shown(&f, none, false, "without a reference");
    clear(&f);
}

static void test_same_as_reference(void **state)
{
    (void)state;
    struct fixture f = {.plan = PLAN_INIT};
    make(&f);
    cleanup_json json_t *refs = json_object();
    golden_refs(refs, &f.plan);
    const struct golden_show show = {.cr = f.cr, .world = f.world, .refs = refs};
    cleanup_free char *text = golden_text(&show, &f.plan);
    assert_null(strstr(text, "containers"));
    assert_non_null(strstr(text, "as build-plain: long\n"));
    check_shown(&f, refs, false, "the reference itself");
    clear(&f);
}

static void test_other_than_reference(void **state)
{
    (void)state;
    struct fixture f = {.plan = PLAN_INIT};
    make(&f);
    cleanup_plan struct plan others = PLAN_INIT;
    plan_create(&others, &kube_pods, pod("p-7", "{\"a\":2,\"b\":{}}"));
    cleanup_json json_t *refs = json_object();
    golden_refs(refs, &others);
    check_shown(&f, refs, false, "another of the role");
    clear(&f);
}

static void test_flow_and_block(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "1", "1.5", "true", "null", "now", GOLDEN_NOW,
        "a b", "a: b", "a, b", "[a]", "{a}", "'", "\"", "\n", "a\n", "-", "~", "\\", "#a", "a #b",
        "%a"};
    cleanup_json json_t *j = json_object();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
            cleanup_buf struct buf a = BUF_INIT(4096), b = BUF_INIT(4096);
            json_object_set_new(j, "k", json_string(texts[i]));
            golden_flow(&a, j, GOLDEN_NOW);
            json_object_set_new(j, "k", json_string(texts[k]));
            golden_block(&b, j, 0, GOLDEN_NOW);
            buf_addf(&a, "\n");
            cleanup_free char *as_block = xasprintf("%.*s\n", (int)a.len - 3, buf_str(&a) + 1);
            assert_int_equal(!strcmp(as_block, buf_str(&b)), i == k);
        }
}

static void test_diff(void **state)
{
    (void)state;
    cleanup_free char *diff = golden_diff("a\nb\nc\nd\n", "a\nc\nx\nd\n");
    assert_string_equal(diff, "  a\n- b\n  c\n+ x\n  d\n");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_same_as_reference),
        cmocka_unit_test(test_other_than_reference),
        cmocka_unit_test(test_flow_and_block),
        cmocka_unit_test(test_diff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
