/* SPDX-License-Identifier: Apache-2.0 */
/* Which client pods a volume needs, and what its VolumeAttachments say: attached once the client
 * of the node serves, an error in words while it cannot. */
#include "operator/attach/observed.h"

#include "lib/base/clock.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/ctl/verdicts.h"
#include "operator/dataset/clients.h"
#include "operator/render/meta.h"
#include "operator/render/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNSCHEDULED_NS    (10 * NS_PER_S) /* there may be room in a moment */
#define ORPHAN_NS         (600 * NS_PER_S)
#define PLUGIN_SETTLED_NS (10 * NS_PER_S)
#define ROLL_LOOK_NS      (5 * NS_PER_S) /* an outdated client waits for its node, or for another */

static bool is_attached(const json_t *va) { return jget_bool(va, "status.attached", false); }
static const char *node_of(const json_t *va) { return jget_str(va, "spec.nodeName", ""); }

static void plan_attached(const json_t *va, struct plan *p)
{
    json_t *status = jget_obj(va, "status") ? json_deep_copy(jget_obj(va, "status"))
                                            : json_object();
    json_object_set_new(status, "attached", json_true());
    json_object_del(status, "attachError");
    plan_status(p, &kube_volumeattachments, va, status);
}

/* The message reaches the events of every pod that waits. The time is that of the first failure
 * with this message. cr may be NULL. */
static void plan_error(
    const json_t *cr, int64_t now_ns, const json_t *va, const char *message, struct plan *p)
{
    if (is_attached(va) || strcmp(jget_str(va, "status.attachError.message", ""), message) == 0)
        return;
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(now_ns, now);
    json_t *status = jget_obj(va, "status") ? json_deep_copy(jget_obj(va, "status"))
                                            : json_object();
    json_object_set_new(status, "attached", json_false());
    json_object_set_new(
        status, "attachError", json_pack("{s:s, s:s}", "time", now, "message", message));
    plan_status(p, &kube_volumeattachments, va, status);
    cleanup_free char *about = cr ? xasprintf("dataset %s/%s: ", kube_namespace(cr), kube_name(cr))
                                  : NULL;
    /* its own events need no name */
    size_t words = about && strncmp(message, about, strlen(about)) == 0 ? strlen(about) : 0;
    if (cr)
        plan_event(p, &kube_datasets, cr, true, "AttachFailed", "node %s: %s", node_of(va),
            message + words);
}

static bool plugin_is_current(const struct attach_observed *o, const json_t *plugin)
{
    const json_t *containers = jget_arr(plugin, "spec.containers"), *c;
    const char *hash = o->env.plugin_hash;
    if (hash && *hash) /* the image may be another one's on its way: registries are rewritten */
        return strcmp(kube_annotation(plugin, ANNOTATION_HASH), hash) == 0;
    bool ours = false;
    size_t i;
    json_array_foreach (containers, i, c)
        ours |= strcmp(jget_str(c, "image", ""), o->env.image) == 0;
    return ours;
}

/* Ready for a while: the clients of its node have found it. */
static bool plugin_has_settled(const struct attach_observed *o, const json_t *plugin)
{
    const json_t *conditions = jget_arr(plugin, "status.conditions");
    int64_t since = 0;
    clock_parse_rfc3339(jget_str(cond_find(conditions, "Ready"), "lastTransitionTime", ""), &since);
    return !kube_deleting(plugin) && cond_is_true(conditions, "Ready")
        && o->now_ns - since >= PLUGIN_SETTLED_NS;
}

/* Nodes whose plugin is there to keep a client's FUSE connection, and not about to be replaced
 * itself. NULL: nothing is known of plugins, which is no reason to wait. */
static struct map *settled_nodes(const struct attach_observed *o)
{
    struct map *nodes = o->nplugins ? map_new(NULL) : NULL;
    for (size_t i = 0; i < o->nplugins; i++)
        if (plugin_is_current(o, o->plugins[i]) && plugin_has_settled(o, o->plugins[i]))
            map_put(nodes, jget_str(o->plugins[i], "spec.nodeName", ""), nodes);
    return nodes;
}

static bool plugin_stays(const struct map *settled, const struct node_client *c)
{
    return !settled || map_get(settled, c->node);
}

/* It may not stay so long: the pods that fill the node read through it. That it is to be small is
 * kept where it outlives the client. */
static bool is_small(const struct node_client *c)
{
    return jget(c->attachment, "status.attachmentMetadata.\"" ANNOTATION_SMALL "\"") != NULL;
}

/* The pod of a client as it is to be on its node. */
static json_t *wanted_client(const struct cache_pod_making *m, const struct node_client *c)
{
    json_t *pod = render_client(m->d, m->env, c->node);
    if (is_small(c))
        render_small(pod);
    return pod;
}

/* It goes once the server is known to take its successor. */
static void replace_client(
    const struct cache_pod_making *m, const struct node_client *c, struct plan *p)
{
    if (cache_pod_try(p, m, c->pod->pod, wanted_client(m, c)) == VERDICT_TAKEN)
        plan_delete(p, &kube_pods, c->pod->pod, -1, NULL);
}

