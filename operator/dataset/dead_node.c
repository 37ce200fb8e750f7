/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/dead_node.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/dataset/informers.h"

#include <string.h>

#define LOOK_NS (30 * NS_PER_S)

bool node_is_dead(const json_t *node)
{
    const json_t *taints = jget_arr(node, "spec.taints");
    for (size_t i = 0; i < json_array_size(taints); i++)
        if (strcmp(jget_str(json_array_get(taints, i), "key", ""), TAINT_OUT_OF_SERVICE) == 0)
            return true;
    return !cond_is_true(jget_arr(node, "status.conditions"), "Ready");
}

bool pod_abandon(struct plan *p, const struct kube_res *res, const json_t *about, const json_t *pod,
    const json_t *node, int64_t now_ns)
{
    int64_t until_ns = 0;
    const char *name = jget_str(pod, "spec.nodeName", "");
    if (!*name || !kube_deleting(pod)
        || jget_int(pod, "metadata.deletionGracePeriodSeconds", 0) <= 0
        || clock_parse_rfc3339(jget_str(pod, "metadata.deletionTimestamp", ""), &until_ns))
        return false;
    int64_t wait = until_ns + POD_OVERDUE_NS - now_ns;
    if (wait > 0 || !node_is_dead(node)) {
        plan_requeue(p, MAX(wait, LOOK_NS));
        return false;
    }
    plan_delete(p, &kube_pods, pod, 0, NULL);
    plan_event(p, res, about, true, "PodGivenUp",
        "Pod %s was being deleted, but its node %s does not answer: taken as ended", kube_name(pod),
        name);
    return true;
}
