/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

static void tell_exit(struct tfjob_turn *t, const struct tfjob_slot *s)
{
    if (s->is.has_exit_code)
        turn_event(t, false, "ExitedWithCode", "Pod: %s.%s exited with code %d",
            kube_namespace(s->pod), kube_name(s->pod), s->is.exit_code);
}

/* What a pod has lived through is written down as a maximum: restarts of the pods before it (its
 * annotation), those of its containers, and its own end. So it makes no difference how often, or
 * after which crash of ours, it is counted. */
static void remember_slot(struct tfjob_turn *t, enum tfjob_type type, size_t i)
{
    const struct tfjob_slot *s = &t->view.slot[type][i];
    struct tfjob_memory *m = &t->status.memory[type];
    if (s->is.state == TFJOB_POD_NONE || s->is.state == TFJOB_POD_FOREIGN)
        return;
    if (s->is.state == TFJOB_POD_SUCCEEDED && !tfjob_completed(m, i))
        tfjob_memory_at(m, i)->completed = true;
    if (t->job.replica[type].restart == TFJOB_RESTART_NEVER)
        return;
    bool failed = s->is.state == TFJOB_POD_FAILED
        && turn_fate(&t->job, type, &s->is) == FATE_REPLACE;
    int lived = s->is.restarts_before + s->is.container_restarts + failed;
    if (lived <= tfjob_restarts(m, i))
        return;
    tfjob_memory_at(m, i)->restarts = lived;
    if (failed) {
        t->fresh_failures |= 1U << type;
        tell_exit(t, s);
    }
}

static void count_slot(struct tfjob_turn *t, enum tfjob_type type, size_t i)
{
    struct tfjob_counts *c = &t->status.counts[type];
    enum tfjob_pod_state state = t->view.slot[type][i].is.state;
    if (tfjob_completed(&t->status.memory[type], i))
        c->succeeded++;
    else if (state == TFJOB_POD_RUNNING)
        c->active++;
    else if (state == TFJOB_POD_FAILED)
        c->failed++;
}

void turn_remember(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++) {
        const struct tfjob_replica *r = &t->job.replica[type];
        t->status.counts[type] = (struct tfjob_counts){.present = r->present};
        for (int i = 0; i < r->replicas; i++) {
            remember_slot(t, (enum tfjob_type)type, (size_t)i);
            count_slot(t, (enum tfjob_type)type, (size_t)i);
        }
    }
}

/* ---- success ---- */

/* Worker-0 has finished: its pod says so with exit code 0, or it is gone and we remember. */
static bool worker0_done(const struct tfjob_turn *t)
{
    if (t->job.replica[TFJOB_WORKER].replicas == 0
        || !tfjob_completed(&t->status.memory[TFJOB_WORKER], 0))
        return false;
    const struct tfjob_pod *pod = &t->view.slot[TFJOB_WORKER][0].is;
    return pod->state != TFJOB_POD_SUCCEEDED || (pod->has_exit_code && pod->exit_code == 0);
}

static bool all_done(const struct tfjob_turn *t, enum tfjob_type type)
{
    return t->status.counts[type].succeeded == t->job.replica[type].replicas;
}

static bool succeeded(const struct tfjob_turn *t)
{
    const struct tfjob_replica *r = t->job.replica;
    if (tfjob_has_chief(&t->job))
        return all_done(t, TFJOB_CHIEF) && all_done(t, TFJOB_MASTER);
    if (r[TFJOB_WORKER].present)
        return all_done(t, TFJOB_WORKER) || (!t->job.all_workers && worker0_done(t));
    /* upstream: a job of PS or evaluators only never ends */
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (!all_done(t, (enum tfjob_type)type))
            return false;
    return true;
}

/* Those whose running is the job's running. */
static bool running(const struct tfjob_turn *t)
{
    const struct tfjob_counts *c = t->status.counts;
    if (tfjob_has_chief(&t->job))
        return c[TFJOB_CHIEF].active + c[TFJOB_MASTER].active > 0;
    if (t->job.replica[TFJOB_WORKER].present)
        return c[TFJOB_WORKER].active > 0;
    return c[TFJOB_PS].active + c[TFJOB_EVALUATOR].active > 0;
}

/* ---- failure ---- */

static int count_fate(const struct tfjob_turn *t, enum tfjob_type type, enum turn_fate fate,
    const struct tfjob_slot **first)
{
    int n = 0;
    for (int i = 0; i < t->job.replica[type].replicas; i++) {
        const struct tfjob_slot *s = &t->view.slot[type][i];
        if (tfjob_completed(&t->status.memory[type], (size_t)i)
            || turn_fate(&t->job, type, &s->is) != fate)
            continue;
        if (!n++)
            *first = s;
    }
    return n;
}

static void set_running(struct tfjob_turn *t)
{
    cleanup_free char *message = xasprintf("TFJob %s/%s is running.", t->job.ns, t->job.name);
    turn_cond(t, TFJOB_RUNNING, true, "Running", message);
}

