/* SPDX-License-Identifier: Apache-2.0 */
/* The pods and services of a job that goes on: which are replaced, given up, scaled in, made. */
#include "operator/tfjob/pass.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/tfjob/build.h"

#include <string.h>

#define FOREIGN_RETRY_NS (10 * NS_PER_S) /* look again at a name that somebody else holds */
/* wait before the second restart of an index; the first is at once; doubles */
#define RESTART_MIN_NS   (10 * NS_PER_S)
#define RESTART_MAX_NS   (300 * NS_PER_S)
#define LONG_RUN_NS      (600 * NS_PER_S) /* who ran that long starts again at once */
#define SIDECAR_GRACE_NS (10 * NS_PER_S)  /* for sidecars that end by themselves */
#define SHORT_RUN_NS     (60 * NS_PER_S)  /* who was disrupted so soon waits RESTART_MIN_NS */

/* ---- restarts ---- */

/* A pod that has ended stays, with its logs, until its place is needed; this is when. */
static int64_t replace_at(const struct tfjob_turn *t, enum tfjob_type type, int i)
{
    const struct tfjob_pod *pod = &t->view.slot[type][i].is;
    int64_t began = pod->started_ns ? pod->started_ns : pod->created_ns;
    /* the node's clock may be ahead */
    int64_t ended = MIN(pod->ended_ns ? pod->ended_ns : began, t->o->now_ns);
    int64_t wait = 0;
    if (pod->state == TFJOB_POD_DISRUPTED) {
        wait = pod->ended_ns && ended - began >= SHORT_RUN_NS ? 0 : RESTART_MIN_NS;
    } else if (ended - began < LONG_RUN_NS) {
        int restarts = tfjob_restarts(&t->status.memory[type], (size_t)i);
        if (restarts > 1)
            wait = restarts > 8 ? RESTART_MAX_NS
                                : MIN(RESTART_MIN_NS << (restarts - 2), RESTART_MAX_NS);
    }
    return ended + wait;
}

static bool to_replace(const struct tfjob_turn *t, int type, int i)
{
    return !tfjob_completed(&t->status.memory[type], (size_t)i)
        && turn_fate(&t->job, (enum tfjob_type)type, &t->view.slot[type][i].is) == FATE_REPLACE;
}

static void replace(struct tfjob_turn *t, enum tfjob_type type, int i)
{
    const struct tfjob_slot *s = &t->view.slot[type][i];
    int64_t wait = replace_at(t, type, i) - t->o->now_ns;
    if (wait > 0) {
        plan_requeue(&t->events, wait);
        return;
    }
    turn_delete_pod(t, s->pod);
    if (s->is.state == TFJOB_POD_DISRUPTED) {
        cleanup_free char *story = tfjob_pod_story(s->pod);
        turn_event(
            t, true, "PodDisrupted", "%s: it is replaced, and not counted as a failure", story);
    }
}

static void replace_ended(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (to_replace(t, type, i))
                replace(t, (enum tfjob_type)type, i);
}

/* Is a pod on its way out, or to go, while its index has not finished? */
static bool one_is_lost(const struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (to_replace(t, type, i)
                || (t->view.slot[type][i].is.state == TFJOB_POD_LEAVING
                    && !tfjob_completed(&t->status.memory[type], (size_t)i)))
                return true;
    return false;
}

static bool is_peer(const struct tfjob_turn *t, int type, int i)
{
    enum tfjob_pod_state state = t->view.slot[type][i].is.state;
    return (state == TFJOB_POD_PENDING || state == TFJOB_POD_RUNNING)
        && !tfjob_completed(&t->status.memory[type], (size_t)i);
}

void turn_judge_together(struct tfjob_turn *t)
{
    if (!t->job.wishes.restart_all || !one_is_lost(t))
        return;
    t->together = t->hold = true;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            t->status.counts[type].active -= is_peer(t, type, i)
                && t->view.slot[type][i].is.state == TFJOB_POD_RUNNING;
}

/* The others go at once, before the one that was lost, so that the reason is there until all of
 * them are gone, whenever we die in between; and nobody comes back before. */
