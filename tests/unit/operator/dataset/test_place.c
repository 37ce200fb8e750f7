/* SPDX-License-Identifier: Apache-2.0 */
/* What is a GPU, what of a node is news, and what is remembered of more nodes than a pod can name.
 * The rest is in tests/golden/dataset/place-*, move-*. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"
#include "operator/dataset/demand.h"
#include "operator/dataset/gpu.h"
#include "operator/dataset/place.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *offering(const char *resource, const char *count)
{
    return json_pack("{s:{s:s}, s:{s:{s:s}}, s:{s:b}}", "metadata", "name", "n1", "status",
        "allocatable", resource, count, "spec", "unschedulable", 0);
}

static void gpus_of_all_vendors_count(void **state)
{
    (void)state;
    static const char *const gpus[] = {"nvidia.com/gpu", "amd.com/gpu", "millrace.dev/gpu-percent",
        "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb",
        "amd.com/cpx_nps1_gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi",
        "aws.amazon.com/neuroncore", "google.com/tpu", "example.org/gpu"},
                             *const others[] = {"rdma/hca", "vpc.amazonaws.com/pod-eni", "cpu",
                                 "smarter-devices/fuse", "nvidia.com/gpumem"};
    for (size_t i = 0; i < ARRAY_LEN(gpus); i++) {
        cleanup_json json_t *node = offering(gpus[i], "1");
        if (!gpu_node_has(node, NULL))
            fail_msg("%s is none", gpus[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        cleanup_json json_t *node = offering(others[i], "1");
        if (gpu_node_has(node, NULL))
            fail_msg("%s is one", others[i]);
    }
    cleanup_json json_t *mine = json_pack("[s]", "example.com/npu-*"),
                        *npu = offering("example.com/npu-a", "8"),
                        *other = offering("nvidia.com/gpu", "8"), *bad = json_pack("[i]", 7);
    assert_true(gpu_node_has(npu, mine));
    assert_false(gpu_node_has(other, mine)); /* the list replaces ours */
    assert_false(gpu_node_has(other, bad));
    assert_false(gpu_node_has(NULL, NULL));
}

static void only_nodes_with_gpus_are_news(void **state)
{
    (void)state;
    cleanup_json json_t *gpu = offering("nvidia.com/gpu", "1"),
                        *cordoned = offering("nvidia.com/gpu", "1"),
                        *labelled = offering("nvidia.com/gpu", "1"),
                        *plain = json_pack("{s:{s:{}}}", "status", "allocatable");
    json_object_set_new(json_object_get(cordoned, "spec"), "unschedulable", json_true());
    json_object_set_new(labelled, "labels", json_string("\ngpu=a100\n"));
    assert_true(gpu_node_is_news(NULL, gpu));
    assert_true(gpu_node_is_news(gpu, labelled));
    assert_true(gpu_node_is_news(plain, gpu));
    assert_true(gpu_node_is_news(cordoned, gpu));
    assert_true(gpu_node_is_news(gpu, NULL));
    assert_false(gpu_node_is_news(gpu, gpu)); /* a heartbeat */
    assert_false(gpu_node_is_news(NULL, plain));
    assert_false(gpu_node_is_news(plain, NULL));
}

static void what_a_full_list_does_not_name_was_there(void **state)
{
    (void)state;
    struct place v[2] = {{"new", PLACE_IDLE, 0, 0}, {"busy", PLACE_USED, 0, 1}};
    const struct places gpu = {v, 1}, both = {v, 2};
    char full[32 * 8] = "";
    for (int i = 0; i < RENDER_PLACES_MAX; i++)
        snprintf(full + strlen(full), sizeof full - strlen(full), "%sn%d", i ? " " : "", i);
    cleanup_json json_t *pod = json_pack("{s:{s:{s:s}}, s:{s:s}}", "metadata", "annotations",
        ANNOTATION_OFFERED, full, "spec", "nodeName", "cpu");
    assert_null(place_better(&gpu, pod));
    assert_ptr_equal(place_better(&both, pod), &v[1]); /* no job was there then */
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_OFFERED, json_string("new busy"));
    assert_null(place_better(&gpu, pod));
    assert_ptr_equal(place_better(&both, pod), &v[1]);
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_OFFERED, json_string("ne newer busy!"));
    assert_ptr_equal(place_better(&gpu, pod), &v[0]);
    assert_ptr_equal(place_better(&both, pod), &v[0]);
}

/* ---- what pods ask for ---- */

static bool fits(const char *spec, const char *node)
{
    cleanup_json json_t *s = json_loads(spec, 0, NULL), *n = json_loads(node, 0, NULL),
                        *demand = demand_of(s, NULL);
    assert_non_null(s);
    assert_non_null(demand);
    json_object_set_new(n, "labels", demand_pack_labels(json_object_get(n, "labels")));
    return demand_fits(demand, n);
}

