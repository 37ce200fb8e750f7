/* SPDX-License-Identifier: Apache-2.0 */
/* What pods wrote and no store has: another writer was first, or the node went down before it was
 * closed. It lies on the node until a person decides, so the Dataset says so. */
#include "operator/dataset/observed.h"

#include "lib/base/buf.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/api/dataset_read.h"
#include "operator/dataset/cache_pod.h"

#include <stdio.h>
#include <string.h>

#define NAMES_MAX   3   /* paths that a message names */
#define MESSAGE_MAX 768 /* bytes */

/* What the clients say, together. */
struct kept_sum {
    int64_t files, bytes;
    size_t clients, told; /* pods; those whose report says how many files they keep */
    size_t nodes;         /* that keep some */
    const json_t *first;  /* such a client, and its report */
    const json_t *report;
};

static void sum_up(const struct dataset_observed *o, struct kept_sum *k)
{
    for (size_t i = 0; i < o->npods; i++) {
        const struct cache_pod *m = &o->pods[i];
        if (!cache_pod_is(m->pod, COMPONENT_CLIENT))
            continue;
        k->clients++;
        k->told += jget(m->report, REPORT_KEPT_FILES) != NULL;
        if (jget_int(m->report, REPORT_KEPT_FILES, 0) <= 0)
            continue;
        cache_pod_add_count(m->report, REPORT_KEPT_FILES, &k->files);
        cache_pod_add_count(m->report, REPORT_KEPT_BYTES, &k->bytes);
        k->nodes++;
        if (!k->first) {
            k->first = m->pod;
            k->report = m->report;
        }
    }
}

/* "a, b, c, …" */
static void add_kept_paths(struct buf *out, const json_t *report)
{
    const json_t *kept;
    size_t i;
    json_array_foreach (jget_arr(report, REPORT_KEPT_PATHS), i, kept) {
        if (i == NAMES_MAX) {
            buf_adds(out, ", …");
            return;
        }
        buf_addf(out, "%s%.100s", i ? ", " : "", jget_str(kept, REPORT_KEPT_PATH, "?"));
    }
}

static bool is_conflict(const json_t *report)
{
    const json_t *kept;
    size_t i;
    json_array_foreach (jget_arr(report, REPORT_KEPT_PATHS), i, kept)
        if (strcmp(jget_str(kept, REPORT_KEPT_WHY, ""), "conflict") == 0)
            return true;
    return false;
}

static void describe(
    const json_t *dataset, const struct kept_sum *k, bool conflict, struct buf *out)
{
    char size[HUMAN_BYTES_LEN];
    buf_addf(out, "%lld written file%s (%s) on node %s", (long long)k->files,
        k->files == 1 ? "" : "s", human_bytes((uint64_t)k->bytes, size),
        jget_str(k->first, "spec.nodeName", "(unknown)"));
    if (k->nodes > 1)
        buf_addf(out, " and %zu more", k->nodes - 1);
    buf_addf(out, " went to no store: ");
    add_kept_paths(out, k->report);
    buf_adds(out,
        conflict ? "; another writer changed them in the store first, which has that version"
                 : "; the node went down, or the mount was taken away, before they were saved");
    buf_addf(out,
        "; on that node they are in " NAME_DRIVER
        "/volumes/%s/%s/cache/stage/kept below csi.cacheDir "
        "(/var/lib/kubelet/plugins without one): copy what you want back, and remove the rest there",
        kube_namespace(dataset), kube_uid(dataset));
}

void dataset_plan_kept(const struct dataset_observed *o, json_t *conditions,
    struct dataset_status *s, struct plan *events)
{
    struct kept_sum k = {0};
    int64_t recorded = jget_int(o->cr, "status.writes.keptFiles", 0);
    sum_up(o, &k);
    if (!k.files && k.told && k.told == k.clients) {
        cond_remove(conditions, DATASET_COND_WRITES_KEPT);
        return;
    }
    if (!k.files) { /* nobody can tell now: what is recorded stays */
        s->kept_files = recorded > 0 ? recorded : 0;
        return;
    }
    bool conflict = is_conflict(k.report);
    const char *reason = conflict ? "WriteConflict" : "NotSaved";
    cleanup_buf struct buf message = BUF_INIT(MESSAGE_MAX);
    describe(o->cr, &k, conflict, &message);
    s->kept_files = k.files;
    cond_set(conditions,
        &(struct cond){DATASET_COND_WRITES_KEPT, COND_TRUE, reason, buf_str(&message)},
        jget_int(o->cr, "metadata.generation", 0), o->now_ns);
    if (k.files > recorded)
        plan_event(events, &kube_datasets, o->cr, true, reason, "%s", buf_str(&message));
}
