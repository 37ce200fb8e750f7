/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/ctl/apply.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct kube *k;
static struct informer *pods, *datasets;
static struct informer *informers[2];
static struct apply apply;
static struct plan plan;

static int setup(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    api = fake_api_start();
    k = fake_api_client(api);
    informers[0] = pods = informer_new(k, &(struct informer_conf){.res = &kube_pods});
    informers[1] = datasets = informer_new(k, &(struct informer_conf){.res = &kube_datasets});
    apply = (struct apply){
        .kube = k, .informers = informers, .ninformers = 2, .verdicts = verdicts_new()};
    plan = (struct plan)PLAN_INIT;
    fake_api_put(
        api, &kube_datasets, json_pack("{s:{s:s,s:s}}", "metadata", "name", "d", "namespace", "n"));
    if (informer_start(pods, &e) || informer_start(datasets, &e))
        return -1;
    eventually(informer_synced(pods) && informer_synced(datasets));
    fake_api_forget(api);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    plan_clear(&plan);
    verdicts_free(apply.verdicts);
    informer_free(pods);
    informer_free(datasets);
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static json_t *pod(const char *name, const char *owner)
{
    return json_pack("{s:{s:s,s:s,s:[{s:s,s:b}]}}", "metadata", "name", name, "namespace", "n",
        "ownerReferences", "uid", owner, "controller", 1);
}

static struct apply_result run(int rc, enum err_class cls)
{
    struct apply_result r;
    struct err e = ERR_INIT;
    int got = apply_plan(&apply, &plan, &r, &e);
    if (got != rc || e.cls != cls)
        fail_msg("%d %s: %s", got, err_class_name(e.cls), e.msg);
    plan_clear(&plan);
    return r;
}

static struct obj *dataset(void)
{
    struct obj *o = informer_get(datasets, "n/d");
    assert_non_null(o);
    return o;
}

static void a_plan_runs_in_order_and_is_seen_at_once(void **state)
{
    (void)state;
    cleanup_obj struct obj *d = dataset();
    plan_finalizer_add(&plan, &kube_datasets, obj_json(d), "f");
    plan_create(&plan, &kube_pods, pod("p", "u"));
    plan_apply(&plan, &kube_pods, pod("q", "u"), NULL);
    plan_status(&plan, &kube_datasets, obj_json(d), json_pack("{s:s}", "phase", "Bound"));
    plan_event(&plan, &kube_datasets, obj_json(d), false, "Bound", "is bound");
    plan_requeue(&plan, 7 * NS_PER_S);
    plan_requeue(&plan, 5 * NS_PER_S);
    struct apply_result r = run(0, ERR_NONE);
    assert_int_equal(r.done, 7);
    assert_int_equal(r.writes, 4);
    assert_true(r.requeue_ns == 5 * NS_PER_S);
    cleanup_obj struct obj *p = informer_get(pods, "n/p"), *q = informer_get(pods, "n/q"),
                           *now = dataset();
    assert_non_null(p);
    assert_int_equal(strlen(kube_annotation(obj_json(q), ANNOTATION_HASH)), 16);
    assert_string_equal(jget_str(obj_json(now), "status.phase", ""), "Bound");
    assert_string_equal(jget_str(obj_json(now), "metadata.finalizers[0]", ""), "f");
    assert_int_equal(fake_api_count(api, NULL, "?fieldManager"), 4);
    /* and the same plan for the world as it is now is empty */
    plan_finalizer_add(&plan, &kube_datasets, obj_json(now), "f");
    plan_apply(&plan, &kube_pods, pod("q", "u"), obj_json(q));
    plan_status(&plan, &kube_datasets, obj_json(now), json_pack("{s:s}", "phase", "Bound"));
    assert_int_equal(plan.n, 0);
}

static void the_first_error_stops_it(void **state)
{
    (void)state;
    fake_api_fault(
        api, &(struct fake_fault){.method = "POST", .kind = FAULT_STATUS, .status = 422});
    plan_create(&plan, &kube_pods, pod("p", "u"));
    plan_create(&plan, &kube_pods, pod("q", "u"));
    struct apply_result r = run(-1, ERR_INVALID);
    assert_int_equal(r.done, 0);
    assert_int_equal(fake_api_len(api, &kube_pods), 0);
}

/* A stranger's object of that name is not taken over, and what comes behind it is done. */
static void an_extra_holds_nothing_up(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("taken", "stranger"));
    plan_apply(&plan, &kube_pods, pod("taken", "u"), NULL);
    plan_apply(&plan, &kube_pods, pod("free", "u"), NULL);
    plan_extra(&plan, 0);
    plan_create(&plan, &kube_pods, pod("p", "u"));
    struct apply_result r = run(0, ERR_NONE);
    assert_int_equal(r.done, 3);
    assert_true(r.without_extra);
    assert_int_equal(r.extra, 0);
    assert_int_equal(r.extra_why.cls, ERR_EXISTS);
    assert_non_null(strstr(r.extra_why.msg, "belongs to somebody else"));
    assert_true(r.requeue_ns > 0);
    cleanup_json json_t *taken = fake_api_get(api, &kube_pods, "n/taken");
    assert_string_equal(jget_str(kube_controller_of(taken), "uid", ""), "stranger");
    assert_int_equal(fake_api_len(api, &kube_pods), 3);
    /* what is refused holds nothing up, either */
    fake_api_fault(
        api, &(struct fake_fault){.method = "PATCH", .kind = FAULT_STATUS, .status = 403});
    plan_apply(&plan, &kube_pods, pod("late", "u"), NULL);
    plan_extra(&plan, 0);
    plan_create(&plan, &kube_pods, pod("q", "u"));
    r = run(0, ERR_NONE);
    assert_int_equal(r.extra_why.cls, ERR_DENIED);
    assert_int_equal(fake_api_len(api, &kube_pods), 4);
}

