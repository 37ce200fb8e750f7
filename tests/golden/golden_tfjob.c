/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/golden_tfjob.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/tfjob.h"
#include "operator/tfjob/plan.h"

#include <stdlib.h>

int golden_tfjob_plan(const json_t *cr, const json_t *world, struct plan *plan, struct err *e)
{
    (void)e;
    struct tfjob_observed w = {.job = cr,
        .now_ns = golden_now(world),
        .domain = jget_str(world, "clusterDomain", ""),
        .gang = jget_str(world, "gangScheduler", ""),
        .cached = jget_arr(world, "cached")};
    cleanup_free char *tensorboard = xasprintf("%s" TFJOB_TENSORBOARD_SUFFIX, kube_name(cr));
    json_t *objects = (json_t *)(uintptr_t)world;
    w.pods = golden_objects(world, "Pod", &w.npods);
    w.services = golden_objects(world, "Service", &w.nservices);
    w.nodes = golden_objects(world, "Node", &w.nnodes);
    w.datasets = golden_objects(world, "Dataset", &w.ndatasets);
    w.loads = golden_objects(world, "DataLoad", &w.nloads);
    w.pod_group = golden_find(objects, "PodGroup", kube_namespace(cr), kube_name(cr));
    w.tensorboard = golden_find(objects, "Deployment", kube_namespace(cr), tensorboard);
    w.tensorboard_service = golden_find(objects, "Service", kube_namespace(cr), tensorboard);
    tfjob_plan(&w, plan);
    free(w.pods);
    free(w.services);
    free(w.nodes);
    free(w.datasets);
    free(w.loads);
    return 0;
}
