/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a Dataset: the claim goes first, the rest once no pod and no node uses the volume. */
#include "operator/dataset/observed.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <string.h>

#define NAMED_MAX     5                          /* pods, nodes named in a message */
#define LOOK_AGAIN_NS (60 * INT64_C(1000000000)) /* pods of users are not watched */

static void add_names(struct buf *out, const json_t *names)
{
    size_t n = json_array_size(names);
    for (size_t i = 0; i < n && i < NAMED_MAX; i++)
        buf_addf(out, "%s%s", i ? ", " : "", json_string_value(json_array_get(names, i)));
    if (n > NAMED_MAX)
        buf_addf(out, " and %zu more", n - NAMED_MAX);
}

/* Which pods or nodes still need the volume; "" if none. */
static void blockers(const struct dataset_observed *o, struct buf *out)
{
    if (json_array_size(o->users)) {
        buf_adds(out, "waiting for pods that use the PersistentVolumeClaim to end: ");
        add_names(out, o->users);
    } else if (o->nattachments) {
        cleanup_json json_t *nodes = json_array();
        for (size_t i = 0; i < o->nattachments; i++)
            json_array_append_new(
                nodes, json_string(jget_str(o->attachments[i], "spec.nodeName", "?")));
        buf_adds(out, "waiting for the volume to be unmounted from nodes: ");
        add_names(out, nodes);
    } else if (o->pvc && kube_controlled_by(o->pvc, kube_uid(o->cr))) {
        buf_adds(out, "waiting for the PersistentVolumeClaim to go");
    }
}

/* What pods wrote and no store has is told to the end: it stays on its node, and with the clients
 * go those who know of it. */
static void plan_deleting(const struct dataset_observed *o, const char *reason, const char *message,
    bool event, struct plan *p)
{
    const json_t *was = jget_obj(o->cr, "status");
    cleanup_plan struct plan events = PLAN_INIT;
    cleanup_json json_t *status = was ? json_deep_copy(was) : json_object(),
                        *conditions = cond_copy(was);
    struct dataset_status s = {0};
    dataset_plan_kept(o, conditions, &s, &events);
    json_object_set(status, "conditions", conditions);
    dataset_status_set_kept(status, s.kept_files);
    dataset_plan_not_ready(o->cr, status, o->now_ns, DATASET_DELETING, reason, message, event, p);
    plan_move(p, &events);
}

/* Claim first: it stays, Terminating, as long as a pod uses it. Then, without users, volume,
 * Service and pods. The finalizer last, when all of them are seen to be gone. */
void dataset_plan_delete(const struct dataset_observed *o, struct plan *p)
{
    bool ours = o->pvc && kube_controlled_by(o->pvc, kube_uid(o->cr));
    if (ours) /* its end wakes us, as that of an attachment does */
        plan_delete(p, &kube_pvcs, o->pvc, -1, NULL);
    cleanup_buf struct buf why = BUF_INIT(480);
    blockers(o, &why);
    if (why.len) {
        bool used = json_array_size(o->users) > 0;
        plan_deleting(o, used ? "InUse" : "Deleting", buf_str(&why), used, p);
        plan_requeue(p, LOOK_AGAIN_NS);
        return;
    }
    size_t left = 0;
    struct cache_pod_health held = {0};
    if (o->pv) {
        plan_delete(p, &kube_pvs, o->pv, -1, NULL);
        left++;
    }
    if (o->service && kube_controlled_by(o->service, kube_uid(o->cr))) {
        plan_delete(p, &kube_services, o->service, -1, NULL);
        left++;
    }
    if (o->policy && kube_controlled_by(o->policy, kube_uid(o->cr))) {
        plan_delete(p, &kube_networkpolicies, o->policy, -1, NULL);
        left++;
    }
    for (size_t i = 0; i < o->npods; i++) {
        const json_t *pod = o->pods[i].pod;
        if (cache_pod_is(pod, COMPONENT_LOADER) && !kube_controlled_by(pod, kube_uid(o->cr)))
            continue; /* its DataLoad's business */
        if (!dataset_abandon(o, i, p))
            plan_delete(p, &kube_pods, pod, -1, NULL);
        struct cache_pod_health health;
        cache_pod_evaluate(&o->pods[i], NULL, o->now_ns, &health);
        if (health.held_ns > 1)
            plan_requeue(p, health.held_ns);
        else if (health.held_ns)
            held = health;
        left++;
    }
    if (left) {
        plan_deleting(o, *held.reason ? held.reason : "Deleting",
            *held.reason ? held.message : "removing the volume, the cache workers and the clients",
            *held.reason, p);
        return;
    }
    plan_finalizer_remove(p, &kube_datasets, o->cr, FINALIZER_DATASET);
}
