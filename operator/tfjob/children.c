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
static int64_t replace_at(const struct tfjob_pass *p, enum tfjob_type type, int i)
{
    const struct tfjob_pod *pod = &p->view.slot[type][i].is;
    int64_t began = pod->started_ns ? pod->started_ns : pod->created_ns;
    /* the node's clock may be ahead */
    int64_t ended = MIN(pod->ended_ns ? pod->ended_ns : began, p->o->now_ns);
    int64_t wait = 0;
    if (pod->state == TFJOB_POD_DISRUPTED) {
        wait = pod->ended_ns && ended - began >= SHORT_RUN_NS ? 0 : RESTART_MIN_NS;
    } else if (ended - began < LONG_RUN_NS) {
        int restarts = tfjob_restarts(&p->status.memory[type], (size_t)i);
        if (restarts > 1)
            wait = restarts > 8 ? RESTART_MAX_NS
                                : MIN(RESTART_MIN_NS << (restarts - 2), RESTART_MAX_NS);
    }
    return ended + wait;
}

static bool to_replace(const struct tfjob_pass *p, int type, int i)
{
    return !tfjob_completed(&p->status.memory[type], (size_t)i)
        && tfjob_outcome(&p->job, (enum tfjob_type)type, &p->view.slot[type][i].is)
        == TFJOB_OUTCOME_REPLACE;
}

static void replace(struct tfjob_pass *p, enum tfjob_type type, int i)
{
    const struct tfjob_replica *s = &p->view.slot[type][i];
    int64_t wait = replace_at(p, type, i) - p->o->now_ns;
    if (wait > 0) {
        plan_requeue(&p->events, wait);
        return;
    }
    pass_delete_pod(p, s->pod);
    if (s->is.state == TFJOB_POD_DISRUPTED) {
        cleanup_free char *summary = tfjob_pod_summary(s->pod);
        pass_event(
            p, true, "PodDisrupted", "%s: it is replaced, and not counted as a failure", summary);
    }
}

static void replace_ended(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            if (to_replace(p, type, i))
                replace(p, (enum tfjob_type)type, i);
}

/* Is a pod on its way out, or to go, while its index has not finished? */
static bool one_is_lost(const struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            if (to_replace(p, type, i)
                || (p->view.slot[type][i].is.state == TFJOB_POD_LEAVING
                    && !tfjob_completed(&p->status.memory[type], (size_t)i)))
                return true;
    return false;
}

static bool is_peer(const struct tfjob_pass *p, int type, int i)
{
    enum tfjob_pod_state state = p->view.slot[type][i].is.state;
    return (state == TFJOB_POD_PENDING || state == TFJOB_POD_RUNNING)
        && !tfjob_completed(&p->status.memory[type], (size_t)i);
}

void pass_evaluate_restart_all(struct tfjob_pass *p)
{
    if (!p->job.annotations.restart_all || !one_is_lost(p))
        return;
    p->restart_all = p->pause_pods = true;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            p->status.counts[type].active -= is_peer(p, type, i)
                && p->view.slot[type][i].is.state == TFJOB_POD_RUNNING;
}

/* The others go at once, before the one that was lost, so that the reason is there until all of
 * them are gone, whenever we die in between; and nobody comes back before. */
static void delete_peers(struct tfjob_pass *p)
{
    for (int type = 0; p->restart_all && type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            if (is_peer(p, type, i))
                pass_delete_pod(p, p->view.slot[type][i].pod);
}

/* ---- pods that nobody ends ---- */

static void abandon_dead_pod(struct tfjob_pass *p, const json_t *pod)
{
    int64_t gone_ns;
    const char *when = jget_str(pod, "metadata.deletionTimestamp", "");
    if (!kube_deleting(pod) || clock_parse_rfc3339(when, &gone_ns) || !tfjob_node_is_dead(p->o, pod)
        || jget_int(pod, "metadata.deletionGracePeriodSeconds", 0) <= 0)
        return;
    int64_t wait = tfjob_later(gone_ns, p->job.annotations.dead_node_s) - p->o->now_ns;
    if (wait > 0) {
        plan_requeue(&p->events, wait);
        return;
    }
    plan_delete(p->plan, &kube_pods, pod, 0, NULL);
    plan_event(p->plan, &kube_tfjobs, p->o->job, true, "PodGivenUp",
        "Pod %s was being deleted, but its node %s does not answer: taken as ended", kube_name(pod),
        jget_str(pod, "spec.nodeName", ""));
}

void pass_abandon_dead_pods(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            if (p->view.slot[type][i].pod && p->view.slot[type][i].is.state != TFJOB_POD_FOREIGN)
                abandon_dead_pod(p, p->view.slot[type][i].pod);
    for (size_t i = 0; i < p->view.nextra_pods; i++)
        abandon_dead_pod(p, p->view.extra_pods[i]);
}

/* `tensorflow` has ended, a sidecar runs on and keeps what the pod was given: kubelet ends it when
 * the pod's deadline, which may be set later, has passed. The pod stays, with its logs. */
void pass_stop_sidecars(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++) {
            const struct tfjob_replica *s = &p->view.slot[type][i];
            if (!s->is.sidecars_run || to_replace(p, type, i)
                || jget_int(s->pod, "spec.activeDeadlineSeconds", 0) == 1)
                continue;
            int64_t wait = s->is.ended_ns + SIDECAR_GRACE_NS - p->o->now_ns;
            if (wait > 0)
                plan_requeue(&p->events, MIN(wait, SIDECAR_GRACE_NS));
            else
                plan_patch(p->plan, &kube_pods, s->pod,
                    json_pack("{s:{s:i}}", "spec", "activeDeadlineSeconds", 1));
        }
}

