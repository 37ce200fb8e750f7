/* SPDX-License-Identifier: Apache-2.0 */
/* What the node of a pod lacks: the plugin, the attachment, the client, the mount. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/dataset.h"
#include "operator/api/dataset_read.h"

#include <stdlib.h>
#include <string.h>

static const char *pod_node(const struct why_facts *f)
{
    return jget_str(f->pod, "spec.nodeName", "");
}

/* The first claim of the pod that is a Dataset's; NULL: none, or the pod is on no node yet. */
static const char *first_claim(const struct why_facts *f)
{
    const char *claim;
    for (size_t i = 0; *pod_node(f) && (claim = pod_claim(f, i)); i++)
        if (claim_dataset(f, claim))
            return claim;
    return NULL;
}

static bool has_driver(const json_t *csinode)
{
    const json_t *driver;
    size_t i;
    json_array_foreach (jget_arr(csinode, "spec.drivers"), i, driver)
        if (strcmp(jget_str(driver, "name", ""), NAME_DRIVER) == 0)
            return true;
    return false;
}

bool lacks_plugin(const struct why_facts *f)
{
    const json_t *csinode = named(f->csinodes, pod_node(f));
    return csinode && !has_driver(csinode);
}

bool plugin_next(const struct why_facts *f, struct why *w)
{
    return why_next(w,
        "kubectl get pods -A -o wide -l " LABEL_COMPONENT "=csi --field-selector spec.nodeName=%s",
        pod_node(f));
}

bool why_plugin_missing(const struct why_facts *f, struct why *w)
{
    if (pod_started(f) || !first_claim(f) || !lacks_plugin(f))
        return false;
    why_say(f, w, WHY_FAILS,
        "cannot mount Dataset %s on node %s: Millrace's node plugin is not registered there: its csi "
        "pod must run on that node (csi.nodeSelector, csi.tolerations of the chart)",
        first_claim(f), pod_node(f));
    return plugin_next(f, w);
}

/* -- the client -------------------------------------------------------------------------------- */

static const json_t *client_of(const struct why_facts *f, const char *dataset)
{
    const json_t *p;
    size_t i;
    json_array_foreach (f->caches, i, p)
        if (strcmp(kube_label(p, LABEL_COMPONENT), COMPONENT_CLIENT) == 0
            && strcmp(kube_label(p, LABEL_DATASET), dataset) == 0
            && strcmp(jget_str(p, "spec.nodeName", ""), pod_node(f)) == 0 && !kube_deleting(p))
            return p;
    return NULL;
}

static const char *condition_status(const json_t *pod, const char *type)
{
    const json_t *c;
    size_t i;
    json_array_foreach (jget_arr(pod, "status.conditions"), i, c)
        if (strcmp(jget_str(c, "type", ""), type) == 0)
            return jget_str(c, "status", "");
    return "";
}

static const json_t *client_container(const json_t *client)
{
    return kube_container(jget_arr(client, "status.containerStatuses"), CONTAINER_MAIN);
}

/* Why the client is not ready, or what a webhook has put beside it; caller frees. */
static char *client_problem(const json_t *client)
{
    const json_t *c = held_up_container(client), *waiting = jget(c, "state.waiting"),
                 *ended = jget(c, "lastState.terminated");
    const char *name = jget_str(c, "name", CONTAINER_MAIN),
               *reason = jget_str(waiting, "reason", "");
    bool ours = strcmp(name, CONTAINER_MAIN) == 0;
    cleanup_free char *whose = ours
        ? xstrdup("")
        : xasprintf("its container %s, which is not Millrace's: ", name);
    if (strcmp(reason, "CrashLoopBackOff") == 0 && ended)
        return xasprintf("%sit ended with %s, exit code %d", whose,
            jget_str(ended, "reason", "Error"), (int)jget_int(ended, "exitCode", -1));
    if (*reason)
        return xasprintf("%s%s%s%s", whose, reason, jget(waiting, "message") ? ": " : "",
            jget_str(waiting, "message", ""));
    return xstrdup(jget(client_container(client), "state.running") ? "it runs, and asks the store"
                                                                   : "it is starting");
}

