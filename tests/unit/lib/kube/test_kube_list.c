/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and watches against an API server that misbehaves. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/conf.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct kube *k;

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    k = fake_api_client_opts(api, &(struct kube_opts){.timeout_ns = 60 * NS_PER_S});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static json_t *pod(const char *name)
{
    return json_pack(
        "{s:{s:s,s:s,s:{s:s}}}", "metadata", "name", name, "namespace", "n", "labels", "app", "x");
}

static int keep(void *user, json_t *item_take)
{
    assert_string_equal(jget_str(item_take, "kind", ""), "Pod");
    assert_string_equal(jget_str(item_take, "apiVersion", ""), "v1");
    json_array_append_new(user, item_take);
    return 0;
}

static int stop(void *user, json_t *item_take)
{
    (void)user;
    json_decref(item_take);
    return 1;
}

static void fill(int n)
{
    for (int i = 0; i < n; i++) {
        cleanup_free char *name = xasprintf("p%03d", i);
        fake_api_put(api, &kube_pods, pod(name));
    }
}

static void lists_come_in_pages(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *all = json_array();
    cleanup_free char *version = NULL;
    fill(25);
    assert_int_equal(kube_list(k, &kube_pods, NULL, NULL, 10, keep, all, &version, &e), 0);
    assert_int_equal(json_array_size(all), 25);
    assert_int_equal(fake_api_count(api, "GET", "limit=10"), 3);
    assert_string_equal(version, "1025");
    assert_string_equal(kube_name(json_array_get(all, 24)), "p024");

    struct kube_select sel = {"app=y", "status.phase=Running"};
    json_array_clear(all);
    assert_int_equal(kube_list(k, &kube_pods, "n", &sel, 0, keep, all, NULL, &e), 0);
    assert_int_equal(json_array_size(all), 0);
    assert_int_equal(
        fake_api_count(api, "GET", "/api/v1/namespaces/n/pods?limit=200&labelSelector=app%3Dy"), 1);

    assert_int_equal(kube_list(k, &kube_pods, NULL, NULL, 10, stop, all, NULL, &e), -1);
    assert_int_equal(e.sys, ECANCELED);
}

static void an_expired_token_starts_the_list_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *all = json_array();
    fill(3);
    fake_api_fault(
        api, &(struct fake_fault){.in = "continue=", .kind = FAULT_STATUS, .status = 410});
    assert_int_equal(kube_list(k, &kube_pods, NULL, NULL, 2, keep, all, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(e.sys, ESTALE);
}

static json_t *broken_pod(const char *name)
{
    json_t *p = pod(name);
    json_object_set_new(p, "spec", json_pack("{s:s}", "data", FAKE_BROKEN));
    return p;
}

static int keep_readable(void *user, json_t *item_take)
{
    json_array_append_new(((json_t **)user)[0], item_take);
    return 0;
}

static int keep_unreadable(void *user, json_t *known_take)
{
    json_array_append_new(((json_t **)user)[1], known_take);
    return 0;
}

/* The lister gets all that can be read, and is told of each one that cannot. */
static void one_bad_item_does_not_hide_the_others(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char name[16];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "p%02d", i);
        fake_api_put(api, &kube_pods, i == 0 || i == 30 || i == 49 ? broken_pod(name) : pod(name));
    }
    cleanup_json json_t *all = json_array(), *bad = json_array();
    json_t *both[] = {all, bad};
    struct kube_lister to = {keep_readable, keep_unreadable, both};
    char *version = NULL;
    assert_int_equal(kube_list_readable(k, &kube_pods, NULL, NULL, &to, &version, &e), 0);
    assert_string_equal(version, "1050");
    free(version);
    assert_int_equal(json_array_size(all), 47);
    assert_int_equal(json_array_size(bad), 3);
    assert_string_equal(kube_name(json_array_get(bad, 1)), "p30");
    assert_string_equal(kube_namespace(json_array_get(bad, 1)), "n");
    assert_int_equal(kube_rv(json_array_get(bad, 1)), 1031);
    assert_non_null(strstr(jget_str(json_array_get(bad, 1), "message", ""), "cannot be read"));
    /* 50 at once would be one request; it is not one for each of the 50 */
    assert_in_range(fake_api_count(api, "GET", "limit="), 4, 45);
    /* who does not take that is refused */
    assert_int_equal(kube_list(k, &kube_pods, NULL, NULL, 0, keep, all, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
}

static void a_page_that_is_too_large_is_asked_for_in_parts(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    fake_api_put(api, &kube_pods, pod("a"));
    fake_api_fault(api,
        &(struct fake_fault){.in = "limit=200", .kind = FAULT_ENDLESS, .bytes = KUBE_PAGE_MAX * 2});
    cleanup_json json_t *all = json_array();
    assert_int_equal(kube_list(k, &kube_pods, NULL, NULL, 0, keep, all, NULL, &e), 0);
    assert_int_equal(json_array_size(all), 1);
    assert_int_equal(fake_api_count(api, "GET", "limit=20"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_come_in_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(an_expired_token_starts_the_list_again, setup, teardown),
        cmocka_unit_test_setup_teardown(one_bad_item_does_not_hide_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_page_that_is_too_large_is_asked_for_in_parts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
