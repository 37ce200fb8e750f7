/* SPDX-License-Identifier: Apache-2.0 */
/* The datasets of a TFJob: its pods wait for them, and its status names them. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/dataload.h"
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

/* Why its DataLoads have not loaded it; NULL once one of them is complete. Caller frees. */
static char *not_loaded(const struct tfjob_observed *o, const char *dataset)
{
    const json_t *running = NULL, *failed = NULL;
    for (size_t i = 0; i < o->nloads; i++) {
        struct dataload load;
        if (dataload_parse(o->loads[i], &load, NULL) || strcmp(load.dataset, dataset))
            continue;
        const char *phase = dataload_phase(o->loads[i]);
        if (!strcmp(phase, DATALOAD_COMPLETE))
            return NULL;
        if (!strcmp(phase, DATALOAD_FAILED))
            failed = o->loads[i];
        else
            running = o->loads[i];
    }
    if (running)
        return xasprintf("DataLoad %s is not complete", kube_name(running));
    if (failed)
        return xasprintf("DataLoad %s has failed: create another one", kube_name(failed));
    return xstrdup("it is not cached completely and there is no DataLoad of it: create one");
}

/* Why pods cannot use it yet; NULL: they can. Caller frees. */
static char *why_wait(const struct tfjob_pass *p, const json_t *dataset)
{
    const char *reason, *message;
    if (!dataset_is_ready(dataset, &reason, &message))
        return xasprintf("Dataset %s is not ready%s%s%s%s", kube_name(dataset), *reason ? ": " : "",
            reason, *message ? ": " : "", message);
    if (!p->job->annotations.wait_preload || dataset_cached_percent(dataset) == 100)
        return NULL;
    cleanup_free char *why = not_loaded(p->o, kube_name(dataset));
    int percent = dataset_cached_percent(dataset);
    char share[32] = "";
    if (percent >= 0)
        snprintf(share, sizeof share, " (%d%% cached)", percent);
    return why ? xasprintf("Dataset %s is not preloaded%s: %s", kube_name(dataset), share, why)
               : NULL;
}

bool pass_wait_datasets(struct tfjob_pass *p)
{
    cleanup_free char *first = NULL;
    json_decref(p->status.datasets);
    p->status.datasets = json_array();
    for (size_t i = 0; i < p->o->ndatasets; i++) {
        json_array_append_new(p->status.datasets, dataset_entry(p->o->datasets[i]));
        if (!first)
            first = why_wait(p, p->o->datasets[i]);
    }
    bool waits = first && pass_lacks_pods(p);
    pass_set_waiting(p, TFJOB_WAITING_DATASET, waits ? first : NULL);
    return waits;
}