static void restart_together(struct tfjob_turn *t)
{
    for (int type = 0; t->together && type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (is_peer(t, type, i))
                turn_delete_pod(t, t->view.slot[type][i].pod);
}

/* ---- pods that nobody ends ---- */

static void give_up(struct tfjob_turn *t, const json_t *pod)
{
    int64_t gone_ns;
    const char *when = jget_str(pod, "metadata.deletionTimestamp", "");
    if (!kube_deleting(pod) || clock_parse_rfc3339(when, &gone_ns) || !tfjob_node_is_dead(t->o, pod)
        || jget_int(pod, "metadata.deletionGracePeriodSeconds", 0) <= 0)
        return;
    int64_t wait = tfjob_later(gone_ns, t->job.wishes.dead_node_s) - t->o->now_ns;
    if (wait > 0) {
        plan_requeue(&t->events, wait);
        return;
    }
    plan_delete(t->plan, &kube_pods, pod, 0, NULL);
    plan_event(t->plan, &kube_tfjobs, t->o->job, true, "PodGivenUp",
        "Pod %s was being deleted, but its node %s does not answer: taken as ended", kube_name(pod),
        jget_str(pod, "spec.nodeName", ""));
}

void turn_give_up_dead(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (t->view.slot[type][i].pod && t->view.slot[type][i].is.state != TFJOB_POD_FOREIGN)
                give_up(t, t->view.slot[type][i].pod);
    for (size_t i = 0; i < t->view.nextra_pods; i++)
        give_up(t, t->view.extra_pods[i]);
}

/* `tensorflow` has ended, a sidecar runs on and keeps what the pod was given: kubelet ends it when
 * the pod's deadline, which may be set later, has passed. The pod stays, with its logs. */
void turn_stop_sidecars(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            const struct tfjob_slot *s = &t->view.slot[type][i];
            if (!s->is.sidecars_run || to_replace(t, type, i)
                || jget_int(s->pod, "spec.activeDeadlineSeconds", 0) == 1)
                continue;
            int64_t wait = s->is.ended_ns + SIDECAR_GRACE_NS - t->o->now_ns;
            if (wait > 0)
                plan_requeue(&t->events, MIN(wait, SIDECAR_GRACE_NS));
            else
                plan_patch(t->plan, &kube_pods, s->pod,
                    json_pack("{s:{s:i}}", "spec", "activeDeadlineSeconds", 1));
        }
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
    return !s->service
        && (s->is.state != TFJOB_POD_NONE || !tfjob_completed(&t->status.memory[type], (size_t)i));
}

static bool wants_pod(const struct tfjob_turn *t, enum tfjob_type type, int i)
{
    return t->view.slot[type][i].is.state == TFJOB_POD_NONE
        && !tfjob_completed(&t->status.memory[type], (size_t)i);
}

static void create_service(struct tfjob_turn *t, enum tfjob_type type, int i)
{
    json_t *service = tfjob_build_service(&t->job, type, i);
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(&t->job, type, i, name);
    plan_create(t->plan, &kube_services, service);
    plan_event(t->plan, &kube_tfjobs, t->o->job, false, "SuccessfulCreateService",
        "Created service: %s", name);
}

static void create_pod(struct tfjob_turn *t, enum tfjob_type type, int i)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(&t->job, type, i, name);
    plan_create(t->plan, &kube_pods,
        tfjob_build_pod(
            t->o, &t->job, type, i, tfjob_restarts(&t->status.memory[type], (size_t)i)));
    plan_event(
        t->plan, &kube_tfjobs, t->o->job, false, "SuccessfulCreatePod", "Created pod: %s", name);
}

/* What is left of an older job of this name goes away by itself. */
static bool of_older_job(const struct tfjob_turn *t, const json_t *object)
{
    const json_t *owner = kube_controller_of(object);
    return !strcmp(jget_str(owner, "kind", ""), "TFJob")
        && !strcmp(jget_str(owner, "name", ""), t->job.name);
}

static void note_foreign(struct tfjob_turn *t, const json_t *object, const char *what)
{
    if (!of_older_job(t, object))
        turn_event(t, true, !strcmp(what, "pod") ? "FailedCreatePod" : "FailedCreateService",
            "Error creating: %s %s exists and does not belong to this job: delete it, or choose another name for the job",
            what, kube_name(object));
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
            if (wants_pod(t, (enum tfjob_type)type, i) && !t->hold)
                create_pod(t, (enum tfjob_type)type, i);
            else if (t->view.slot[type][i].is.state == TFJOB_POD_FOREIGN)
                note_foreign(t, t->view.slot[type][i].pod, "pod");
        }
}

bool turn_wants_pods(const struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (wants_pod(t, (enum tfjob_type)type, i))
                return true;
    return false;
}

bool turn_lacks_children(const struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            if (wants_service(t, (enum tfjob_type)type, i))
                return true;
    return turn_wants_pods(t);
}

void turn_children(struct tfjob_turn *t)
{
    scale_in(t);
    restart_together(t);
    replace_ended(t);
    turn_give_up_dead(t);
    turn_stop_sidecars(t);
    create_children(t);
}
