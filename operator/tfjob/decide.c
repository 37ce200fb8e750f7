/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

static void emit_exit(struct tfjob_pass *p, const struct tfjob_replica *s)
{
    if (s->is.has_exit_code)
        pass_event(p, false, "ExitedWithCode", "Pod: %s.%s exited with code %d",
            kube_namespace(s->pod), kube_name(s->pod), s->is.exit_code);
}

/* What a pod has lived through is written down as a maximum: restarts of the pods before it (its
 * annotation), those of its containers, and its own end. So it makes no difference how often, or
 * after which crash of ours, it is counted. */
static void record_replica(struct tfjob_pass *p, enum tfjob_type type, size_t i)
{
    const struct tfjob_replica *s = &p->view.slot[type][i];
    struct tfjob_memory *m = &p->status.memory[type];
    if (s->is.state == TFJOB_POD_NONE || s->is.state == TFJOB_POD_FOREIGN)
        return;
    if (s->is.state == TFJOB_POD_SUCCEEDED && !tfjob_completed(m, i))
        tfjob_memory_at(m, i)->completed = true;
    if (p->job.spec[type].restart == TFJOB_RESTART_NEVER)
        return;
    bool failed = s->is.state == TFJOB_POD_FAILED
        && tfjob_outcome(&p->job, type, &s->is) == TFJOB_OUTCOME_REPLACE;
    int lived = s->is.restarts_before + s->is.container_restarts + failed;
    if (lived <= tfjob_restarts(m, i))
        return;
    tfjob_memory_at(m, i)->restarts = lived;
    if (failed) {
        p->fresh_failures |= 1U << type;
        emit_exit(p, s);
    }
}

static void count_replica(struct tfjob_pass *p, enum tfjob_type type, size_t i)
{
    struct tfjob_counts *c = &p->status.counts[type];
    enum tfjob_pod_state state = p->view.slot[type][i].is.state;
    if (tfjob_completed(&p->status.memory[type], i))
        c->succeeded++;
    else if (state == TFJOB_POD_RUNNING)
        c->active++;
    else if (state == TFJOB_POD_FAILED)
        c->failed++;
}

void pass_record(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++) {
        const struct tfjob_replica_spec *r = &p->job.spec[type];
        p->status.counts[type] = (struct tfjob_counts){.present = r->present};
        for (int i = 0; i < r->replicas; i++) {
            record_replica(p, (enum tfjob_type)type, (size_t)i);
            count_replica(p, (enum tfjob_type)type, (size_t)i);
        }
    }
}

/* ---- success ---- */

/* Worker-0 has finished: its pod says so with exit code 0, or it is gone and we remember. */
static bool worker0_done(const struct tfjob_pass *p)
{
    if (p->job.spec[TFJOB_WORKER].replicas == 0
        || !tfjob_completed(&p->status.memory[TFJOB_WORKER], 0))
        return false;
    const struct tfjob_pod *pod = &p->view.slot[TFJOB_WORKER][0].is;
    return pod->state != TFJOB_POD_SUCCEEDED || (pod->has_exit_code && pod->exit_code == 0);
}

static bool all_done(const struct tfjob_pass *p, enum tfjob_type type)
{
    return p->status.counts[type].succeeded == p->job.spec[type].replicas;
}

static bool succeeded(const struct tfjob_pass *p)
{
    const struct tfjob_replica_spec *r = p->job.spec;
    if (tfjob_has_chief(&p->job))
        return all_done(p, TFJOB_CHIEF) && all_done(p, TFJOB_MASTER);
    if (r[TFJOB_WORKER].present)
        return all_done(p, TFJOB_WORKER) || (!p->job.all_workers && worker0_done(p));
    /* upstream: a job of PS or evaluators only never ends */
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (!all_done(p, (enum tfjob_type)type))
            return false;
    return true;
}

/* Those whose running is the job's running. */
static bool running(const struct tfjob_pass *p)
{
    const struct tfjob_counts *c = p->status.counts;
    if (tfjob_has_chief(&p->job))
        return c[TFJOB_CHIEF].active + c[TFJOB_MASTER].active > 0;
    if (p->job.spec[TFJOB_WORKER].present)
        return c[TFJOB_WORKER].active > 0;
    return c[TFJOB_PS].active + c[TFJOB_EVALUATOR].active > 0;
}

/* ---- failure ---- */

static int count_outcome(const struct tfjob_pass *p, enum tfjob_type type,
    enum tfjob_outcome outcome, const struct tfjob_replica **first)
{
    int n = 0;
    for (int i = 0; i < p->job.spec[type].replicas; i++) {
        const struct tfjob_replica *s = &p->view.slot[type][i];
        if (tfjob_completed(&p->status.memory[type], (size_t)i)
            || tfjob_outcome(&p->job, type, &s->is) != outcome)
            continue;
        if (!n++)
            *first = s;
    }
    return n;
}

static void set_running(struct tfjob_pass *p)
{
    cleanup_free char *message = xasprintf("TFJob %s/%s is running.", p->job.ns, p->job.name);
    pass_set_cond(p, TFJOB_RUNNING, true, "Running", message);
}

