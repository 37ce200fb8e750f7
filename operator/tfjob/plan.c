#include "operator/tfjob/plan.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/tfjob/build.h"
#include "operator/tfjob/turn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREIGN_RETRY_NS (10 * NS_PER_S) /* look again at a name that somebody else holds */
#define RESTART_MIN_NS (10 * NS_PER_S)   /* wait before the second restart of an index; the first is at once; doubles */
#define RESTART_MAX_NS (300 * NS_PER_S)
#define LONG_RUN_NS (600 * NS_PER_S)     /* who ran that long starts again at once */
#define SHORT_RUN_NS (60 * NS_PER_S)     /* who was disrupted so soon waits RESTART_MIN_NS */

/* ---- what the parts share ---- */

bool turn_cond(struct tfjob_turn *t, const char *type, bool is_true, const char *suffix, const char *message)
{
    char reason[48];
    snprintf(reason, sizeof reason, "TFJob%s", suffix);
    struct cond c = {type, is_true ? COND_TRUE : COND_FALSE, reason, message};
    return cond_set_job(t->status.conditions, &c, t->w->now_ns);
}

void turn_event(struct tfjob_turn *t, bool warning, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *message = xvasprintf(fmt, ap);
    va_end(ap);
    plan_event(&t->events, &kube_tfjobs, t->w->job, warning, reason, "%s", message);
}

void turn_status(struct tfjob_turn *t) { plan_status(t->plan, &kube_tfjobs, t->w->job, tfjob_status_json(&t->status)); }

void turn_delete_pod(struct tfjob_turn *t, const json_t *pod)
{
    if (kube_deleting(pod))
        return;
    plan_delete(t->plan, &kube_pods, pod, -1, NULL);
    plan_event(t->plan, &kube_tfjobs, t->w->job, false, "SuccessfulDeletePod", "Deleted pod: %s", kube_name(pod));
}

void turn_delete_service(struct tfjob_turn *t, const json_t *service)
{
    if (kube_deleting(service))
        return;
    plan_delete(t->plan, &kube_services, service, -1, NULL);
    plan_event(t->plan, &kube_tfjobs, t->w->job, false, "SuccessfulDeleteService", "Deleted service: %s", kube_name(service));
}

/* ---- restarts ---- */

/* A pod that has ended stays, with its logs, until its place is needed; this is when. */
static int64_t replace_at(const struct tfjob_turn *t, enum tfjob_type type, int i)
{
    const struct tfjob_pod *pod = &t->view.slot[type][i].is;
    int64_t began = pod->started_ns ? pod->started_ns : pod->created_ns;
    int64_t ended = MIN(pod->ended_ns ? pod->ended_ns : began, t->w->now_ns); /* the node's clock may be ahead */
    int64_t wait = 0;
    if (pod->state == TFJOB_POD_DISRUPTED) {
        wait = pod->ended_ns && ended - began >= SHORT_RUN_NS ? 0 : RESTART_MIN_NS;
    } else if (ended - began < LONG_RUN_NS) {
        int restarts = tfjob_restarts(&t->status.memory[type], (size_t)i);
        if (restarts > 1)
            wait = restarts > 8 ? RESTART_MAX_NS : MIN(RESTART_MIN_NS << (restarts - 2), RESTART_MAX_NS);
    }
    return ended + wait;
}

static void replace(struct tfjob_turn *t, enum tfjob_type type, int i)
{
    const struct tfjob_slot *s = &t->view.slot[type][i];
    int64_t wait = replace_at(t, type, i) - t->w->now_ns;
    if (wait > 0) {
        plan_requeue(&t->events, wait);
        return;
    }
    turn_delete_pod(t, s->pod);
    if (s->is.state == TFJOB_POD_DISRUPTED) {
        cleanup_free char *story = tfjob_pod_story(s->pod);
        turn_event(t, true, "PodDisrupted", "%s: it is replaced, and not counted as a failure", story);
    }
}

static void replace_ended(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (!tfjob_completed(&t->status.memory[type], (size_t)i) &&
                turn_fate(&t->job, (enum tfjob_type)type, &t->view.slot[type][i].is) == FATE_REPLACE)
                replace(t, (enum tfjob_type)type, i);
}

/* ---- children ---- */

static void scale_in(struct tfjob_turn *t)
{
    for (size_t i = 0; i < t->view.nextra_pods; i++)
        turn_delete_pod(t, t->view.extra_pods[i]);
    for (size_t i = 0; i < t->view.nextra_services; i++)
        turn_delete_service(t, t->view.extra_services[i]);
}

static bool wants_service(const struct tfjob_turn *t, enum tfjob_type type, int i)
{
    const struct tfjob_slot *s = &t->view.slot[type][i];
    return !s->service && (s->is.state != TFJOB_POD_NONE || !tfjob_completed(&t->status.memory[type], (size_t)i));
}

static bool wants_pod(const struct tfjob_turn *t, enum tfjob_type type, int i)
{
    return t->view.slot[type][i].is.state == TFJOB_POD_NONE && !tfjob_completed(&t->status.memory[type], (size_t)i);
}

static void create_service(struct tfjob_turn *t, enum tfjob_type type, int i)
{
    json_t *service = tfjob_build_service(&t->job, type, i);
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(&t->job, type, i, name);
    plan_create(t->plan, &kube_services, service);
    plan_event(t->plan, &kube_tfjobs, t->w->job, false, "SuccessfulCreateService", "Created service: %s", name);
}

