/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/facts.h"

#include "fuse/cli/cli.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"

#include <string.h>

#define NODES_MAX 16 /* of a job's pods are asked for; rules pass over the others */

/* Does any pod mount a claim that is not there? Then it may be in another namespace. */
static bool lacks_claim(const struct facts *f, const json_t *pods)
{
    const json_t *pod;
    const char *claim;
    size_t i;
    json_array_foreach (pods, i, pod) {
        struct why_facts one = {.pod = pod};
        for (size_t k = 0; (claim = pod_claim(&one, k)); k++)
            if (f->claims && !named(f->claims, claim))
                return true;
    }
    return false;
}

static int fetch_node(struct cluster *c, const char *name, struct facts *f, struct err *e)
{
    json_t *node, *csinode;
    if (cluster_get(c, &kube_nodes, NULL, name, &node, e))
        return -1;
    if (node)
        json_array_append_new(f->nodes, node);
    if (cluster_get(c, &kube_csinodes, NULL, name, &csinode, e))
        return -1;
    if (csinode)
        json_array_append_new(f->csinodes, csinode);
    return 0;
}

static int fetch_nodes(struct cluster *c, const json_t *pods, struct facts *f, struct err *e)
{
    cleanup_json json_t *seen = json_object();
    const json_t *pod;
    size_t i;
    f->nodes = json_array();
    f->csinodes = json_array();
    json_array_foreach (pods, i, pod) {
        const char *name = jget_str(pod, "spec.nodeName", "");
        if (!*name || json_object_get(seen, name) || json_object_size(seen) == NODES_MAX)
            continue;
        json_object_set_new(seen, name, json_true());
        if (fetch_node(c, name, f, e))
            return -1;
    }
    return 0;
}

static bool any_starting(const json_t *pods)
{
    const json_t *pod;
    size_t i;
    json_array_foreach (pods, i, pod)
        if (strcmp(jget_str(pod, "status.phase", ""), "Pending") == 0
            && *jget_str(pod, "spec.nodeName", ""))
            return true;
    return false;
}

/* {"pod": [its Events]}: thousands of pods may have thousands of Events. */
static json_t *events_by_pod(const json_t *events)
{
    json_t *all = json_object(), *event;
    size_t i;
    json_array_foreach (events, i, event) {
        const char *name = jget_str(event, "involvedObject.name", "");
        json_t *of_pod = json_object_get(all, name);
        if (!of_pod)
            json_object_set_new(all, name, of_pod = json_array());
        json_array_append(of_pod, event);
    }
    return all;
}

int facts_operators(struct cluster *c, json_t **out, struct err *e)
{
    const struct kube_select of_operator = {.labels = LABEL_COMPONENT "=operator"};
    struct cluster quiet = *c;
    quiet.skipped = (struct buf)BUF_INIT(256);
    int rc = cluster_list(&quiet, &kube_pods, NULL, &of_operator, out, e);
    buf_free(&quiet.skipped);
    return rc;
}

/* Does anything here wait for the operator to look at it? */
static bool any_unseen(const struct facts *f, const json_t *pods)
{
    const json_t *o;
    size_t i;
    json_array_foreach (f->datasets, i, o)
        if (cond_unseen(jget_arr(o, "status.conditions")))
            return true;
    json_array_foreach (pods, i, o)
        if (pod_needs_operator(o, f->datasets))
            return true;
    return false;
}

int facts_fetch(
    struct cluster *c, const char *ns, const json_t *pods, struct facts *f, struct err *e)
{
    const struct kube_select of_pods = {.fields = "involvedObject.kind=Pod"},
                             of_caches = {.labels = LABEL_COMPONENT};
    cleanup_json json_t *events = NULL;
    *f = (struct facts){0};
    if (cluster_list(c, &kube_datasets, ns, NULL, &f->datasets, e)
        || cluster_list(c, &kube_pvcs, ns, NULL, &f->claims, e)
        || cluster_list(c, &kube_pods, ns, &of_caches, &f->caches, e)
        || cluster_list(c, &kube_events, ns, &of_pods, &events, e))
        return -1;
    if (lacks_claim(f, pods) && cluster_list(c, &kube_datasets, NULL, NULL, &f->elsewhere, e))
        return -1;
    if (any_starting(pods)
        && cluster_list(c, &kube_volumeattachments, NULL, NULL, &f->attachments, e))
        return -1;
    if (any_unseen(f, pods) && facts_operators(c, &f->operators, e))
        return -1;
    f->events = events_by_pod(events);
    return fetch_nodes(c, pods, f, e);
}

void facts_free(struct facts *f)
{
    json_t *const all[] = {f->events, f->claims, f->datasets, f->caches, f->elsewhere,
        f->attachments, f->nodes, f->csinodes, f->operators};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        json_decref(all[i]);
    *f = (struct facts){0};
}

struct why_facts facts_of(const struct facts *f, const char *ns, const json_t *pod)
{
    return (struct why_facts){cli_name(), ns, pod, json_object_get(f->events, kube_name(pod)),
        f->claims, f->datasets, f->caches, f->elsewhere, f->attachments, f->nodes, f->csinodes,
        f->operators};
}

void facts_worst(
    const struct facts *f, const char *ns, const json_t *pods, struct why *w, size_t *like)
{
    const json_t *pod;
    size_t i;
    *like = 0;
    json_array_foreach (pods, i, pod) {
        cleanup_why struct why one = {0};
        const struct why_facts facts = facts_of(f, ns, pod);
        why_pod(&facts, &one);
        if (w->sentence && one.rank == w->rank)
            ++*like;
        if (w->sentence && one.rank <= w->rank)
            continue;
        why_free(w);
        *w = one;
        one = (struct why){0};
        *like = 1;
    }
}
