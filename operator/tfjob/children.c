/* SPDX-License-Identifier: Apache-2.0 */
/* The pods and services of a job that goes on: which are replaced, abandoned, scaled in,
 * created. */
#include "operator/tfjob/pass.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/dataset/dead_node.h"
#include "operator/tfjob/build.h"

#include <string.h>

#define FOREIGN_RETRY_NS (10 * NS_PER_S) /* look again at a name that another owner holds */
/* wait before the second restart of an index; the first is at once; doubles */
#define RESTART_MIN_NS   (10 * NS_PER_S)
#define RESTART_MAX_NS   (300 * NS_PER_S)
#define SIDECAR_GRACE_NS (10 * NS_PER_S) /* for sidecars that end by themselves */
#define SHORT_RUN_NS \
    (60 * NS_PER_S) /* one that was disrupted once, and later, is replaced at once */

/* ---- restarts ---- */

static int64_t nth_wait(int n)
{
    if (n < 1)
        return 0;
    return n > 8 ? RESTART_MAX_NS : MIN(RESTART_MIN_NS << (n - 1), RESTART_MAX_NS);
}

/* A pod that has ended stays, with its logs, until its place is needed; this is when. */
static int64_t replace_at(const struct tfjob_pass *p, const struct tfjob_replica *r)
{
    const struct tfjob_pod *pod = &r->is;
    int64_t began = pod->started_ns ? pod->started_ns : pod->created_ns;
    /* the node's clock may be ahead */
    int64_t ended = MIN(pod->ended_ns ? pod->ended_ns : began, p->o->now_ns);
    int64_t ran = tfjob_pod_ran_ns(pod), wait = 0;
    if (r->ignored)
        wait = r->disruptions == 1 && ran >= SHORT_RUN_NS ? 0 : nth_wait(r->disruptions);
    else if (ran < LONG_RUN_NS)
        wait = nth_wait(r->restarts - 1);
    return ended + wait;
}

static void replace(struct tfjob_pass *p, const struct tfjob_replica *r)
{
    int64_t wait = replace_at(p, r) - p->o->now_ns;
    if (wait > 0) {
        plan_requeue(&p->events, wait);
        return;
    }
    pass_delete_pod(p, r->pod);
    if (r->ignored) {
        cleanup_free char *summary = tfjob_pod_summary(r->pod);
        cleanup_free char *often = r->disruptions < 2 ? xstrdup("")
                                                      : xasprintf(" (%d in a row)", r->disruptions);
        pass_event(p, true, "PodDisrupted", "%s: it is replaced, and not counted as a failure%s",
            summary, often);
    }
}

static void replace_ended(struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas)
        if (r->outcome == TFJOB_OUTCOME_REPLACE)
            replace(p, r);
}

/* Is a pod being deleted, or to be, while its index has not completed? */
static bool one_is_lost(const struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas)
        if (r->outcome == TFJOB_OUTCOME_REPLACE
            || (r->is.state == TFJOB_POD_LEAVING && !r->completed))
            return true;
    return false;
}

static bool is_peer(const struct tfjob_replica *r)
{
    return (r->is.state == TFJOB_POD_PENDING || r->is.state == TFJOB_POD_RUNNING) && !r->completed;
}

bool pass_evaluate_restart_all(struct tfjob_pass *p)
{
    if (!p->job->annotations.restart_all || !one_is_lost(p))
        return false;
    tfjob_each (r, p->replicas)
        p->status.counts[r->type].active -= is_peer(r) && r->is.state == TFJOB_POD_RUNNING;
    return true;
}

/* The others are deleted at once, before the one that was lost: the reason stays until all of
 * them are gone, whenever we die in between. None is created again before. */
static void delete_peers(struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas)
        if (is_peer(r))
            pass_delete_pod(p, r->pod);
}

/* ---- pods that do not end ---- */

/* The node of a pod that is being deleted; NULL: it is gone. */
static const json_t *node_of_pod(const struct tfjob_observed *o, const json_t *pod)
{
    for (size_t i = 0; i < o->nnodes; i++)
        if (strcmp(kube_name(o->nodes[i]), jget_str(pod, "spec.nodeName", "")) == 0)
            return o->nodes[i];
    return NULL;
}

