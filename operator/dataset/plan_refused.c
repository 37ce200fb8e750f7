/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the way, in words: pods that the API server refuses, the successor of one that
 * runs, or one that is not there; and a Dataset that cannot be ready. */
#include "operator/dataset/observed.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/ctl/verdicts.h"

#include <stdio.h>
#include <string.h>

/* The field of spec.cache.COMPONENT that the server's words are about; NULL: they do not say. */
static const char *field_of(const char *words)
{
    static const char *const fields[][2] = {{"PriorityClass", "priorityClassName"},
        {"priorityClassName", "priorityClassName"}, {"metadata.labels", "labels"},
        {"metadata.annotations", "annotations"}, {"tolerations", "tolerations"},
        {"ffinity", "nodeAffinity"}, {"resources", "resources"}, {"exceeded quota", "resources"},
        {"failed quota", "resources"}, {"per Container", "resources"}, {"per Pod", "resources"}};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (strstr(words, fields[i][0]))
            return fields[i][1];
    return NULL;
}

/* What to do about a refusal of a pod; caller frees. */
static char *remedy(const json_t *dataset, const json_t *pod, const char *words)
{
    const char *component = kube_label(pod, LABEL_COMPONENT), *field = field_of(words);
    if (strstr(words, "makes pods in namespaces of users")) /* our own policy */
        return xasprintf("make the Dataset in another namespace: %s is the cluster's own, or that "
                         "of Millrace",
            kube_namespace(pod));
    if (strncmp(words, "create secrets ", 15) == 0) /* not of the pod: what it mounts */
        return xstrdup("raise the quota of Secrets, or delete some that nothing uses");
    if (!field)
        return xasprintf(
            "correct what the message names; of these pods, spec.cache.%s says more", component);
    cleanup_free char *path = xasprintf("spec.cache.%s.%s", component, field);
    return jget(dataset, path)
        ? xasprintf("correct %s", path)
        : xasprintf("set %s: what it is now comes from the chart's value defaults.cache.%s.%s, or "
                    "from Millrace",
            path, component, field);
}

void dataset_say_refused(
    const json_t *cr, const json_t *pod, const char *words, char *out, size_t size)
{
    cleanup_free char *what = remedy(cr, pod, words);
    snprintf(out, size, "pod %s runs on as it was made, since its successor is refused: %.300s: %s",
        kube_name(pod), words, what);
}

const char *cache_pod_say_unmade(const json_t *dataset, const json_t *said, const json_t *pod,
    const char *words, char *out, size_t size)
{
    const char *field = field_of(words), *owner = jget_str(kube_controller_of(pod), "kind", "");
    cleanup_free char *path = xasprintf("spec.cache.%s%s%s", kube_label(pod, LABEL_COMPONENT),
        field ? "." : "", field ? field : "");
    cleanup_free char *what = remedy(dataset, pod, words);
    if (verdict_is_taken(said, kube_name(pod))) {
        snprintf(out, size,
            "Pod %s/%s exists and was not made for this %s: delete it, or give the %s another name",
            kube_namespace(pod), kube_name(pod), owner, owner);
        return "NameTaken";
    }
    if (strstr(words, "looking up service account"))
        snprintf(out, size, "%.300s: make that ServiceAccount, or correct spec.serviceAccountName",
            words);
    else if (strstr(words, "exceeded quota"))
        snprintf(out, size, "%.300s: raise the quota, or ask for fewer or smaller pods", words);
    else if (strstr(words, "failed quota")) /* it counts what the pod does not say */
        snprintf(
            out, size, "%.300s: say so in %s, or make a LimitRange with defaults", words, path);
    else
        snprintf(out, size, "%.300s: %s", words, what);
    return "ApplyFailed";
}

void dataset_plan_not_ready(const json_t *cr, const json_t *status, int64_t now_ns,
    const char *phase, const char *reason, const char *message, bool event, struct plan *p)
{
    const json_t *as = status ? status : jget_obj(cr, "status");
    int64_t generation = jget_int(cr, "metadata.generation", 0);
    const json_t *was = jget_arr(cr, "status.conditions");
    bool changed = strcmp(cond_reason(was, DATASET_COND_READY), reason) != 0;
    cleanup_json json_t *conditions = cond_copy(as);
    const struct cond c = {DATASET_COND_READY, COND_FALSE, reason, message};
    cond_set(conditions, &c, generation, now_ns);
    /* what is being deleted is neither; else the server has refused an object */
    cond_set_progress(conditions, kube_deleting(cr) ? COND_SETTLED : COND_STALLED, reason, message,
        generation, now_ns);
    json_t *desired = as ? json_deep_copy(as) : json_object();
    json_object_set_new(desired, "phase", json_string(phase));
    json_object_set_new(desired, "observedGeneration", json_integer(generation));
    json_object_set(desired, "conditions", conditions);
    plan_status(p, &kube_datasets, cr, desired);
    if (changed && event)
        plan_event(p, &kube_datasets, cr, true, reason, "%s", message);
}
