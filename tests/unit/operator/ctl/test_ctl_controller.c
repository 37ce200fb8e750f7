/* SPDX-License-Identifier: Apache-2.0 */
/* A controller of ConfigMaps that keeps a pod of the same name for each: the whole machinery, with
 * a server that fails now and then. */
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/ctl/manager.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct manager mgr;
static struct informer *maps, *pods;
static struct controller *controller;
static atomic_int reconciles, resyncs, refused, starts, overlaps, now_in;
static atomic_bool fail_reconcile;
static unsigned workers = 4;
static char first[16];   /* key that was worked on first; of use with one worker */
static atomic_int heard; /* changes of pods that the controller has been told of */

static int reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)user;
    if (strcmp(key, "n/single") == 0 && atomic_fetch_add(&now_in, 1))
        atomic_fetch_add(&overlaps, 1);
    if (atomic_fetch_add(&reconciles, 1) == 0)
        snprintf(first, sizeof first, "%s", key);
    atomic_fetch_add(&resyncs, plan->resync);
    cleanup_obj struct obj *map = informer_get(maps, key), *pod = informer_get(pods, key);
    if (strcmp(key, "n/single") == 0) {
        clock_sleep_ns(NS_PER_MS);
        atomic_fetch_sub(&now_in, 1);
    }
    if (atomic_load(&fail_reconcile))
        return err_set(e, ERR_RETRY, "as the test wants");
    if (!map)
        return 0;
    if (!pod) {
        const json_t *m = obj_json(map);
        plan_create(plan, &kube_pods,
            json_pack("{s:{s:s,s:s,s:[{s:s,s:s,s:s,s:b}]}}", "metadata", "name", kube_name(m),
                "namespace", kube_namespace(m), "ownerReferences", "kind", "ConfigMap", "name",
                kube_name(m), "uid", kube_uid(m), "controller", 1));
    }
    cleanup_json json_t *status = json_pack("{s:b}", "podMade", 1);
    plan_status(plan, &kube_configmaps, obj_json(map), json_incref(status));
    return 0;
}

static void on_apply_error(void *user, const char *key, const struct plan_action *failed,
    const struct err *why, struct plan *then)
{
    (void)user;
    if (why->cls != ERR_INVALID || failed->op != PLAN_CREATE)
        return;
    atomic_fetch_add(&refused, 1);
    cleanup_obj struct obj *map = informer_get(maps, key);
    plan_status(then, &kube_configmaps, obj_json(map), json_pack("{s:s}", "message", "refused"));
}

static void on_pod(void *user, const json_t *was, const json_t *now)
{
    (void)user;
    (void)was;
    (void)now;
    atomic_fetch_add(&heard, 1);
}

static void prepare(bool explains, int64_t resync_ns)
{
    api = fake_api_start();
    mgr = (struct manager){.workers = workers};
    mgr.kube = mgr.apply.kube = fake_api_client(api);
    mgr.events = mgr.apply.events = events_new(mgr.kube, "test", "test-0");
    maps = manager_informer(&mgr, &(struct informer_conf){.res = &kube_configmaps});
    pods = manager_informer(&mgr, &(struct informer_conf){.res = &kube_pods});
    controller = manager_controller(&mgr,
        &(struct controller_conf){.name = "test",
            .keys = maps,
            .reconcile = reconcile,
            .resync_ns = resync_ns,
            .on_apply_error = explains ? on_apply_error : NULL});
    controller_watch(controller, maps, controller_map_self, NULL);
    controller_watch(controller, pods, controller_map_owner, (void *)(uintptr_t) "ConfigMap");
    informer_on_change(pods, on_pod, NULL); /* after the controller's own */
    reconciles = resyncs = refused = starts = overlaps = now_in = heard = 0;
    fail_reconcile = false;
}

static void look(void)
{
    struct err e = ERR_INIT;
    assert_int_equal(manager_start(&mgr, &e), 0);
    eventually(informer_synced(maps) && informer_synced(pods));
}

static void work(void)
{
    struct err e = ERR_INIT;
    assert_int_equal(manager_lead(&mgr, &e), 0);
}

static void go(void)
{
    look();
    work();
}

static int teardown(void **state)
{
    (void)state;
    manager_stop_leading(&mgr);
    events_free(mgr.events);
    manager_close(&mgr);
    kube_free(mgr.kube);
    fake_api_stop(api);
    return 0;
}

static void always(const char *method, const char *in, int status)
{
    fake_api_fault(api,
        &(struct fake_fault){
            .method = method, .in = in, .times = UINT_MAX, .kind = FAULT_STATUS, .status = status});
}

static void map(const char *name)
{
    fake_api_put(api, &kube_configmaps,
        json_pack("{s:{s:s,s:s}}", "metadata", "name", name, "namespace", "n"));
}

