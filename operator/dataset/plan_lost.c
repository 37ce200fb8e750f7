/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts that died on a node and were made again: pods that had them before must be restarted, and
 * nothing else tells their owners. */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_S 3600

/* When the client says that its mount was lost; 0: it was not, or long ago. */
static int64_t lost_at(const struct dataset_observed *o, const struct cache_pod *m)
{
    int64_t at = jget_int(m->report, REPORT_LOST_AT, 0), now = o->now_ns / NS_PER_S;
    return cache_pod_is(m->pod, COMPONENT_CLIENT) && at > now - SHOWN_S && at <= now ? at : 0;
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
        return false;
    char when[CLOCK_RFC3339_LEN];
    clock_rfc3339(latest * NS_PER_S, when);
    snprintf(message, size,
        "the mount on node %s was lost at %s (%s) and made again: restart the pods there that used it before",
        jget_str(last->pod, "spec.nodeName", "(unknown)"), when,
        jget_str(last->report, REPORT_LOST_WHY, "nobody served it"));
    return true;
}
