/* SPDX-License-Identifier: Apache-2.0 */
/* The children of a Dataset: its volume, the Service, the policy, and its pods. */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/render/read.h"
#include "operator/render/volume.h"

#include <stdio.h>
#include <string.h>

#define TAKEN_LOOK_NS (10 * NS_PER_S) /* what is in the way is not watched */

/* A claim or Service under our name that is not this Dataset's. true: it is in the way. */
static bool name_taken(const struct dataset_observed *o, const json_t *object, const char *what,
    const char *remedy, struct dataset_problem *problem)
{
    if (!object || kube_controlled_by(object, kube_uid(o->cr)))
        return false;
    problem->reason = "NameTaken";
    const json_t *owner = kube_controller_of(object);
    bool earlier = owner && strcmp(jget_str(owner, "kind", ""), "Dataset") == 0
        && strcmp(jget_str(owner, "name", ""), kube_name(o->cr)) == 0;
    problem->passes = earlier;
    if (earlier)
        snprintf(problem->message, sizeof problem->message,
            "%s %s/%s is of an earlier Dataset of this name and is still being deleted", what,
            kube_namespace(object), kube_name(object));
    else
        snprintf(problem->message, sizeof problem->message,
            "%s %s/%s exists and was not made for this Dataset: %s", what, kube_namespace(object),
            kube_name(object), remedy);
    return true;
}

/* A volume whose claim was deleted and made again is Released for ever: the binder must forget the
 * old claim. */
static void plan_volume(const struct dataset_observed *o, const struct dataset *d, struct plan *p)
{
    json_t *pv = render_pv(d), *pvc = render_pvc(d);
    /* a claim cannot shrink: one that asks for another size keeps it, and the volume has that */
    const char *size = jget_str(o->pvc, "spec.resources.requests.storage", NULL);
    if (size) {
        json_t *spec = json_object_get(pv, "spec"), *claim = json_object_get(pvc, "spec");
        json_object_set_new(spec, "capacity", json_pack("{s:s}", "storage", size));
        json_object_set_new(
            claim, "resources", json_pack("{s:{s:s}}", "requests", "storage", size));
    }
    plan_apply(p, &kube_pvs, pv, o->pv);
    plan_apply(p, &kube_pvcs, pvc, o->pvc);
    const char *bound = jget_str(o->pv, "spec.claimRef.uid", "");
    if (*bound && (!o->pvc || (!kube_deleting(o->pvc) && strcmp(bound, kube_uid(o->pvc)) != 0)))
        plan_patch(p, &kube_pvs, o->pv,
            json_pack("{s:{s:{s:n, s:n}}}", "spec", "claimRef", "uid", "resourceVersion"));
}

static void plan_children(const struct dataset_observed *o, struct dataset_eval *v, struct plan *p)
{
    plan_finalizer_add(p, &kube_datasets, o->cr, FINALIZER_DATASET);
    plan_volume(o, v->d, p);
    if (v->d->replicas)
        plan_apply(p, &kube_services, render_service(v->d), o->service);
    else if (o->service && kube_controlled_by(o->service, kube_uid(o->cr)))
        plan_delete(p, &kube_services, o->service, -1, NULL);
    if (o->env.ingress)
        plan_apply(
            p, &kube_networkpolicies, render_network_policy(v->d, o->env.ingress), o->policy);
    else if (o->policy && kube_controlled_by(o->policy, kube_uid(o->cr)))
        plan_delete(p, &kube_networkpolicies, o->policy, -1, NULL);
    /* before any goes: nobody should ask it any more */
    for (size_t i = 0; i < o->npods; i++)
        if (v->health[i].state != CACHE_POD_FINISHED)
            cache_pod_tell(p, o->pods[i].pod, v->making.workers);
    dataset_plan_workers(o, v, p);
}

/* It mounts what mounts it. */
static bool goes_round(const struct dataset_observed *o, struct dataset_problem *problem)
{
    if (!o->ring)
        return false;
    problem->reason = "InvalidURL";
    snprintf(problem->message, sizeof problem->message,
        "spec.mounts: pvc://%s is the volume of a Dataset that mounts this one, or what this one is mounted in: name another claim in one of them",
        o->ring);
    return true;
}

void dataset_plan(const struct dataset_observed *o, struct plan *p)
{
    if (!o->cr)
        return;
    if (kube_deleting(o->cr)) {
        dataset_plan_delete(o, p);
        return;
    }
    struct dataset_problem problem = {0};
    struct err e = ERR_INIT;
    cleanup_dataset struct dataset *d = render_read(o->cr, &o->env, &problem.reason, &e);
    struct dataset_eval v;
    dataset_evaluate(o, d, &v);
    for (size_t i = 0; i < o->npods; i++)
        if (v.health[i].held_ns > 1) /* nothing else wakes us then */
            plan_requeue(p, v.health[i].held_ns);
    if (!d) {
        snprintf(problem.message, sizeof problem.message, "%s", e.msg);
    } else {
        problem.reason = NULL;
        if (!goes_round(o, &problem)
            && !name_taken(o, o->pvc, "PersistentVolumeClaim",
                "give the Dataset another name, or delete the claim, and what is in it with it",
                &problem)
            && !(d->replicas
                && name_taken(o, o->service, "Service",
                    "give the Dataset another name, or delete it", &problem))
            && !(o->env.ingress
                && name_taken(o, o->policy, "NetworkPolicy",
                    "give the Dataset another name, or delete it", &problem)))
            plan_children(o, &v, p);
        else
            plan_requeue(p, TAKEN_LOOK_NS);
    }
    struct dataset_preloading preload;
    dataset_plan_preload(o, &v, &problem, &preload, p);
    dataset_plan_status(o, &v, &problem, &preload, p);
    dataset_eval_free(&v);
}

void dataset_plan_refused(const json_t *cr, const struct plan_action *failed, const struct err *why,
    int64_t now_ns, struct plan *then)
{
    char message[640];
    bool taken = why->cls == ERR_EXISTS && failed->res;
    snprintf(message, sizeof message, "%s", why->msg);
    if (taken)
        snprintf(message, sizeof message,
            "%s %s/%s exists and was not made for this Dataset: give the Dataset another name, or delete it",
            failed->res->kind, failed->ns, failed->name);
    dataset_plan_not_ready(cr, NULL, now_ns, kube_deleting(cr) ? DATASET_DELETING : DATASET_FAILED,
        taken ? "NameTaken" : "ApplyFailed", message, true, then);
}
