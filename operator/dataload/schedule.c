/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataload/schedule.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"

#include <stdio.h>
#include <string.h>

static void say_scheduled(
    const struct dataload_observed *o, json_t *conditions, const char *reason, const char *message)
{
    static const char *const types[] = {DATALOAD_COND_COMPLETE, DATALOAD_COND_READY};
    int64_t generation = jget_int(o->cr, "metadata.generation", 0);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const struct cond c = {types[i], COND_FALSE, reason, message};
        cond_set(conditions, &c, generation, o->now_ns);
    }
    cond_remove(conditions, DATALOAD_COND_FAILED);
    cond_set_progress(conditions, COND_RECONCILING, reason, message, generation, o->now_ns);
}

static void plan_rest(const struct dataload_observed *o, int64_t next_ns, struct plan *p)
{
    cleanup_json json_t *conditions = cond_copy(jget_obj(o->cr, "status"));
    char next[CLOCK_RFC3339_LEN], message[120];
    clock_rfc3339(next_ns, next);
    snprintf(message, sizeof message, "the first load is due at %s", next);
    bool first = !*dataload_run(o->cr)
        || strcmp(cond_reason(conditions, DATALOAD_COND_COMPLETE), "InvalidSpec") == 0;
    if (first)
        say_scheduled(
            o, conditions, "Scheduled", *dataload_run(o->cr) ? "the schedule is mended" : message);
    plan_status(p, &kube_dataloads, o->cr,
        dataload_status_wait(o->cr, next_ns, first ? DATALOAD_PENDING : NULL, conditions));
    plan_requeue(p, next_ns - o->now_ns);
}

static bool is_between_runs(const struct dataload_observed *o, const struct dataload *l)
{
    return l->schedule && (!*dataload_run(o->cr) || dataload_finished(o->cr));
}

static bool schedule_is_due(const struct dataload_observed *o, const struct dataload *l)
{
    return cron_last(&l->cron, o->now_ns) > dataload_last_due(o->cr);
}

bool schedule_rests(const struct dataload_observed *o, const struct dataload *l, struct plan *p)
{
    if (!is_between_runs(o, l) || schedule_is_due(o, l))
        return false;
    plan_rest(o, cron_next(&l->cron, o->now_ns), p);
    return true;
}

json_t *schedule_begin(const struct dataload_observed *o, const struct dataload *l)
{
    if (!is_between_runs(o, l) || !schedule_is_due(o, l))
        return NULL;
    cleanup_json json_t *conditions = cond_copy(jget_obj(o->cr, "status"));
    cond_remove(conditions, DATALOAD_COND_FAILED);
    json_t *cr = json_deep_copy(o->cr);
    json_object_set_new(cr, "status",
        dataload_status_begin(
            o->cr, cron_last(&l->cron, o->now_ns), cron_next(&l->cron, o->now_ns), conditions));
    return cr;
}
