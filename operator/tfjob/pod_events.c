/* SPDX-License-Identifier: Apache-2.0 */
/* Why pods do not start, told as Events of the job: who looks at the job need not look at every
 * pod. Texts as upstream's. */
#include "operator/tfjob/pass.h"

#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <string.h>

/* True if there are statuses: then the pod has a node, and its conditions say nothing more. */
static bool tell_containers(struct tfjob_turn *t, const json_t *pod, const json_t *statuses)
{
    size_t i;
    json_t *c;
    json_array_foreach (statuses, i, c) {
        const char *name = jget_str(c, "name", ""), *reason, *message;
        const json_t *end = jget_obj(c, "state.terminated"), *wait = jget_obj(c, "state.waiting");
        if (end && jget_int(end, "exitCode", 0) != 0 && *(reason = jget_str(end, "reason", "")))
            turn_event(t, true, reason,
                "Error pod %s container %s exitCode: %d terminated message: %s", kube_name(pod),
                name, (int)jget_int(end, "exitCode", 0), jget_str(end, "message", ""));
        if (wait && *(reason = jget_str(wait, "reason", ""))
            && *(message = jget_str(wait, "message", "")))
            turn_event(t, true, reason, "Error pod %s container %s waiting message: %s",
                kube_name(pod), name, message);
    }
    return json_array_size(statuses) > 0;
}

static void tell_unscheduled(struct tfjob_turn *t, const json_t *pod)
{
    size_t i;
    json_t *c;
    json_array_foreach (jget_arr(pod, "status.conditions"), i, c) {
        const char *reason = jget_str(c, "reason", "");
        if (!strcmp(jget_str(c, "type", ""), "PodScheduled")
            && !strcmp(jget_str(c, "status", ""), "False") && *reason)
            turn_event(t, true, reason, "Error pod %s condition message: %s", kube_name(pod),
                jget_str(c, "message", ""));
    }
}

void turn_tell_trouble(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            const struct tfjob_slot *s = &t->view.slot[type][i];
            if (s->is.state != TFJOB_POD_PENDING && s->is.state != TFJOB_POD_RUNNING)
                continue;
            bool placed = tell_containers(
                t, s->pod, jget_arr(s->pod, "status.initContainerStatuses"));
            placed |= tell_containers(t, s->pod, jget_arr(s->pod, "status.containerStatuses"));
            if (!placed)
                tell_unscheduled(t, s->pod);
        }
}
