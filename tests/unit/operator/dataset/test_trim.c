/* SPDX-License-Identifier: Apache-2.0 */
/* What informers keep of objects as a real server sends them. That plans read nothing else is for
 * the golden cases, which run on trimmed objects. */
#include "lib/base/mem.h"
#include "lib/json/obj.h"
#include "operator/dataset/trim.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

static void keeps(void (*trim)(json_t *), const char *object, const char *kept)
{
    struct err e = ERR_INIT;
    cleanup_json json_t *o = json_parse(object, strlen(object), &e),
                        *want = json_parse(kept, strlen(kept), &e);
    if (!o || !want)
        fail_msg("%s", e.msg);
    trim(o);
    cleanup_free char *is = json_text(o), *ought = json_text(want);
    assert_string_equal(is, ought);
}

#define META                                                                                    \
    "\"metadata\":{\"name\":\"mnist-cache-0\",\"generateName\":\"x\",\"namespace\":\"team\","   \
    "\"uid\":\"u2\",\"resourceVersion\":\"7\",\"generation\":1,"                                \
    "\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"finalizers\":[\"f\"],"                    \
    "\"labels\":{\"millrace.dev/dataset-uid\":\"u1\",\"team.example/cost\":\"42\"},"            \
    "\"annotations\":{\"millrace.dev/hash\":\"abc\",\"cni.example/networks\":\"a long text\"}," \
    "\"ownerReferences\":[{\"apiVersion\":\"millrace.dev/v1alpha1\",\"kind\":\"Dataset\","      \
    "\"name\":\"mnist\",\"uid\":\"u1\",\"controller\":true,\"blockOwnerDeletion\":true}]}"
#define KEPT                                                                                      \
    "\"metadata\":{\"name\":\"mnist-cache-0\",\"namespace\":\"team\",\"uid\":\"u2\","             \
    "\"resourceVersion\":\"7\",\"generation\":1,\"creationTimestamp\":\"2026-01-01T00:00:00Z\","  \
    "\"finalizers\":[\"f\"],\"labels\":{\"millrace.dev/dataset-uid\":\"u1\"},"                    \
    "\"annotations\":{\"millrace.dev/hash\":\"abc\"},\"ownerReferences\":[{\"kind\":\"Dataset\"," \
    "\"name\":\"mnist\",\"uid\":\"u1\",\"controller\":true}]}"

static void of_a_pod_its_health_is_kept(void **state)
{
    (void)state;
    keeps(dataset_trim_pod,
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"," META
        ",\"spec\":{\"nodeName\":\"n1\",\"priorityClassName\":\"p\","
        "\"volumes\":[{\"name\":\"v\"}],\"affinity\":{},\"tolerations\":[{\"operator\":\"Exists\"}],"
        "\"containers\":[{\"name\":\"millrace\",\"image\":\"i:1\",\"env\":[{\"name\":\"MILLRACE_CONFIG\",\"value\":\"{}\"}],"
        "\"resources\":{\"requests\":{\"cpu\":\"50m\"}},\"volumeMounts\":[]}]},"
        "\"status\":{\"phase\":\"Running\",\"reason\":\"r\",\"message\":\"m\",\"podIP\":\"10.0.0.1\",\"podIPs\":[{\"ip\":\"10.0.0.1\"}],\"hostIP\":\"10.1.0.1\","
        "\"startTime\":\"2026-01-01T00:00:01Z\",\"qosClass\":\"Burstable\",\"conditions\":["
        "{\"type\":\"Initialized\",\"status\":\"True\",\"lastTransitionTime\":\"2026-01-01T00:00:01Z\"},"
        "{\"type\":\"Ready\",\"status\":\"False\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-01-01T00:00:02Z\"},"
        "{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\",\"message\":\"no room\"}],"
        "\"containerStatuses\":[{\"name\":\"millrace\",\"image\":\"i:1\",\"imageID\":\"sha\",\"ready\":true,\"restartCount\":2,"
        "\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},\"lastState\":{\"terminated\":{\"exitCode\":1,\"message\":\"why\"}}}],"
        "\"initContainerStatuses\":[{\"name\":\"mesh\",\"imageID\":\"sha\",\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\"}}}]}}",
        "{" KEPT
        ",\"spec\":{\"nodeName\":\"n1\",\"priorityClassName\":\"p\",\"containers\":[{\"name\":\"millrace\",\"image\":\"i:1\","
        "\"resources\":{\"requests\":{\"cpu\":\"50m\"}}}]},"
        "\"status\":{\"phase\":\"Running\",\"reason\":\"r\",\"message\":\"m\",\"podIP\":\"10.0.0.1\",\"startTime\":\"2026-01-01T00:00:01Z\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"False\",\"lastTransitionTime\":\"2026-01-01T00:00:02Z\"},"
        "{\"type\":\"PodScheduled\",\"status\":\"False\",\"message\":\"no room\"}],"
        "\"containerStatuses\":[{\"name\":\"millrace\",\"restartCount\":2,\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},"
        "\"lastState\":{\"terminated\":{\"exitCode\":1,\"message\":\"why\"}}}],"
        "\"initContainerStatuses\":[{\"name\":\"mesh\",\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\"}}}]}}");
}

