/* SPDX-License-Identifier: Apache-2.0 */
/* TFJob json → struct → plan → the world after it → plan. Input: {"cr": …, "world": …}, or a TFJob
 * alone. */
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/golden/golden_tfjob.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json json_t *input = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(input))
        return 0;
    const json_t *given = jget_obj(input, "cr");
    cleanup_json json_t *cr = json_deep_copy(given ? given : input), *world = json_object();
    json_object_set_new(world, "now", json_string("2026-01-31T12:00:00Z"));
    const json_t *objects = jget_arr(input, "world.objects");
    json_object_set_new(world, "objects", objects ? json_deep_copy(objects) : json_array());
    json_object_set_new(
        world, "clusterDomain", json_string(jget_str(input, "world.clusterDomain", "")));
    json_object_set_new(
        world, "gangScheduler", json_string(jget_str(input, "world.gangScheduler", "")));
    const json_t *cached = jget_arr(input, "world.cached");
    json_object_set_new(world, "cached", cached ? json_deep_copy(cached) : json_array());
    for (int i = 0; i < 2; i++) {
        cleanup_plan struct plan p = PLAN_INIT;
        golden_tfjob_plan(cr, world, &p);
        cleanup_json json_t *j = plan_json(&p);
        if (!json_is_array(j))
            abort();
        golden_apply(cr, world, &p, GOLDEN_LINGER, SIZE_MAX);
    }
    return 0;
}
