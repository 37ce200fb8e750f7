/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a job that has not ended: indexes, counts, and whether it succeeds, fails or
 * restarts. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <stdio.h>
#include <string.h>

/* ---- what the status records ---- */

static void emit_exit(struct tfjob_pass *p, const struct tfjob_replica *r)
{
    if (r->is.has_exit_code)
        pass_event(p, false, "ExitedWithCode", "Pod: %s.%s exited with code %d",
            kube_namespace(r->pod), kube_name(r->pod), r->is.exit_code);
}

static void record_index(struct tfjob_pass *p, const struct tfjob_replica *r)
{
    struct tfjob_indexes *m = &p->status.indexes[r->type];
    struct tfjob_index is = {r->completed, r->restarts, r->disruptions};
    if (is.completed || is.restarts || is.disruptions || (size_t)r->index < m->n)
        *tfjob_index_at(m, (size_t)r->index) = is;
    if (r->newly_failed)
        emit_exit(p, r);
}

static void count_replica(struct tfjob_counts *c, const struct tfjob_replica *r)
{
    if (r->completed)
        c->succeeded++;
    else if (r->is.state == TFJOB_POD_RUNNING)
        c->active++;
    else if (r->is.state == TFJOB_POD_FAILED || r->outcome == TFJOB_OUTCOME_FAIL
        || r->outcome == TFJOB_OUTCOME_TOLERATE)
        c->failed++;
}

void pass_record(struct tfjob_pass *p)
{
    for (int t = 0; t < TFJOB_TYPES; t++)
        p->status.counts[t] = (struct tfjob_counts){.present = p->job->spec[t].present};
    tfjob_each (r, p->replicas) {
        record_index(p, r);
        count_replica(&p->status.counts[r->type], r);
    }
}

/* ---- success ---- */

/* Worker-0 has completed: its pod says so with exit code 0, or is gone. */
static bool worker0_done(const struct tfjob_pass *p)
{
    const struct tfjob_replica *r = &p->replicas->v[p->replicas->first[TFJOB_WORKER]];
    return p->job->spec[TFJOB_WORKER].replicas > 0 && r->completed
        && (r->is.state != TFJOB_POD_SUCCEEDED || (r->is.has_exit_code && r->is.exit_code == 0));
}

static bool all_done(const struct tfjob_pass *p, enum tfjob_type type)
{
    return p->status.counts[type].succeeded == p->job->spec[type].replicas;
}

static bool has_succeeded(const struct tfjob_pass *p)
{
    const struct tfjob_replica_spec *r = p->job->spec;
    if (tfjob_has_chief(p->job))
        return all_done(p, TFJOB_CHIEF) && all_done(p, TFJOB_MASTER);
    if (r[TFJOB_WORKER].present)
        return all_done(p, TFJOB_WORKER) || (!p->job->all_workers && worker0_done(p));
    /* upstream: a job of PS or evaluators only never ends */
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (!all_done(p, (enum tfjob_type)type))
            return false;
    return true;
}

/* Those whose running is the job's running. */
static bool is_running(const struct tfjob_pass *p)
{
    const struct tfjob_counts *c = p->status.counts;
    if (tfjob_has_chief(p->job))
        return c[TFJOB_CHIEF].active + c[TFJOB_MASTER].active > 0;
    if (p->job->spec[TFJOB_WORKER].present)
        return c[TFJOB_WORKER].active > 0;
    return c[TFJOB_PS].active + c[TFJOB_EVALUATOR].active > 0;
}

/* ---- failure ---- */

static int count_outcome(const struct tfjob_pass *p, enum tfjob_type type,
    enum tfjob_outcome outcome, const struct tfjob_replica **first)
{
    int n = 0;
    tfjob_each_of (r, p->replicas, type)
        if (r->outcome == outcome && !n++)
            *first = r;
    return n;
}

static void set_running(struct tfjob_pass *p)
{
    cleanup_free char *message = xasprintf("TFJob %s/%s is running.", p->job->ns, p->job->name);
    pass_set_cond(p, TFJOB_RUNNING, true, "Running", message);
}

/* What the pod's own words do not say; "" if nothing. Caller frees. */
static char *why_lost(const struct tfjob_pass *p, const struct tfjob_replica *r)
{
    if (r->rule >= 0)
        return xasprintf(": spec.runPolicy.podFailurePolicy.rules[%d] says %s", r->rule,
            tfjob_action_name(p->job->rules[r->rule].action));
    if (r->is.state != TFJOB_POD_DISRUPTED)
        return xstrdup("");
    return xasprintf(
        ": ended from outside %d times in a row, so it is not replaced any more", r->disruptions);
}

