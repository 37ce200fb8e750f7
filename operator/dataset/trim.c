/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/trim.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/ctl/trim.h"
#include "operator/dataset/demand.h"
#include "operator/dataset/informers.h"
#include "operator/render/volume.h"

#include <stdlib.h>
#include <string.h>

/* ---- of all that are ours ---- */

#define TRIM_TO(object, names)      trim_to(object, names, ARRAY_LEN(names))
#define TRIM_EACH_TO(object, names) trim_each_to(object, names, ARRAY_LEN(names))

static json_t *part(json_t *object, const char *name) { return json_object_get(object, name); }

/* Without the type, which the informer knows. */
static void trim_meta(json_t *object)
{
    static const char *const parts[] = {"metadata", "spec", "status"},
                             *const meta[] = {"name", "namespace", "uid", "resourceVersion",
                                 "generation", "creationTimestamp", "deletionTimestamp",
                                 "deletionGracePeriodSeconds", "finalizers", "labels",
                                 "annotations", "ownerReferences"},
                             *const labels[] = {LABEL_MANAGED_BY, LABEL_COMPONENT, LABEL_DATASET,
                                 LABEL_DATASET_UID, LABEL_DATALOAD},
                             *const annotations[] = {ANNOTATION_HASH, ANNOTATION_WORKERS,
                                 ANNOTATION_OFFERED, ANNOTATION_SMALL, ANNOTATION_SCHEDULED,
                                 ANNOTATION_LOADS},
                             *const owner[] = {"kind", "name", "uid", "controller"};
    json_t *m = part(object, "metadata");
    TRIM_TO(object, parts);
    TRIM_TO(m, meta);
    TRIM_TO(part(m, "labels"), labels);
    TRIM_TO(part(m, "annotations"), annotations);
    TRIM_EACH_TO(part(m, "ownerReferences"), owner);
}

/* ---- pods ---- */

static void trim_pod_conditions(json_t *conditions)
{
    static const char *const told[] = {"type", "status", "message", "lastTransitionTime"};
    for (size_t i = json_array_size(conditions); i-- > 0;) {
        const char *type = jget_str(json_array_get(conditions, i), "type", "");
        if (strcmp(type, "Ready") != 0 && strcmp(type, "PodScheduled") != 0)
            json_array_remove(conditions, i);
    }
    TRIM_EACH_TO(conditions, told);
}

/* Of its volumes that of the key: which Secret is it? */
static void trim_pod_volumes(json_t *spec)
{
    json_t *volumes = part(spec, "volumes");
    for (size_t i = json_array_size(volumes); i-- > 0;)
        if (strcmp(jget_str(json_array_get(volumes, i), "name", ""), RENDER_KEY_VOLUME) != 0)
            json_array_remove(volumes, i);
    if (!json_array_size(volumes))
        json_object_del(spec, "volumes");
}

void dataset_trim_pod(json_t *pod)
{
    static const char *const spec[] = {"nodeName", "priorityClassName", "containers", "volumes"},
                             *const container[] = {"name", "image", "resources"},
                             *const status[] = {"phase", "reason", "message", "podIP", "startTime",
                                 "conditions", "containerStatuses", "initContainerStatuses"},
                             *const ran[] = {"name", "restartCount", "state", "lastState"};
    json_t *s = part(pod, "spec"), *t = part(pod, "status");
    trim_meta(pod);
    TRIM_TO(s, spec);
    trim_pod_volumes(s);
    TRIM_EACH_TO(part(s, "containers"), container);
    TRIM_TO(t, status);
    trim_pod_conditions(part(t, "conditions"));
    TRIM_EACH_TO(part(t, "containerStatuses"), ran);
    TRIM_EACH_TO(part(t, "initContainerStatuses"), ran);
}

/* ---- the volume, its claim, and what else a Dataset has one of ---- */

void dataset_trim_volume(json_t *pv)
{
    static const char *const spec[] = {"claimRef", "csi"}, *const claim[] = {"uid"},
                             *const csi[] = {"driver", "volumeAttributes"},
                             *const attributes[] = {VOL_DATASET_NAMESPACE},
                             *const status[] = {"phase"};
    json_t *s = part(pv, "spec");
    trim_meta(pv);
    TRIM_TO(s, spec);
    TRIM_TO(part(s, "claimRef"), claim);
    TRIM_TO(part(s, "csi"), csi);
    TRIM_TO(part(part(s, "csi"), "volumeAttributes"), attributes);
    TRIM_TO(part(pv, "status"), status);
}

