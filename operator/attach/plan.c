/* SPDX-License-Identifier: Apache-2.0 */
/* Which client pods a volume needs, and what its VolumeAttachments say: attached once the client
 * of the node serves, an error in words while it cannot. */
#include "operator/attach/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/render/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN_LOOK_NS (5 * NS_PER_S) /* an outdated client waits for its node's plugin */

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

static const struct cache_pod *find_client(const struct attach_observed *o, const char *name)
{
    for (size_t i = 0; i < o->npods; i++)
        if (cache_pod_is(o->pods[i].pod, COMPONENT_CLIENT)
            && strcmp(kube_name(o->pods[i].pod), name) == 0)
            return &o->pods[i];
    return NULL;
}

static bool plugin_is_current(const struct attach_observed *o, const json_t *plugin)
{
    const json_t *containers = jget_arr(plugin, "spec.containers"), *c;
    bool ours = false;
    size_t i;
    json_array_foreach (containers, i, c)
        ours |= strcmp(jget_str(c, "image", ""), o->env.image) == 0;
    return ours && !kube_deleting(plugin)
        && cond_is_true(jget_arr(plugin, "status.conditions"), "Ready");
}

/* Is the node plugin there to keep a client's FUSE connection, and not about to be replaced itself?
 * One that we know nothing of is no reason to wait. */
static bool plugin_stays(const struct attach_observed *o, const char *node)
{
    for (size_t i = 0; i < o->nplugins; i++)
        if (strcmp(jget_str(o->plugins[i], "spec.nodeName", ""), node) == 0
            && plugin_is_current(o, o->plugins[i]))
            return true;
    return o->nplugins == 0;
}

/* An outdated client that serves is replaced only while all others of this Dataset serve, so
 * that a new spec or image that does not work stops at the first one. The FUSE connection and
 * pending reads survive in the node plugin; so an upgrade replaces that first, then the client. */
struct replacing {
    bool busy;
};

static void plan_client(const struct attach_observed *o, const struct dataset *d, const json_t *va,
    struct replacing *r, struct plan *p)
{
    cleanup_json json_t *desired = render_client(d, &o->env, node_of(va));
    const struct cache_pod *client = find_client(o, kube_name(desired));
    if (!client) {
        cache_pod_create(p, d, &o->env, steal(&desired));
        return;
    }
    struct cache_pod_health v;
    cache_pod_evaluate(client, d, o->now_ns, &v);
    bool current = render_same(desired, client->pod);
    switch (v.state) {
    case CACHE_POD_READY:
        plan_attached(va, p);
        if (!current && !r->busy && !plugin_stays(o, node_of(va))) {
            plan_requeue(p, PLUGIN_LOOK_NS);
        } else if (!current && !r->busy) {
            plan_delete(p, &kube_pods, client->pod, -1, NULL);
            r->busy = true;
        }
        break;
    case CACHE_POD_PROBLEM:
        if (current) {
            cleanup_free char *message = xasprintf("dataset %s/%s: %s", d->ns, d->name, v.message);
            plan_error(o->cr, o->now_ns, va, message, p);
        } else {
            plan_delete(p, &kube_pods, client->pod, -1, NULL);
        }
        break;
    case CACHE_POD_STARTING:
        if (!current)
            plan_delete(p, &kube_pods, client->pod, -1, NULL);
        plan_requeue(p, CACHE_POD_SLOW_NS / 3);
        break;
    case CACHE_POD_FINISHED:
        plan_delete(p, &kube_pods, client->pod, -1, NULL);
        break;
    case CACHE_POD_LEAVING:
        break; /* its end wakes us */
    }
}

/* Is there a client that does not serve? */
static bool any_down(const struct attach_observed *o, const struct dataset *d)
{
    for (size_t i = 0; i < o->npods; i++) {
        struct cache_pod_health v;
        if (!cache_pod_is(o->pods[i].pod, COMPONENT_CLIENT))
            continue;
        cache_pod_evaluate(&o->pods[i], d, o->now_ns, &v);
        if (v.state != CACHE_POD_READY)
            return true;
    }
    return false;
}

/* Clients whose node has no attachment any more: the volume is unmounted there. */
static void plan_leftovers(const struct attach_observed *o, struct plan *p)
{
    for (size_t i = 0; i < o->npods; i++) {
        const json_t *pod = o->pods[i].pod;
        bool wanted = false;
        for (size_t k = 0; k < o->nattachments && !wanted; k++) {
            cleanup_free char *name = render_client_name(
                kube_label(pod, LABEL_DATASET), node_of(o->attachments[k]));
            wanted = strcmp(name, kube_name(pod)) == 0;
        }
        if (!wanted && cache_pod_is(pod, COMPONENT_CLIENT))
            plan_delete(p, &kube_pods, pod, -1, NULL);
    }
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

void attach_plan(const struct attach_observed *o, struct plan *p)
{
    plan_leftovers(o, p);
    if (!o->cr) {
        plan_no_dataset(o, p);
        return;
    }
    const char *reason = "";
    struct err e = ERR_INIT;
    cleanup_dataset struct dataset *d = dataset_parse(o->cr, o->env.defaults, &reason, &e);
    struct replacing r = {d && any_down(o, d)};
    for (size_t i = 0; i < o->nattachments; i++) {
        const json_t *va = o->attachments[i];
        if (kube_deleting(va))
            continue;
        cleanup_free char *message = NULL;
        if (kube_deleting(o->cr) && !is_attached(va))
            message = xasprintf("dataset %s/%s is being deleted: no further node can mount it",
                kube_namespace(o->cr), kube_name(o->cr));
        else if (!d)
            message = xasprintf(
                "dataset %s/%s: %s", kube_namespace(o->cr), kube_name(o->cr), e.msg);
        if (message)
            plan_error(o->cr, o->now_ns, va, message, p);
        else
            plan_client(o, d, va, &r, p);
    }
}

void attach_plan_refused(
    const json_t *cr, const json_t *attachment, const char *why, int64_t now_ns, struct plan *then)
{
    cleanup_free char *message = xasprintf(
        "dataset %s/%s: its client cannot be made: %s", kube_namespace(cr), kube_name(cr), why);
    plan_error(cr, now_ns, attachment, message, then);
}
