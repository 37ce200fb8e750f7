/* SPDX-License-Identifier: Apache-2.0 */
/* Why pods do not start, as Events of the job: users need not look at every pod. Texts as
 * upstream's. */
#include "operator/tfjob/pass.h"

#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <string.h>

/* True if there are statuses: then the pod has a node, and its conditions say nothing more. */
static bool emit_containers(struct tfjob_pass *p, const json_t *pod, const json_t *statuses)
{
    size_t i;
    json_t *c;
    json_array_foreach (statuses, i, c) {
        const char *name = jget_str(c, "name", ""), *reason, *message;
        const json_t *end = jget_obj(c, "state.terminated"), *wait = jget_obj(c, "state.waiting");
        if (end && jget_int(end, "exitCode", 0) != 0 && *(reason = jget_str(end, "reason", "")))
            pass_event(p, true, reason,
                "Error pod %s container %s exitCode: %d terminated message: %s", kube_name(pod),
                name, (int)jget_int(end, "exitCode", 0), jget_str(end, "message", ""));
        if (wait && *(reason = jget_str(wait, "reason", ""))
            && *(message = jget_str(wait, "message", "")))
            pass_event(p, true, reason, "Error pod %s container %s waiting message: %s",
                kube_name(pod), name, message);
    }
    return json_array_size(statuses) > 0;
}

static void emit_unscheduled(struct tfjob_pass *p, const json_t *pod)
{
    size_t i;
    json_t *c;
    json_array_foreach (jget_arr(pod, "status.conditions"), i, c) {
        const char *reason = jget_str(c, "reason", "");
        if (!strcmp(jget_str(c, "type", ""), "PodScheduled")
            && !strcmp(jget_str(c, "status", ""), "False") && *reason)
            pass_event(p, true, reason, "Error pod %s condition message: %s", kube_name(pod),
                jget_str(c, "message", ""));
    }
}

void pass_pod_events(struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas) {
        if (r->is.state != TFJOB_POD_PENDING && r->is.state != TFJOB_POD_RUNNING)
            continue;
        bool placed = emit_containers(p, r->pod, jget_arr(r->pod, "status.initContainerStatuses"));
        placed |= emit_containers(p, r->pod, jget_arr(r->pod, "status.containerStatuses"));
        if (!placed)
            emit_unscheduled(p, r->pod);
    }
}
