/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a cache pod, as Kubernetes tells it of the pod's containers. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/obj.h"
#include "operator/dataset/cache_pod.h"
#include "tests/lib/unit.h"

#include <string.h>

/* Kubelet orders containers by name, and a mesh's may be the first. */
static void ours_is_not_the_first_container(void **state)
{
    (void)state;
    cleanup_json json_t *pod = json_pack(
        "{s:{s:s}, s:{s:s, s:[{s:s, s:{s:{}}}, {s:s, s:{s:{s:s}}, s:{s:{s:i, s:s}}}]}}", "metadata",
        "name", "p", "status", "phase", "Running", "containerStatuses", "name", "a-proxy", "state",
        "running", "name", "millrace", "state", "waiting", "reason", "CrashLoopBackOff",
        "lastState", "terminated", "exitCode", 3, "message", "no bucket");
    assert_non_null(pod);
    struct cache_pod_health v;
    cache_pod_evaluate(&(struct cache_pod){pod, NULL}, NULL, 0, &v);
    assert_string_equal(v.reason, "ContainerCrashed");
    assert_non_null(strstr(v.message, "exit code 3: no bucket"));
}

/* Kubelet tells first of containers that are ready before ours; those hold the pod up as well. */
static void containers_of_others_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *pod, *reason, *message;
    } cases[] = {
        {"{'initContainerStatuses':[{'name':'mesh-init','state':{'waiting':{'reason':"
         "'ImagePullBackOff','message':'no such image mesh:1'}}}],"
         "'containerStatuses':[{'name':'millrace','state':{'waiting':{'reason':"
         "'PodInitializing'}}}]}",
            "ImagePullFailed",
            "container mesh-init of pod p on node n, which is not Millrace's (added by a webhook?), "
            "cannot get its image: ImagePullBackOff: no such image mesh:1"},
        {"{'containerStatuses':[{'name':'a-proxy','state':{'waiting':{'reason':"
         "'CrashLoopBackOff'}},'lastState':{'terminated':{'reason':'OOMKilled','exitCode':137}}},"
         "{'name':'millrace','state':{'running':{}}}]}",
            "ContainerCrashed",
            "container a-proxy of pod p, which is not Millrace's (added by a webhook?), ended with "
            "exit code 137, OOMKilled"},
        {"{'containerStatuses':[{'name':'a-proxy','state':{'waiting':{'reason':"
         "'ErrImagePull'}}},{'name':'millrace','state':{'waiting':{'reason':'ErrImagePull'}}}]}",
            "ImagePullFailed",
            "pod p on node n cannot get the image i:1: ErrImagePull: see the pod's events"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_json json_t *pod = json_pack("{s:{s:s}, s:{s:s, s:[{s:s, s:s}, {s:s, s:s}]}}",
            "metadata", "name", "p", "spec", "nodeName", "n", "containers", "name", "a-proxy",
            "image", "proxy:1", "name", "millrace", "image", "i:1");
        cleanup_free char *text = xstrdup(cases[i].pod);
        for (char *quote = text; (quote = strchr(quote, '\'')); quote++)
            *quote = '"';
        json_object_set_new(pod, "status", json_loads(text, 0, NULL));
        struct cache_pod_health v;
        cache_pod_evaluate(&(struct cache_pod){pod, NULL}, NULL, 0, &v);
        assert_string_equal(v.reason, cases[i].reason);
        assert_string_equal(v.message, cases[i].message);
    }
}

/* Its end is due at 1,000 s; what keeps it then is told half a minute later. */
static void a_finalizer_of_others_is_told(void **state)
{
    (void)state;
    static const char when[] = "1970-01-01T00:16:40Z";
    cleanup_json json_t *pod = json_pack("{s:{s:s, s:s, s:s, s:[s]}}", "metadata", "name", "p",
                            "namespace", "ns", "deletionTimestamp", when, "finalizers", "a.b/c"),
                        *free_pod = json_deep_copy(pod);
    json_object_del(json_object_get(free_pod, "metadata"), "finalizers");
    const int64_t s = 1000000000, told = 1030 * s;
    struct cache_pod_health v;
    cache_pod_evaluate(&(struct cache_pod){pod, NULL}, NULL, told - 2 * s, &v);
    assert_int_equal(v.state, CACHE_POD_LEAVING);
    assert_string_equal(v.reason, "");
    assert_int_equal(v.held_ns, 2 * s);
    cache_pod_evaluate(&(struct cache_pod){pod, NULL}, NULL, told, &v);
    assert_int_equal(v.state, CACHE_POD_LEAVING);
    assert_int_equal(v.held_ns, 1);
    assert_string_equal(v.reason, "PodHeld");
    assert_string_equal(v.message,
        "pod p has ended, but finalizer a.b/c, which is not Millrace's, keeps it and its name: "
        "whoever set it has to take it away, or `kubectl -n ns patch pod p --type=merge -p "
        "'{\"metadata\":{\"finalizers\":null}}'`");
    cache_pod_evaluate(&(struct cache_pod){free_pod, NULL}, NULL, told, &v);
    assert_int_equal(v.state, CACHE_POD_LEAVING);
    assert_int_equal(v.held_ns, 0);
    assert_string_equal(v.reason, "");
}

/* The scheduler says what does not fit; the field that says so is the Dataset's. */
static void the_scheduler_s_words_name_fields(void **state)
{
    (void)state;
    static const struct {
        const char *component, *message, *fields;
    } cases[] = {
        {COMPONENT_WORKER,
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) "
            "had untolerated taint {a: b}.",
            "cannot be scheduled, see spec.cache.worker.nodeAffinity (and csi.nodeSelector of the "
            "chart), .tolerations: 0/3"},
        {COMPONENT_CLIENT,
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node "
            "affinity/selector.",
            "cannot be scheduled, see spec.cache.client.resources: 0/3"},
        {COMPONENT_LOADER, "no reason", "cannot be scheduled: no reason"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_json json_t *pod = json_pack("{s:{s:s, s:{s:s}}, s:{s:[{s:s, s:s, s:s}]}}",
            "metadata", "name", "p", "labels", LABEL_COMPONENT, cases[i].component, "status",
            "conditions", "type", "PodScheduled", "status", "False", "message", cases[i].message);
        struct cache_pod_health v;
        cache_pod_evaluate(&(struct cache_pod){pod, NULL}, NULL, 0, &v);
        assert_string_equal(v.reason, "PodUnschedulable");
        assert_non_null(strstr(v.message, cases[i].fields));
    }
}

/* "s3://b/train/" is s3://b/train to the pod that asks it. */
static void a_url_is_said_once(void **state)
{
    (void)state;
    cleanup_json json_t *pod = json_pack("{s:{s:s}}", "metadata", "name", "p"),
                        *report = json_pack("{s:[{s:b, s:s, s:s, s:s}]}", REPORT_MOUNTS,
                            REPORT_READY, 0, REPORT_MOUNT_POINT, "s3://b/train/", REPORT_REASON,
                            "NotFound", REPORT_MESSAGE, "s3://b/train: NotFound: no such object");
    struct cache_pod_health v;
    cache_pod_evaluate(&(struct cache_pod){pod, report}, NULL, 0, &v);
    assert_string_equal(v.message, "s3://b/train: NotFound: no such object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_is_not_the_first_container),
        cmocka_unit_test(containers_of_others_are_told),
        cmocka_unit_test(a_finalizer_of_others_is_told),
        cmocka_unit_test(the_scheduler_s_words_name_fields),
        cmocka_unit_test(a_url_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