static void create_pod(struct tfjob_turn *t, enum tfjob_type type, int i)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(&t->job, type, i, name);
    plan_create(t->plan, &kube_pods, tfjob_build_pod(&t->job, type, i, tfjob_restarts(&t->status.memory[type], (size_t)i), t->w->domain));
    plan_event(t->plan, &kube_tfjobs, t->w->job, false, "SuccessfulCreatePod", "Created pod: %s", name);
}

/* What is left of an older job of this name goes away by itself. */
static bool of_older_job(const struct tfjob_turn *t, const json_t *object)
{
    const json_t *owner = kube_controller_of(object);
    return !strcmp(jget_str(owner, "kind", ""), "TFJob") && !strcmp(jget_str(owner, "name", ""), t->job.name);
}

static void note_foreign(struct tfjob_turn *t, const json_t *object, const char *what)
{
    if (!of_older_job(t, object))
        turn_event(t, true, !strcmp(what, "pod") ? "FailedCreatePod" : "FailedCreateService",
                   "Error creating: %s %s exists and does not belong to this job: delete it, or choose another name for the job", what,
                   kube_name(object));
    plan_requeue(&t->events, FOREIGN_RETRY_NS);
}

/* Services first: a pod that starts finds the names of its peers. */
static void create_children(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            if (wants_service(t, (enum tfjob_type)type, i))
                create_service(t, (enum tfjob_type)type, i);
            else if (t->view.slot[type][i].service_foreign)
                note_foreign(t, t->view.slot[type][i].service, "service");
        }
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            if (wants_pod(t, (enum tfjob_type)type, i))
                create_pod(t, (enum tfjob_type)type, i);
            else if (t->view.slot[type][i].is.state == TFJOB_POD_FOREIGN)
                note_foreign(t, t->view.slot[type][i].pod, "pod");
        }
}

static bool lacks_children(const struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (wants_service(t, (enum tfjob_type)type, i) || wants_pod(t, (enum tfjob_type)type, i))
                return true;
    return false;
}

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
    cleanup_free char *message =
        xasprintf("TFJob %s/%s has failed because the spec is invalid: %s", t->job.ns, t->job.name, why->msg);
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
        t->status.start_ns = t->w->now_ns;
    }
    if (!t->status.start_ns)
        t->status.start_ns = t->w->now_ns;
}

static void proceed(struct tfjob_turn *t)
{
    resume(t);
    bool over = turn_decide(t);
    if (!over && !lacks_children(t))
        cond_remove(t->status.conditions, TFJOB_STALLED);
    turn_status(t);
    if (over) {
        turn_cleanup(t);
        return;
    }
    scale_in(t);
    replace_ended(t);
    create_children(t);
    turn_tell_trouble(t);
}

static void run_turn(struct tfjob_turn *t, const struct err *invalid)
{
    tfjob_status_read(t->w->job, &t->status);
    if (invalid) {
        refuse_spec(t, invalid);
        return;
    }
    tfjob_view_make(t->w, &t->job, &t->view);
    if (turn_finished(t)) {
        turn_cleanup(t);
        return;
    }
    ensure_created(t);
    if (t->job.old_field && !cond_find(jget(t->w->job, "status.conditions"), TFJOB_CREATED))
        turn_event(t, true, "DeprecatedField", "spec.%s was moved to spec.runPolicy.%s long ago: it is used, but move it",
                   t->job.old_field, t->job.old_field);
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

void tfjob_plan(const struct tfjob_world *w, struct plan *p)
{
    struct tfjob_turn t = {.w = w, .plan = p, .events = PLAN_INIT};
    if (!w->job)
        return;
    struct err why = ERR_INIT;
    bool valid = tfjob_parse(w->job, &t.job, &why) == 0;
    if (t.job.deleting || t.job.external)
        return;
    run_turn(&t, valid ? NULL : &why);
    move_events(p, &t.events, w->job);
    plan_clear(&t.events);
    tfjob_status_free(&t.status);
    tfjob_view_free(&t.view);
}

/* ---- what the API server refuses ---- */

static const char *refused_reason(const struct plan_action *a)
{
    bool deletes = a->op == PLAN_DELETE;
    if (a->op != PLAN_CREATE && !deletes)
        return NULL;
    if (a->res == &kube_pods)
        return deletes ? "FailedDeletePod" : "FailedCreatePod";
    if (a->res == &kube_services)
        return deletes ? "FailedDeleteService" : "FailedCreateService";
    return deletes ? "FailedDeleteJob" : NULL;
}

void tfjob_plan_refused(const json_t *job, const struct plan_action *failed, const struct err *why, int64_t now_ns, struct plan *then)
{
    const char *reason = refused_reason(failed);
    bool persons = why->cls == ERR_INVALID || why->cls == ERR_DENIED || why->cls == ERR_EXISTS || why->cls == ERR_EXHAUSTED;
    if (!reason || !persons)
        return;
    cleanup_free char *message = xasprintf("Error %s: %s", failed->op == PLAN_DELETE ? "deleting" : "creating", why->msg);
    cleanup_tfjob_status struct tfjob_status status;
    tfjob_status_read(job, &status);
    if (failed->op == PLAN_CREATE) {
        if (strcmp(cond_message(status.conditions, TFJOB_STALLED), message))
            cond_remove(status.conditions, TFJOB_STALLED); /* a new message alone would not be taken */
        struct cond c = {TFJOB_STALLED, COND_TRUE, reason, message};
        cond_set_job(status.conditions, &c, now_ns);
        plan_status(then, &kube_tfjobs, job, tfjob_status_json(&status));
    }
    plan_event(then, &kube_tfjobs, job, true, reason, "%s", message);
}
