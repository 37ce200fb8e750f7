/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/ctl/events.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct kube *k;
static struct events *ev;
static const struct event_about about = {&kube_datasets, "n", "d", "u1"};

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    k = fake_api_client(api);
    ev = events_new(k, "millrace-operator", "pod-0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    events_free(ev);
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

/* Ends the writer, so that everything is written. */
static void flush(void)
{
    events_free(ev);
    ev = NULL;
}

static json_t *last_event(void)
{
    cleanup_free char *text = fake_api_last(api, "POST", "/events");
    assert_non_null(text);
    json_t *j = json_parse(text, strlen(text), NULL);
    assert_non_null(j);
    return j;
}

static void an_event_says_it_all(void **state)
{
    (void)state;
    events_post(ev, &about, true, "StoreDenied", "403 from s3://b");
    flush();
    cleanup_json json_t *j = last_event();
    assert_int_equal(fake_api_count(api, "POST", "/api/v1/namespaces/n/events"), 1);
    assert_string_equal(jget_str(j, "involvedObject.kind", ""), "Dataset");
    assert_string_equal(jget_str(j, "involvedObject.apiVersion", ""), "millrace.dev/v1alpha1");
    assert_string_equal(jget_str(j, "involvedObject.uid", ""), "u1");
    assert_string_equal(jget_str(j, "type", ""), "Warning");
    assert_string_equal(jget_str(j, "reason", ""), "StoreDenied");
    assert_string_equal(jget_str(j, "message", ""), "403 from s3://b");
    assert_string_equal(jget_str(j, "source.component", ""), "millrace-operator");
    assert_string_equal(jget_str(j, "reportingInstance", ""), "pod-0");
    assert_int_equal(jget_int(j, "count", 0), 1);
}

/* Log lines of programs are quoted in messages, whatever bytes they are. */
static void a_broken_text_is_legible(void **state)
{
    (void)state;
    events_post(ev, &about, true, "TFJobFailed", "\xe5\xb8\xb8: caf\xc3");
    flush();
    cleanup_json json_t *j = last_event();
    assert_string_equal(jget_str(j, "message", ""), "\xe5\xb8\xb8: caf\xef\xbf\xbd");
}

static void equal_ones_are_counted(void **state)
{
    (void)state;
    events_post(ev, &about, false, "R", "m");
    eventually(fake_api_count(api, "POST", "/events") == 1);
    for (int i = 0; i < 50; i++)
        events_post(ev, &about, false, "R", "m");
    events_post(ev, &about, false, "R", "another");
    flush();
    assert_int_equal(fake_api_count(api, "POST", "/events"), 2);
    assert_int_equal(fake_api_count(api, "PATCH", "/events/d."), 1);
    cleanup_free char *patch = fake_api_last(api, "PATCH", "/events");
    assert_non_null(strstr(patch, "\"count\":51"));
}

static void a_flood_is_folded(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        cleanup_free char *text = xasprintf("attempt %d", i);
        events_post(ev, &about, true, "Failing", text);
    }
    flush();
    assert_in_range(fake_api_count(api, "POST", "/events"), EVENT_BURST, EVENT_BURST + 1);
    cleanup_json json_t *j = last_event();
    assert_non_null(strstr(jget_str(j, "message", ""), "(combined from similar events): "));
}

static atomic_bool closed;

static enum fake_verdict at_the_gate(
    void *user, const char *method, const char *target, const char *agent)
{
    (void)user;
    (void)method;
    (void)target;
    (void)agent;
    while (closed)
        clock_sleep_ns(NS_PER_MS);
    return FAKE_DO;
}