/* A client that is outdated and does not serve is replaced at once, where its node can. */
static void replace_at_once(const struct cache_pod_making *m, const struct map *settled,
    const struct node_client *c, struct plan *p)
{
    if (!c->node_down && (!node_client_attached(c) || plugin_stays(settled, c)))
        replace_client(m, c, p);
}

static void plan_small(const struct attach_observed *o, const struct node_client *c, struct plan *p)
{
    const json_t *was = jget_obj(c->attachment, "status");
    json_t *status = was ? json_deep_copy(was) : json_object(),
           *small = json_pack("{s:s}", ANNOTATION_SMALL, "true");
    json_object_set_new(status, "attached", json_boolean(node_client_attached(c)));
    json_object_update_new(status, json_pack("{s:o}", "attachmentMetadata", small));
    plan_status(p, &kube_volumeattachments, c->attachment, status);
    plan_delete(p, &kube_pods, c->pod->pod, -1, NULL);
    if (!is_small(c))
        plan_event(p, &kube_datasets, o->cr, false, "NodeFull",
            "node %s has no room for the client: it runs there without requests for cpu and memory",
            c->node);
}

/* A full node has room for a client that asks for nothing. false: the server does not take that one
 * either, in its words. */
static bool plan_smaller(const struct attach_observed *o, const struct cache_pod_making *m,
    const struct node_client *c, const char **refused, struct plan *p)
{
    json_t *small = wanted_client(m, c);
    if (!is_small(c))
        render_small(small);
    cleanup_free char *hash = xstrdup(kube_annotation(small, ANNOTATION_HASH));
    switch (cache_pod_try(p, m, c->pod->pod, small)) {
    case VERDICT_TAKEN:
        plan_small(o, c, p);
        return true;
    case VERDICT_ASKED:
        return true;
    case VERDICT_REFUSED:
        *refused = verdict_refusal(o->said, c->pod->pod, hash);
        *refused = *refused ? *refused : "";
        return false;
    }
    return false;
}

/* An attachError makes Kubernetes wait before it asks again, for up to two minutes: what only takes
 * long is none. */
static void plan_problem(const struct attach_observed *o, const struct cache_pod_making *m,
    const struct node_client *c, struct plan *p)
{
    if (c->health.slow)
        return; /* the Dataset says it */
    const char *refused = "";
    if (c->health.full && !*kube_annotation(c->pod->pod, ANNOTATION_SMALL)
        && plan_smaller(o, m, c, &refused, p))
        return;
    int64_t since = 0;
    clock_parse_rfc3339(
        jget_str(cond_find(jget_arr(c->pod->pod, "status.conditions"), "PodScheduled"),
            "lastTransitionTime", ""),
        &since);
    if (strcmp(c->health.reason, "PodUnschedulable") == 0 && o->now_ns - since < UNSCHEDULED_NS) {
        plan_requeue(p, UNSCHEDULED_NS);
        return;
    }
    int len = (int)strlen(c->health.message);
    if (*refused && len && c->health.message[len - 1] == '.')
        len--;
    cleanup_free char *message = xasprintf("dataset %s/%s: %.*s%s%.300s", kube_namespace(o->cr),
        kube_name(o->cr), len, c->health.message,
        *refused ? "; nor may it run there without requests for cpu and memory: " : "", refused);
    plan_error(o->cr, o->now_ns, c->attachment, message, p);
}

static void plan_client(const struct attach_observed *o, const struct cache_pod_making *m,
    const struct map *settled, const struct node_client *c, struct plan *p)
{
    if (!c->pod) {
        cache_pod_create(p, m, wanted_client(m, c));
        return;
    }
    switch (c->health.state) {
    case CACHE_POD_READY:
        plan_attached(c->attachment, p);
        break;
    case CACHE_POD_PROBLEM:
        if (c->current)
            plan_problem(o, m, c, p);
        else
            replace_at_once(m, settled, c, p);
        break;
    case CACHE_POD_STARTING:
        if (!c->current)
            replace_at_once(m, settled, c, p);
        break;
    case CACHE_POD_FINISHED:
        if (c->current && c->health.rest_ns) {
            plan_requeue(p, c->health.rest_ns);
            plan_problem(o, m, c, p);
        } else {
            plan_delete(p, &kube_pods, c->pod->pod, -1, NULL);
        }
        break;
    case CACHE_POD_LEAVING: /* its end wakes us */
        if (c->health.held_ns == 1)
            plan_problem(o, m, c, p);
        else if (c->health.held_ns)
            plan_requeue(p, c->health.held_ns);
        break;
    }
}

/* An outdated client that serves is replaced only while all others of this Dataset serve, so
 * that a new spec or image that does not work stops at the first one. The FUSE connection and
 * pending reads survive in the node plugin; so an upgrade replaces that first, then the client. */
