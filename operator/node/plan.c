/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/node/plan.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <string.h>

static bool driver_registered(const json_t *csinode)
{
    const json_t *drivers = jget_arr(csinode, "spec.drivers");
    for (size_t i = 0; i < json_array_size(drivers); i++)
        if (strcmp(jget_str(json_array_get(drivers, i), "name", ""), NAME_DRIVER) == 0)
            return true;
    return false;
}

/* The list is written as a whole: the version guards what others add to it meanwhile. */
void node_plan(const json_t *node, const json_t *csinode, struct plan *p)
{
    const json_t *taints = jget_arr(node, "spec.taints");
    json_t *rest = json_array();
    for (size_t i = 0; i < json_array_size(taints); i++) {
        json_t *taint = json_array_get(taints, i);
        if (strcmp(jget_str(taint, "key", ""), TAINT_NOT_READY) != 0)
            json_array_append_new(rest, json_deep_copy(taint));
    }
    if (json_array_size(rest) < json_array_size(taints) && driver_registered(csinode))
        plan_patch(p, &kube_nodes, node,
            json_pack("{s:{s:s}, s:{s:O}}", "metadata", "resourceVersion",
                jget_str(node, "metadata.resourceVersion", ""), "spec", "taints", rest));
    json_decref(rest);
}
