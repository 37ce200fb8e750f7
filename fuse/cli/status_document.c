/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a Dataset, put together from several kinds of objects. */
#include "fuse/cli/status.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/api/dataset.h"
#include "operator/api/dataset_read.h"

#include <string.h>

#define WAITING_MAX 10 /* pods that are named; the others are counted */

/* What is not known is not there. */
static void set_number(json_t *o, const char *key, int64_t value)
{
    if (value >= 0)
        json_object_set_new(o, key, json_integer(value));
}

static json_t *stores_of(const json_t *dataset)
{
    json_t *stores = json_array();
    const char *path, *url;
    bool read_only;
    for (size_t i = 0; dataset_mount_at(dataset, i, &path, &url, &read_only); i++)
        json_array_append_new(stores,
            json_pack("{s:s, s:s, s:b}", "path", path, "mountPoint", url, "readOnly", read_only));
    return stores;
}

static bool pod_is_ready(const json_t *pod)
{
    return cond_is_true(jget_arr(pod, "status.conditions"), "Ready");
}

/* Pods of ours of one component, by name. Where pods may not be read, the Dataset tells nodes. */
static json_t *pods_of(const struct facts *f, const char *dataset, const char *component,
    const struct dataset_group *group)
{
    json_t *out = json_array();
    const json_t *pod, *node;
    size_t i;
    json_array_foreach (f->caches ? NULL : group->nodes, i, node)
        json_array_append_new(out,
            json_pack("{s:s, s:s, s:b}", "pod", "", "node", json_string_value(node), "ready", 1));
    json_array_foreach (f->caches, i, pod)
        if (strcmp(kube_label(pod, LABEL_DATASET), dataset) == 0
            && strcmp(kube_label(pod, LABEL_COMPONENT), component) == 0)
            json_array_append_new(out,
                json_pack("{s:s, s:s, s:b}", "pod", kube_name(pod), "node",
                    jget_str(pod, "spec.nodeName", ""), "ready", pod_is_ready(pod)));
    return out;
}

static json_t *problems_of(const json_t *dataset)
{
    static const char *const types[] = {DATASET_COND_READY, DATASET_COND_WORKERS,
        DATASET_COND_CLIENTS, DATASET_COND_CACHE, DATASET_COND_PRELOADED, DATASET_COND_CACHE_FITS,
        DATASET_COND_FULL_SPEED};
    json_t *out = json_array();
    const json_t *conditions = jget_arr(dataset, "status.conditions");
    const char *why, *message;
    dataset_is_false(dataset, DATASET_COND_READY, &why);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        /* what Ready says is said once; how far a preload is, is a number */
        if (!dataset_is_false(dataset, types[i], &message) || (i && *why && strstr(message, why))
            || strcmp(cond_reason(conditions, types[i]), "Loading") == 0)
            continue;
        json_array_append_new(out,
            json_pack("{s:s, s:s, s:s}", "type", types[i], "reason",
                cond_reason(conditions, types[i]), "message", message));
    }
    if (cond_is_true(conditions, DATASET_COND_WRITES_KEPT))
        json_array_append_new(out,
            json_pack("{s:s, s:s, s:s}", "type", DATASET_COND_WRITES_KEPT, "reason",
                cond_reason(conditions, DATASET_COND_WRITES_KEPT), "message",
                cond_message(conditions, DATASET_COND_WRITES_KEPT)));
    return out;
}

static bool mounts_claim(const json_t *pod, const char *name)
{
    const struct why_facts f = {.pod = pod};
    const char *claim;
    for (size_t i = 0; (claim = pod_claim(&f, i)); i++)
        if (strcmp(claim, name) == 0)
            return true;
    return false;
}

/* The pods that mount it and do not get on, with the reason. Not there where nobody may read them.
 */
static void add_readers(
    json_t *out, const struct dataset_reading *r, const struct facts *f, const json_t *pods)
{
    json_t *waiting = json_array();
    int64_t readers = 0, all = 0;
    const json_t *pod;
    size_t i;
    json_array_foreach (pods, i, pod) {
        if (!mounts_claim(pod, r->name))
            continue;
        const struct why_facts facts = facts_of(f, r->ns, pod);
        cleanup_why struct why w = {0};
        why_pod(&facts, &w);
        readers += strcmp(jget_str(pod, "status.phase", ""), "Running") == 0;
        if (w.rank < WHY_WAITS || all++ >= WAITING_MAX)
            continue;
        json_array_append_new(waiting,
            json_pack("{s:s, s:b, s:s, s:s}", "pod", kube_name(pod), "fails", w.rank == WHY_FAILS,
                "why", w.sentence, "next", w.next));
    }
    json_object_set_new(out, "runningPods", json_integer(readers));
    json_object_set_new(out, "waitingPods", json_integer(all));
    json_object_set_new(out, "waiting", waiting);
}

static json_t *preload_of(const struct dataset_reading *r)
{
    const struct dataset_preloaded *p = &r->preload;
    json_t *o = json_object();
    set_number(o, "percent", p->percent);
    set_number(o, "bytes", p->bytes);
    set_number(o, "doneBytes", p->done_bytes);
    set_number(o, "files", p->files);
    set_number(o, "doneFiles", p->done_files);
    set_number(o, "failedFiles", p->failed_files);
    return o;
}

json_t *status_document(const json_t *dataset, const struct facts *f, const json_t *pods)
{
    struct dataset_reading r;
    dataset_read(dataset, &r);
    json_t *o = json_pack("{s:s, s:s, s:b, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "namespace", r.ns,
        "name", r.name, "ready", r.ready, "deleting", r.deleting, "reason", r.reason, "message",
        r.message, "stores", stores_of(dataset), "workers",
        pods_of(f, r.name, COMPONENT_WORKER, &r.workers), "clients",
        pods_of(f, r.name, COMPONENT_CLIENT, &r.clients), "problems", problems_of(dataset));
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"bytes", r.bytes}, {"files", r.files}, {"cachedBytes", r.cached},
        {"clientCachedBytes", r.client_cached}, {"capacityBytes", r.capacity},
        {"cachedPercent", r.cached_percent}, {"hitPercent", r.hit_percent},
        {"localHitPercent", r.local_percent}, {"remoteHitPercent", r.remote_percent},
        {"pendingFiles", r.pending_files}, {"workersWanted", r.workers.desired},
        {"clientsWanted", r.clients.desired}, {"workersReady", r.workers.ready},
        {"clientsReady", r.clients.ready}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        set_number(o, numbers[i].key, numbers[i].value);
    json_object_set_new(o, "counted", json_boolean(r.counted));
    if (!*r.reason && is_unwatched(f->operators, r.ns))
        json_object_set_new(o, "watchedOnly", json_string(watched_only(f->operators)));
    if (r.preloads)
        json_object_set_new(o, "preload", preload_of(&r));
    if (pods)
        add_readers(o, &r, f, pods);
    return o;
}