static void of_a_volume_whose_it_is_is_kept(void **state)
{
    (void)state;
    keeps(dataset_trim_volume,
        "{" META
        ",\"spec\":{\"capacity\":{\"storage\":\"1Pi\"},\"claimRef\":{\"name\":\"mnist\",\"uid\":\"u3\"},"
        "\"csi\":{\"driver\":\"csi.millrace.dev\",\"volumeHandle\":\"h\",\"volumeAttributes\":{"
        "\"millrace.dev/namespace\":\"team\",\"config\":\"{}\"}},\"mountOptions\":[\"ro\"]},"
        "\"status\":{\"phase\":\"Bound\",\"lastPhaseTransitionTime\":\"2026-01-01T00:00:01Z\"}}",
        "{" KEPT
        ",\"spec\":{\"claimRef\":{\"uid\":\"u3\"},\"csi\":{\"driver\":\"csi.millrace.dev\",\"volumeAttributes\":{"
        "\"millrace.dev/namespace\":\"team\"}}},\"status\":{\"phase\":\"Bound\"}}");
}

static void of_a_claim_its_size_is_kept(void **state)
{
    (void)state;
    keeps(dataset_trim_claim,
        "{" META
        ",\"spec\":{\"volumeName\":\"v\",\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}},"
        "\"status\":{\"phase\":\"Bound\",\"capacity\":{\"storage\":\"1Gi\"}}}",
        "{" KEPT
        ",\"spec\":{\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}},\"status\":{\"phase\":\"Bound\"}}");
}

static void of_another_child_only_whose_it_is(void **state)
{
    (void)state;
    keeps(dataset_trim_child,
        "{" META ",\"spec\":{\"clusterIP\":\"None\"},\"status\":{\"loadBalancer\":{}}}",
        "{" KEPT "}");
}

/* Nobody promises that an object has any of it. */
static void what_is_not_there_is_not_made(void **state)
{
    (void)state;
    keeps(dataset_trim_pod, "{\"kind\":\"Pod\"}", "{}");
    keeps(
        dataset_trim_volume, "{\"metadata\":{\"name\":\"x\"}}", "{\"metadata\":{\"name\":\"x\"}}");
    keeps(dataset_trim_claim, "{\"spec\":\"text\"}", "{\"spec\":\"text\"}");
    keeps(dataset_trim_child, "{\"metadata\":{\"ownerReferences\":[\"text\"]}}",
        "{\"metadata\":{\"ownerReferences\":[\"text\"]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_pod_its_health_is_kept),
        cmocka_unit_test(of_a_volume_whose_it_is_is_kept),
        cmocka_unit_test(of_a_claim_its_size_is_kept),
        cmocka_unit_test(of_another_child_only_whose_it_is),
        cmocka_unit_test(what_is_not_there_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
