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
#include "operator/dataset/report_news.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_S   3600
#define SILENT_NS (60 * NS_PER_S) /* longer than a restart takes */

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

/* Of one that kubelet calls ready: since when it has not answered us, 0: it does, or is no such. */
static int64_t silent_since(const struct cache_pod *m)
{
    if (!jget(m->report, REPORT_UNREACHABLE) || kube_deleting(m->pod)
        || cache_pod_is(m->pod, COMPONENT_LOADER)
        || !cond_is_true(jget_arr(m->pod, "status.conditions"), "Ready"))
        return 0;
    return jget_int(m->report, REPORT_SILENT_SINCE, 0) * NS_PER_S;
}

/* What it says, as long as it is that pod: why it does not answer names milliseconds. */
static void say_not_heard(
    const struct cache_pod *m, bool others, const char *said, char *message, size_t size)
{
    cleanup_free char *who = xasprintf("pod %s on node %s serves", kube_name(m->pod),
        jget_str(m->pod, "spec.nodeName", "(unknown)"));
    if (strncmp(said, who, strlen(who)) == 0)
        snprintf(message, size, "%s", said);
    else
        snprintf(message, size,
            "%s but does not answer the operator%s: %s; is there a NetworkPolicy that keeps port %d shut?",
            who, others ? ", nor do others" : "", jget_str(m->report, REPORT_UNREACHABLE, ""),
            PORT_HTTP);
}

bool dataset_not_heard(
    const struct dataset_observed *o, char *message, size_t size, int64_t *wait_ns)
{
    const json_t *was = cond_find(jget_arr(o->cr, "status.conditions"), DATASET_COND_CACHE);
    bool was_said = strcmp(jget_str(was, "reason", ""), "NotReached") == 0;
    const char *said = was_said ? jget_str(was, "message", "") : "";
    const struct cache_pod *first = NULL;
    size_t n = 0;
    *wait_ns = -1;
    for (size_t i = 0; i < o->npods; i++) {
        int64_t since = silent_since(&o->pods[i]), wait = since + SILENT_NS - o->now_ns;
        if (!since)
            continue;
        if (wait > 0) {
            *wait_ns = *wait_ns < 0 ? wait : MIN(*wait_ns, wait);
            continue;
        }
        first = n++ ? first : &o->pods[i];
    }
    if (first)
        say_not_heard(first, n > 1, said, message, size);
    else if (was_said && *wait_ns >= 0) /* a new leader goes on saying it */
        snprintf(message, size, "%s", said);
    return first || (was_said && *wait_ns >= 0);
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