static void a_lost_answer_makes_no_second_pod(void **state)
{
    (void)state;
    fake_api_fault(api, &(struct fake_fault){.method = "POST", .kind = FAULT_LOSE});
    plan_create(&plan, &kube_pods, pod("p", "u"));
    struct apply_result r;
    struct err e = ERR_INIT;
    /* the client may repeat it by itself, as the connection was an old one */
    int rc = apply_plan(&apply, &plan, &r, &e);
    assert_true(rc == 0 || e.cls == ERR_RETRY);
    r = run(0, ERR_NONE);
    assert_int_equal(r.done, 1);
    assert_int_equal(fake_api_len(api, &kube_pods), 1);
    cleanup_obj struct obj *p = informer_get(pods, "n/p");
    assert_non_null(p);
}

static void strangers_are_not_taken_over(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("p", "stranger"));
    plan_create(&plan, &kube_pods, pod("p", "u"));
    run(-1, ERR_EXISTS);
    json_t *going = pod("q", "u");
    json_object_set_new(json_object_get(going, "metadata"), "deletionTimestamp",
        json_string("2026-01-01T00:00:00Z"));
    fake_api_put(api, &kube_pods, going);
    plan_create(&plan, &kube_pods, pod("q", "u")); /* ours, but on its way out */
    run(-1, ERR_CONFLICT);
}

static json_t *labelled(const char *label)
{
    json_t *p = pod("p", "u");
    json_object_set_new(
        json_object_get(p, "metadata"), "labels", json_pack("{s:s, s:s}", label, "x", "own", "1"));
    return p;
}

/* Its watch says that it is gone, and its name is taken: nobody would ever look at it again. */
static void one_whose_label_was_taken_away_gets_it_back(void **state)
{
    (void)state;
    struct informer *of_all = pods;
    informers[0] = informer_new(k, &(struct informer_conf){.res = &kube_pods, .labels = "app"});
    fake_api_put(api, &kube_pods, labelled("other"));
    plan_create(&plan, &kube_pods, labelled("app"));
    run(0, ERR_NONE);
    cleanup_json json_t *there = fake_api_get(api, &kube_pods, "n/p");
    assert_string_equal(kube_label(there, "app"), "x");
    assert_string_equal(kube_label(there, "other"), "x"); /* somebody's */
    cleanup_obj struct obj *seen = informer_get(informers[0], "n/p");
    assert_non_null(seen);
    informer_free(informers[0]);
    informers[0] = of_all;
}

