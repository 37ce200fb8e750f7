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

#define BURST_NS     (3 * NS_PER_S)  /* times of pods are whole seconds */
#define CRD_RETRY_NS (30 * NS_PER_S) /* look again whether the CRD is ours by now */
#define CRD_NOT_OURS "CRDNotOurs"

static void ensure_created(struct tfjob_pass *p)
{
    cleanup_free char *message = xasprintf("TFJob %s is created.", p->job->name);
    if (!cond_find(p->status.conditions, TFJOB_CREATED))
        pass_set_cond(p, TFJOB_CREATED, true, "Created", message);
}

/* A spec that is not valid fails the job at once: one condition and one Event say why, nothing
 * is retried. */
static void refuse_spec(struct tfjob_pass *p, const struct err *why)
{
    if (!pass_has_ended(p)) {
        cleanup_free char *message = xasprintf(
            "TFJob %s/%s has failed because the spec is invalid: %s", p->job->ns, p->job->name,
            why->msg);
        ensure_created(p);
        for (int type = 0; p->job->clean != TFJOB_CLEAN_NONE && type < TFJOB_TYPES; type++)
            p->status.counts[type].active = 0;
        pass_finish(p, false, message, true);
    }
    pass_write_status(p);
    pass_clean_up_refused(p);
}

/* The API server would not keep what has finished and how often it was restarted: nothing is made,
 * replaced or decided before that is mended. What runs, runs on; what has ended stays. */
static void hold_still(struct tfjob_pass *p)
{
    struct cond c = {TFJOB_STALLED, COND_TRUE, CRD_NOT_OURS, p->o->crd_problem};
    ensure_created(p);
    if (cond_set_job_message(p->status.conditions, &c, p->o->now_ns))
        pass_event(p, true, CRD_NOT_OURS, "%s", p->o->crd_problem);
    pass_write_status(p);
    plan_requeue(&p->events, CRD_RETRY_NS);
}

/* A job that was suspended begins anew, as upstream, once no pod of before is left: what that has
 * been through is forgotten, and must not come back. */
static bool resumes(const struct tfjob_pass *p)
{
    return !p->job->suspend && !pass_has_ended(p)
        && cond_is_true(p->status.conditions, TFJOB_SUSPENDED);
}

static bool has_pods(const struct tfjob_pass *p)
{
    for (size_t i = 0; i < p->o->npods; i++)
        if (kube_controlled_by(p->o->pods[i], p->job->uid))
            return true;
    return false;
}

static void resume(struct tfjob_pass *p)
{
    if (cond_is_true(p->status.conditions, TFJOB_SUSPENDED)) {
        cleanup_free char *message = xasprintf("TFJob %s is resumed.", p->job->name);
        pass_set_cond(p, TFJOB_SUSPENDED, false, "Resumed", message);
        pass_event(p, false, "TFJobResumed", "%s", message);
        p->status.start_ns = p->o->now_ns;
    }
    if (!p->status.start_ns)
        p->status.start_ns = p->o->now_ns;
}

/* The pods of a job start together, though not at once: one status is written for all of them. Only
 * starts may wait, for no more than BURST_NS; what has ended is written down before anything can
 * happen to the pod. Returns how much longer to wait. */
static int64_t burst_ns(const struct tfjob_pass *p)
{
    int64_t first_ns = INT64_MAX, now_ns = p->o->now_ns;
    bool pending = false;
    tfjob_each (r, p->replicas) {
        if (r->is.state != TFJOB_POD_PENDING && r->is.state != TFJOB_POD_RUNNING)
            return 0;
        if (r->is.state == TFJOB_POD_RUNNING)
            first_ns = MIN(first_ns, r->is.running_ns);
        pending |= r->is.state == TFJOB_POD_PENDING;
    }
    bool just_now = pending && first_ns <= now_ns && now_ns - first_ns < BURST_NS;
    return just_now ? first_ns + BURST_NS - now_ns : 0;
}

