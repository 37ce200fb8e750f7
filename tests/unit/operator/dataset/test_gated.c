/* SPDX-License-Identifier: Apache-2.0 */
/* What pods ask for that are to come, by claim: of jobs that wait, of pods behind a gate. And who
 * is told when something else is asked. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/dataset/gated.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct manager mgr;
static struct gated *gated;
static atomic_uint told; /* of team/images */

static void on_changed(void *user, const char *claim)
{
    (void)user;
    if (strcmp(claim, "team/images") == 0)
        atomic_fetch_add(&told, 1);
}

#define POD_SPEC                                                                           \
    "\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":\"images\"}}]," \
    "\"containers\":[{\"name\":\"tensorflow\",\"image\":\"i\",\"resources\":{\"limits\":{\"cpu\":\"4\",%s}}}]"

/* A job of one worker, whose containers have this limit, and whose node has that label. */
static void put_job(const char *name, const char *limit, const char *label, const char *policy,
    const char *condition)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"team\",\"uid\":\"uid-of-%s\",\"generation\":1},"
        "\"spec\":{\"runPolicy\":{%s},\"tfReplicaSpecs\":{\"Worker\":{\"replicas\":2,\"template\":{\"spec\":{"
        "\"nodeSelector\":{\"gpu\":\"%s\"}," POD_SPEC "}}}}},"
        "\"status\":{\"conditions\":[{\"type\":\"%s\",\"status\":\"True\"}]}}",
        name, name, policy, label, limit, condition);
    json_t *job = json_loads(text, 0, NULL);
    assert_non_null(job);
    fake_api_put(api, &kube_tfjobs, job);
}

static void put_pod(const char *name, const char *node)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"team\",\"uid\":\"uid-of-%s\",\"labels\":{\"" LABEL_PLACEMENT
        "\":\"Prefer\"}},\"spec\":{%s\"schedulingGates\":[{\"name\":\"" GATE_DATA "\"}]," POD_SPEC
        "},\"status\":{\"phase\":\"Pending\"}}",
        name, name, node, "\"amd.com/gpu\":\"1\"");
    json_t *pod = json_loads(text, 0, NULL);
    assert_non_null(pod);
    fake_api_put(api, &kube_pods, pod);
}

#define GPU "\"nvidia.com/gpu\":1"

/* How many different things are asked for, if one of them has these words. */
static size_t asked(const char *claim, const char *words)
{
    cleanup_json json_t *demands = gated_demands(gated, claim);
    cleanup_free char *text = json_dumps(demands, JSON_COMPACT | JSON_SORT_KEYS);
    return strstr(text, words) ? json_array_size(demands) : 0;
}

static void jobs_that_wait_ask(void **state)
{
    (void)state;
    put_job("first", GPU, "a100", "", "Created");
    eventually(asked("team/images", "{\"nvidia.com/gpu\":1},\"selector\":{\"gpu\":\"a100\"}") == 1);
    assert_int_equal(asked("other/images", "]"), 0);
    eventually(atomic_load(&told) > 0); /* it is told after it can be asked */
    unsigned before = atomic_load(&told);
    put_job("same", GPU, "a100", "", "Created");
    put_job("another", GPU, "t4", "", "WaitingForDataset");
    eventually(asked("team/images", "t4") == 2);
    eventually(atomic_load(&told) == before + 1); /* the same again is no news */
    put_job("first", GPU, "a100", "", "Running");
    put_job("another", GPU, "t4", "\"suspend\":true", "Suspended");
    eventually(asked("team/images", "a100") == 1);
    put_job("same", GPU, "a100", "", "Succeeded");
    eventually(!asked("team/images", "gpu"));
    put_job("another", GPU, "t4", "", "Created");
    eventually(asked("team/images", "t4") == 1);
    fake_api_remove(api, &kube_tfjobs, "team/another");
    eventually(!asked("team/images", "gpu"));
}

static void who_asks_for_no_gpu_asks_nothing(void **state)
{
    (void)state;
    put_job("plain", "\"memory\":\"1Gi\"", "a100", "", "Created");
    put_job("rdma", "\"rdma/hca\":\"1\"", "a100", "", "Created");
    put_job("none", "\"nvidia.com/gpu\":\"0\"", "a100", "", "Created");
    put_job("last", GPU, "a100", "", "Created");
    eventually(asked("team/images", "a100") == 1);
    fake_api_remove(api, &kube_tfjobs, "team/last");
    eventually(!asked("team/images", "gpu"));
}

static void pods_behind_a_gate_ask(void **state)
{
    (void)state;
    put_pod("gated", "");
    eventually(asked("team/images", "amd.com/gpu") == 1);
    put_pod("gated", "\"nodeName\":\"n1\",");
    eventually(!asked("team/images", "gpu"));
}

static int begin(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    api = fake_api_start();
    mgr = (struct manager){.tfjobs = true};
    mgr.kube = mgr.apply.kube = fake_api_client(api);
    gated = gated_new(&mgr, NULL, on_changed, NULL);
    return manager_start(&mgr, &e);
}

static int finish(void **state)
{
    (void)state;
    manager_close(&mgr);
    gated_free(gated);
    kube_free(mgr.kube);
    fake_api_stop(api);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_that_wait_ask),
        cmocka_unit_test(who_asks_for_no_gpu_asks_nothing),
        cmocka_unit_test(pods_behind_a_gate_ask),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
