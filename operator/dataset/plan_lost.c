/* SPDX-License-Identifier: Apache-2.0 */
/* Problems that only pods tell of: a mount that died on a node and was made again, whose pods must
 * be restarted, and nothing else tells their owners; a disk that is full. An operator that has just
 * begun has heard nothing yet: what its predecessor wrote stays so long. */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/api/dataset.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_S 3600

/* When the client says that its mount was lost; 0: it was not, or long ago. */
static int64_t lost_at(const struct dataset_observed *o, const struct cache_pod *m)
{
    int64_t at = jget_int(m->report, REPORT_LOST_AT, 0), now = o->now_ns / NS_PER_S;
    return cache_pod_is(m->pod, COMPONENT_CLIENT) && at > now - SHOWN_S && at <= now ? at : 0;
}

bool dataset_unheard(const struct dataset_observed *o)
{
    for (size_t i = 0; i < o->npods; i++) {
        const json_t *pod = o->pods[i].pod;
        if (!o->pods[i].report && !kube_deleting(pod) && !cache_pod_is(pod, COMPONENT_LOADER)
            && cond_is_true(jget_arr(pod, "status.conditions"), "Ready"))
            return true;
    }
    return false;
}

/* The message that the condition has, if it is of that reason, and nobody has said otherwise yet.
 */
static bool still_said(const struct dataset_observed *o, const char *type, const char *reason,
    char *message, size_t size)
{
    const json_t *was = cond_find(jget_arr(o->cr, "status.conditions"), type);
    if (strcmp(jget_str(was, "reason", ""), reason) != 0 || !dataset_unheard(o))
        return false;
    snprintf(message, size, "%s", jget_str(was, "message", ""));
    return true;
}

bool dataset_disk_full(const struct dataset_observed *o, char *message, size_t size)
{
    for (size_t i = 0; i < o->npods; i++) {
        const char *why;
        const json_t *pod = o->pods[i].pod;
        if (!cache_pod_disk_full(&o->pods[i], &why))
            continue;
        snprintf(message, size, "pod %s on node %s: %s", kube_name(pod),
            jget_str(pod, "spec.nodeName", "(unknown)"), why);
        return true;
    }
    return still_said(o, DATASET_COND_CACHE, "CacheDiskFull", message, size);
}

bool dataset_lost_mount(const struct dataset_observed *o, char *message, size_t size)
{
    const struct cache_pod *last = NULL;
    int64_t latest = 0;
    for (size_t i = 0; i < o->npods; i++)
        if (lost_at(o, &o->pods[i]) > latest) {
            last = &o->pods[i];
            latest = lost_at(o, last);
        }
    if (!last)
        return still_said(o, DATASET_COND_CLIENTS, "MountLost", message, size);
    char when[CLOCK_RFC3339_LEN];
    clock_rfc3339(latest * NS_PER_S, when);
    snprintf(message, size,
        "the mount on node %s was lost at %s (%s) and made again: restart the pods there that used it before",
        jget_str(last->pod, "spec.nodeName", "(unknown)"), when,
        jget_str(last->report, REPORT_LOST_WHY, "nobody served it"));
    return true;
}