/* A webhook takes it away at each write: that is said, and not tried for ever in silence. */
static void a_label_that_does_not_stay_is_told(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct apply_result r;
    fake_api_put(api, &kube_pods, labelled("other"));
    const struct fake_fault strips = {.method = "PATCH",
        .kind = FAULT_STATUS,
        .status = 200,
        .body = "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"labels\":{\"own\":\"1\"}}}"};
    fake_api_fault(api, &strips);
    plan_create(&plan, &kube_pods, labelled("app"));
    assert_int_equal(apply_plan(&apply, &plan, &r, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_non_null(strstr(e.msg, "Pod n/p: label app"));
    assert_non_null(strstr(e.msg, "admission webhook"));
    fake_api_mend(api);
    run(0, ERR_NONE);
}

static const char *heard_of(const struct fake_fault *fault, const char *name)
{
    static char words[300];
    if (fault)
        fake_api_fault(api, fault);
    cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
    plan_create_heard(&plan, obj_json(said), pod(name, "u"), clock_real_ns() + CREATE_AGAIN_NS);
    run(0, ERR_NONE);
    fake_api_mend(api);
    cleanup_obj struct obj *now = verdicts_of(apply.verdicts, "u");
    const char *refused = jget_str(json_object_get(obj_json(now), name), "refused", "");
    snprintf(words, sizeof words, "%s", refused);
    return words;
}

/* A refusal is heard of, and forgotten with the pod that was made after all; of a namespace that is
 * deleted nothing is. */
static void a_refused_pod_is_heard_of(void **state)
{
    (void)state;
    const struct fake_fault
        quota = {.method = "POST",
            .in = "/pods",
            .times = 1,
            .kind = FAULT_STATUS,
            .status = 403,
            .body =
                "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"exceeded quota: small\"}"},
        gone = {.method = "POST",
            .in = "/pods",
            .times = 1,
            .kind = FAULT_STATUS,
            .status = 403,
            .body =
                "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"no new content because it is being terminated\"}"};
    assert_non_null(strstr(heard_of(&quota, "w"), "exceeded quota"));
    assert_string_equal(heard_of(NULL, "w"), "");
    fake_api_fault(api, &gone);
    plan_create_heard(&plan, NULL, pod("x", "u"), clock_real_ns());
    run(-1, ERR_DENIED);
    cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
    assert_null(json_object_get(obj_json(said), "x"));
}

static void what_is_gone_needs_no_delete(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("p", "u"));
    eventually(informer_count(pods) == 1);
    cleanup_obj struct obj *old = informer_get(pods, "n/p");
    plan_delete(&plan, &kube_pods, obj_json(old), 0, NULL);
    struct apply_result r = run(0, ERR_NONE);
    assert_int_equal(r.writes, 1);
    assert_int_equal(informer_count(pods), 0);
    plan_delete(&plan, &kube_pods, obj_json(old), 0, NULL); /* again: nothing there */
    r = run(0, ERR_NONE);
    assert_int_equal(r.writes, 0);
    fake_api_put(api, &kube_pods, pod("p", "u")); /* another one of that name */
    plan_delete(&plan, &kube_pods, obj_json(old), 0, NULL);
    run(0, ERR_NONE);
    assert_int_equal(fake_api_len(api, &kube_pods), 1);
}

static void patches_of_what_is_gone_are_no_errors(void **state)
{
    (void)state;
    cleanup_obj struct obj *d = dataset();
    fake_api_remove(api, &kube_datasets, "n/d");
    plan_status(&plan, &kube_datasets, obj_json(d), json_pack("{s:s}", "phase", "Bound"));
    run(0, ERR_NONE);
    fake_api_put(
        api, &kube_datasets, json_pack("{s:{s:s,s:s}}", "metadata", "name", "d", "namespace", "n"));
    plan_status(&plan, &kube_datasets, obj_json(d), json_pack("{s:s}", "phase", "Bound"));
    run(-1, ERR_CONFLICT); /* its successor is another object */
    cleanup_json json_t *now = fake_api_get(api, &kube_datasets, "n/d");
    assert_null(json_object_get(now, "status"));
}

static void the_last_finalizer_ends_it(void **state)
{
    (void)state;
    json_t *going = json_pack("{s:{s:s,s:s,s:s,s:[s]}}", "metadata", "name", "g", "namespace", "n",
        "deletionTimestamp", "2026-01-01T00:00:00Z", "finalizers", "f");
    fake_api_put(api, &kube_datasets, going);
    eventually(informer_count(datasets) == 2);
    cleanup_obj struct obj *g = informer_get(datasets, "n/g");
    plan_finalizer_remove(&plan, &kube_datasets, obj_json(g), "f");
    run(0, ERR_NONE);
    assert_null(informer_get(datasets, "n/g"));
    clock_sleep_ns(100 * NS_PER_MS);
    assert_int_equal(informer_count(datasets), 1);
}

static void finalizers_are_guarded_by_the_version(void **state)
{
    (void)state;
    cleanup_obj struct obj *d = dataset();
    fake_api_put(api, &kube_datasets,
        json_pack("{s:{s:s,s:s,s:[s]}}", "metadata", "name", "d", "namespace", "n", "finalizers",
            "theirs"));
    plan_finalizer_add(&plan, &kube_datasets, obj_json(d), "f");
    run(-1, ERR_CONFLICT);
    cleanup_json json_t *now = fake_api_get(api, &kube_datasets, "n/d");
    assert_int_equal(jget_len(now, "metadata.finalizers"), 1);
}

/* A slip in what a user wrote is refused by the server, and its remarks come along. */
static void what_is_strict_is_asked_for_so(void **state)
{
    (void)state;
    plan_create(&plan, &kube_pods, pod("free", "u"));
    size_t since = plan.n;
    plan_create(&plan, &kube_pods, pod("strict", "u"));
    plan_strict(&plan, since);
    struct apply_result r = run(0, ERR_NONE);
    assert_int_equal(r.warnings.n, 0);
    assert_int_equal(fake_api_count(api, "POST", "/pods?"), 2);
    assert_int_equal(fake_api_count(api, "POST", "fieldValidation=Strict"), 1);
    cleanup_json json_t *group = json_pack(
        "{s:{s:s,s:s}}", "metadata", "name", "g", "namespace", "n");
    plan_apply(&plan, &kube_volcano_podgroups, json_incref(group), NULL);
    plan_strict(&plan, 0);
    fake_api_fault(api,
        &(struct fake_fault){.method = "PATCH",
            .kind = FAULT_STATUS,
            .status = 200,
            .headers = "Warning: 299 - \"deprecated\"\r\nWarning: 299 - \"and \\\"odd\\\"\"\r\n",
            .body = "{}"});
    r = run(0, ERR_NONE);
    assert_int_equal(fake_api_count(api, "PATCH", "fieldValidation=Strict"), 1);
    assert_int_equal(r.warnings.n, 2);
    assert_string_equal(r.warnings.text[1], "and \"odd\"");
    plan_create(&plan, &kube_pods, pod("slip", "u"));
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST",
            .kind = FAULT_STATUS,
            .status = 400,
            .body =
                "{\"kind\":\"Status\",\"code\":400,\"reason\":\"BadRequest\",\"message\":\"strict decoding error: unknown field\"}"});
    run(-1, ERR_INVALID);
}

