/* SPDX-License-Identifier: Apache-2.0 */
/* What wakes a pod that waits behind its gate: a Dataset, and a claim of somebody else's. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"
#include "tests/unit/operator/dataset/dataset_fixture.h"

#include <string.h>

static void put(const struct kube_res *res, const char *text)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    fake_api_put(dx_api, res, object);
}

static void put_dataset(const char *name)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"team\",\"uid\":\"uid-of-%s\",\"generation\":1},"
        "\"spec\":{\"mounts\":[{\"mountPoint\":\"s3://b\"}]},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
        name, name);
    put(&kube_datasets, text);
}

static void put_claim(const char *name, const char *labels)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"team\",\"uid\":\"uid-of-claim-%s\",\"labels\":{%s}},\"spec\":{}}",
        name, name, labels);
    put(&kube_pvcs, text);
}

/* It mounts the Dataset images, and the other claim. */
static void put_pod(const char *name, const char *other)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"team\",\"uid\":\"uid-of-%s\",\"labels\":{\"" LABEL_DATA
        "\":\"Ready\"}},\"spec\":{\"schedulingGates\":[{\"name\":\"" GATE_DATA "\"}],\"volumes\":["
        "{\"name\":\"a\",\"persistentVolumeClaim\":{\"claimName\":\"images\"}},"
        "{\"name\":\"b\",\"persistentVolumeClaim\":{\"claimName\":\"%s\"}}]},\"status\":{\"phase\":\"Pending\"}}",
        name, name, other);
    put(&kube_pods, text);
}

static bool is_open(const char *key)
{
    cleanup_json json_t *pod = fake_api_get(dx_api, &kube_pods, key);
    return jget_len(pod, "spec.schedulingGates") == 0;
}

static bool waits_for(const char *key, const char *words)
{
    return dx_field_is(&kube_pods, key, "metadata.annotations.\"" ANNOTATION_WAITING "\"", words);
}

static void test_claim_of_others(void **state)
{
    (void)state;
    put_dataset("images");
    put_pod("of-others", "scratch");
    eventually(waits_for("team/of-others", "scratch DatasetNotFound"));
    assert_false(is_open("team/of-others"));
    put_claim("scratch", "");
    eventually(is_open("team/of-others"));
}

static void test_dataset_made_later(void **state)
{
    (void)state;
    put_dataset("images");
    put_pod("of-two", "labels");
    eventually(waits_for("team/of-two", "labels DatasetNotFound"));
    put_dataset("labels");
    eventually(is_open("team/of-two"));
}

/* `kubectl delete` and `apply` of a Dataset: its claim may be seen longer than it is. */
static void test_claim_of_a_dataset_that_went(void **state)
{
    (void)state;
    put_dataset("images");
    put_claim("again", "\"" LABEL_DATASET_UID "\":\"uid-of-before\"");
    put_pod("of-gone", "again");
    eventually(waits_for("team/of-gone", "again DatasetNotFound"));
    assert_false(is_open("team/of-gone"));
}

static int gx_start(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    size_t next = 0;
    dx_api = fake_api_start();
    dx_mgr = (struct manager){.workers = 2, .ns = "millrace"};
    dx_mgr.kube = dx_mgr.apply.kube = fake_api_client(dx_api);
    dx_mgr.events = dx_mgr.apply.events = events_new(dx_mgr.kube, "millrace-operator", "test-0");
    assert_int_equal(gate_controller_start(&dx_mgr, &e), 0);
    assert_int_equal(manager_start(&dx_mgr, &e), 0);
    eventually((next = 0, !manager_unsynced(&dx_mgr, &next, &e)));
    assert_int_equal(manager_lead(&dx_mgr, &e), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claim_of_others),
        cmocka_unit_test(test_dataset_made_later),
        cmocka_unit_test(test_claim_of_a_dataset_that_went),
    };
    return cmocka_run_group_tests(tests, gx_start, dx_stop);
}