/* More objects than can be told of at once: fewer Events each, but no object goes unmentioned. */
static void in_a_flood_each_object_says_less(void **state)
{
    (void)state;
    enum { OBJECTS = 200 };
    closed = true; /* nothing is written before all of it waits */
    fake_api_judge(api, at_the_gate, NULL);
    for (int i = 0; i < OBJECTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        for (const char *what = "abc"; *what; what++) {
            char text[] = {*what, '\0'};
            events_post(
                ev, &(struct event_about){&kube_datasets, "n", name, name}, false, "Created", text);
        }
    }
    closed = false;
    eventually(fake_api_len(api, &kube_events) >= OBJECTS);
    flush();
    assert_in_range(fake_api_len(api, &kube_events), OBJECTS, OBJECTS + 2 * EVENT_FLOOD);
    cleanup_json json_t *j = last_event();
    assert_string_equal(jget_str(j, "involvedObject.name", ""), "d199");
    assert_string_equal(jget_str(j, "message", ""), "(combined from similar events): c");
    assert_int_equal(jget_int(j, "count", 0), 3);
}

static void warnings_overtake_what_is_paced(void **state)
{
    (void)state;
    enum { OBJECTS = EVENT_FLOOD + 20 * EVENT_PACE };
    for (int i = 0; i < OBJECTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        events_post(
            ev, &(struct event_about){&kube_datasets, "n", name, name}, false, "Created", "a");
    }
    events_post(ev, &(struct event_about){&kube_datasets, "w", "d", "u"}, true, "Failing", "b");
    eventually(fake_api_count(api, "POST", "/namespaces/w/events") == 1);
    assert_true(fake_api_count(api, "POST", "/namespaces/n/events") < OBJECTS);
    eventually(fake_api_count(api, "POST", "/namespaces/n/events") > EVENT_FLOOD);
    fake_api_forget(api);
    events_free(ev); /* does not keep the pace */
    ev = NULL;
    assert_true(fake_api_count(api, "POST", "/namespaces/n/events") > 0);
}

static void secrets_and_novels_are_cut(void **state)
{
    (void)state;
    log_redact("s3cr3t-access-key");
    char novel[3000];
    memset(novel, 'x', sizeof novel);
    novel[sizeof novel - 1] = '\0';
    events_post(ev, &about, true, "R", "key s3cr3t-access-key was refused");
    eventually(fake_api_count(api, "POST", "/events") == 1);
    cleanup_json json_t *j = last_event();
    assert_string_equal(jget_str(j, "message", ""), "key *** was refused");
    events_post(ev, &about, true, "R", novel);
    flush();
    cleanup_json json_t *cut = last_event();
    assert_int_equal(strlen(jget_str(cut, "message", "")), 1024);
}

static void things_without_namespace_speak_in_default(void **state)
{
    (void)state;
    events_post(ev, &(struct event_about){&kube_volumeattachments, "", "va", "u"}, true, "R", "m");
    flush();
    assert_int_equal(fake_api_count(api, "POST", "/namespaces/default/events"), 1);
    cleanup_json json_t *j = last_event();
    assert_null(jget(j, "involvedObject.namespace"));
}

static void a_server_that_refuses_is_no_trouble(void **state)
{
    (void)state;
    fake_api_fault(
        api, &(struct fake_fault){.method = "POST", .kind = FAULT_STATUS, .status = 403});
    events_post(ev, &about, true, "R", "refused");
    eventually(fake_api_count(api, "POST", "/events") == 1);
    events_post(ev, &about, true, "R", "taken");
    eventually(fake_api_len(api, &kube_events) == 1);
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST", .times = 1000, .kind = FAULT_STATUS, .status = 500});
    events_post(ev, &about, true, "R", "not taken");
    int64_t begun = clock_mono_ns();
    flush();
    /* it does not try until the server takes it */
    assert_true(clock_mono_ns() - begun < 30 * NS_PER_S);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_broken_text_is_legible, setup, teardown),
        cmocka_unit_test_setup_teardown(an_event_says_it_all, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_ones_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flood_is_folded, setup, teardown),
        cmocka_unit_test_setup_teardown(in_a_flood_each_object_says_less, setup, teardown),
        cmocka_unit_test_setup_teardown(warnings_overtake_what_is_paced, setup, teardown),
        cmocka_unit_test_setup_teardown(secrets_and_novels_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(things_without_namespace_speak_in_default, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_refuses_is_no_trouble, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
