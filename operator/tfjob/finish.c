/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <string.h>

bool turn_finished(const struct tfjob_turn *t)
{
    return cond_is_true(t->status.conditions, TFJOB_SUCCEEDED)
        || cond_is_true(t->status.conditions, TFJOB_FAILED);
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
    /* servers have nobody left to serve, and what has not begun shall not begin */
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

static void clean_slot(struct tfjob_turn *t, enum tfjob_type type, const struct tfjob_slot *s)
{
    if (s->is.state == TFJOB_POD_FOREIGN)
        return;
    if (s->pod && cleans(t->job.clean, type, s->is.state))
        turn_delete_pod(t, s->pod);
    if (s->service && !s->service_foreign && cleans_service(t->job.clean, type, s->is.state))
        turn_delete_service(t, s->service);
}

void turn_cleanup(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            clean_slot(t, (enum tfjob_type)type, &t->view.slot[type][i]);
    turn_stop_sidecars(t);
    turn_gang_end(t);
    for (size_t i = 0; t->job.clean != TFJOB_CLEAN_NONE && i < t->view.nextra_pods; i++)
        turn_delete_pod(t, t->view.extra_pods[i]);
    for (size_t i = 0; t->job.clean != TFJOB_CLEAN_NONE && i < t->view.nextra_services; i++)
        turn_delete_service(t, t->view.extra_services[i]);

    if (t->job.ttl_s < 0 || t->job.suspend)
        return;
    /* a job without completionTime (finished by another controller) counts from now on */
    int64_t due_ns = tfjob_later(
        t->status.completion_ns ? t->status.completion_ns : t->o->now_ns, t->job.ttl_s);
    if (due_ns > t->o->now_ns) {
        plan_requeue(&t->events, due_ns - t->o->now_ns);
        return;
    }
    plan_delete(t->plan, &kube_tfjobs, t->o->job, -1, "Background");
    turn_event(t, false, "SuccessfulDeleteJob", "Deleted job: %s", t->job.name);
}

/* ---- the end ---- */

static void stop_waiting(struct tfjob_turn *t)
{
    cond_remove(t->status.conditions, TFJOB_STALLED);
    cond_remove(t->status.conditions, TFJOB_WAITING_DATASET);
    cond_remove(t->status.conditions, TFJOB_WAITING_GANG);
}

void turn_finish(struct tfjob_turn *t, bool succeeded, const char *message, bool warning)
{
    const char *type = succeeded ? TFJOB_SUCCEEDED : TFJOB_FAILED;
    stop_waiting(t);
    turn_cond(t, type, true, type, message);
    if (!t->status.completion_ns)
        t->status.completion_ns = t->o->now_ns;
    for (int k = 0; k < TFJOB_TYPES; k++) {
        struct tfjob_counts *c = &t->status.counts[k];
        if (succeeded)
            c->succeeded += c->active;
        if (succeeded || cleans(t->job.clean, (enum tfjob_type)k, TFJOB_POD_RUNNING))
            c->active = 0;
    }
    turn_event(t, warning, succeeded ? "TFJobSucceeded" : "TFJobFailed", "%s", message);
}

/* ---- suspend ---- */

static void delete_everything(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            const struct tfjob_slot *s = &t->view.slot[type][i];
            if (s->pod && s->is.state != TFJOB_POD_FOREIGN)
                turn_delete_pod(t, s->pod);
            if (s->service && !s->service_foreign)
                turn_delete_service(t, s->service);
        }
    for (size_t i = 0; i < t->view.nextra_pods; i++)
        turn_delete_pod(t, t->view.extra_pods[i]);
    for (size_t i = 0; i < t->view.nextra_services; i++)
        turn_delete_service(t, t->view.extra_services[i]);
}

void turn_suspend(struct tfjob_turn *t)
{
    cleanup_free char *message = xasprintf("TFJob %s is suspended.", t->job.name);
    stop_waiting(t);
    if (cond_is_true(t->status.conditions, TFJOB_RUNNING))
        turn_cond(t, TFJOB_RUNNING, false, "Suspended", message);
    if (cond_is_true(t->status.conditions, TFJOB_RESTARTING))
        turn_cond(t, TFJOB_RESTARTING, false, "Suspended", message);
    if (turn_cond(t, TFJOB_SUSPENDED, true, "Suspended", message))
        turn_event(t, false, "TFJobSuspended", "%s", message);
    for (int type = 0; type < TFJOB_TYPES; type++)
        t->status.counts[type].active = t->status.counts[type].failed = 0;
    turn_status(t);
    delete_everything(t);
    turn_give_up_dead(t);
    turn_gang_end(t);
}
