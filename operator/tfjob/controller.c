/* SPDX-License-Identifier: Apache-2.0 */
/* The TFJob controller: informers, the clock and the queue around tfjob_plan(). */
#include "operator/ctl/controller.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "operator/api/dataset.h"
#include "operator/ctl/manager.h"
#include "operator/tfjob/metrics.h"
#include "operator/tfjob/names.h"
#include "operator/tfjob/observe.h"
#include "operator/tfjob/plan.h"

#include <stdatomic.h>
#include <stdlib.h>

/* pods of a job start, and end, together: one status for all of them */
#define POD_BURST_NS NS_PER_S

struct tfjob_controller {
    struct manager *mgr;
    struct tfjob_informers informers;
};

static int tfjob_reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)e;
    const struct tfjob_controller *c = user;
    struct tfjob_refs refs;
    tfjob_observe(&c->informers, key, clock_real_ns(), &refs);
    refs.observed.crd_problem = atomic_load(&c->mgr->crd_problem);
    tfjob_plan(&refs.observed, plan);
    tfjob_refs_free(&refs);
    return 0;
}

static void tfjob_refused(void *user, const char *key, const struct plan_action *failed,
    const struct err *why, struct plan *then)
{
    const struct tfjob_controller *c = user;
    /* as it is now: with the status that was just written */
    cleanup_obj struct obj *job = informer_get(c->informers.jobs, key);
    if (job)
        tfjob_plan_refused(obj_json(job), failed, why, clock_real_ns(), then);
}

/* ---- what wakes a job, beside itself and its children ---- */

static void emit_jobs(const struct tfjob_controller *c, const char *claim_key,
    void (*emit)(void *, const char *), void *to)
{
    cleanup_keys char **jobs = informer_keys(c->informers.jobs, TFJOB_INDEX_CLAIM, claim_key);
    for (size_t i = 0; jobs[i]; i++)
        emit(to, jobs[i]);
}

/* Of a claim, or of a Dataset, whose claim has its name. */
static void tfjob_map_claim(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    cleanup_free char *key = kube_key_of(object);
    emit_jobs(user, key, emit, to);
}

/* A node's heartbeats concern the jobs that wait for pods on it to go. */
static void tfjob_map_node(
    void *user, const json_t *node, void (*emit)(void *, const char *), void *to)
{
    const struct tfjob_controller *c = user;
    cleanup_objs struct objs pods = informer_by(
        c->informers.pods, TFJOB_INDEX_LEAVING, kube_name(node));
    for (size_t i = 0; i < pods.n; i++) {
        const json_t *pod = obj_json(pods.v[i]);
        cleanup_free char *key = kube_key(kube_namespace(pod), kube_label(pod, TFJOB_LABEL_JOB));
        emit(to, key);
    }
}

int tfjob_controller_start(struct manager *mgr, struct err *e)
{
    static struct tfjob_controller state; /* lives as long as the process */
    static char kind[] = "TFJob";
    struct tfjob_informers *in = &state.informers;
    state.mgr = mgr;
    /* upstream's variable, read by the same name */
    const char *domain = getenv("CUSTOM_CLUSTER_DOMAIN");
    if (tfjob_informers_make(mgr, in, e))
        return err_wrap(e, "TFJob controller");
    in->domain = domain ? domain : "";
    struct controller *c = manager_controller(mgr,
        &(struct controller_conf){.name = "tfjob",
            .keys = in->jobs,
            .reconcile = tfjob_reconcile,
            .on_apply_error = tfjob_refused,
            .user = &state});
    controller_watch(c, in->jobs, controller_map_self, NULL);
    controller_watch_after(c, in->pods, controller_map_owner, kind, POD_BURST_NS);
    struct informer *const children[] = {in->services, in->deployments, in->pod_groups};
    for (size_t i = 0; i < ARRAY_LEN(children); i++)
        if (children[i])
            controller_watch(c, children[i], controller_map_owner, kind);
    controller_watch_news(c, in->datasets, tfjob_map_claim, &state, dataset_is_news);
    controller_watch_news(c, in->claims, tfjob_map_claim, &state, informers_claim_is_news);
    controller_watch(c, in->nodes, tfjob_map_node, &state);
    tfjob_count(mgr, in->jobs);
    return 0;
}
