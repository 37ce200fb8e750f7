/* SPDX-License-Identifier: Apache-2.0 */
/* A job that does not run any more: its end, what is cleaned up after it, and its suspension. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <string.h>

bool pass_has_ended(const struct tfjob_pass *p)
{
    return cond_is_true(p->status.conditions, TFJOB_SUCCEEDED)
        || cond_is_true(p->status.conditions, TFJOB_FAILED);
}

/* ---- cleanPodPolicy ---- */

static bool alive(enum tfjob_pod_state s)
{
    return s == TFJOB_POD_PENDING || s == TFJOB_POD_RUNNING;
}

static bool cleans(enum tfjob_clean policy, enum tfjob_type type, enum tfjob_pod_state state)
{
    switch (policy) {
    case TFJOB_CLEAN_NONE:
        return false;
    case TFJOB_CLEAN_RUNNING:
        return alive(state);
    case TFJOB_CLEAN_ALL:
        return true;
    /* servers have no one left to serve, and what has not begun shall not begin */
    case TFJOB_CLEAN_DEFAULT:
        return state == TFJOB_POD_PENDING
            || (state == TFJOB_POD_RUNNING && (type == TFJOB_PS || type == TFJOB_EVALUATOR));
    }
    return false;
}

/* A service goes with its pod: also with one that is gone already or on its way. */
static bool cleans_service(
    enum tfjob_clean policy, enum tfjob_type type, enum tfjob_pod_state state)
{
    bool podless = state == TFJOB_POD_NONE || state == TFJOB_POD_LEAVING;
    if (!podless)
        return cleans(policy, type, state);
    return cleans(policy, type, TFJOB_POD_RUNNING);
}

static void clean_up_replica(struct tfjob_pass *p, const struct tfjob_replica *r)
{
    if (r->is.state == TFJOB_POD_FOREIGN)
        return;
    if (r->pod && cleans(p->job->clean, r->type, r->is.state))
        pass_delete_pod(p, r->pod);
    if (r->service && !r->service_foreign && cleans_service(p->job->clean, r->type, r->is.state))
        pass_delete_service(p, r->service);
}

static void expire(struct tfjob_pass *p)
{
    if (p->job->ttl_s < 0 || p->job->suspend)
        return;
    /* a job without completionTime (finished by another controller) counts from now on */
    int64_t due_ns = tfjob_later(
        p->status.completion_ns ? p->status.completion_ns : p->o->now_ns, p->job->ttl_s);
    if (due_ns > p->o->now_ns) {
        plan_requeue(&p->events, due_ns - p->o->now_ns);
        return;
    }
    plan_delete(p->plan, &kube_tfjobs, p->o->job, -1, "Background");
    pass_event(p, false, "SuccessfulDeleteJob", "Deleted job: %s", p->job->name);
}

void pass_clean_up_refused(struct tfjob_pass *p)
{
    bool cleans_any = p->job->clean != TFJOB_CLEAN_NONE;
    for (size_t i = 0; cleans_any && i < p->o->npods; i++) {
        const json_t *pod = p->o->pods[i];
        const char *phase = jget_str(pod, "status.phase", "");
        bool over = !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
        if (kube_controlled_by(pod, p->job->uid) && (!over || p->job->clean == TFJOB_CLEAN_ALL))
            pass_delete_pod(p, pod);
    }
    for (size_t i = 0; cleans_any && i < p->o->nservices; i++)
        if (kube_controlled_by(p->o->services[i], p->job->uid)
            && p->o->services[i] != p->o->tensorboard_service)
            pass_delete_service(p, p->o->services[i]);
    pass_delete_gang(p);
    expire(p);
}

void pass_clean_up(struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas)
        clean_up_replica(p, r);
    pass_stop_sidecars(p);
    pass_delete_gang(p);
    for (size_t i = 0; p->job->clean != TFJOB_CLEAN_NONE && i < p->replicas->nextra_pods; i++)
        pass_delete_pod(p, p->replicas->extra_pods[i]);
    for (size_t i = 0; p->job->clean != TFJOB_CLEAN_NONE && i < p->replicas->nextra_services; i++)
        pass_delete_service(p, p->replicas->extra_services[i]);
    expire(p);
}

/* ---- the end ---- */

static void stop_waiting(struct tfjob_pass *p)
{
    cond_remove(p->status.conditions, TFJOB_STALLED);
    cond_remove(p->status.conditions, TFJOB_WAITING_DATASET);
    cond_remove(p->status.conditions, TFJOB_WAITING_GANG);
}

void pass_finish(struct tfjob_pass *p, bool succeeded, const char *message, bool warning)
{
    const char *type = succeeded ? TFJOB_SUCCEEDED : TFJOB_FAILED;
    stop_waiting(p);
    pass_set_cond(p, type, true, type, message);
    if (!p->status.completion_ns)
        p->status.completion_ns = p->o->now_ns;
    for (int k = 0; k < TFJOB_TYPES; k++) {
        struct tfjob_counts *c = &p->status.counts[k];
        if (succeeded)
            c->succeeded += c->active;
        if (succeeded || cleans(p->job->clean, (enum tfjob_type)k, TFJOB_POD_RUNNING))
            c->active = 0;
    }
    pass_event(p, warning, succeeded ? "TFJobSucceeded" : "TFJobFailed", "%s", message);
}

/* ---- suspend ---- */

static void delete_everything(struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas) {
        if (r->pod && r->is.state != TFJOB_POD_FOREIGN)
            pass_delete_pod(p, r->pod);
        if (r->service && !r->service_foreign)
            pass_delete_service(p, r->service);
    }
    for (size_t i = 0; i < p->replicas->nextra_pods; i++)
        pass_delete_pod(p, p->replicas->extra_pods[i]);
    for (size_t i = 0; i < p->replicas->nextra_services; i++)
        pass_delete_service(p, p->replicas->extra_services[i]);
}

void pass_suspend(struct tfjob_pass *p)
{
    cleanup_free char *message = xasprintf("TFJob %s is suspended.", p->job->name);
    stop_waiting(p);
    if (cond_is_true(p->status.conditions, TFJOB_RUNNING))
        pass_set_cond(p, TFJOB_RUNNING, false, "Suspended", message);
    if (cond_is_true(p->status.conditions, TFJOB_RESTARTING))
        pass_set_cond(p, TFJOB_RESTARTING, false, "Suspended", message);
    if (pass_set_cond(p, TFJOB_SUSPENDED, true, "Suspended", message))
        pass_event(p, false, "TFJobSuspended", "%s", message);
    for (int type = 0; type < TFJOB_TYPES; type++)
        p->status.counts[type].active = p->status.counts[type].failed = 0;
    pass_write_status(p);
    delete_everything(p);
    pass_abandon_dead_pods(p);
    pass_delete_gang(p);
}
