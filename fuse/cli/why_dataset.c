/* SPDX-License-Identifier: Apache-2.0 */
/* Of a Dataset, or of a DataLoad, itself: the first condition that tells of a problem. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/dataload.h"
#include "operator/api/dataset.h"
#include "operator/api/dataset_read.h"

#include <string.h>

static const struct {
    const char *type, *words;
    enum why_rank rank;
} problems[] = {
    {DATASET_COND_READY, "is not ready", WHY_WAITS},
    {DATASET_COND_PRELOADED, "is not preloaded", WHY_WAITS},
    {DATASET_COND_CLIENTS, "is not served on every node that uses it", WHY_WAITS},
    {DATASET_COND_WORKERS, "lacks cache workers", WHY_SLOW},
    {DATASET_COND_CACHE, "has problems with its cache", WHY_SLOW},
    {DATASET_COND_CACHE_FITS, "does not fit into its cache", WHY_SLOW},
    {DATASET_COND_FULL_SPEED, "is slower than it could be", WHY_SLOW},
};

/* It was deleted or edited, and what its conditions say is from before. */
static bool why_behind(const json_t *dataset, const char *command, struct why *w)
{
    bool deleting = kube_deleting(dataset);
    int64_t wanted = jget_int(dataset, "metadata.generation", 0),
            seen = jget_int(dataset, "status.observedGeneration", wanted);
    if (deleting ? strcmp(jget_str(dataset, "status.phase", ""), DATASET_DELETING) == 0
                 : seen < 0 || seen >= wanted)
        return false;
    w->rank = WHY_WAITS;
    w->sentence = xasprintf("dataset %s %s, and no operator has looked at it since: does one run?",
        kube_name(dataset), deleting ? "is being deleted" : "was changed");
    w->next = xasprintf("%s doctor", command);
    return true;
}

void why_of_dataset(const json_t *dataset, const char *command, struct why *w)
{
    const json_t *conditions = jget_arr(dataset, "status.conditions");
    const char *name = kube_name(dataset);
    if (why_behind(dataset, command, w))
        return;
    w->next = xasprintf("%s status %s -n %s", command, name, kube_namespace(dataset));
    if (kube_deleting(dataset)) {
        cleanup_free char *line = one_line(cond_message(conditions, DATASET_COND_READY));
        w->rank = WHY_WAITS;
        w->sentence = xasprintf(
            "dataset %s is being deleted, and no other pod can use it: %s", name, line);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(problems); i++) {
        const char *message;
        if (!dataset_is_false(dataset, problems[i].type, &message))
            continue;
        cleanup_free char *line = one_line(message);
        w->rank = problems[i].rank;
        w->sentence = xasprintf("dataset %s %s: %s: %s", name, problems[i].words,
            cond_reason(conditions, problems[i].type), line);
        return;
    }
    if (cond_is_true(conditions, DATASET_COND_WRITES_KEPT)) {
        cleanup_free char *line = one_line(cond_message(conditions, DATASET_COND_WRITES_KEPT));
        w->rank = WHY_SLOW;
        w->sentence = xasprintf("dataset %s serves, but not all that was written is saved: %s: %s",
            name, cond_reason(conditions, DATASET_COND_WRITES_KEPT), line);
        return;
    }
    bool ready = cond_is_true(conditions, DATASET_COND_READY);
    w->rank = ready ? WHY_FINE : WHY_WAITS;
    w->sentence = ready
        ? xasprintf("dataset %s is Ready, and nothing is wrong with it", name)
        : xasprintf(
            "dataset %s is not ready: no operator has looked at it yet; does it run?", name);
}

void why_of_dataload(const json_t *load, struct why *w)
{
    const json_t *conditions = jget_arr(load, "status.conditions");
    bool complete = cond_is_true(conditions, DATALOAD_COND_COMPLETE),
         failed = cond_is_true(conditions, DATALOAD_COND_FAILED),
         by_schedule = !failed && cond_is_true(conditions, DATALOAD_COND_READY);
    const char *type = failed ? DATALOAD_COND_FAILED : DATALOAD_COND_COMPLETE;
    cleanup_free char *line = one_line(cond_message(conditions, type));
    w->rank = complete || by_schedule ? WHY_FINE : failed ? WHY_FAILS : WHY_WAITS;
    w->sentence = xasprintf("dataload %s %s%s%s%s%s", kube_name(load),
        complete          ? "is complete"
            : failed      ? "has failed"
            : by_schedule ? "goes by its schedule"
                          : "is not complete",
        *line ? ": " : "", *line && !complete ? cond_reason(conditions, type) : "",
        *line && !complete ? ": " : "", line);
    w->next = complete
        ? xstrdup("")
        : xasprintf("kubectl -n %s describe dataload %s", kube_namespace(load), kube_name(load));
}