static bool made(const char *key)
{
    cleanup_json json_t *m = fake_api_get(api, &kube_configmaps, key),
                        *p = fake_api_get(api, &kube_pods, key);
    return p && jget_bool(m, "status.podMade", false);
}

static bool says(const char *key, const char *message)
{
    cleanup_json json_t *m = fake_api_get(api, &kube_configmaps, key);
    return strcmp(jget_str(m, "status.message", ""), message) == 0;
}

static void the_world_becomes_as_asked(void **state)
{
    (void)state;
    prepare(false, -1);
    map("a");
    go();
    map("b");
    eventually(made("n/a") && made("n/b"));
    fake_api_remove(api, &kube_pods, "n/a"); /* somebody deletes a child */
    eventually(made("n/a"));
    clock_sleep_ns(200 * NS_PER_MS);
    assert_int_equal(fake_api_count(api, "POST", "/pods"), 3);
    /* one each, and none when nothing changed */
    assert_int_equal(fake_api_count(api, "PATCH", "status"), 2);
}

static void what_is_begun_goes_before_what_is_new(void **state)
{
    (void)state;
    workers = 1;
    prepare(false, -1);
    workers = 4;
    map("a");
    map("b");
    map("c");
    look();
    fake_api_put(api, &kube_pods,
        json_pack("{s:{s:s,s:s,s:[{s:s,s:s,s:b}]}}", "metadata", "name", "c", "namespace", "n",
            "ownerReferences", "kind", "ConfigMap", "name", "c", "controller", 1));
    eventually(heard == 1);
    work();
    eventually(made("n/a") && made("n/b") && made("n/c"));
    assert_string_equal(first, "n/c");
}

static void many_at_once_make_each_pod_once(void **state)
{
    (void)state;
    enum { N = 200 };
    char name[16];
    prepare(false, -1);
    go();
    /* every kind of failure in between */
    fake_api_fault(api,
        &(struct fake_fault){
            .method = "POST", .in = "/pods", .times = 10, .kind = FAULT_STATUS, .status = 500});
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST", .in = "/pods", .times = 10, .kind = FAULT_LOSE});
    fake_api_fault(api,
        &(struct fake_fault){.method = "PATCH", .times = 10, .kind = FAULT_STATUS, .status = 409});
    fake_api_fault(api, &(struct fake_fault){.method = "PATCH", .times = 5, .kind = FAULT_RESET});
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "m%d", i);
        map(name);
        if (i % 50 == 0)
            fake_api_drop_watches(api);
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "n/m%d", i);
        eventually(made(name));
    }
    assert_int_equal(fake_api_len(api, &kube_pods), N);
}

static void a_key_is_never_worked_on_twice_at_once(void **state)
{
    (void)state;
    prepare(false, -1);
    map("single");
    go();
    /* those that come while it waits are one */
    for (int i = 0; i < 300 || (i < 200000 && reconciles <= 20); i++) {
        controller_enqueue(controller, "n/single", 0);
        clock_sleep_ns(NS_PER_MS / 3);
    }
    assert_true(reconciles > 20);
    assert_int_equal(overlaps, 0);
}

/* Its answer was lost, and the watch is not there to tell. */
static void what_was_written_is_not_written_again(void **state)
{
    (void)state;
    prepare(false, -1);
    map("a");
    look();
    always(NULL, "/configmaps?watch=true", 500);
    fake_api_drop_watches(api);
    /* twice: on a connection that was kept it is sent again at once */
    fake_api_fault(api, &(struct fake_fault){.method = "PATCH", .times = 2, .kind = FAULT_LOSE});
    work();
    eventually(fake_api_count(api, "GET", "/configmaps/a") == 1);
    int before = reconciles;
    controller_enqueue(controller, "n/a", 0);
    eventually(reconciles > before);
    assert_true(made("n/a"));
    assert_int_equal(fake_api_count(api, "PATCH", "status"), 2);
    fake_api_mend(api);
}

static void failures_back_off_and_pass(void **state)
{
    (void)state;
    prepare(false, -1);
    fail_reconcile = true;
    map("a");
    always("GET", "/configmaps/a", 403); /* who may not ask goes on */
    int64_t begun = clock_mono_ns();
    go();
    eventually(reconciles >= 3);
    clock_sleep_ns(500 * NS_PER_MS);
    int n = reconciles; /* after waits of 50 ms, 100, 200, 400, …, a fifth less by chance: no hot
                           loop */
    assert_true(
        n <= 20 && clock_mono_ns() - begun >= 40 * NS_PER_MS * ((INT64_C(1) << (n - 1)) - 1));
    assert_int_equal(fake_api_len(api, &kube_pods), 0);
    fail_reconcile = false;
    eventually(made("n/a"));
}

