/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataload/schedule.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"

#include <stdio.h>
#include <string.h>

/* Nothing was due while it was so. */
static bool was_off(const struct dataload_observed *o)
{
    const char *reason = cond_reason(jget_arr(o->cr, "status.conditions"), DATALOAD_COND_COMPLETE);
    return strcmp(reason, "InvalidSpec") == 0 || strcmp(reason, "Suspended") == 0;
}

/* When the next run is due: what the status promised, as far as the schedule still says so and no
 * clock that was wrong for a while promised it; else, as after a suspension, counted from now. */
static int64_t schedule_due(const struct dataload_observed *o, const struct dataload *l)
{
    int64_t next_ns = cron_next(&l->cron, o->now_ns), said_ns = 0;
    if (was_off(o))
        return next_ns;
    if (clock_parse_rfc3339(jget_str(o->cr, "status.nextScheduleTime", ""), &said_ns))
        said_ns = *dataload_run(o->cr) ? next_ns : cron_next(&l->cron, dataload_last_due(o->cr));
    return said_ns < next_ns && cron_last(&l->cron, said_ns) == said_ns ? said_ns : next_ns;
}

static bool is_between_runs(const struct dataload_observed *o, const struct dataload *l)
{
    return l->schedule
        && (!*dataload_run(o->cr) || dataload_finished(o->cr)
            || strcmp(dataload_phase(o->cr), DATALOAD_SCHEDULED) == 0);
}

/* Complete or Failed is about the run before, as long as there is one. Ready: it has what it needs,
 * and waits for its time. */
static void say_resting(const struct dataload_observed *o, json_t *conditions, const char *reason,
    const char *message, bool problem)
{
    const struct cond said[] = {{DATALOAD_COND_COMPLETE, COND_FALSE, reason, message},
        {DATALOAD_COND_READY, problem ? COND_FALSE : COND_TRUE, reason, message}};
    int64_t generation = jget_int(o->cr, "metadata.generation", 0);
    for (size_t i = 0; i < ARRAY_LEN(said); i++)
        cond_set(conditions, &said[i], generation, o->now_ns);
    cond_remove(conditions, DATALOAD_COND_FAILED);
    cond_set_progress(
        conditions, problem ? COND_STALLED : COND_SETTLED, reason, message, generation, o->now_ns);
}

static bool tells_of_no_run(const struct dataload_observed *o)
{
    return !*dataload_run(o->cr) || !dataload_finished(o->cr) || was_off(o);
}

static void plan_suspended(const struct dataload_observed *o, struct plan *p)
{
    cleanup_json json_t *conditions = cond_copy(jget_obj(o->cr, "status"));
    bool anew = tells_of_no_run(o);
    const char *message = "no load begins by the schedule: spec.suspend is true";
    if (anew)
        say_resting(o, conditions, "Suspended", message, false);
    plan_status(p, &kube_dataloads, o->cr,
        dataload_status_wait(o->cr, -1, anew ? DATALOAD_SCHEDULED : NULL, conditions));
}

bool schedule_rests(const struct dataload_observed *o, const struct dataload *l,
    const struct cond *problem, struct plan *p)
{
    if (!is_between_runs(o, l))
        return false;
    if (l->suspend) {
        plan_suspended(o, p);
        return true;
    }
    int64_t next_ns = schedule_due(o, l);
    if (next_ns <= o->now_ns)
        return false;
    cleanup_json json_t *conditions = cond_copy(jget_obj(o->cr, "status"));
    char next[CLOCK_RFC3339_LEN], message[700];
    clock_rfc3339(next_ns, next);
    bool anew = tells_of_no_run(o);
    snprintf(message, sizeof message, "%s%sthe %s load is due at %s",
        problem ? problem->message : "", problem ? "; " : "",
        *dataload_run(o->cr) ? "next" : "first", next);
    const char *reason = problem ? problem->reason : "Scheduled";
    if (anew && problem && strcmp(cond_reason(conditions, DATALOAD_COND_COMPLETE), reason) != 0)
        plan_event(p, &kube_dataloads, o->cr, true, reason, "%s", message);
    if (anew)
        say_resting(o, conditions, reason, message, problem != NULL);
    plan_status(p, &kube_dataloads, o->cr,
        dataload_status_wait(o->cr, next_ns, anew ? DATALOAD_SCHEDULED : NULL, conditions));
    plan_requeue(p, next_ns - o->now_ns);
    return true;
}

json_t *schedule_begin(const struct dataload_observed *o, const struct dataload *l)
{
    if (!is_between_runs(o, l) || l->suspend || schedule_due(o, l) > o->now_ns)
        return NULL;
    cleanup_json json_t *conditions = cond_copy(jget_obj(o->cr, "status"));
    cond_remove(conditions, DATALOAD_COND_FAILED);
    json_t *cr = json_deep_copy(o->cr);
    json_object_set_new(cr, "status",
        dataload_status_begin(
            o->cr, cron_last(&l->cron, o->now_ns), cron_next(&l->cron, o->now_ns), conditions));
    return cr;
}
