/* SPDX-License-Identifier: Apache-2.0 */
/* The golden cases of gate: a pod that waits for its data. "objects" has its Datasets,
 * and what other claims are there,
 * "world.cached" what nodes hold. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/gate/observed.h"
#include "tests/golden/golden.h"

#include <stdlib.h>

static void gate_of(const json_t *cr, const json_t *world, struct plan *plan)
{
    size_t n, nclaims;
    cleanup_free const json_t **datasets = golden_objects(world, "Dataset", &n);
    cleanup_free const json_t **pvcs = golden_objects(world, "PersistentVolumeClaim", &nclaims);
    cleanup_json json_t *claims = json_object();
    for (size_t i = 0; i < nclaims; i++)
        json_object_set_new(claims, kube_name(pvcs[i]), json_true());
    const struct gate_observed o = {.pod = cr,
        .datasets = datasets,
        .ndatasets = n,
        .claims = claims,
        .cached = jget_arr(world, "cached")};
    gate_plan(&o, plan);
}

static void expand_nothing(const json_t *base, const json_t *c, json_t *cr, json_t *world)
{
    (void)base, (void)c, (void)cr, (void)world;
}

static void nothing_to_make_ready(const json_t *base, json_t *pod, const json_t *world)
{
    (void)base, (void)pod, (void)world;
}

int main(void)
{
    static const char *const words[] = {NULL};
    static const struct golden_kind gate = {.dir = "gate",
        .base = "gate",
        .kind = "Pod",
        .words = words,
        .plan = gate_of,
        .expand = expand_nothing,
        .make_ready = nothing_to_make_ready};
    return golden_run(&gate);
}