static json_t *asking_for(const char *memory)
{
    json_t *p = pod("p", "u");
    json_object_set_new(json_object_get(p, "metadata"), "uid", json_string("old"));
    json_object_set_new(p, "spec",
        json_pack("{s:[{s:s, s:{s:{s:s}}}]}", "containers", "name", CONTAINER_MAIN, "resources",
            "requests", "memory", memory));
    return p;
}

/* A webhook has put its container before ours. */
static json_t *with_a_proxy(json_t *pod)
{
    json_array_insert_new(json_object_get(json_object_get(pod, "spec"), "containers"), 0,
        json_pack(
            "{s:s, s:{s:{s:s}}}", "name", "a-proxy", "resources", "requests", "memory", "1Mi"));
    return pod;
}

static enum verdict try_it(const json_t *old, const char *memory, int64_t now_ns)
{
    cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
    return plan_try(&plan, obj_json(said), old, asking_for(memory), now_ns);
}

/* Each answer counts for a minute, and is asked for once; no answer is none. */
static void a_successor_is_tried_once(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *reason, *message, *memory;
        enum verdict verdict;
    } cases[] = {{0, "", "", "1Gi", VERDICT_TAKEN},
        {409, "AlreadyExists", "p-next is there", "1Gi", VERDICT_TAKEN},
        {422, "Invalid", "Pod \\\"p-next\\\" is invalid", "1Gi", VERDICT_REFUSED},
        {403, "Forbidden", "no PriorityClass with name x was found", "1Gi", VERDICT_REFUSED},
        {403, "Forbidden", "exceeded quota: q", "1024Mi", VERDICT_TAKEN},
        {403, "Forbidden", "exceeded quota: q", "2Gi", VERDICT_REFUSED},
        {400, "BadRequest", "admission webhook w does not support dry run", "1Gi", VERDICT_TAKEN},
        {500, "InternalError", "failed calling webhook w", "1Gi", VERDICT_REFUSED}};
    cleanup_json json_t *old = with_a_proxy(asking_for("1Gi"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *body = xasprintf(
            "{\"kind\":\"Status\",\"message\":\"%s\",\"reason\":\"%s\",\"code\":%d}",
            cases[i].message, cases[i].reason, cases[i].status);
        const struct fake_fault fault = {.method = "POST",
            .in = "dryRun=All",
            .times = UINT_MAX,
            .kind = FAULT_STATUS,
            .status = cases[i].status,
            .body = body};
        verdicts_forget(apply.verdicts, "u");
        fake_api_forget(api);
        if (cases[i].status)
            fake_api_fault(api, &fault);
        int64_t now = clock_real_ns();
        assert_int_equal(try_it(old, cases[i].memory, now), VERDICT_ASKED);
        run(0, ERR_NONE);
        assert_int_equal(fake_api_count(api, "POST", "dryRun=All"), 1);
        assert_int_equal(try_it(old, cases[i].memory, clock_real_ns()), cases[i].verdict);
        assert_int_equal(plan.n, cases[i].verdict == VERDICT_REFUSED); /* looks again in a while */
        plan_clear(&plan);
        now = clock_real_ns() + VERDICT_NS;
        assert_int_equal(try_it(old, cases[i].memory, now),
            cases[i].verdict == VERDICT_REFUSED ? VERDICT_REFUSED : VERDICT_ASKED);
        assert_int_equal(plan.actions[0].op, PLAN_TRY);
        plan_clear(&plan);
        fake_api_mend(api);
        cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
        const char *words = verdict_refusal(obj_json(said), old, "");
        assert_int_equal(words != NULL, cases[i].verdict == VERDICT_REFUSED);
        assert_true(!words || !strstr(words, "-next"));
    }
    assert_int_equal(fake_api_len(api, &kube_pods), 0);
    verdicts_forget(apply.verdicts, "u");
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST", .times = 99, .kind = FAULT_STATUS, .status = 503});
    assert_int_equal(try_it(old, "1Gi", clock_real_ns()), VERDICT_ASKED);
    run(-1, ERR_RETRY);
    assert_int_equal(try_it(old, "1Gi", clock_real_ns()), VERDICT_ASKED);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_strict_is_asked_for_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plan_runs_in_order_and_is_seen_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_error_stops_it, setup, teardown),
        cmocka_unit_test_setup_teardown(an_extra_holds_nothing_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_answer_makes_no_second_pod, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_are_not_taken_over, setup, teardown),
        cmocka_unit_test_setup_teardown(
            one_whose_label_was_taken_away_gets_it_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_label_that_does_not_stay_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_successor_is_tried_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_pod_is_heard_of, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_gone_needs_no_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(patches_of_what_is_gone_are_no_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_finalizer_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(finalizers_are_guarded_by_the_version, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
