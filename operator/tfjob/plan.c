/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/plan.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/tfjob/build.h"
#include "operator/tfjob/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_NS (3 * NS_PER_S) /* times of pods are whole seconds */

/* ---- the turn ---- */

static void ensure_created(struct tfjob_turn *t)
{
    cleanup_free char *message = xasprintf("TFJob %s is created.", t->job.name);
    if (!cond_find(t->status.conditions, TFJOB_CREATED))
        turn_cond(t, TFJOB_CREATED, true, "Created", message);
}

/* What cannot be read is over at once: one condition and one Event say why, nothing is retried. */
static void refuse_spec(struct tfjob_turn *t, const struct err *why)
{
    if (turn_finished(t))
        return;
    cleanup_free char *message = xasprintf(
        "TFJob %s/%s has failed because the spec is invalid: %s", t->job.ns, t->job.name, why->msg);
    ensure_created(t);
    turn_finish(t, false, message, true);
    turn_status(t);
}

static void resume(struct tfjob_turn *t)
{
    if (cond_is_true(t->status.conditions, TFJOB_SUSPENDED)) {
        cleanup_free char *message = xasprintf("TFJob %s is resumed.", t->job.name);
        turn_cond(t, TFJOB_SUSPENDED, false, "Resumed", message);
        turn_event(t, false, "TFJobResumed", "%s", message);
        t->status.start_ns = t->o->now_ns;
    }
    if (!t->status.start_ns)
        t->status.start_ns = t->o->now_ns;
}

/* The pods of a job start together, though not at once: one status says so of all of them. Only
 * starts may wait, for no more than SETTLE_NS; what has ended is written down before anything can
 * happen to the pod. */
static int64_t settle_ns(const struct tfjob_turn *t)
{
    int64_t first_ns = INT64_MAX;
    bool pending = false;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            const struct tfjob_pod *pod = &t->view.slot[type][i].is;
            if (pod->state != TFJOB_POD_PENDING && pod->state != TFJOB_POD_RUNNING)
                return 0;
            if (pod->state == TFJOB_POD_RUNNING)
                first_ns = MIN(first_ns, pod->running_ns);
            pending |= pod->state == TFJOB_POD_PENDING;
        }
    bool just_now = pending && first_ns <= t->o->now_ns && t->o->now_ns - first_ns < SETTLE_NS;
    return just_now ? first_ns + SETTLE_NS - t->o->now_ns : 0;
}

static void proceed(struct tfjob_turn *t)
{
    resume(t);
    bool over = turn_decide(t);
    int64_t wait = over ? 0 : settle_ns(t);
    if (wait) {
        plan_requeue(&t->events, wait);
        return;
    }
    if (!over) {
        turn_judge_together(t);
        turn_datasets(t);
        turn_gang_wait(t);
        if (!turn_lacks_children(t))
            cond_remove(t->status.conditions, TFJOB_STALLED);
    }
    turn_status(t);
    if (over) {
        turn_cleanup(t);
        return;
    }
    turn_gang_apply(t);
    turn_children(t);
    turn_tell_trouble(t);
}

/* Once, while the job is new: what it says that is not quite as meant. */
static void tell_oddities(struct tfjob_turn *t)
{
    if (cond_find(jget(t->o->job, "status.conditions"), TFJOB_CREATED))
        return;
    if (t->job.old_field)
        turn_event(t, true, "DeprecatedField",
            "spec.%s was moved to spec.runPolicy.%s long ago: it is used, but move it",
            t->job.old_field, t->job.old_field);
    if (*t->job.wishes.bad)
        turn_event(t, true, "InvalidAnnotation", "%s", t->job.wishes.bad);
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (*jget_str(t->job.replica[type].template, "spec.restartPolicy", "")) {
            turn_event(t, true, "SetPodTemplateRestartPolicy",
                "Restart policy in pod template will be overwritten by restart policy in replica spec");
            break;
        }
    if (*t->o->gang && tfjob_gang_has_scheduler(&t->job))
        turn_event(t, true, "SetPodTemplateSchedulerName",
            "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten");
}

static void run_turn(struct tfjob_turn *t, const struct err *invalid)
{
    tfjob_status_read(t->o->job, &t->status);
    if (invalid) {
        refuse_spec(t, invalid);
        return;
    }
    tfjob_view_make(t->o, &t->job, &t->view);
    turn_board(t);
    if (turn_finished(t)) {
        turn_cleanup(t);
        return;
    }
    ensure_created(t);
    tell_oddities(t);
    turn_remember(t);
    if (t->job.suspend)
        turn_suspend(t);
    else
        proceed(t);
}

/* Events and the requeue go to the end of the plan. */
static void move_events(struct plan *to, const struct plan *events, const json_t *about)
{
    for (size_t i = 0; i < events->n; i++) {
        const struct plan_action *a = &events->actions[i];
        if (a->op == PLAN_EVENT)
            plan_event(to, &kube_tfjobs, about, a->warning, a->reason, "%s", a->message);
        else
            plan_requeue(to, a->after_ns);
    }
}

void tfjob_plan(const struct tfjob_observed *o, struct plan *p)
{
    struct tfjob_turn t = {.o = o, .plan = p, .events = PLAN_INIT};
    if (!o->job)
        return;
    struct err why = ERR_INIT;
    bool valid = tfjob_parse(o->job, &t.job, &why) == 0;
    if (t.job.deleting || t.job.external)
        return;
    run_turn(&t, valid ? NULL : &why);
    move_events(p, &t.events, o->job);
    plan_clear(&t.events);
    tfjob_status_free(&t.status);
    tfjob_view_free(&t.view);
}

/* ---- what the API server refuses ---- */

static const char *refused_reason(const struct plan_action *a)
{
    bool deletes = a->op == PLAN_DELETE;
    if (a->op != PLAN_CREATE && a->op != PLAN_APPLY && !deletes)
        return NULL;
    if (a->res == &kube_pods)
        return deletes ? "FailedDeletePod" : "FailedCreatePod";
    if (!strcmp(a->res->kind, "PodGroup"))
        return deletes ? "FailedDeletePodGroup" : "FailedCreatePodGroup";
    if (a->res == &kube_deployments)
        return "TensorBoardFailed";
    if (a->res == &kube_services)
        return deletes ? "FailedDeleteService" : "FailedCreateService";
    return deletes ? "FailedDeleteJob" : NULL;
}

void tfjob_plan_refused(const json_t *job, const struct plan_action *failed, const struct err *why,
    int64_t now_ns, struct plan *then)
{
    const char *reason = refused_reason(failed);
    bool persons = why->cls == ERR_INVALID || why->cls == ERR_DENIED || why->cls == ERR_EXISTS
        || why->cls == ERR_EXHAUSTED;
    if (!reason || !persons)
        return;
    cleanup_free char *message = xasprintf(
        "Error %s: %s", failed->op == PLAN_DELETE ? "deleting" : "creating", why->msg);
    cleanup_tfjob_status struct tfjob_status status;
    tfjob_status_read(job, &status);
    if (failed->op != PLAN_DELETE) {
        if (strcmp(cond_message(status.conditions, TFJOB_STALLED), message))
            /* a new message alone would not be taken */
            cond_remove(status.conditions, TFJOB_STALLED);
        struct cond c = {TFJOB_STALLED, COND_TRUE, reason, message};
        cond_set_job(status.conditions, &c, now_ns);
        plan_status(then, &kube_tfjobs, job, tfjob_status_json(&status));
    }
    plan_event(then, &kube_tfjobs, job, true, reason, "%s", message);
}