/* A pod that runs reads by a client; one that is to be replaced may find no successor. */
static bool why_client_gone(const struct why_facts *f, const char *claim, struct why *w)
{
    const char *message;
    if (!pod_started(f)
        || !dataset_is_false(claim_dataset(f, claim), DATASET_COND_CLIENTS, &message))
        return false;
    cleanup_free char *line = one_line(message);
    why_say(f, w, WHY_FAILS,
        "runs, but its reads wait: Dataset %s has no client on node %s any more: %s", claim,
        pod_node(f), line);
    return why_status(f, w, claim);
}

bool why_client_down(const struct why_facts *f, struct why *w)
{
    const char *claim;
    if (!*pod_node(f) || !f->caches)
        return false;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++) {
        if (!claim_dataset(f, claim))
            continue;
        const json_t *client = client_of(f, claim);
        if (!client && why_client_gone(f, claim, w))
            return true;
        if (!client || strcmp(condition_status(client, "Ready"), "True") == 0)
            continue;
        cleanup_free char *problem = client_problem(client), *line = one_line(problem);
        why_say(f, w, pod_started(f) ? WHY_FAILS : WHY_WAITS,
            "%s the client of Dataset %s on node %s, pod %s, which is not ready: %s",
            pod_started(f) ? "runs, but its reads wait for" : "waits for", claim, pod_node(f),
            kube_name(client), line);
        return why_next(w, "kubectl -n %s %s %s", f->ns,
            !held_up_container(client) && jget(client_container(client), "state.running")
                ? "logs"
                : "describe pod",
            kube_name(client));
    }
    return false;
}

/* -- the attachment ---------------------------------------------------------------------------- */

static const json_t *attachment_of(const struct why_facts *f, const char *claim)
{
    const char *pv = jget_str(named(f->claims, claim), "spec.volumeName", "");
    const json_t *a;
    size_t i;
    json_array_foreach (f->attachments, i, a)
        if (strcmp(jget_str(a, "spec.source.persistentVolumeName", ""), pv) == 0
            && strcmp(jget_str(a, "spec.nodeName", ""), pod_node(f)) == 0)
            return a;
    return NULL;
}

bool why_not_attached(const struct why_facts *f, struct why *w)
{
    const char *claim;
    if (pod_started(f) || !*pod_node(f) || !f->attachments)
        return false;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++) {
        if (!claim_dataset(f, claim))
            continue;
        const json_t *a = attachment_of(f, claim);
        if (a && jget_bool(a, "status.attached", false))
            continue;
        cleanup_free char *error = one_line(jget_str(a, "status.attachError.message", ""));
        if (*error)
            why_say(f, w, WHY_FAILS,
                "waits for Dataset %s, which cannot be attached to node %s: %s", claim, pod_node(f),
                error);
        else if (a)
            why_say(f, w, WHY_WAITS,
                "waits for the operator to start the client of Dataset %s on node %s; does it run?",
                claim, pod_node(f));
        else
            why_say(f, w, WHY_WAITS,
                "waits for Kubernetes (kube-controller-manager) to ask for Dataset %s on node %s",
                claim, pod_node(f));
        if (a && !*error)
            return why_next(w, "kubectl get pods -A -l " LABEL_COMPONENT "=operator");
        return why_describe(f, w);
    }
    return false;
}

/* -- the mount --------------------------------------------------------------------------------- */

const char *mount_failure(const struct why_facts *f)
{
    /* what follows a mount says that an earlier failure is over */
    static const char *const reasons[] = {
        "FailedMount", "FailedAttachVolume", "Pulling", "Pulled", "Created", "Started", NULL};
    const json_t *event = pod_started(f) ? NULL : newest_event(f, "", reasons);
    return strcmp(jget_str(event, "type", ""), "Warning") == 0 ? jget_str(event, "message", "")
                                                               : "";
}

bool why_not_mounted(const struct why_facts *f, struct why *w)
{
    cleanup_free char *message = one_line(mount_failure(f));
    if (!*message)
        return false;
    const char *claim = first_claim(f);
    const char *pv = claim ? jget_str(named(f->claims, claim), "spec.volumeName", "") : "";
    bool ours = *pv && strstr(message, pv);
    if (ours)
        why_say(f, w, WHY_WAITS, "waits for Dataset %s to be mounted on node %s: %s", claim,
            pod_node(f), message);
    else if (!f->datasets)
        why_say(f, w, WHY_WAITS, "waits for a volume: %s", message);
    else
        why_say(f, w, WHY_WAITS, "waits for a volume that is not Millrace's: %s", message);
    return why_describe(f, w);
}
