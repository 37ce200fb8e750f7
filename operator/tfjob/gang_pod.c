/* SPDX-License-Identifier: Apache-2.0 */
/* Marks a pod for its gang scheduler: the name of that scheduler, and the PodGroup of the pod. */
#include "operator/tfjob/build.h"

#include "lib/json/jget.h"

#include <strings.h>

#define GROUP_LABEL      "scheduling.x-k8s.io/pod-group"
#define GROUP_ANNOTATION "scheduling.k8s.io/group-name"
#define TASK_ANNOTATION  "volcano.sh/task-spec"

bool tfjob_gang_is_volcano(const struct tfjob_observed *o)
{
    return !strcasecmp(o->gang, "volcano");
}

bool tfjob_gang_has_scheduler(const struct tfjob *j)
{
    for (int t = 0; t < TFJOB_TYPES; t++)
        if (*jget_str(j->spec[t].template, "spec.schedulerName", ""))
            return true;
    return false;
}

static void set_in(json_t *meta, const char *where, const char *key, const char *value)
{
    json_t *o = json_object_get(meta, where);
    if (!json_is_object(o)) {
        o = json_object();
        json_object_set_new(meta, where, o);
    }
    json_object_set_new(o, key, json_string(value));
}

void tfjob_gang_mark_pod(
    const struct tfjob_observed *o, const struct tfjob *j, enum tfjob_type t, json_t *pod)
{
    json_t *meta = json_object_get(pod, "metadata"), *spec = json_object_get(pod, "spec");
    if (!*o->gang)
        return;
    if (!*jget_str(spec, "schedulerName", ""))
        json_object_set_new(
            spec, "schedulerName", json_string(tfjob_gang_is_volcano(o) ? "volcano" : o->gang));
    if (tfjob_gang_is_volcano(o)) {
        set_in(meta, "annotations", GROUP_ANNOTATION, j->name);
        set_in(meta, "annotations", TASK_ANNOTATION, tfjob_type_lower(t));
    } else {
        set_in(meta, "labels", GROUP_LABEL, j->name);
    }
}