static void fail_replicas(
    struct tfjob_pass *p, enum tfjob_type type, int n, const struct tfjob_replica *first)
{
    if (running(p))
        set_running(p); /* it was, when the replica failed: the end turns it to False */
    const char *name = tfjob_type_name(type);
    bool by_code = p->job.spec[type].restart == TFJOB_RESTART_EXIT_CODE;
    cleanup_free char *what = by_code
        ? xasprintf("job \"%s\" is failing because \"%s\" replica(s) failed.", p->job.name, name)
        : xasprintf("TFJob %s/%s has failed because %d %s replica(s) failed.", p->job.ns,
            p->job.name, n, name);
    cleanup_free char *summary = tfjob_pod_summary(first->pod);
    cleanup_free char *message = xasprintf("%s %s", what, summary);
    emit_exit(p, first);
    pass_finish(p, false, message, true);
}

/* A worker that failed for good is tolerated in a dynamic job, until none is left that could still
 * bring the job to its end. */
static bool dynamic_workers_lost(const struct tfjob_pass *p, const struct tfjob_replica **first)
{
    if (tfjob_has_chief(&p->job))
        return false;
    int lost = count_outcome(p, TFJOB_WORKER, TFJOB_OUTCOME_TOLERATE, first);
    return lost > 0
        && lost + p->status.counts[TFJOB_WORKER].succeeded == p->job.spec[TFJOB_WORKER].replicas;
}

static bool failed(struct tfjob_pass *p)
{
    const struct tfjob_replica *first = NULL;
    for (int type = 0; type < TFJOB_TYPES; type++) {
        int n = count_outcome(p, (enum tfjob_type)type, TFJOB_OUTCOME_FAIL, &first);
        if (n) {
            fail_replicas(p, (enum tfjob_type)type, n, first);
            return true;
        }
    }
    if (dynamic_workers_lost(p, &first)) {
        fail_replicas(p, TFJOB_WORKER, p->status.counts[TFJOB_WORKER].failed, first);
        return true;
    }
    return false;
}

/* Restarts of the whole job, wherever they happened; as upstream, a limit of 0 allows no fewer than
 * a limit of 1. */
static bool past_backoff_limit(const struct tfjob_pass *p)
{
    int64_t sum = 0;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++)
            sum += tfjob_restarts(&p->status.memory[type], (size_t)i);
    return p->job.backoff_limit >= 0 && sum >= MAX(p->job.backoff_limit, 1);
}

static bool past_limits(struct tfjob_pass *p)
{
    cleanup_free char *message = NULL;
    int64_t deadline_ns = tfjob_later(p->status.start_ns, p->job.deadline_s);
    if (past_backoff_limit(p))
        message = xasprintf(
            "Job %s has failed because it has reached the specified backoff limit", p->job.name);
    else if (p->job.deadline_s >= 0 && p->o->now_ns >= deadline_ns)
        message = xasprintf(
            "Job %s has failed because it was active longer than specified deadline", p->job.name);
    else if (p->job.deadline_s >= 0)
        plan_requeue(&p->events, deadline_ns - p->o->now_ns);
    if (!message)
        return false;
    pass_finish(p, false, message, true);
    return true;
}

/* ---- conditions ---- */

/* A restart is under way while an index that failed once has no running pod. */
static bool still_restarting(const struct tfjob_pass *p)
{
    if (!cond_is_true(p->status.conditions, TFJOB_RESTARTING))
        return false;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < p->job.spec[type].replicas; i++) {
            enum tfjob_pod_state state = p->view.slot[type][i].is.state;
            if (tfjob_restarts(&p->status.memory[type], (size_t)i)
                && !tfjob_completed(&p->status.memory[type], (size_t)i)
                && state != TFJOB_POD_RUNNING && state != TFJOB_POD_FAILED)
                return true;
        }
    return false;
}

static bool restarts_now(const struct tfjob_pass *p, enum tfjob_type type)
{
    for (int i = 0; i < p->job.spec[type].replicas; i++) {
        const struct tfjob_pod *pod = &p->view.slot[type][i].is;
        if (pod->state == TFJOB_POD_FAILED
            && tfjob_outcome(&p->job, type, pod) == TFJOB_OUTCOME_REPLACE
            && !tfjob_completed(&p->status.memory[type], (size_t)i))
            return true;
    }
    return false;
}

/* A pod that was disrupted is replaced like one that was deleted: the state of the job stays what
 * it is. */
static void set_progress(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (restarts_now(p, (enum tfjob_type)type)) {
            cleanup_free char *message = xasprintf(
                "job %s is restarting because %s replica(s) failed.", p->job.name,
                tfjob_type_name((enum tfjob_type)type));
            pass_set_cond(p, TFJOB_RESTARTING, true, "Restarting", message);
            if (p->fresh_failures & (1U << type))
                pass_event(p, true, "TFJobRestarting", "%s", message);
            return;
        }
    if (running(p) && !still_restarting(p))
        set_running(p);
}

bool pass_evaluate(struct tfjob_pass *p)
{
    if (succeeded(p)) {
        cleanup_free char *message = xasprintf(
            "TFJob %s/%s successfully completed.", p->job.ns, p->job.name);
        pass_finish(p, true, message, false);
        return true;
    }
    if (failed(p) || past_limits(p))
        return true;
    set_progress(p);
    return false;
}