static void abandon_dead_pod(struct tfjob_pass *p, const json_t *pod)
{
    int64_t gone_ns;
    const char *when = jget_str(pod, "metadata.deletionTimestamp", "");
    if (!kube_deleting(pod)
        || clock_parse_rfc3339(when, &gone_ns)
        /* never scheduled, no kubelet has to say that it has ended */
        || !*jget_str(pod, "spec.nodeName", "") || !node_is_dead(node_of_pod(p->o, pod))
        || jget_int(pod, "metadata.deletionGracePeriodSeconds", 0) <= 0)
        return;
    int64_t wait = tfjob_later(gone_ns, p->job->annotations.dead_node_s) - p->o->now_ns;
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
    tfjob_each (r, p->replicas)
        if (r->pod && r->is.state != TFJOB_POD_FOREIGN)
            abandon_dead_pod(p, r->pod);
    for (size_t i = 0; i < p->replicas->nextra_pods; i++)
        abandon_dead_pod(p, p->replicas->extra_pods[i]);
}

/* `tensorflow` has ended, a sidecar runs on and keeps what the pod was given: kubelet ends it when
 * the pod's deadline, which may be set later, has passed. The pod stays, with its logs. */
void pass_stop_sidecars(struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas) {
        if (!r->is.sidecars_run || r->outcome == TFJOB_OUTCOME_REPLACE
            || jget_int(r->pod, "spec.activeDeadlineSeconds", 0) == 1)
            continue;
        int64_t wait = r->is.ended_ns + SIDECAR_GRACE_NS - p->o->now_ns;
        if (wait > 0)
            plan_requeue(&p->events, MIN(wait, SIDECAR_GRACE_NS));
        else
            plan_patch(p->plan, &kube_pods, r->pod,
                json_pack("{s:{s:i}}", "spec", "activeDeadlineSeconds", 1));
    }
}

/* ---- children ---- */

static void scale_in(struct tfjob_pass *p)
{
    for (size_t i = 0; i < p->replicas->nextra_pods; i++)
        pass_delete_pod(p, p->replicas->extra_pods[i]);
    for (size_t i = 0; i < p->replicas->nextra_services; i++)
        pass_delete_service(p, p->replicas->extra_services[i]);
}

static bool wants_service(const struct tfjob_replica *r)
{
    return !r->service && (r->is.state != TFJOB_POD_NONE || !r->completed);
}

static bool wants_pod(const struct tfjob_replica *r)
{
    return r->is.state == TFJOB_POD_NONE && !r->completed;
}

static void create_service(struct tfjob_pass *p, const struct tfjob_replica *r)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(p->job, r->type, r->index, name);
    plan_create(p->plan, &kube_services, tfjob_build_service(p->job, r->type, r->index));
    plan_event(p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulCreateService",
        "Created service: %s", name);
}

static void create_pod(struct tfjob_pass *p, const struct tfjob_replica *r)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(p->job, r->type, r->index, name);
    struct tfjob_index lived = {r->completed, r->restarts, r->disruptions};
    size_t since = p->plan->n;
    plan_create(p->plan, &kube_pods, tfjob_build_pod(p->o, p->job, r->type, r->index, &lived));
    plan_strict(p->plan, since); /* a slip in the template is said, not dropped */
    plan_event(
        p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulCreatePod", "Created pod: %s", name);
}

/* Objects of an older job of this name are garbage collected. */
static bool of_older_job(const struct tfjob_pass *p, const json_t *object)
{
    const json_t *owner = kube_controller_of(object);
    return !strcmp(jget_str(owner, "kind", ""), "TFJob")
        && !strcmp(jget_str(owner, "name", ""), p->job->name);
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
static void create_children(struct tfjob_pass *p, bool pause_pods)
{
    tfjob_each (r, p->replicas) {
        if (wants_service(r))
            create_service(p, r);
        else if (r->service_foreign)
            warn_foreign(p, r->service, "service");
    }
    tfjob_each (r, p->replicas) {
        if (wants_pod(r) && !pause_pods)
            create_pod(p, r);
        else if (r->is.state == TFJOB_POD_FOREIGN)
            warn_foreign(p, r->pod, "pod");
    }
}

bool pass_lacks_pods(const struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas)
        if (wants_pod(r))
            return true;
    return false;
}

bool pass_lacks_children(const struct tfjob_pass *p)
{
    tfjob_each (r, p->replicas)
        if (wants_service(r) || wants_pod(r))
            return true;
    return false;
}

void pass_children(struct tfjob_pass *p, bool restart_all, bool pause_pods)
{
    scale_in(p);
    if (restart_all)
        delete_peers(p);
    replace_ended(p);
    pass_abandon_dead_pods(p);
    pass_stop_sidecars(p);
    create_children(p, pause_pods);
}
