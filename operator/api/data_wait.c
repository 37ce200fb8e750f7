/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/data_wait.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/dataset.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS (15 * NS_PER_S) /* what caches hold is no news of a Dataset */

bool data_until_parse(const char *text, enum data_until *out)
{
    *out = strcmp(text, "Ready") == 0    ? DATA_UNTIL_READY
        : strcmp(text, "Preloaded") == 0 ? DATA_UNTIL_PRELOADED
                                         : DATA_UNTIL_UNSAID;
    return !*text || *out != DATA_UNTIL_UNSAID;
}

bool data_placement_parse(const char *text, enum data_placement *out)
{
    *out = strcmp(text, "Prefer") == 0 ? DATA_PLACEMENT_PREFER
        : strcmp(text, "Require") == 0 ? DATA_PLACEMENT_REQUIRE
                                       : DATA_PLACEMENT_UNSAID;
    return !*text || *out != DATA_PLACEMENT_UNSAID;
}

static bool is_progress(const char *reason)
{
    static const char *const reasons[] = {
        "", "Starting", "Updating", "Loading", "Checking", "VolumeNotBound", "WorkersNotReady"};
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strcmp(reasons[i], reason) == 0)
            return true;
    return false;
}

/* The condition says something else than True, or says it of an earlier spec. */
static bool wait_for_condition(
    const json_t *dataset, const char *type, const char *words, struct data_wait *out)
{
    const json_t *c = cond_find(jget_arr(dataset, "status.conditions"), type);
    int64_t generation = jget_int(dataset, "metadata.generation", 0);
    bool old = jget_int(c, "observedGeneration", generation) != generation,
         is_true = strcmp(jget_str(c, "status", ""), "True") == 0;
    if (is_true && !old)
        return false;
    const char *reason = old ? "Updating" : jget_str(c, "reason", ""),
               *message = old ? "its spec was just changed" : jget_str(c, "message", "");
    if (strcmp(reason, COND_UNSEEN) == 0)
        reason = message = ""; /* it is about to be looked at */
    snprintf(out->reason, sizeof out->reason, "%s", *reason ? reason : "Starting");
    snprintf(out->message, sizeof out->message, "Dataset %s is not %s%s%s%s%s", kube_name(dataset),
        words, *reason ? ": " : "", reason, *message ? ": " : "", message);
    out->problem = !is_progress(reason);
    return true;
}

/* It goes when its last pod has ended, and waits for no other: who waits for it waits for ever. */
static bool wait_for_deletion(const json_t *dataset, struct data_wait *out)
{
    if (!kube_deleting(dataset))
        return false;
    snprintf(out->reason, sizeof out->reason, "DatasetDeleted");
    snprintf(out->message, sizeof out->message,
        "Dataset %s is being deleted: it goes when the last pod that uses it has ended, and no other pod can use it before it is made again. Delete those pods and their jobs, or let them end (`kubectl describe datasets.millrace.dev %s` names them), then apply the Dataset and the jobs again",
        kube_name(dataset), kube_name(dataset));
    out->problem = true;
    return true;
}

bool data_wait_evaluate(const json_t *dataset, enum data_until until, struct data_wait *out)
{
    *out = (struct data_wait){.percent = -1};
    if (until == DATA_UNTIL_UNSAID)
        return false;
    if (wait_for_deletion(dataset, out)
        || wait_for_condition(dataset, DATASET_COND_READY, "ready", out))
        return true;
    if (until == DATA_UNTIL_READY)
        return false;
    if (jget_len(dataset, "spec.cache.preload")) {
        out->percent = (int)jget_int(dataset, "status.preload.percent", -1);
        return wait_for_condition(dataset, DATASET_COND_PRELOADED, "preloaded", out);
    }
    /* that all of it is cached cannot be known: counts of bytes know no versions */
    snprintf(out->reason, sizeof out->reason, "NoPreload");
    snprintf(out->message, sizeof out->message,
        "Dataset %s has no spec.cache.preload to wait for: add that, or write " LABEL_DATA
        ": Ready",
        kube_name(dataset));
    out->problem = true;
    return false;
}

enum data_until data_until_of(
    const json_t *dataset, enum data_until until, const json_t *const *all, size_t n)
{
    if (until != DATA_UNTIL_PRELOADED || jget_len(dataset, "spec.cache.preload"))
        return until;
    for (size_t i = 0; i < n; i++)
        if (jget_len(all[i], "spec.cache.preload"))
            return DATA_UNTIL_READY;
    return until;
}

bool data_is_of_dataset(const char *claim, const json_t *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(kube_name(all[i]), claim) == 0)
            return true;
    return false;
}

void data_wait_no_place(const json_t *dataset, struct data_wait *out)
{
    int64_t asked = jget_int(dataset, "spec.cache.replicas", 1),
            workers = jget_int(dataset, "status.cache.replicas", asked);
    *out = (struct data_wait){
        .reason = "NoNodeHoldsData", .percent = -1, .problem = true, .look_ns = LOOK_NS};
    const char *what = !workers
        ? ", and none will before a pod reads there, since it has no cache workers (spec.cache.replicas: 0): give it "
          "spec.cache.replicas and spec.cache.preload, or write "
        : jget_len(dataset, "spec.cache.preload")
        ? " yet: its spec.cache.preload brings some; so as not to wait for them, write "
        : " yet: give it spec.cache.preload, or write ";
    snprintf(out->message, sizeof out->message,
        "no node holds bytes of Dataset %s%s" LABEL_PLACEMENT ": Prefer", kube_name(dataset), what);
}