#define ASKS(more) \
    "{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}},{}]," more "}"
#define WANTS(terms)                                                                            \
    ASKS("\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{" \
         "\"nodeSelectorTerms\":[" terms "]}}}")
#define NODE(more) "{\"name\":\"n1\",\"resources\":{\"nvidia.com/gpu\":\"2\"}," more "}"

static void a_node_fits_as_the_scheduler_says(void **state)
{
    (void)state;
    static const struct {
        const char *asks, *node;
        bool fits;
    } cases[] = {
        {ASKS("\"nodeSelector\":{}"), NODE("\"labels\":{}"), true},
        {ASKS("\"nodeSelector\":{}"), "{\"resources\":{\"nvidia.com/gpu\":\"1\"}}", false},
        {ASKS("\"nodeSelector\":{}"), "{\"resources\":{\"amd.com/gpu\":\"2\"}}", false},
        {ASKS("\"nodeSelector\":{\"gpu\":\"a\"}"), NODE("\"labels\":{\"gpu\":\"a\"}"), true},
        {ASKS("\"nodeSelector\":{\"gpu\":\"a\"}"), NODE("\"labels\":{\"gpu\":\"a1\"}"), false},
        {ASKS("\"nodeSelector\":{\"gpu\":\"a\"}"), NODE("\"labels\":{\"my.gpu\":\"a\"}"), false},
        {ASKS("\"nodeSelector\":{\"gpu\":\"a\"}"), NODE("\"taints\":[]"), false},
        {ASKS("\"nodeSelector\":{\"e\":\"\"}"), NODE("\"labels\":{\"e\":\"\"}"), true},
        {ASKS("\"x\":0"), NODE("\"taints\":[{\"key\":\"t\",\"effect\":\"NoSchedule\"}]"), false},
        {ASKS("\"tolerations\":[{\"key\":\"t\",\"operator\":\"Exists\"}]"),
            NODE("\"taints\":[{\"key\":\"t\",\"effect\":\"NoSchedule\"}]"), true},
        {ASKS("\"x\":0"),
            NODE("\"taints\":[{\"key\":\"nvidia.com/gpu\",\"effect\":\"NoSchedule\"}]"), true},
        {WANTS("{\"matchExpressions\":[{\"key\":\"gen\",\"operator\":\"Gt\",\"values\":[\"7\"]}]}"),
            NODE("\"labels\":{\"gen\":\"8\"}"), true},
        {WANTS("{\"matchExpressions\":[{\"key\":\"gen\",\"operator\":\"Lt\",\"values\":[\"7\"]}]}"),
            NODE("\"labels\":{\"gen\":\"8\"}"), false},
        {WANTS("{\"matchExpressions\":[{\"key\":\"gen\",\"operator\":\"Gt\",\"values\":[\"7\"]}]}"),
            NODE("\"labels\":{}"), false},
        {WANTS(
             "{\"matchExpressions\":[{\"key\":\"z\",\"operator\":\"In\",\"values\":[\"a\",\"b\"]},"
             "{\"key\":\"spot\",\"operator\":\"DoesNotExist\"}]}"),
            NODE("\"labels\":{\"z\":\"b\"}"), true},
        {WANTS(
             "{\"matchExpressions\":[{\"key\":\"z\",\"operator\":\"In\",\"values\":[\"a\",\"b\"]},"
             "{\"key\":\"spot\",\"operator\":\"DoesNotExist\"}]}"),
            NODE("\"labels\":{\"z\":\"b\",\"spot\":\"yes\"}"), false},
        {WANTS(
             "{\"matchExpressions\":[{\"key\":\"z\",\"operator\":\"NotIn\",\"values\":[\"a\"]}]}"),
            NODE("\"labels\":{}"), true},
        {WANTS("{\"matchExpressions\":[{\"key\":\"z\",\"operator\":\"Exists\"}]}"),
            NODE("\"labels\":{\"z\":\"\"}"), true},
        {WANTS(
             "{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n2\"]}]},"
             "{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\"]}]}"),
            NODE("\"labels\":{}"), true},
        {WANTS(
             "{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n2\"]}]}"),
            NODE("\"labels\":{}"), false},
        {WANTS("{}"), NODE("\"labels\":{}"), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (fits(cases[i].asks, cases[i].node) != cases[i].fits)
            fail_msg("%s on %s", cases[i].asks, cases[i].node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_fits_as_the_scheduler_says),
        cmocka_unit_test(gpus_of_all_vendors_count),
        cmocka_unit_test(only_nodes_with_gpus_are_news),
        cmocka_unit_test(what_a_full_list_does_not_name_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