static void plan_roll(const struct cache_pod_making *m, const struct map *settled,
    const struct clients *s, struct plan *p)
{
    if (!s->outdated)
        return;
    for (size_t i = 0; i < s->n && !s->missing; i++) {
        const struct node_client *c = &s->v[i];
        if (c->pod && !c->current && !c->leaves && !c->node_down && plugin_stays(settled, c)) {
            replace_client(m, c, p); /* refused, it is asked again in a while */
            return;
        }
    }
    plan_requeue(p, ROLL_LOOK_NS); /* plugins and nodes do not wake us */
}

/* The volume of a Dataset whose finalizer was taken away by force: nothing else collects it. It
 * holds no data. One with a claim is in use, and a young one's Dataset may not be known here yet.
 */
static void plan_orphan(const struct attach_observed *o, struct plan *p)
{
    const char *phase = jget_str(o->volume, "status.phase", "");
    int64_t made = o->now_ns;
    clock_parse_rfc3339(jget_str(o->volume, "metadata.creationTimestamp", ""), &made);
    int64_t wait = made + ORPHAN_NS - o->now_ns;
    if (!o->volume || o->foreign || o->nattachments || kube_deleting(o->volume)
        || strcmp(jget_str(o->volume, "spec.csi.driver", ""), NAME_DRIVER) != 0
        || (strcmp(phase, "Released") != 0 && strcmp(phase, "Available") != 0))
        return;
    if (wait > 0)
        plan_requeue(p, wait);
    else
        plan_delete(p, &kube_pvs, o->volume, -1, NULL);
}

static void plan_no_dataset(const struct attach_observed *o, struct plan *p)
{
    for (size_t i = 0; i < o->nattachments && !o->foreign; i++) {
        cleanup_free char *message = xasprintf(
            "PersistentVolume %s: there is no Dataset for it: it was deleted, or the volume was not made by Millrace: make a Dataset and use"
            " the PersistentVolumeClaim of its name",
            o->pv);
        plan_error(NULL, o->now_ns, o->attachments[i], message, p);
    }
}

static void plan_clients(const struct attach_observed *o, const struct dataset *d,
    const char *invalid, const struct clients *s, struct plan *p)
{
    struct map *settled = s->outdated ? settled_nodes(o) : NULL;
    const struct cache_pod_making making = {.d = d,
        .env = &o->env,
        .workers = d ? cache_pod_workers(d, o->pods, o->npods, o->now_ns) : 0,
        .key_made = d && cache_pod_key_made(d, &o->env, o->pods, o->npods, o->said),
        .said = o->said,
        .now_ns = o->now_ns};
    for (size_t i = 0; i < s->n; i++) {
        const struct node_client *c = &s->v[i];
        if (c->leaves)
            continue;
        cleanup_free char *message = NULL;
        if (kube_deleting(o->cr) && !node_client_attached(c))
            message = xasprintf("dataset %s/%s is being deleted: no further node can mount it",
                kube_namespace(o->cr), kube_name(o->cr));
        else if (!d)
            message = xasprintf(
                "dataset %s/%s: %s", kube_namespace(o->cr), kube_name(o->cr), invalid);
        if (message)
            plan_error(o->cr, o->now_ns, c->attachment, message, p);
        else
            plan_client(o, &making, settled, c, p);
    }
    if (d)
        plan_roll(&making, settled, s, p);
    map_free(settled);
}

void attach_plan(const struct attach_observed *o, struct plan *p)
{
    const char *reason = "";
    struct err e = ERR_INIT;
    cleanup_dataset struct dataset *d = o->cr ? render_read(o->cr, &o->env, &reason, &e) : NULL;
    const struct clients_observed clients = {.d = d,
        .dataset = o->cr ? kube_name(o->cr)
            : o->npods   ? kube_label(o->pods[0].pod, LABEL_DATASET)
                         : "",
        .attachments = o->attachments,
        .nattachments = o->nattachments,
        .nodes = o->nodes,
        .pods = o->pods,
        .npods = o->npods,
        .now_ns = o->now_ns,
        .env = &o->env,
        .said = o->said};
    cleanup_clients struct clients s;
    clients_take(&clients, &s);
    for (size_t i = 0; i < s.nextra; i++) /* the volume is unmounted there */
        plan_delete(p, &kube_pods, s.extra[i], -1, NULL);
    if (o->cr)
        plan_clients(o, d, e.msg, &s, p);
    else {
        plan_no_dataset(o, p);
        plan_orphan(o, p);
    }
}

void attach_plan_refused(
    const json_t *cr, const json_t *attachment, const char *why, int64_t now_ns, struct plan *then)
{
    cleanup_free char *message = xasprintf(
        "dataset %s/%s: its client cannot be made: %s", kube_namespace(cr), kube_name(cr), why);
    plan_error(cr, now_ns, attachment, message, then);
    if (is_attached(attachment)) /* its pods read on when there is a client again */
        plan_event(then, &kube_datasets, cr, true, "ApplyFailed",
            "node %s: its client cannot be made: %s", node_of(attachment), why);
}
