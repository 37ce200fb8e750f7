/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a pod's facts are looked at, and the rules of a line or two. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/dataset_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool why_leaving(const struct why_facts *f, struct why *w)
{
    const char *since = jget_str(f->pod, "metadata.deletionTimestamp", "");
    if (!*since)
        return false;
    const char *finalizer = jget_str(f->pod, "metadata.finalizers[0]", "");
    why_say(f, w, WHY_WAITS, "is being deleted since %s%s%s", since,
        *finalizer ? " and waits for the finalizer " : ": its containers are ending", finalizer);
    return why_describe(f, w);
}

bool why_unscheduled(const struct why_facts *f, struct why *w)
{
    if (pod_started(f) || *jget_str(f->pod, "spec.nodeName", ""))
        return false;
    cleanup_free char *message = one_line(scheduler_message(f->pod));
    if (strstr(message, "ersistentVolumeClaim") && why_dataset_not_ready(f, w))
        return true;
    if (!*message)
        why_say(f, w, WHY_WAITS, "waits for the scheduler %s, which has not looked at it yet",
            jget_str(f->pod, "spec.schedulerName", "default-scheduler"));
    else if (strcmp(kube_label(f->pod, LABEL_PLACEMENT), "Require") == 0)
        why_say(f, w, WHY_WAITS,
            "waits for a node: %s; its label " LABEL_PLACEMENT
            ": Require allows only nodes that have the data: Prefer allows others, too",
            message);
    else if (why_no_such_node(f, message, w))
        return true;
    else
        why_say(f, w, WHY_WAITS, "waits for a node, not for data: %s", message);
    return why_describe(f, w);
}

/* The name of the pod's volume that is this claim. */
static const char *claim_volume(const json_t *pod, const char *claim)
{
    const json_t *volume;
    size_t i;
    json_array_foreach (jget_arr(pod, "spec.volumes"), i, volume)
        if (strcmp(jget_str(volume, "persistentVolumeClaim.claimName", ""), claim) == 0)
            return jget_str(volume, "name", "");
    return "";
}

/* Where the first container that mounts the claim does; behind is for kubectl exec, which takes the
 * first container. A path that a shell would not take as it is is not shown. */
static const char *claim_path(const json_t *pod, const char *claim, const char **behind)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    const char *name = claim_volume(pod, claim);
    const json_t *container, *mount;
    size_t i, k;
    json_array_foreach (jget_arr(pod, "spec.containers"), i, container)
        json_array_foreach (jget_arr(container, "volumeMounts"), k, mount) {
            const char *path = jget_str(mount, "mountPath", "");
            if (strcmp(jget_str(mount, "name", ""), name) != 0 || path[strspn(path, plain)])
                continue;
            *behind = i ? jget_str(container, "name", "") : "";
            return path;
        }
    *behind = "";
    return "MOUNT";
}

/* Whatever else is wrong: it is not the data. */
static bool why_nothing(const struct why_facts *f, struct why *w)
{
    const char *claim;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++)
        if (claim_dataset(f, claim)) {
            struct dataset_reading r;
            dataset_read(claim_dataset(f, claim), &r);
            char hits[64] = "";
            if (r.hit_percent >= 0)
                snprintf(hits, sizeof hits, ": %d%% of what its pods read comes from caches",
                    (int)r.hit_percent);
            why_say(f, w, WHY_FINE, "runs, and nothing is wrong with Dataset %s%s", claim, hits);
            const char *behind, *path = claim_path(f->pod, claim, &behind);
            return why_next(w,
                "kubectl -n %s exec %s%s%s -- python3 -c 'import os; print(os.getxattr(\"%s\", "
                "\"" XATTR_WHY "\").decode())'",
                f->ns, kube_name(f->pod), *behind ? " -c " : "", behind, path);
        }
    const char *component = kube_label(f->pod, LABEL_COMPONENT);
    if (*component && strcmp(component, COMPONENT_TENSORBOARD) != 0) {
        why_say(f, w, WHY_FINE, "runs, and is Millrace's own (%s)", component);
        return why_next(w, "%s doctor", f->command);
    }
    const char *some = json_array_size(f->datasets) == 1 ? kube_name(json_array_get(f->datasets, 0))
                                                         : "";
    why_say(f, w, WHY_FINE, "runs and mounts no Dataset, so it does not wait for Millrace%s%s%s",
        *some ? ": a volume with persistentVolumeClaim.claimName: " : "", some,
        *some ? " would mount one of this namespace" : "");
    return why_next(w, "%s", "");
}

void why_pod(const struct why_facts *f, struct why *w)
{
    static const why_rule rules[] = {
        why_leaving,
        why_pod_ended,
        why_unwatched,
        why_claim_missing,
        why_gated,
        why_unscheduled,
        why_dataset_not_ready,
        why_plugin_missing,
        why_client_down,
        why_not_attached,
        why_not_mounted,
        why_container_failed,
        why_starting,
        why_container_killed,
        why_reads_slow,
        why_not_ready,
        why_nothing,
    };
    if (*our_component(f->pod)) {
        why_cache_pod(f, w);
        return;
    }
    if (!f->datasets) {
        why_pod_blind(f, w);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(rules) && !rules[i](f, w); i++)
        ;
}
