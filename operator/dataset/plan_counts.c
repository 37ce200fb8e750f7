/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of a Dataset: sums of what its pods have reported. */
#include "operator/dataset/observed.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"

#include <string.h>

static void add_report(struct dataset_status *s, const struct cache_pod *m, bool workers_cache)
{
    bool client = cache_pod_is(m->pod, COMPONENT_CLIENT),
         worker = cache_pod_is(m->pod, COMPONENT_WORKER);
    if (client) {
        cache_pod_add_count(m->report, REPORT_CACHE_USED, &s->client_cached);
        cache_pod_add_count(m->report, REPORT_READS_CACHE, &s->read_cache);
        cache_pod_add_count(m->report, REPORT_READS_WORKER, &s->read_worker);
        cache_pod_add_count(m->report, REPORT_READS_STORE, &s->read_direct);
        cache_pod_add_count(m->report, REPORT_WRITES_PENDING, &s->pending_files);
    }
    if (workers_cache ? worker : client) {
        cache_pod_add_count(m->report, REPORT_CACHE_USED, &s->cached);
        cache_pod_add_count(m->report, REPORT_CACHE_CAPACITY, &s->capacity);
    }
    const json_t *ufs = worker && jget_bool(m->report, REPORT_READY, false)
        ? jget_obj(m->report, REPORT_INVENTORY)
        : NULL;
    if (ufs && !s->has_ufs) {
        s->has_ufs = true;
        s->ufs_complete = jget_bool(m->report, REPORT_INVENTORY_COMPLETE, false);
        cache_pod_add_count(m->report, REPORT_INVENTORY_BYTES, &s->ufs_bytes);
        cache_pod_add_count(m->report, REPORT_INVENTORY_FILES, &s->ufs_files);
    }
}

/* What the pod that preloads has found in workers that all serve is cached, though they were asked
 * before that and are asked again only after a while. */
static int64_t found_cached(
    const struct dataset_observed *o, const struct dataset_preloading *preload)
{
    bool known = preload->progress.known;
    if (!preload->asked
        || (preload->cond.status != COND_TRUE
            && (!known || strcmp(preload->cond.reason, "Loading") != 0)))
        return 0;
    return known ? preload->progress.done_bytes : jget_int(o->cr, "status.preload.doneBytes", 0);
}

void dataset_count(const struct dataset_observed *o, const struct dataset *d,
    const struct dataset_preloading *preload, struct dataset_status *s)
{
    s->read_cache = o->retired.cache;
    s->read_worker = o->retired.worker;
    s->read_direct = o->retired.direct;
    for (size_t i = 0; i < o->npods; i++)
        add_report(s, &o->pods[i], !d || d->replicas > 0);
    s->cached = MAX(s->cached, found_cached(o, preload));
}