void dataset_trim_claim(json_t *pvc)
{
    static const char *const spec[] = {"resources"}, *const status[] = {"phase"};
    trim_meta(pvc);
    TRIM_TO(part(pvc, "spec"), spec);
    TRIM_TO(part(pvc, "status"), status);
}

void dataset_trim_other_claim(json_t *pvc)
{
    json_t *meta = json_object_get(pvc, "metadata");
    static const char *const parts[] = {"spec", "status"},
                             *const kept_not[] = {
                                 "annotations", "labels", "finalizers", "ownerReferences"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        json_object_del(pvc, parts[i]);
    for (size_t i = 0; i < ARRAY_LEN(kept_not); i++)
        json_object_del(meta, kept_not[i]);
}

void dataset_trim_child(json_t *object)
{
    trim_meta(object);
    json_object_del(object, "spec");
    json_object_del(object, "status");
}

/* Attachments cannot be selected by driver: those of other drivers are kept without their
 * content. */
void dataset_trim_attachment(json_t *object)
{
    if (attachment_is_ours(object))
        return;
    json_object_del(object, "status");
    json_t *meta = json_object_get(object, "metadata");
    json_object_del(meta, "annotations");
    json_object_del(meta, "finalizers");
    json_object_set_new(object, "spec", json_object());
}

/* ---- nodes: what is there to use, is it alive, which pods does it take ---- */

/* Those of vendors: which are GPUs is for demand.c to say. */
static json_t *extended_resources(const json_t *node)
{
    json_t *kept = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)jget_obj(node, "status.allocatable"), key, value)
        if (strchr(key, '/')
            && strcmp(json_string_value(value) ? json_string_value(value) : "0", "0") != 0)
            json_object_set(kept, key, value);
    return kept;
}

/* Is the node alive? Its heartbeats are no news. */
static json_t *ready_condition(const json_t *node)
{
    json_t *out = json_array(), *c;
    size_t i;
    json_array_foreach ((json_t *)jget_arr(node, "status.conditions"), i, c)
        if (strcmp(jget_str(c, "type", ""), "Ready") == 0)
            json_array_append_new(
                out, json_pack("{s:s, s:s}", "type", "Ready", "status", jget_str(c, "status", "")));
    return out;
}

void dataset_trim_node(json_t *node)
{
    json_t *meta = json_object_get(node, "metadata");
    json_t *status = json_pack(
        "{s:o, s:o}", "allocatable", extended_resources(node), "conditions", ready_condition(node));
    static const char *const taint[] = {"key", "value", "effect"};
    json_t *taints = json_incref(json_object_get(json_object_get(node, "spec"), "taints"));
    json_t *spec = json_pack("{s:b, s:o}", "unschedulable",
        jget_bool(node, "spec.unschedulable", false), "taints", taints ? taints : json_array());
    TRIM_EACH_TO(part(spec, "taints"), taint);
    json_object_set_new(node, "status", status);
    json_object_set_new(node, "spec", spec);
    json_object_del(meta, "annotations");
    if (json_object_size(jget_obj(node, "status.allocatable")))
        json_object_set_new(node, "labels", demand_pack_labels(jget_obj(node, "metadata.labels")));
    const char *host = kube_label(node, LABEL_HOSTNAME);
    json_t *labels = *host ? json_pack("{s:s}", LABEL_HOSTNAME, host) : json_object();
    json_object_set_new(meta, "labels", labels);
}

/* ---- pods of users that wait ---- */

void dataset_trim_gated_pod(json_t *pod)
{
    static const char *const scheduled[] = {"schedulingGates", "volumes", "affinity", "nodeName"},
                             *const waiting[] = {"schedulingGates", "volumes", "affinity",
                                 "nodeSelector", "tolerations", "containers"},
                             *const container[] = {"resources"}, *const status[] = {"phase"};
    json_t *spec = part(pod, "spec");
    if (*jget_str(pod, "spec.nodeName", ""))
        TRIM_TO(spec, scheduled);
    else
        TRIM_TO(spec, waiting);
    TRIM_EACH_TO(part(spec, "containers"), container);
    TRIM_TO(part(pod, "status"), status);
}
