/* SPDX-License-Identifier: Apache-2.0 */
/* The datasets of a TFJob: its pods wait for them, and its status names them. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/dataset.h"

#include <stdio.h>
#include <string.h>

static json_t *dataset_entry(const json_t *dataset)
{
    const char *reason, *message;
    bool ready = dataset_is_ready(dataset, &reason, &message);
    int percent = dataset_cached_percent(dataset);
    json_t *e = json_pack("{s:s s:b}", "name", kube_name(dataset), "ready", ready);
    char text[8];
    snprintf(text, sizeof text, "%d%%", percent);
    if (percent >= 0)
        json_object_set_new(e, "cached", json_string(text));
    return e;
}

/* Why pods cannot use it yet; NULL: they can. Caller frees. */
static char *why_wait(const struct tfjob_pass *p, const json_t *dataset)
{
    struct data_wait w;
    return data_wait_evaluate(dataset, p->job->annotations.until, &w) ? xstrdup(w.message) : NULL;
}

/* Pods that must go where the data is have nowhere to go. */
static bool has_no_place(const struct tfjob_pass *p)
{
    return p->job->annotations.placement == DATA_PLACEMENT_REQUIRE && p->o->ndatasets
        && !json_array_size(p->o->cached);
}

bool pass_wait_datasets(struct tfjob_pass *p)
{
    const char *refused = p->job->annotations.refused;
    cleanup_free char *first = *refused ? xstrdup(refused) : NULL;
    json_decref(p->status.datasets);
    p->status.datasets = json_array();
    for (size_t i = 0; i < p->o->ndatasets; i++) {
        json_array_append_new(p->status.datasets, dataset_entry(p->o->datasets[i]));
        if (!first)
            first = why_wait(p, p->o->datasets[i]);
    }
    if (!first && has_no_place(p))
        first = xasprintf(
            "no node holds bytes of Dataset %s yet: give it spec.cache.preload, or write " LABEL_PLACEMENT
            ": Prefer",
            kube_name(p->o->datasets[0]));
    if (!first && !p->o->ndatasets && p->job->annotations.until == DATA_UNTIL_PRELOADED)
        first = xstrdup(
            "no claim that its pods mount is a Dataset's yet: make the Dataset, or take "
            "away " LABEL_DATA);
    bool waits = first && pass_lacks_pods(p);
    if (waits && *refused
        && strcmp(first, cond_message(p->status.conditions, TFJOB_WAITING_DATASET)) != 0)
        pass_event(p, true, "InvalidAnnotation", "%s", refused);
    pass_set_waiting(p, TFJOB_WAITING_DATASET, waits ? first : NULL);
    return waits;
}
