/* SPDX-License-Identifier: Apache-2.0 */
/* Cache pods themselves: no training program is to blame, and what is to be changed are fields of
 * their Dataset. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/dataset.h"
#include "operator/api/dataset_read.h"

#include <stdlib.h>
#include <string.h>

struct cache_role {
    const char *component; /* what its field below spec.cache is called, too */
    const char *words;
    const char *condition; /* of the Dataset: whether all of these serve */
};

static const struct cache_role roles[] = {
    {COMPONENT_WORKER, "a cache worker of Dataset ", DATASET_COND_WORKERS},
    {COMPONENT_CLIENT, "the client on its node of Dataset ", DATASET_COND_CLIENTS},
    {COMPONENT_LOADER, "the pod that loads files of Dataset ", DATASET_COND_PRELOADED},
};

static const struct cache_role *role_of(const json_t *pod)
{
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(roles) && strcmp(our_component(pod), roles[i].component) != 0)
        i++;
    return &roles[i];
}

static const char *dataset_of(const struct why_facts *f)
{
    return kube_label(f->pod, LABEL_DATASET);
}

static bool ours_ended(const struct why_facts *f, struct why *w)
{
    const char *phase = jget_str(f->pod, "status.phase", ""),
               *reason = jget_str(f->pod, "status.reason", "");
    if (strcmp(phase, "Succeeded") == 0) {
        why_say(
            f, w, WHY_FINE, "has ended well, and was %s%s", role_of(f->pod)->words, dataset_of(f));
        return why_status(f, w, dataset_of(f));
    }
    if (strcmp(phase, "Failed") != 0 || !*reason)
        return why_pod_ended(f, w);
    cleanup_free char *message = one_line(jget_str(f->pod, "status.message", ""));
    why_say(f, w, WHY_FAILS, "was ended by its node %s: %s%s%s; the operator makes another one",
        jget_str(f->pod, "spec.nodeName", ""), reason, *message ? ": " : "", message);
    return why_status(f, w, dataset_of(f));
}

static bool ours_unscheduled(const struct why_facts *f, struct why *w)
{
    const char *component = our_component(f->pod);
    bool client = strcmp(component, COMPONENT_CLIENT) == 0;
    if (pod_started(f) || *jget_str(f->pod, "spec.nodeName", ""))
        return false;
    cleanup_free char *message = one_line(scheduler_message(f->pod));
    if (!*message) {
        why_say(f, w, WHY_WAITS, "waits for the scheduler, which has not looked at it yet");
        return why_describe(f, w);
    }
    if (client)
        why_say(f, w, WHY_FAILS,
            "waits for room on the node where a pod uses Dataset %s: %s; spec.cache.client.resources and "
            "Memory tiers of the Dataset say how much it asks for",
            dataset_of(f), message);
    else
        why_say(f, w, WHY_FAILS,
            "waits for a node: %s; spec.cache.%s.nodeAffinity and .tolerations of Dataset %s say which "
            "nodes it may have, .resources and Memory tiers how much it asks for",
            message, component, dataset_of(f));
    return why_describe(f, w);
}

static bool has_our_volume(const json_t *pod)
{
    const json_t *volume;
    size_t i;
    json_array_foreach (jget_arr(pod, "spec.volumes"), i, volume)
        if (strcmp(jget_str(volume, "csi.driver", ""), NAME_DRIVER) == 0)
            return true;
    return false;
}

#define NO_PLUGIN                                                                                  \
    "cannot start on node %s: Millrace's node plugin is not registered there: let it run on that " \
    "node (csi.nodeSelector, csi.tolerations of the chart)"

static bool ours_without_plugin(const struct why_facts *f, struct why *w)
{
    if (pod_started(f) || !has_our_volume(f->pod) || !lacks_plugin(f))
        return false;
    const char *node = jget_str(f->pod, "spec.nodeName", "");
    if (strcmp(our_component(f->pod), COMPONENT_CLIENT) == 0)
        why_say(f, w, WHY_FAILS, NO_PLUGIN ", or keep pods that use Dataset %s off such nodes",
            node, dataset_of(f));
    else
        why_say(f, w, WHY_FAILS,
            NO_PLUGIN ", or keep cache workers off such nodes (spec.cache.worker.nodeAffinity and "
                      ".tolerations of Dataset %s)",
            node, dataset_of(f));
    return plugin_next(f, w);
}

static bool ours_not_mounted(const struct why_facts *f, struct why *w)
{
    const char *message = mount_failure(f);
    if (!*message)
        return false;
    cleanup_free char *line = one_line(message);
    why_say(f, w, WHY_WAITS, "waits for a volume on node %s: %s",
        jget_str(f->pod, "spec.nodeName", ""), line);
    return why_describe(f, w);
}

static bool is_ready(const json_t *pod)
{
    const json_t *c;
    size_t i;
    json_array_foreach (jget_arr(pod, "status.conditions"), i, c)
        if (strcmp(jget_str(c, "type", ""), "Ready") == 0)
            return strcmp(jget_str(c, "status", ""), "True") == 0;
    return true;
}

/* What it asks the store is known to the operator, which asks the pod. */
static bool ours_not_ready(const struct why_facts *f, struct why *w)
{
    const json_t *dataset = named(f->datasets, dataset_of(f));
    const char *message = "";
    if (is_ready(f->pod))
        return false;
    if (!dataset_is_false(dataset, DATASET_COND_READY, &message))
        dataset_is_false(dataset, role_of(f->pod)->condition, &message);
    cleanup_free char *line = one_line(message);
    why_say(f, w, WHY_FAILS, "runs, but does not serve yet as %s%s%s%s", role_of(f->pod)->words,
        dataset_of(f), *line ? ": " : "", line);
    return why_next(w, "kubectl -n %s logs %s -c " CONTAINER_MAIN, f->ns, kube_name(f->pod));
}

static bool ours_serves(const struct why_facts *f, struct why *w)
{
    why_say(f, w, WHY_FINE, "runs, and is %s%s", role_of(f->pod)->words, dataset_of(f));
    return why_status(f, w, dataset_of(f));
}

void why_cache_pod(const struct why_facts *f, struct why *w)
{
    static const why_rule rules[] = {
        why_leaving,
        ours_ended,
        ours_unscheduled,
        ours_without_plugin,
        ours_not_mounted,
        why_container_failed,
        why_starting,
        why_container_killed,
        ours_not_ready,
        ours_serves,
    };
    for (size_t i = 0; i < ARRAY_LEN(rules) && !rules[i](f, w); i++)
        ;
}