static void fail_replicas(
    struct tfjob_pass *p, enum tfjob_type type, int n, const struct tfjob_replica *first)
{
    if (is_running(p))
        set_running(p); /* it was, when the replica failed: the end turns it to False */
    const char *name = tfjob_type_name(type);
    bool by_code = p->job->spec[type].restart == TFJOB_RESTART_EXIT_CODE;
    cleanup_free char *what = by_code
        ? xasprintf("job \"%s\" is failing because \"%s\" replica(s) failed.", p->job->name, name)
        : xasprintf("TFJob %s/%s has failed because %d %s replica(s) failed.", p->job->ns,
            p->job->name, n, name);
    cleanup_free char *summary = tfjob_pod_summary(first->pod);
    cleanup_free char *why = why_lost(p, first);
    cleanup_free char *message = xasprintf("%s %s%s", what, summary, why);
    emit_exit(p, first);
    pass_finish(p, false, message, true);
}

/* The replicas of that type bring the job to its end. */
static bool type_decides(const struct tfjob *j, enum tfjob_type type)
{
    if (tfjob_has_chief(j))
        return type == TFJOB_CHIEF || type == TFJOB_MASTER;
    return type == TFJOB_WORKER || !j->spec[TFJOB_WORKER].present;
}

/* A replica that failed for good may be tolerated (a worker of a dynamic job, FailIndex), until
 * none of its type is left that could still bring the job to its end. Returns how many there are.
 */
static int lost_for_good(
    const struct tfjob_pass *p, enum tfjob_type type, const struct tfjob_replica **first)
{
    int lost = count_outcome(p, type, TFJOB_OUTCOME_TOLERATE, first);
    bool none_left = lost + p->status.counts[type].succeeded == p->job->spec[type].replicas;
    return type_decides(p->job, type) && none_left ? lost : 0;
}

static bool evaluate_failure(struct tfjob_pass *p)
{
    const struct tfjob_replica *first = NULL;
    for (int type = 0; type < TFJOB_TYPES; type++) {
        int n = count_outcome(p, (enum tfjob_type)type, TFJOB_OUTCOME_FAIL, &first);
        if (n) {
            fail_replicas(p, (enum tfjob_type)type, n, first);
            return true;
        }
    }
    for (int type = 0; type < TFJOB_TYPES; type++) {
        int n = lost_for_good(p, (enum tfjob_type)type, &first);
        if (n) {
            fail_replicas(p, (enum tfjob_type)type, n, first);
            return true;
        }
    }
    return false;
}

/* Restarts of the whole job, wherever they happened; as upstream, a limit of 0 allows no fewer than
 * a limit of 1. */
static bool past_backoff_limit(const struct tfjob_pass *p)
{
    int64_t sum = 0;
    tfjob_each (r, p->replicas)
        sum += r->restarts;
    return p->job->backoff_limit >= 0 && sum >= MAX(p->job->backoff_limit, 1);
}

static bool past_limits(struct tfjob_pass *p)
{
    cleanup_free char *message = NULL;
    int64_t deadline_ns = tfjob_later(p->status.start_ns, p->job->deadline_s);
    if (past_backoff_limit(p))
        message = xasprintf(
            "Job %s has failed because it has reached the specified backoff limit", p->job->name);
    else if (p->job->deadline_s >= 0 && p->o->now_ns >= deadline_ns)
        message = xasprintf(
            "Job %s has failed because it was active longer than specified deadline", p->job->name);
    else if (p->job->deadline_s >= 0)
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
    tfjob_each (r, p->replicas)
        if (r->restarts && !r->completed && r->is.state != TFJOB_POD_RUNNING
            && r->is.state != TFJOB_POD_FAILED)
            return true;
    return false;
}

/* Is a pod of that type replaced because it failed? One that was disrupted is replaced like one
 * that was deleted: the state of the job stays what it is. *newly: one of them was not counted yet.
 */
static bool restarts_failed(const struct tfjob_pass *p, enum tfjob_type type, bool *newly)
{
    bool restarts = false;
    *newly = false;
    tfjob_each_of (r, p->replicas, type) {
        restarts |= r->outcome == TFJOB_OUTCOME_REPLACE && !r->ignored;
        *newly |= r->newly_failed;
    }
    return restarts;
}

static void set_progress(struct tfjob_pass *p)
{
    for (int type = 0; type < TFJOB_TYPES; type++) {
        bool newly;
        if (!restarts_failed(p, (enum tfjob_type)type, &newly))
            continue;
        cleanup_free char *message = xasprintf("job %s is restarting because %s replica(s) failed.",
            p->job->name, tfjob_type_name((enum tfjob_type)type));
        pass_set_cond(p, TFJOB_RESTARTING, true, "Restarting", message);
        if (newly)
            pass_event(p, true, "TFJobRestarting", "%s", message);
        return;
    }
    if (is_running(p) && !still_restarting(p))
        set_running(p);
}

bool pass_evaluate(struct tfjob_pass *p)
{
    if (has_succeeded(p)) {
        cleanup_free char *message = xasprintf(
            "TFJob %s/%s successfully completed.", p->job->ns, p->job->name);
        pass_finish(p, true, message, false);
        return true;
    }
    if (evaluate_failure(p) || past_limits(p))
        return true;
    set_progress(p);
    return false;
}
