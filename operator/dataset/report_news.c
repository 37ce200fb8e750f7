/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/report_news.h"

#include "lib/base/mem.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"

#include <stdbool.h>
#include <string.h>

/* How a field changes: rarely and for a reason; with each byte that is read; or so, but that there
 * is any of it at all is for a reason. */
enum change { CHANGE_REAL, CHANGE_COUNT, CHANGE_FIRST };

static const struct {
    const char *path;
    enum change change;
} fields[] = {
    {REPORT_READY, CHANGE_REAL},
    {REPORT_REASON, CHANGE_REAL},
    {REPORT_MESSAGE, CHANGE_REAL},
    {REPORT_MOUNTS, CHANGE_REAL},
    {REPORT_STARTED, CHANGE_REAL},
    {REPORT_UNREACHABLE, CHANGE_FIRST}, /* it names milliseconds */
    {REPORT_SILENT_SINCE, CHANGE_FIRST},
    {REPORT_CACHE_USED, CHANGE_COUNT},
    {REPORT_CACHE_CAPACITY, CHANGE_COUNT},
    {REPORT_CACHE_PINNED, CHANGE_FIRST},
    {REPORT_READS_CACHE, CHANGE_COUNT},
    {REPORT_READS_WORKER, CHANGE_COUNT},
    {REPORT_READS_STORE, CHANGE_COUNT},
    {REPORT_WRITES_BYTES, CHANGE_COUNT},
    {REPORT_WRITES_PENDING, CHANGE_COUNT},
    {REPORT_INVENTORY_BYTES, CHANGE_COUNT},
    {REPORT_INVENTORY_FILES, CHANGE_COUNT},
    {REPORT_INVENTORY_COMPLETE, CHANGE_REAL},
    {REPORT_EVICTED_LOADED, CHANGE_REAL},
    {REPORT_LOAD_FILES, CHANGE_COUNT},
    {REPORT_LOAD_BYTES, CHANGE_COUNT},
    {REPORT_LOAD_DONE_FILES, CHANGE_COUNT},
    {REPORT_LOAD_DONE_BYTES, CHANGE_COUNT},
    {REPORT_LOAD_FAILED, CHANGE_FIRST},
    {REPORT_LOAD_VERIFYING, CHANGE_REAL},
    {REPORT_LOAD_COMPLETE, CHANGE_REAL},
    {REPORT_LOAD_COUNTED, CHANGE_REAL},
    {REPORT_LOAD_MISSING, CHANGE_FIRST},
    {REPORT_FAILURES, CHANGE_FIRST},
    {REPORT_LOAD_REASON, CHANGE_REAL},
    {REPORT_LOAD_MESSAGE, CHANGE_REAL},
    {REPORT_LOAD_WORKERS, CHANGE_REAL},
    {REPORT_LOAD_EVICTED, CHANGE_REAL},
    {REPORT_PROFILE, CHANGE_REAL},
    {REPORT_KERNEL_RELEASE, CHANGE_REAL},
    {REPORT_KERNEL_PASSTHROUGH, CHANGE_REAL},
    {REPORT_KERNEL_RESEND, CHANGE_REAL},
    {REPORT_KERNEL_REFUSED, CHANGE_REAL},
    {REPORT_KEPT_FILES, CHANGE_REAL},
    {REPORT_KEPT_BYTES, CHANGE_REAL},
    {REPORT_KEPT_PATHS, CHANGE_REAL},
    {REPORT_LOST_AT, CHANGE_REAL},
    {REPORT_LOST_WHY, CHANGE_REAL},
};

/* path: "key", or "group.key" */
static void set_at(json_t *to, const char *path, const json_t *value)
{
    const char *dot = strchr(path, '.');
    if (dot) {
        cleanup_free char *name = xasprintf("%.*s", (int)(dot - path), path);
        json_t *group = json_object_get(to, name);
        if (!group)
            json_object_set_new(to, name, group = json_object());
        to = group;
        path = dot + 1;
    }
    json_object_set_new(to, path, json_deep_copy(value));
}

json_t *report_kept(const json_t *report)
{
    json_t *kept = json_object();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const json_t *value = jget(report, fields[i].path);
        if (value)
            set_at(kept, fields[i].path, value);
    }
    return kept;
}

static bool is_any(const json_t *value)
{
    return value && !(json_is_integer(value) && json_integer_value(value) == 0);
}

enum report_news report_compare(const json_t *was, const json_t *now)
{
    enum report_news news = was ? REPORT_NEWS_NONE : REPORT_NEWS_REAL;
    for (size_t i = 0; i < ARRAY_LEN(fields) && news != REPORT_NEWS_REAL; i++) {
        const json_t *a = jget(was, fields[i].path), *b = jget(now, fields[i].path);
        if (a == b || (a && b && json_equal(a, b)))
            continue;
        bool real = fields[i].change == CHANGE_REAL
            || (fields[i].change == CHANGE_FIRST && is_any(a) != is_any(b));
        news = real ? REPORT_NEWS_REAL : REPORT_NEWS_COUNTS;
    }
    return news;
}
