/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a cache pod, as Kubernetes tells it of the pod's containers. */
#include "lib/base/mem.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_is_not_the_first_container),
        cmocka_unit_test(containers_of_others_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
