/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/clients.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/ctl/verdicts.h"
#include "operator/render/meta.h"

#include <stdlib.h>
#include <string.h>

bool node_client_attached(const struct node_client *c)
{
    return jget_bool(c->attachment, "status.attached", false);
}

/* One that has never served there, for a reason of the node: it says nothing of a new spec. */
static bool waits_for_node(const struct node_client *c)
{
    return c->pod && !node_client_attached(c)
        && ((c->current && c->health.rest_ns)
            || (c->health.state == CACHE_POD_PROBLEM
                && (strcmp(c->health.reason, "PodUnschedulable") == 0
                    || strcmp(c->health.reason, "PodNotStarted") == 0)));
}

static bool is_missing(const struct node_client *c)
{
    return !c->leaves && !c->node_down && (!c->pod || c->health.state != CACHE_POD_READY)
        && !waits_for_node(c);
}

static void count_clients(struct clients *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct node_client *c = &s->v[i];
        if (c->pod && !c->leaves && !c->node_down) {
            s->current += c->current;
            s->outdated += !c->current;
            if (c->refused && !c->current && !s->refused)
                s->refused = c;
        }
        if (!is_missing(c))
            continue;
        bool stops = c->pod && c->current
            && (c->health.state == CACHE_POD_PROBLEM || c->health.rest_ns);
        if (!s->missing)
            s->missing = c;
        if (stops && !s->paused)
            s->paused = c;
    }
    if (!s->outdated)
        s->paused = NULL;
}

static void take_pods(
    const struct clients_observed *o, const struct map *by_name, struct clients *s)
{
    cleanup_free char *stamp = o->d ? render_client_stamp(o->d, o->env) : NULL;
    for (size_t i = 0; i < o->npods; i++) {
        const json_t *pod = o->pods[i].pod;
        if (!cache_pod_is(pod, COMPONENT_CLIENT))
            continue;
        struct node_client *c = map_get(by_name, kube_name(pod));
        if (!c) {
            s->extra[s->nextra++] = pod;
            continue;
        }
        c->pod = &o->pods[i];
        cache_pod_evaluate(c->pod, o->d, o->now_ns, &c->health);
        c->refused = stamp ? verdict_refusal(o->said, pod, stamp) : NULL;
        c->current = stamp && strcmp(kube_annotation(pod, ANNOTATION_HASH), stamp) == 0;
    }
}

void clients_take(const struct clients_observed *o, struct clients *s)
{
    *s = (struct clients){.v = xcalloc(o->nattachments + 1, sizeof *s->v),
        .n = o->nattachments,
        .extra = xcalloc(o->npods + 1, sizeof *s->extra)};
    struct map *by_name = map_new(NULL);
    for (size_t i = 0; i < s->n; i++) {
        struct node_client *c = &s->v[i];
        c->attachment = o->attachments[i];
        c->node = jget_str(c->attachment, "spec.nodeName", "");
        c->leaves = kube_deleting(c->attachment);
        c->node_down = o->nodes
            && !cond_is_true(jget_arr(o->nodes[i], "status.conditions"), "Ready");
        cleanup_free char *name = render_client_name(o->dataset, c->node);
        map_put(by_name, name, c);
    }
    take_pods(o, by_name, s);
    map_free(by_name);
    count_clients(s);
}

void clients_free(struct clients *s)
{
    free(s->v);
    free(s->extra);
    s->v = NULL;
    s->extra = NULL;
}
