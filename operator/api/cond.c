/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/cond.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/json/jget.h"

#include <stdint.h>
#include <string.h>

const char *cond_status_name(enum cond_status s)
{
    switch (s) {
    case COND_FALSE:
        return "False";
    case COND_TRUE:
        return "True";
    case COND_UNKNOWN:
        return "Unknown";
    }
    return "Unknown";
}

static const char *text(const json_t *cond, const char *key)
{
    const char *v = json_string_value(json_object_get(cond, key));
    return v ? v : "";
}

static size_t find_at(const json_t *conditions, const char *type)
{
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (!strcmp(text(json_array_get(conditions, i), "type"), type))
            return i;
    return SIZE_MAX;
}

const json_t *cond_find(const json_t *conditions, const char *type)
{
    return json_array_get(conditions, find_at(conditions, type));
}

bool cond_is_true(const json_t *conditions, const char *type)
{
    return !strcmp(text(cond_find(conditions, type), "status"), "True");
}

const char *cond_reason(const json_t *conditions, const char *type)
{
    return text(cond_find(conditions, type), "reason");
}
const char *cond_message(const json_t *conditions, const char *type)
{
    return text(cond_find(conditions, type), "message");
}

bool cond_unseen(const json_t *conditions)
{
    return json_array_size(conditions) == 0
        || strcmp(text(json_array_get(conditions, 0), "reason"), COND_UNSEEN) == 0;
}

json_t *cond_copy(const json_t *status)
{
    const json_t *conditions = jget_arr(status, "conditions");
    return conditions ? json_deep_copy(conditions) : json_array();
}

bool cond_remove(json_t *conditions, const char *type)
{
    size_t i = find_at(conditions, type);
    return i != SIZE_MAX && json_array_remove(conditions, i) == 0;
}

/* Others' words, log lines too, get into conditions: what is not UTF-8 is shown as such. */
static void set_text(json_t *cond, const char *key, const char *value)
{
    cleanup_free char *legible = text_legible(value, strlen(value), SIZE_MAX);
    json_object_set_new(cond, key, json_string(legible));
}

static bool says(const json_t *cond, const char *message)
{
    cleanup_free char *legible = text_legible(message, strlen(message), SIZE_MAX);
    return !strcmp(text(cond, "message"), legible);
}

static json_t *cond_new(const struct cond *c)
{
    json_t *cond = json_object();
    set_text(cond, "type", c->type);
    set_text(cond, "status", cond_status_name(c->status));
    set_text(cond, "reason", c->reason);
    set_text(cond, "message", c->message);
    return cond;
}

bool cond_set(json_t *conditions, const struct cond *c, int64_t generation, int64_t now_ns)
{
    size_t at = find_at(conditions, c->type);
    const json_t *was = json_array_get(conditions, at);
    bool same_status = was && !strcmp(text(was, "status"), cond_status_name(c->status));
    if (same_status && !strcmp(text(was, "reason"), c->reason) && says(was, c->message)
        && jget_int(was, "observedGeneration", 0) == generation)
        return false;

    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(now_ns, now);
    json_t *cond = cond_new(c);
    set_text(cond, "lastTransitionTime",
        same_status && *text(was, "lastTransitionTime") ? text(was, "lastTransitionTime") : now);
    json_object_set_new(cond, "observedGeneration", json_integer(generation));
    if (was)
        json_array_set_new(conditions, at, cond);
    else
        json_array_append_new(conditions, cond);
    return true;
}

bool cond_set_progress(json_t *conditions, enum cond_progress progress, const char *reason,
    const char *message, int64_t generation, int64_t now_ns)
{
    static const char *const types[] = {
        [COND_RECONCILING] = "Reconciling", [COND_STALLED] = "Stalled"};
    bool changed = false;
    for (int i = COND_RECONCILING; i <= COND_STALLED; i++)
        if (i != (int)progress)
            changed |= cond_remove(conditions, types[i]);
    if (progress == COND_SETTLED)
        return changed;
    const struct cond c = {types[progress], COND_TRUE, reason, message};
    return cond_set(conditions, &c, generation, now_ns) || changed;
}

/* Two types that never stand side by side. */
static const char *job_opposite(const char *type)
{
    if (!strcmp(type, "Running"))
        return "Restarting";
    return strcmp(type, "Restarting") ? NULL : "Running";
}

static void end_true(json_t *conditions, const char *type, const char *now)
{
    json_t *cond = json_array_get(conditions, find_at(conditions, type));
    if (!cond || strcmp(text(cond, "status"), "True"))
        return;
    set_text(cond, "status", "False");
    set_text(cond, "lastUpdateTime", now);
    set_text(cond, "lastTransitionTime", now);
}

bool cond_set_job(json_t *conditions, const struct cond *c, int64_t now_ns)
{
    if (cond_is_true(conditions, "Failed"))
        return false;
    size_t at = find_at(conditions, c->type);
    const json_t *was = json_array_get(conditions, at);
    bool same_status = was && !strcmp(text(was, "status"), cond_status_name(c->status));
    if (same_status && !strcmp(text(was, "reason"), c->reason))
        return false;

    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(now_ns, now);
    json_t *cond = cond_new(c);
    set_text(cond, "lastUpdateTime", now);
    set_text(cond, "lastTransitionTime",
        same_status && *text(was, "lastTransitionTime") ? text(was, "lastTransitionTime") : now);
    if (was)
        json_array_remove(conditions, at);
    if (c->status == COND_TRUE) {
        const char *opposite = job_opposite(c->type);
        if (opposite)
            cond_remove(conditions, opposite);
        if (!strcmp(c->type, "Failed") || !strcmp(c->type, "Succeeded")) {
            end_true(conditions, "Running", now);
            end_true(conditions, "Restarting", now);
        }
    }
    json_array_append_new(conditions, cond);
    return true;
}

bool cond_set_job_message(json_t *conditions, const struct cond *c, int64_t now_ns)
{
    if (!says(cond_find(conditions, c->type), c->message))
        cond_remove(conditions, c->type);
    return cond_set_job(conditions, c, now_ns);
}
