/* SPDX-License-Identifier: Apache-2.0 */
/* The datasets of a TFJob: its pods wait for them, and its status names them. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
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
        json_object_update_new(
            e, json_pack("{s:s, s:i}", "cached", text, "cachedPercent", percent));
    return e;
}

/* Pods that must go where the data is have nowhere to go. */
static bool has_no_place(const struct tfjob_pass *p)
{
    return p->job->annotations.placement == DATA_PLACEMENT_REQUIRE && p->o->ndatasets
        && !json_array_size(p->o->cached);
}

static bool mounts_no_claim(const struct tfjob_pass *p)
{
    cleanup_json json_t *claims = tfjob_claims(p->o->job);
    return !json_array_size(claims);
}

static enum data_until job_until(const struct tfjob_pass *p, size_t i)
{
    return data_until_of(
        p->o->datasets[i], p->job->annotations.until, p->o->datasets, p->o->ndatasets);
}

/* Without that claim its pods cannot run anyway, and a Dataset may be about to make it. */
static bool misses_claim(const struct tfjob_pass *p, struct data_wait *w)
{
    cleanup_json json_t *claims = tfjob_claims(p->o->job);
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const char *claim = json_string_value(json_array_get(claims, i));
        if (data_is_of_dataset(claim, p->o->datasets, p->o->ndatasets)
            || json_object_get(p->o->claims, claim))
            continue;
        snprintf(w->message, sizeof w->message,
            "claim %s, which its pods mount, is neither a Dataset's nor there: make the one or the other, or take away " LABEL_DATA,
            claim);
        return true;
    }
    return false;
}

/* What its pods wait for; false: nothing. */
static bool find_wait(const struct tfjob_pass *p, struct data_wait *w)
{
    enum data_until until = p->job->annotations.until;
    *w = (struct data_wait){.problem = true};
    if (*p->job->annotations.refused) {
        snprintf(w->message, sizeof w->message, "%s", p->job->annotations.refused);
        return true;
    }
    for (size_t i = 0; i < p->o->ndatasets; i++)
        if (data_wait_evaluate(p->o->datasets[i], job_until(p, i), w))
            return true;
    w->problem = true;
    if (p->o->ndatasets && until == DATA_UNTIL_PRELOADED && misses_claim(p, w))
        return true;
    if (has_no_place(p)) {
        data_wait_no_place(p->o->datasets[0], w);
        return true;
    }
    if (p->o->ndatasets || until != DATA_UNTIL_PRELOADED || mounts_no_claim(p))
        return false;
    snprintf(w->message, sizeof w->message,
        "no claim that its pods mount is a Dataset's yet: make the Dataset, or take "
        "away " LABEL_DATA);
    return true;
}

/* In the pass that lets its pods start: the job has not been here before, or it was held back. */
static bool starts_now(const struct tfjob_pass *p)
{
    const json_t *was = jget_arr(p->o->job, "status.conditions");
    return !*jget_str(p->o->job, "status.startTime", "") || cond_is_true(was, TFJOB_SUSPENDED)
        || cond_is_true(was, TFJOB_WAITING_DATASET);
}

/* Of a wait that cannot be, once. */
static void warn_no_wait(struct tfjob_pass *p)
{
    enum data_until until = p->job->annotations.until;
    struct data_wait w;
    if (until != DATA_UNTIL_PRELOADED || !starts_now(p))
        return;
    if (!p->o->ndatasets)
        pass_event(p, true, "NoDataset",
            "the job has " LABEL_DATA
            " but its pods mount no PersistentVolumeClaim: they wait for nothing and start at once");
    for (size_t i = 0; i < p->o->ndatasets; i++)
        if (!data_wait_evaluate(p->o->datasets[i], job_until(p, i), &w) && *w.reason)
            pass_event(p, true, w.reason, "%s; the pods start at once", w.message);
}

bool pass_wait_datasets(struct tfjob_pass *p)
{
    struct data_wait w;
    json_decref(p->status.datasets);
    p->status.datasets = json_array();
    for (size_t i = 0; i < p->o->ndatasets; i++)
        json_array_append_new(p->status.datasets, dataset_entry(p->o->datasets[i]));
    bool must = find_wait(p, &w), waits = must && pass_lacks_pods(p);
    const char *said = cond_message(p->status.conditions, TFJOB_WAITING_DATASET);
    if (!must)
        warn_no_wait(p);
    else if (waits && w.problem && strcmp(w.message, said) != 0)
        pass_event(p, true,
            *p->job->annotations.refused ? "InvalidAnnotation" : "WaitingForDataset", "%s",
            w.message);
    if (waits && w.look_ns)
        plan_requeue(&p->events, w.look_ns);
    pass_set_waiting(p, TFJOB_WAITING_DATASET, waits ? w.message : NULL);
    return waits;
}
