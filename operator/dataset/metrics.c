/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/metrics.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "lib/json/jget.h"
#include "operator/api/dataset_read.h"
#include "operator/dataset/poll.h"

#include <stddef.h>
#include <string.h>

METRIC_GAUGE(condition_gauge, "millrace_dataset_condition", "dataset_namespace,dataset,type,reason",
    "1: this condition of the Dataset is True; 0: False; none while it is Unknown.");
METRIC_GAUGE(size_bytes, "millrace_dataset_size_bytes", "dataset_namespace,dataset",
    "Bytes that the stores of the Dataset hold, as far as they are counted.");
METRIC_GAUGE(files_gauge, "millrace_dataset_files", "dataset_namespace,dataset",
    "Files that the stores of the Dataset hold, as far as they are counted.");
METRIC_GAUGE(cached_bytes, "millrace_dataset_cached_bytes", "dataset_namespace,dataset",
    "Bytes of the Dataset on its cache workers; on its clients where it has no workers.");
METRIC_GAUGE(capacity_bytes, "millrace_dataset_cache_capacity_bytes", "dataset_namespace,dataset",
    "Quota of all tiers there.");
METRIC_GAUGE(pending_gauge, "millrace_dataset_pending_files", "dataset_namespace,dataset",
    "Written files that the store does not have yet.");
METRIC_COUNTER(dataset_reads, "millrace_dataset_read_bytes_total", "dataset_namespace,dataset,from",
    "Bytes read since this operator leads: by pods from the cache of their node, from cache workers, and "
    "by clients and workers from the store.");
METRIC_COUNTER(dataset_written, "millrace_dataset_written_bytes_total", "dataset_namespace,dataset",
    "Bytes written to the store since this operator leads.");

static void write_conditions(const struct objs *all, struct buf *out)
{
    metric_head(out, &condition_gauge);
    for (size_t i = 0; i < all->n; i++) {
        const json_t *cr = obj_json(all->v[i]), *conditions = jget_arr(cr, "status.conditions");
        for (size_t k = 0; k < json_array_size(conditions); k++) {
            const json_t *c = json_array_get(conditions, k);
            const char *status = jget_str(c, "status", "");
            bool is_true = strcmp(status, "True") == 0;
            if (is_true || strcmp(status, "False") == 0)
                metric_sample(out, &condition_gauge, is_true, kube_namespace(cr), kube_name(cr),
                    jget_str(c, "type", ""), jget_str(c, "reason", ""));
        }
    }
}

static void write_numbers(const struct objs *all, struct buf *out)
{
    static const struct {
        const struct metric_def *def;
        size_t at; /* of struct dataset_reading */
    } numbers[] = {
        {&size_bytes, offsetof(struct dataset_reading, bytes)},
        {&files_gauge, offsetof(struct dataset_reading, files)},
        {&cached_bytes, offsetof(struct dataset_reading, cached)},
        {&capacity_bytes, offsetof(struct dataset_reading, capacity)},
        {&pending_gauge, offsetof(struct dataset_reading, pending_files)},
    };
    for (size_t n = 0; n < ARRAY_LEN(numbers); n++) {
        metric_head(out, numbers[n].def);
        for (size_t i = 0; i < all->n; i++) {
            struct dataset_reading r;
            dataset_read(obj_json(all->v[i]), &r);
            int64_t value = *(const int64_t *)((const char *)&r + numbers[n].at);
            if (value >= 0)
                metric_sample(out, numbers[n].def, (double)value, r.ns, r.name);
        }
    }
}

static void write_reads(const struct objs *all, const struct map *reads, struct buf *out)
{
    static const struct poll_reads none;
    metric_head(out, &dataset_reads);
    for (size_t i = 0; i < all->n; i++) {
        const json_t *cr = obj_json(all->v[i]);
        const struct poll_reads *r = map_get(reads, kube_uid(cr));
        const char *ns = kube_namespace(cr), *name = kube_name(cr);
        r = r ? r : &none;
        metric_sample(out, &dataset_reads, (double)r->cache, ns, name, "cache");
        metric_sample(out, &dataset_reads, (double)r->worker, ns, name, "worker");
        metric_sample(out, &dataset_reads, (double)r->store, ns, name, "store");
    }
    metric_head(out, &dataset_written);
    for (size_t i = 0; i < all->n; i++) {
        const json_t *cr = obj_json(all->v[i]);
        const struct poll_reads *r = map_get(reads, kube_uid(cr));
        metric_sample(
            out, &dataset_written, r ? (double)r->written : 0, kube_namespace(cr), kube_name(cr));
    }
}

void dataset_metrics(const struct manager *mgr, struct buf *out)
{
    struct informer *datasets = NULL;
    for (size_t i = 0; i < mgr->apply.ninformers && !datasets; i++)
        if (informer_res(mgr->apply.informers[i]) == &kube_datasets)
            datasets = mgr->apply.informers[i];
    if (!datasets || !mgr->poll)
        return;
    cleanup_objs struct objs all = informer_all(datasets);
    struct map *reads = poll_reads_all(mgr->poll);
    write_conditions(&all, out);
    write_numbers(&all, out);
    write_reads(&all, reads, out);
    map_free(reads);
}