static void bad_input_is_explained_and_not_hurried(void **state)
{
    (void)state;
    prepare(true, -1);
    always("POST", "/pods", 422);
    map("a");
    int64_t begun = clock_mono_ns();
    go();
    eventually(refused >= 1 && says("n/a", "refused"));
    clock_sleep_ns(700 * NS_PER_MS);
    /* the status patch wakes the key once more: that turn fails too, and from then on it waits 5 s
     * and more, a fifth less by chance */
    unsigned posts = fake_api_count(api, "POST", "/pods");
    assert_in_range(posts, 1, 3 + (clock_mono_ns() - begun) / (4 * NS_PER_S));
}

static void what_the_server_remarks_becomes_an_event(void **state)
{
    (void)state;
    prepare(false, -1);
    map("a");
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST",
            .in = "/pods",
            .kind = FAULT_STATUS,
            .status = 201,
            .headers = "Warning: 299 - \"spec.x is deprecated\"\r\n",
            .body =
                "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"resourceVersion\":\"9000\"}}"});
    go();
    eventually(fake_api_count(api, "POST", "/events") == 1);
    cleanup_free char *event = fake_api_last(api, "POST", "/events");
    assert_non_null(strstr(event, "\"reason\":\"APIWarning\""));
    assert_non_null(strstr(event, "\"kind\":\"ConfigMap\""));
    assert_non_null(strstr(event, "spec.x is deprecated"));
}

static bool stuck(const char **what)
{
    static char text[512];
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(sizeof text - 1);
    cleanup_json json_t *map = NULL;
    assert_int_equal(kube_get(mgr.kube, &kube_configmaps, "n", "a", &map, &e), 0);
    bool is = manager_stuck(&mgr, kube_answered_ns(mgr.kube), NS_PER_S, &out);
    snprintf(text, sizeof text, "%s", buf_str(&out));
    *what = text;
    return is;
}

/* Liveness: a server that is away, or says why not, is no reason to start anew. */
static void an_informer_that_does_not_follow_is_stuck(void **state)
{
    (void)state;
    const char *what;
    prepare(false, -1);
    map("a");
    go();
    assert_false(stuck(&what));
    struct fake_fault deaf = {
        .in = "/pods?watch=true", .times = UINT_MAX, .kind = FAULT_STATUS, .status = 500};
    fake_api_fault(api, &deaf);
    fake_api_drop_watches(api);
    eventually(stuck(&what));
    assert_non_null(strstr(what, "pods: "));
    assert_null(strstr(what, "configmaps: "));
    cleanup_buf struct buf out = BUF_INIT(100);
    assert_false(manager_stuck(&mgr, clock_mono_ns() - NS_PER_S, NS_PER_S, &out)); /* it is away */
    fake_api_mend(api);
    deaf.status = 403;
    fake_api_fault(api, &deaf);
    fake_api_drop_watches(api);
    eventually(!stuck(&what));
    fake_api_mend(api);
}

/* Room in a quota comes when somebody else ends: it is looked for steadily, though not in a hurry.
 */
static void a_quota_is_tried_steadily(void **state)
{
    (void)state;
    static const char *const refusals[] = {
        "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"pods is forbidden: exceeded quota: q, requested: pods=1\"}",
        "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"pods is forbidden: failed quota: q: must specify limits.cpu for: c\"}"};
    prepare(false, -1);
    fail_reconcile = true;
    map("a");
    map("b");
    go();
    eventually(reconciles >= 14); /* as often as makes others wait for minutes */
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        fake_api_fault(
            api, &(struct fake_fault){"POST", "/pods", .status = 403, .body = refusals[i]});
    fail_reconcile = false;
    eventually(fake_api_count(api, "POST", "/pods") >= 1);
    int64_t begun = clock_mono_ns();
    eventually(made("n/a") && made("n/b"));
    assert_true(clock_mono_ns() - begun > 9 * NS_PER_S);
}

static void a_namespace_that_goes_is_no_failure(void **state)
{
    (void)state;
    prepare(true, -1);
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST",
            .in = "/pods",
            .times = 1000,
            .kind = FAULT_STATUS,
            .status = 403,
            .body =
                "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"pods \\\"a\\\" is forbidden: unable to create new content in namespace n because it is being terminated\"}"});
    map("a");
    go();
    eventually(fake_api_count(api, "POST", "/pods") >= 1);
    clock_sleep_ns(300 * NS_PER_MS);
    assert_int_equal(fake_api_count(api, "POST", "/events"), 0);
    assert_int_equal(fake_api_count(api, "PATCH", "status"), 0);
}