/* ---- children ---- */

static void scale_in(struct tfjob_pass *p)
{
    for (size_t i = 0; i < p->view.nextra_pods; i++)
        pass_delete_pod(p, p->view.extra_pods[i]);
    for (size_t i = 0; i < p->view.nextra_services; i++)
        pass_delete_service(p, p->view.extra_services[i]);
}

static bool wants_service(const struct tfjob_pass *p, enum tfjob_type type, int i)
{
    const struct tfjob_replica *s = &p->view.slot[type][i];
    return !s->service
        && (s->is.state != TFJOB_POD_NONE || !tfjob_completed(&p->status.memory[type], (size_t)i));
}

static bool wants_pod(const struct tfjob_pass *p, enum tfjob_type type, int i)
{
    return p->view.slot[type][i].is.state == TFJOB_POD_NONE
        && !tfjob_completed(&p->status.memory[type], (size_t)i);
}

static void create_service(struct tfjob_pass *p, enum tfjob_type type, int i)
{
    json_t *service = tfjob_build_service(&p->job, type, i);
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(&p->job, type, i, name);
    plan_create(p->plan, &kube_services, service);
    plan_event(p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulCreateService",
        "Created service: %s", name);
}

static void create_pod(struct tfjob_pass *p, enum tfjob_type type, int i)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(&p->job, type, i, name);
    plan_create(p->plan, &kube_pods,
        tfjob_build_pod(
            p->o, &p->job, type, i, tfjob_restarts(&p->status.memory[type], (size_t)i)));
    plan_event(
        p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulCreatePod", "Created pod: %s", name);
}

/* What is left of an older job of this name goes away by itself. */
static bool of_older_job(const struct tfjob_pass *p, const json_t *object)
{
    const json_t *owner = kube_controller_of(object);
    return !strcmp(jget_str(owner, "kind", ""), "TFJob")
        && !strcmp(jget_str(owner, "name", ""), p->job.name);
}

static void warn_foreign(struct tfjob_pass *p, const json_t *object, const char *what)
{
    if (!of_older_job(p, object))
        pass_event(p, true, !strcmp(what, "pod") ? "FailedCreatePod" : "FailedCreateService",
            "Error creating: %s %s exists and does not belong to this job: delete it, or choose another name for the job",
            what, kube_name(object));
    plan_requeue(&p->events, FOREIGN_RETRY_NS);
}

/* Services first: a pod that starts finds the names of its peers. */
static void create_children(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++) {
            if (wants_service(p, (enum tfjob_type)type, i))
                create_service(p, (enum tfjob_type)type, i);
            else if (p->view.slot[type][i].service_foreign)
                warn_foreign(p, p->view.slot[type][i].service, "service");
        }
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++) {
            if (wants_pod(p, (enum tfjob_type)type, i) && !p->pause_pods)
                create_pod(p, (enum tfjob_type)type, i);
            else if (p->view.slot[type][i].is.state == TFJOB_POD_FOREIGN)
                warn_foreign(p, p->view.slot[type][i].pod, "pod");
        }
}

bool pass_lacks_pods(const struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            if (wants_pod(p, (enum tfjob_type)type, i))
                return true;
    return false;
}

bool pass_lacks_children(const struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            if (wants_service(p, (enum tfjob_type)type, i))
                return true;
    return pass_lacks_pods(p);
}

void pass_children(struct tfjob_pass *p)
{
    scale_in(p);
    delete_peers(p);
    replace_ended(p);
    pass_abandon_dead_pods(p);
    pass_stop_sidecars(p);
    create_children(p);
}
