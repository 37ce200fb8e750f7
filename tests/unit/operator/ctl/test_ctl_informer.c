/* SPDX-License-Identifier: Apache-2.0 */
/* An informer against an API server that misbehaves. */
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/ctl/informer.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct kube *k;
static struct informer *c;
static atomic_int added, changed, removed, unreadable;
static bool fold;

static void on_change(void *user, const json_t *was, const json_t *now)
{
    (void)user;
    assert_true(was || now);
    assert_true(!was || !strcmp(kube_namespace(was), "n"));
    assert_true(!was || !now || !strcmp(kube_uid(was), kube_uid(now)));
    atomic_fetch_add(was ? now ? &changed : &removed : &added, 1);
}

static void on_unreadable(void *user, const struct kube_res *res, const json_t *known)
{
    (void)user;
    assert_ptr_equal(res, &kube_pods);
    assert_string_equal(kube_namespace(known), "n");
    assert_true(*kube_uid(known) && *jget_str(known, "message", ""));
    atomic_fetch_add(&unreadable, 1);
}

static int setup(void **state)
{
    (void)state;
    static const struct informer_index indexes[] = {
        INFORMER_BY_FIELD("owner", "metadata.ownerReferences[0].uid"),
        INFORMER_BY_LABEL("app", "app")};
    api = fake_api_start();
    k = fake_api_client(api);
    c = informer_new(k,
        &(struct informer_conf){
            .res = &kube_pods, .labels = "app=x", .indexes = indexes, .nindexes = 2, .fold = fold});
    added = changed = removed = unreadable = 0;
    informer_on_change(c, on_change, NULL);
    informer_on_unreadable(c, on_unreadable, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    informer_free(c);
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static json_t *pod(const char *name, const char *app, const char *data)
{
    return json_pack("{s:{s:s,s:s,s:{s:s},s:{s:s},s:[{s:s}]},s:{s:s}}", "metadata", "name", name,
        "namespace", "n", "labels", "app", app, "annotations",
        "kubectl.kubernetes.io/last-applied-configuration", "{}", "managedFields", "manager", "m",
        "spec", "data", data);
}

static void start(void)
{
    struct err e = ERR_INIT;
    assert_int_equal(informer_start(c, &e), 0);
    eventually(informer_synced(c));
    eventually(fake_api_watchers(api, &kube_pods) == 1);
}

/* No watch comes through until fake_api_mend, however long the test takes to get there. */
static void deafen(void)
{
    fake_api_fault(api,
        &(struct fake_fault){
            .in = "watch=true", .times = UINT_MAX, .kind = FAULT_STATUS, .status = 500});
    fake_api_drop_watches(api);
    eventually(fake_api_watchers(api, &kube_pods) == 0);
}

/* Data of a pod, or "-". */
static const char *data_of(const char *key)
{
    static char text[64];
    cleanup_obj struct obj *o = informer_get(c, key);
    snprintf(text, sizeof text, "%s", jget_str(obj_json(o), "spec.data", "-"));
    return text;
}

static bool is(const char *key, const char *data) { return strcmp(data_of(key), data) == 0; }

static void it_follows(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    fake_api_put(api, &kube_pods, pod("other", "y", "1"));
    start();
    assert_int_equal(informer_count(c), 1);
    assert_int_equal(added, 1);
    cleanup_obj struct obj *a = informer_get(c, "n/a");
    assert_null(jget(obj_json(a), "metadata.managedFields"));
    assert_null(jget(obj_json(a), "metadata.annotations"));
    assert_string_equal(jget_str(obj_json(a), "kind", ""), "Pod");
    fake_api_put(api, &kube_pods, pod("b", "x", "1"));
    fake_api_put(api, &kube_pods, pod("a", "x", "2"));
    eventually(informer_count(c) == 2 && is("n/a", "2"));
    cleanup_objs struct objs all = informer_all(c), by = informer_by(c, "app", "x"),
                             none = informer_by(c, "app", "y");
    assert_int_equal(all.n, 2);
    assert_int_equal(by.n, 2);
    assert_int_equal(none.n, 0);
    assert_string_equal(kube_name(obj_json(by.v[0])), "a");
    cleanup_keys char **keys = informer_keys(c, NULL, NULL),
                      **keys_by = informer_keys(c, "app", "x"),
                      **no_keys = informer_keys(c, "app", "y");
    assert_true(keys[0] && keys[1] && !keys[2]);
    assert_true(keys_by[0] && keys_by[1] && !keys_by[2]);
    assert_string_equal(keys_by[keys_by[0][2] != 'a'], "n/a");
    assert_null(no_keys[0]);
    fake_api_remove(api, &kube_pods, "n/a");
    eventually(removed == 1);
    assert_null(informer_get(c, "n/a"));
    /* what a reader holds stays as it was */
    assert_string_equal(jget_str(obj_json(a), "spec.data", ""), "1");
    assert_int_equal(changed, 1);
    assert_int_equal(fake_api_count(api, "GET", "limit="), 1);
}

static void a_watch_that_ends_goes_on_where_it_was(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    start();
    fake_api_put(api, &kube_pods, pod("b", "x", "1"));
    eventually(informer_count(c) == 2);
    fake_api_drop_watches(api);
    /* it may be back at once */
    eventually(
        fake_api_watchers(api, &kube_pods) == 0 || fake_api_count(api, "GET", "watch=true") > 1);
    fake_api_put(api, &kube_pods, pod("c", "x", "1"));
    eventually(added == 3);
    assert_int_equal(informer_count(c), 3);
    /* no second list, and nothing told twice */
    assert_int_equal(fake_api_count(api, "GET", "limit="), 1);
    assert_int_equal(fake_api_count(api, "GET", "resourceVersion=1002"), 1);
}

static void an_expired_version_means_a_new_list(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    fake_api_put(api, &kube_pods, pod("b", "x", "1"));
    fake_api_put(api, &kube_pods, pod("c", "x", "1"));
    start();
    /* while nobody watches: one goes, one changes, one comes, and the server forgets how */
    deafen();
    fake_api_remove(api, &kube_pods, "n/a");
    fake_api_put(api, &kube_pods, pod("b", "x", "2"));
    fake_api_put(api, &kube_pods, pod("d", "x", "1"));
    fake_api_compact(api);
    fake_api_mend(api);
    eventually(removed == 1 && changed == 1 && added == 4);
    assert_true(is("n/d", "1") && is("n/b", "2") && is("n/a", "-"));
    assert_int_equal(informer_count(c), 3);
    assert_int_equal(fake_api_count(api, "GET", "limit="), 2);
    fake_api_put(api, &kube_pods, pod("e", "x", "1"));
    eventually(informer_count(c) == 4);
}

static void bookmarks_spare_a_list(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 5; i++)
        fake_api_put(api, &kube_pods, pod("other", "y", "1")); /* versions go on, but not for us */
    /* on a busy machine it is heard too late */
    for (int i = 0; i < 50 && fake_api_count(api, "GET", "resourceVersion=1005") == 0; i++) {
        unsigned before = fake_api_count(api, "GET", "watch=true");
        fake_api_bookmark(api);
        clock_sleep_ns(200 * NS_PER_MS);
        fake_api_drop_watches(api);
        eventually(fake_api_count(api, "GET", "watch=true") > before);
        eventually(fake_api_watchers(api, &kube_pods) == 1);
    }
    assert_int_equal(fake_api_count(api, "GET", "resourceVersion=1005"), 1);
    assert_int_equal(fake_api_count(api, "GET", "limit="), 1);
}

static void troubles_of_all_kinds_pass(void **state)
{
    (void)state;
    static const struct fake_fault faults[] = {
        {.in = "limit=", .kind = FAULT_CUT, .bytes = 30},
        {.in = "limit=",
            .kind = FAULT_STATUS,
            .status = 200,
            .type = "text/html",
            .body = "<html>"},
        {.in = "watch=true", .kind = FAULT_STREAM, .body = "{\"type\":\"ADDED\",\"obj"},
        {.in = "watch=true", .kind = FAULT_STREAM, .body = "garbage\n"},
        {.in = "watch=true", .kind = FAULT_STATUS, .status = 429, .headers = "Retry-After: 1\r\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        fake_api_fault(api, &faults[i]);
    struct err e = ERR_INIT;
    informer_error(c, &e);
    assert_non_null(strstr(e.msg, "not begun"));
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    assert_int_equal(informer_start(c, &e), 0);
    eventually(informer_synced(c));
    eventually(fake_api_watchers(api, &kube_pods) == 1);
    fake_api_put(api, &kube_pods, pod("b", "x", "1"));
    eventually(added == 2);
    assert_int_equal(informer_count(c), 2);
    informer_error(c, &e);
    assert_int_equal(e.cls, ERR_NONE);
}

/* ---- objects that cannot be read ---- */

static json_t *broken(const char *name) { return pod(name, "x", FAKE_BROKEN); }

/* The watch would tell of it again and again, from the version before it. */
static void an_object_that_cannot_be_read_stops_nothing(void **state)
{
    (void)state;
    start();
    fake_api_put(api, &kube_pods, broken("p"));
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    eventually(is("n/a", "1"));
    assert_int_equal(unreadable, 1);
    assert_int_equal(informer_count(c), 1);
    fake_api_put(api, &kube_pods, broken("p")); /* told of once */
    fake_api_put(api, &kube_pods, pod("a", "x", "2"));
    eventually(is("n/a", "2"));
    assert_int_equal(unreadable, 1);
    assert_int_equal(fake_api_count(api, "GET", "watch=true"), 1);
    struct err e = ERR_INIT;
    informer_error(c, &e);
    assert_int_equal(e.cls, ERR_NONE);
    fake_api_put(api, &kube_pods, pod("p", "x", "1"));
    eventually(is("n/p", "1")); /* somebody mended it */
}

static void it_stays_as_it_was_before(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("p", "x", "1"));
    start();
    fake_api_put(api, &kube_pods, broken("p"));
    eventually(unreadable == 1);
    assert_true(is("n/p", "1"));
    deafen();
    fake_api_compact(api);
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    fake_api_mend(api);
    eventually(is("n/a", "1")); /* by a new list, which has it in it as well */
    eventually(fake_api_watchers(api, &kube_pods) == 1);
    assert_true(is("n/p", "1"));
    assert_int_equal(removed, 0);
    fake_api_remove(api, &kube_pods, "n/p"); /* that can be told from the line */
    eventually(removed == 1);
    assert_true(is("n/p", "-"));
}

static void it_starts_with_one_in_place(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    fake_api_put(api, &kube_pods, broken("p"));
    fake_api_put(api, &kube_pods, pod("z", "x", "1"));
    start();
    assert_int_equal(informer_count(c), 2);
    assert_int_equal(unreadable, 1);
}

static void a_kind_that_is_not_installed_is_waited_for(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct informer *jobs = informer_new(k, &(struct informer_conf){.res = &kube_tfjobs});
    fake_api_uninstall(api, &kube_tfjobs, true);
    assert_int_equal(informer_start(jobs, &e), 0);
    eventually((informer_error(jobs, &e), strstr(e.msg, "tfjobs.kubeflow.org is not installed")));
    assert_false(informer_synced(jobs));
    fake_api_uninstall(api, &kube_tfjobs, false);
    eventually(informer_synced(jobs));
    informer_free(jobs);
}

/* ---- our own writes ---- */

static json_t *write_pod(const char *name, const char *data, json_t **answer)
{
    struct err e = ERR_INIT;
    cleanup_json json_t *p = pod(name, "x", data);
    if (kube_apply(k, &kube_pods, "n", name, "", p, answer, &e))
        fail_msg("%s", e.msg);
    return *answer;
}

static void own_writes_are_seen_at_once(void **state)
{
    (void)state;
    start();
    deafen(); /* only our own answers can tell us now */
    json_t *made = NULL, *next = NULL;
    write_pod("a", "1", &made);
    informer_observe(c, json_deep_copy(made));
    assert_true(is("n/a", "1"));
    assert_int_equal(added, 1);
    write_pod("a", "2", &next);
    informer_observe(c, json_deep_copy(next));
    assert_true(is("n/a", "2"));
    informer_observe(c, json_deep_copy(made)); /* an older answer that comes late */
    assert_true(is("n/a", "2"));
    assert_int_equal(changed, 1);
    informer_observe_gone(c, "n/a", "another-uid");
    assert_true(is("n/a", "2"));
    informer_observe_gone(c, "n/a", kube_uid(next));
    assert_true(is("n/a", "-"));
    assert_int_equal(removed, 1);
    informer_observe(c, pod("y", "y", "1")); /* not what this informer holds */
    assert_int_equal(informer_count(c), 0);
    json_decref(made);
    json_decref(next);
}

static void what_is_gone_does_not_come_back(void **state)
{
    (void)state;
    start();
    json_t *made = NULL;
    write_pod("a", "1", &made);
    fake_api_remove(api, &kube_pods, "n/a");
    eventually(removed == 1);  /* the watch is past the whole life of it */
    informer_observe(c, made); /* now comes the answer to the write */
    assert_int_equal(informer_count(c), 0);
    assert_int_equal(added, 1);
}

/* It is gone before the list is made, and was not there when that began. */
static void a_write_during_a_list_leaves_no_ghost(void **state)
{
    (void)state;
    fake_api_put(api, &kube_pods, pod("z", "x", "1"));
    start();
    fake_api_forget(api);
    fake_api_fault(
        api, &(struct fake_fault){.in = "limit=", .kind = FAULT_SLOW, .delay_ns = 2 * NS_PER_S});
    fake_api_compact(api);
    fake_api_drop_watches(api);
    eventually(fake_api_count(api, "GET", "limit=") == 1);
    json_t *made = NULL;
    write_pod("a", "1", &made);
    informer_observe(c, made);
    assert_true(is("n/a", "1"));
    fake_api_remove(api, &kube_pods, "n/a");
    fake_api_put(api, &kube_pods, pod("y", "x", "1"));
    eventually(is("n/y", "1") && fake_api_watchers(api, &kube_pods) == 1);
    fake_api_put(api, &kube_pods, pod("b", "x", "1"));
    eventually(is("n/b", "1")); /* all news have been heard by now */
    assert_true(is("n/a", "-"));
    assert_int_equal(removed, 1);
}

static void a_successor_outlives_the_news_of_a_death(void **state)
{
    (void)state;
    start();
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    eventually(added == 1);
    /* the watch is deaf while one goes and the next is made by us */
    deafen();
    fake_api_remove(api, &kube_pods, "n/a");
    json_t *made = NULL;
    write_pod("a", "2", &made);
    informer_observe(c, made);
    assert_true(is("n/a", "2"));
    fake_api_mend(api);
    eventually(fake_api_watchers(api, &kube_pods) == 1);
    fake_api_put(api, &kube_pods, pod("b", "x", "1"));
    eventually(is("n/b", "1")); /* by then the old DELETED event has been heard */
    assert_true(is("n/a", "2"));
    assert_int_equal(removed, 1);
}

static void a_trim_drops_what_nobody_reads(json_t *object) { json_object_del(object, "spec"); }

static void trimming_saves_memory(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct informer *slim = informer_new(k,
        &(struct informer_conf){
            .res = &kube_pods, .ns = "n", .trim = a_trim_drops_what_nobody_reads});
    fake_api_put(api, &kube_pods, pod("a", "x", "1"));
    assert_int_equal(informer_start(slim, &e), 0);
    eventually(informer_synced(slim));
    cleanup_obj struct obj *o = informer_get(slim, "n/a");
    assert_null(jget(obj_json(o), "spec"));
    assert_int_equal(fake_api_count(api, "GET", "/api/v1/namespaces/n/pods?limit"), 1);
    informer_free(slim);
}

static void stopping_is_quick(void **state)
{
    (void)state;
    start();
    int64_t begun = clock_mono_ns();
    informer_free(c);
    c = NULL;
    assert_true(clock_mono_ns() - begun < 30 * NS_PER_S); /* the watch goes on for minutes */
}

/* Our own writes are checked against the selector: a label that must not be there, too. */
static void it_keeps_only_writes_that_it_selects(void **state)
{
    (void)state;
    struct informer *inf = informer_new(
        k, &(struct informer_conf){.res = &kube_pods, .labels = "app,!held"});
    json_t *chosen = pod("a", "x", "1"), *held = pod("b", "x", "1"), *other = pod("c", "", "1");
    json_t *const all[] = {chosen, held, other};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        json_object_set_new(
            json_object_get(all[i], "metadata"), "resourceVersion", json_string("5"));
    json_object_set_new(
        json_object_get(json_object_get(held, "metadata"), "labels"), "held", json_string("yes"));
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        informer_observe(inf, all[i]);
    assert_int_equal(informer_count(inf), 1);
    cleanup_obj struct obj *a = informer_get(inf, "n/a");
    assert_non_null(a);
    informer_free(inf);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_follows, setup, teardown),
        cmocka_unit_test_setup_teardown(it_keeps_only_writes_that_it_selects, setup, teardown),
        cmocka_unit_test_setup_teardown(a_watch_that_ends_goes_on_where_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(an_expired_version_means_a_new_list, setup, teardown),
        cmocka_unit_test_setup_teardown(bookmarks_spare_a_list, setup, teardown),
        cmocka_unit_test_setup_teardown(troubles_of_all_kinds_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_object_that_cannot_be_read_stops_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(it_stays_as_it_was_before, setup, teardown),
        cmocka_unit_test_setup_teardown(it_starts_with_one_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(a_write_during_a_list_leaves_no_ghost, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_kind_that_is_not_installed_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(own_writes_are_seen_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_gone_does_not_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_successor_outlives_the_news_of_a_death, setup, teardown),
        cmocka_unit_test_setup_teardown(trimming_saves_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(stopping_is_quick, setup, teardown),
    };
    int failed = cmocka_run_group_tests_name("whole", tests, NULL, NULL);
    fold = true;
    return failed + cmocka_run_group_tests_name("folded", tests, NULL, NULL);
}
