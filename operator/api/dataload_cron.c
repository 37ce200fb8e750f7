/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a DataLoad with a schedule, from run to run. */
#include "operator/api/dataload.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"

const char *dataload_run(const json_t *cr) { return jget_str(cr, "status.lastScheduleTime", ""); }

int64_t dataload_last_due(const json_t *cr)
{
    int64_t ns = 0;
    if (clock_parse_rfc3339(dataload_run(cr), &ns))
        clock_parse_rfc3339(jget_str(cr, "metadata.creationTimestamp", ""), &ns);
    return ns;
}

static json_t *status_copy(const json_t *cr, int64_t next_ns, const json_t *conditions)
{
    json_t *o = jget_obj(cr, "status") ? json_deep_copy(jget_obj(cr, "status")) : json_object();
    char next[CLOCK_RFC3339_LEN];
    clock_rfc3339(next_ns, next);
    if (next_ns >= 0)
        json_object_set_new(o, "nextScheduleTime", json_string(next));
    else
        json_object_del(o, "nextScheduleTime");
    json_object_set_new(
        o, "observedGeneration", json_integer(jget_int(cr, "metadata.generation", 0)));
    json_object_set_new(o, "conditions", json_deep_copy(conditions));
    return o;
}

json_t *dataload_status_wait(
    const json_t *cr, int64_t next_ns, const char *phase, const json_t *conditions)
{
    json_t *o = status_copy(cr, next_ns, conditions);
    if (phase)
        json_object_set_new(o, "phase", json_string(phase));
    return o;
}

/* The run before, and those before it as far as they are kept. */
static json_t *history_of(const json_t *cr)
{
    static const char *const kept[] = {"lastScheduleTime", "startTime", "completionTime", "phase"};
    const json_t *was = jget_arr(cr, "status.history");
    json_t *out = json_array(), *run = json_object();
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (jget(jget_obj(cr, "status"), kept[i]))
            json_object_set(run, kept[i], (json_t *)jget(jget_obj(cr, "status"), kept[i]));
    json_object_set_new(run, "message",
        json_string(cond_message(jget_arr(cr, "status.conditions"), DATALOAD_COND_COMPLETE)));
    json_array_append_new(out, run);
    for (size_t i = 0; i < json_array_size(was) && i + 1 < DATALOAD_HISTORY_MAX; i++)
        json_array_append(out, json_array_get(was, i));
    return out;
}

json_t *dataload_status_begin(
    const json_t *cr, int64_t due_ns, int64_t next_ns, const json_t *conditions)
{
    static const char *const of_a_run[] = {
        "startTime", "completionTime", "duration", "progress", "failures"};
    json_t *o = status_copy(cr, next_ns, conditions);
    char due[CLOCK_RFC3339_LEN];
    clock_rfc3339(due_ns, due);
    if (*dataload_run(cr) && dataload_finished(cr))
        json_object_set_new(o, "history", history_of(cr));
    for (size_t i = 0; i < ARRAY_LEN(of_a_run); i++)
        json_object_del(o, of_a_run[i]);
    json_object_set_new(o, "lastScheduleTime", json_string(due));
    json_object_set_new(o, "phase", json_string(DATALOAD_PENDING));
    return o;
}
