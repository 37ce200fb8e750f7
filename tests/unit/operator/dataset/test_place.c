/* SPDX-License-Identifier: Apache-2.0 */
/* What is a GPU, what of a node is news, and what is remembered of more nodes than a pod can name.
 * The rest is in tests/golden/dataset/place-*, move-*. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"
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
    static const char *const gpus[] = {"nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb", "amd.com/cpx_nps1_gpu",
        "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "aws.amazon.com/neuroncore",
        "google.com/tpu", "example.org/gpu"},
                             *const others[] = {"rdma/hca", "vpc.amazonaws.com/pod-eni", "cpu",
                                 "smarter-devices/fuse", "nvidia.com/gpumem"};
    for (size_t i = 0; i < ARRAY_LEN(gpus); i++) {
        cleanup_json json_t *node = offering(gpus[i], "1");
        if (!place_has_gpu(node, NULL))
            fail_msg("%s is none", gpus[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        cleanup_json json_t *node = offering(others[i], "1");
        if (place_has_gpu(node, NULL))
            fail_msg("%s is one", others[i]);
    }
    cleanup_json json_t *mine = json_pack("[s]", "example.com/npu-*"),
                        *npu = offering("example.com/npu-a", "8"),
                        *other = offering("nvidia.com/gpu", "8"), *bad = json_pack("[i]", 7);
    assert_true(place_has_gpu(npu, mine));
    assert_false(place_has_gpu(other, mine)); /* the list replaces ours */
    assert_false(place_has_gpu(other, bad));
    assert_false(place_has_gpu(NULL, NULL));
}

static void only_nodes_with_gpus_are_news(void **state)
{
    (void)state;
    cleanup_json json_t *gpu = offering("nvidia.com/gpu", "1"),
                        *cordoned = offering("nvidia.com/gpu", "1"),
                        *plain = json_pack("{s:{s:{}}}", "status", "allocatable");
    json_object_set_new(json_object_get(cordoned, "spec"), "unschedulable", json_true());
    assert_true(place_is_news(NULL, gpu));
    assert_true(place_is_news(plain, gpu));
    assert_true(place_is_news(cordoned, gpu));
    assert_true(place_is_news(gpu, NULL));
    assert_false(place_is_news(gpu, gpu)); /* a heartbeat */
    assert_false(place_is_news(NULL, plain));
    assert_false(place_is_news(plain, NULL));
}

static void what_a_full_list_does_not_name_was_there(void **state)
{
    (void)state;
    struct place v[2] = {{"new", false, 0, 0}, {"busy", true, 0, 1}};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_of_all_vendors_count),
        cmocka_unit_test(only_nodes_with_gpus_are_news),
        cmocka_unit_test(what_a_full_list_does_not_name_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