static void proceed(struct tfjob_pass *p)
{
    resume(p);
    if (pass_evaluate(p)) {
        pass_write_status(p);
        pass_clean_up(p);
        return;
    }
    int64_t wait = burst_ns(p);
    if (wait) {
        plan_requeue(&p->events, wait);
        return;
    }
    bool restart_all = pass_evaluate_restart_all(p), pause_pods = restart_all;
    pause_pods |= pass_wait_datasets(p);
    pause_pods |= pass_wait_gang(p);
    if (!pass_lacks_children(p))
        cond_remove(p->status.conditions, TFJOB_STALLED);
    pass_write_status(p);
    pass_apply_gang(p);
    pass_children(p, restart_all, pause_pods);
    pass_pod_events(p);
}

/* Once, while the job is new: warns of what in its spec is not quite as meant. */
static void warn_spec(struct tfjob_pass *p)
{
    if (cond_find(jget(p->o->job, "status.conditions"), TFJOB_CREATED))
        return;
    if (p->job->old_field)
        pass_event(p, true, "DeprecatedField",
            "spec.%s was moved to spec.runPolicy.%s long ago: it is used, but move it",
            p->job->old_field, p->job->old_field);
    if (*p->job->annotations.bad)
        pass_event(p, true, "InvalidAnnotation", "%s", p->job->annotations.bad);
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (*jget_str(p->job->spec[type].template, "spec.restartPolicy", "")) {
            pass_event(p, true, "SetPodTemplateRestartPolicy",
                "Restart policy in pod template will be overwritten by restart policy in replica spec");
            break;
        }
    if (*p->o->gang && tfjob_gang_has_scheduler(p->job))
        pass_event(p, true, "SetPodTemplateSchedulerName",
            "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten");
}

static void pass_run(struct tfjob_pass *p, const struct err *invalid)
{
    if (p->o->crd_problem && !pass_has_ended(p)) {
        hold_still(p);
        return;
    }
    if (!strcmp(cond_reason(p->status.conditions, TFJOB_STALLED), CRD_NOT_OURS))
        cond_remove(p->status.conditions, TFJOB_STALLED);
    if (invalid) {
        refuse_spec(p, invalid);
        return;
    }
    pass_tensorboard(p);
    if (pass_has_ended(p)) {
        pass_write_status(p); /* an edit was seen, though nothing comes of it */
        pass_clean_up(p);
        return;
    }
    ensure_created(p);
    warn_spec(p);
    pass_record(p);
    if (p->job->suspend || (resumes(p) && has_pods(p)))
        pass_suspend(p);
    else
        proceed(p);
}

void tfjob_plan(const struct tfjob_observed *o, struct plan *plan)
{
    struct tfjob job = {0};
    struct tfjob_replicas replicas = {0};
    struct tfjob_pass p = {
        .o = o, .job = &job, .replicas = &replicas, .plan = plan, .events = PLAN_INIT};
    if (!o->job)
        return;
    struct err why = ERR_INIT;
    bool valid = tfjob_parse(o->job, &job, &why) == 0;
    if (job.deleting || job.external)
        return;
    tfjob_status_read(o->job, &p.status);
    if (resumes(&p) && !has_pods(&p))
        tfjob_status_forget(&p.status);
    if (valid)
        tfjob_replicas_make(o, &job, &p.status, &replicas);
    pass_run(&p, valid ? NULL : &why);
    plan_move(plan, &p.events);
    tfjob_status_free(&p.status);
    tfjob_replicas_free(&replicas);
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
    if (a->extra)
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
    if (failed->op != PLAN_DELETE && !failed->extra) {
        struct cond c = {TFJOB_STALLED, COND_TRUE, reason, message};
        cond_set_job_message(status.conditions, &c, now_ns);
        plan_status(then, &kube_tfjobs, job, tfjob_status_json(&status));
    }
    plan_event(then, &kube_tfjobs, job, true, reason, "%s", message);
}