static void fail_replicas(
    struct tfjob_turn *t, enum tfjob_type type, int n, const struct tfjob_slot *first)
{
    if (running(t))
        set_running(t); /* it was, when the replica failed: the end turns it to False */
    const char *name = tfjob_type_name(type);
    bool by_code = t->job.replica[type].restart == TFJOB_RESTART_EXIT_CODE;
    cleanup_free char *what = by_code
        ? xasprintf("job \"%s\" is failing because \"%s\" replica(s) failed.", t->job.name, name)
        : xasprintf("TFJob %s/%s has failed because %d %s replica(s) failed.", t->job.ns,
            t->job.name, n, name);
    cleanup_free char *story = tfjob_pod_story(first->pod);
    cleanup_free char *message = xasprintf("%s %s", what, story);
    tell_exit(t, first);
    turn_finish(t, false, message, true);
}

/* A worker that failed for good is tolerated in a dynamic job, until none is left that could still
 * bring the job to its end. */
static bool dynamic_workers_lost(const struct tfjob_turn *t, const struct tfjob_slot **first)
{
    if (tfjob_has_chief(&t->job))
        return false;
    int lost = count_fate(t, TFJOB_WORKER, FATE_TOLERATE, first);
    return lost > 0
        && lost + t->status.counts[TFJOB_WORKER].succeeded == t->job.replica[TFJOB_WORKER].replicas;
}

static bool failed(struct tfjob_turn *t)
{
    const struct tfjob_slot *first = NULL;
    for (int type = 0; type < TFJOB_TYPES; type++) {
        int n = count_fate(t, (enum tfjob_type)type, FATE_FAIL, &first);
        if (n) {
            fail_replicas(t, (enum tfjob_type)type, n, first);
            return true;
        }
    }
    if (dynamic_workers_lost(t, &first)) {
        fail_replicas(t, TFJOB_WORKER, t->status.counts[TFJOB_WORKER].failed, first);
        return true;
    }
    return false;
}

/* Restarts of the whole job, wherever they happened; as upstream, a limit of 0 allows no fewer than
 * a limit of 1. */
static bool past_backoff_limit(const struct tfjob_turn *t)
{
    int64_t sum = 0;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++)
            sum += tfjob_restarts(&t->status.memory[type], (size_t)i);
    return t->job.backoff_limit >= 0 && sum >= MAX(t->job.backoff_limit, 1);
}

static bool past_limits(struct tfjob_turn *t)
{
    cleanup_free char *message = NULL;
    int64_t deadline_ns = tfjob_later(t->status.start_ns, t->job.deadline_s);
    if (past_backoff_limit(t))
        message = xasprintf(
            "Job %s has failed because it has reached the specified backoff limit", t->job.name);
    else if (t->job.deadline_s >= 0 && t->o->now_ns >= deadline_ns)
        message = xasprintf(
            "Job %s has failed because it was active longer than specified deadline", t->job.name);
    else if (t->job.deadline_s >= 0)
        plan_requeue(&t->events, deadline_ns - t->o->now_ns);
    if (!message)
        return false;
    turn_finish(t, false, message, true);
    return true;
}

/* ---- conditions ---- */

/* A restart is under way while an index that failed once has no running pod. */
static bool still_restarting(const struct tfjob_turn *t)
{
    if (!cond_is_true(t->status.conditions, TFJOB_RESTARTING))
        return false;
    for (int type = 0; type < TFJOB_TYPES; type++)
        for (int i = 0; i < t->job.replica[type].replicas; i++) {
            enum tfjob_pod_state state = t->view.slot[type][i].is.state;
            if (tfjob_restarts(&t->status.memory[type], (size_t)i)
                && !tfjob_completed(&t->status.memory[type], (size_t)i)
                && state != TFJOB_POD_RUNNING && state != TFJOB_POD_FAILED)
                return true;
        }
    return false;
}

static bool restarts_now(const struct tfjob_turn *t, enum tfjob_type type)
{
    for (int i = 0; i < t->job.replica[type].replicas; i++) {
        const struct tfjob_pod *pod = &t->view.slot[type][i].is;
        if (pod->state == TFJOB_POD_FAILED && turn_fate(&t->job, type, pod) == FATE_REPLACE
            && !tfjob_completed(&t->status.memory[type], (size_t)i))
            return true;
    }
    return false;
}

/* A pod that was disrupted is replaced like one that was deleted: the state of the job stays what
 * it is. */
static void set_progress(struct tfjob_turn *t)
{
    for (int type = 0; type < TFJOB_TYPES; type++)
        if (restarts_now(t, (enum tfjob_type)type)) {
            cleanup_free char *message = xasprintf(
                "job %s is restarting because %s replica(s) failed.", t->job.name,
                tfjob_type_name((enum tfjob_type)type));
            turn_cond(t, TFJOB_RESTARTING, true, "Restarting", message);
            if (t->fresh_failures & (1U << type))
                turn_event(t, true, "TFJobRestarting", "%s", message);
            return;
        }
    if (running(t) && !still_restarting(t))
        set_running(t);
}

bool turn_decide(struct tfjob_turn *t)
{
    if (succeeded(t)) {
        cleanup_free char *message = xasprintf(
            "TFJob %s/%s successfully completed.", t->job.ns, t->job.name);
        turn_finish(t, true, message, false);
        return true;
    }
    if (failed(t) || past_limits(t))
        return true;
    set_progress(t);
    return false;
}