static void bad_input_becomes_an_event_where_nobody_explains(void **state)
{
    (void)state;
    prepare(false, -1);
    always("POST", "/pods", 422);
    map("a");
    go();
    eventually(fake_api_count(api, "POST", "/events") >= 1);
    cleanup_free char *event = fake_api_last(api, "POST", "/events");
    assert_non_null(strstr(event, "\"reason\":\"ApplyFailed\""));
    assert_non_null(strstr(event, "create pods n/a: "));
}

static void a_resync_looks_at_every_key(void **state)
{
    (void)state;
    prepare(false, 300 * NS_PER_MS);
    map("a");
    map("b");
    go();
    eventually(resyncs >= 4 && made("n/a") && made("n/b"));
    clock_sleep_ns(50 * NS_PER_MS);
    assert_int_equal(fake_api_count(api, "POST", "/pods"), 2);
}

static bool spec_differs(const json_t *was, const json_t *now)
{
    return jget_int(was, "spec.n", 0) != jget_int(now, "spec.n", 0);
}

static void service(int spec, int annotation)
{
    fake_api_put(api, &kube_services,
        json_pack("{s:{s:s,s:s,s:{s:i},s:[{s:s,s:s,s:s,s:b}]},s:{s:i}}", "metadata", "name", "s",
            "namespace", "n", "annotations", "n", annotation, "ownerReferences", "kind",
            "ConfigMap", "name", "none", "uid", "u", "controller", 1, "spec", "n", spec));
}

static void what_is_no_news_wakes_nobody(void **state)
{
    (void)state;
    prepare(false, -1);
    struct informer *services = manager_informer(
        &mgr, &(struct informer_conf){.res = &kube_services});
    controller_watch_news(
        controller, services, controller_map_owner, (void *)(uintptr_t) "ConfigMap", spec_differs);
    informer_on_change(services, on_pod, NULL);
    service(1, 1);
    go();
    eventually(reconciles == 1 && heard == 1);
    service(1, 2);
    eventually(heard == 2);
    clock_sleep_ns(50 * NS_PER_MS);
    assert_int_equal(reconciles, 1);
    service(2, 2);
    eventually(heard == 3 && reconciles > 1);
    clock_sleep_ns(50 * NS_PER_MS);
    int before = reconciles;
    fake_api_remove(api, &kube_services, "n/s");
    eventually(heard == 4 && reconciles > before);
}

static void a_shared_informer_is_one(void **state)
{
    (void)state;
    prepare(false, -1);
    static const struct informer_index one[] = {INFORMER_BY_FIELD(
        "owner", "metadata.ownerReferences[0].uid")},
                                       two[] = {
                                           INFORMER_BY_FIELD("namespace", "metadata.namespace")};
    struct informer *a = manager_shared_informer(&mgr,
        &(struct informer_conf){
            .res = &kube_services, .labels = "x=y", .indexes = one, .nindexes = 1});
    struct informer *b = manager_shared_informer(&mgr,
        &(struct informer_conf){
            .res = &kube_services, .labels = "x=y", .indexes = two, .nindexes = 1});
    struct informer *other = manager_shared_informer(
        &mgr, &(struct informer_conf){.res = &kube_services, .labels = "x=z"});
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    cleanup_objs struct objs none = informer_by(a, "namespace", "n"),
                             owned = informer_by(a, "owner", "u");
    assert_int_equal(none.n + owned.n, 0);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_world_becomes_as_asked, teardown),
        cmocka_unit_test_teardown(what_is_begun_goes_before_what_is_new, teardown),
        cmocka_unit_test_teardown(many_at_once_make_each_pod_once, teardown),
        cmocka_unit_test_teardown(a_key_is_never_worked_on_twice_at_once, teardown),
        cmocka_unit_test_teardown(what_was_written_is_not_written_again, teardown),
        cmocka_unit_test_teardown(failures_back_off_and_pass, teardown),
        cmocka_unit_test_teardown(bad_input_is_explained_and_not_hurried, teardown),
        cmocka_unit_test_teardown(bad_input_becomes_an_event_where_nobody_explains, teardown),
        cmocka_unit_test_teardown(a_quota_is_tried_steadily, teardown),
        cmocka_unit_test_teardown(a_namespace_that_goes_is_no_failure, teardown),
        cmocka_unit_test_teardown(an_informer_that_does_not_follow_is_stuck, teardown),
        cmocka_unit_test_teardown(what_the_server_remarks_becomes_an_event, teardown),
        cmocka_unit_test_teardown(a_resync_looks_at_every_key, teardown),
        cmocka_unit_test_teardown(what_is_no_news_wakes_nobody, teardown),
        cmocka_unit_test_teardown(a_shared_informer_is_one, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
