/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod with LABEL_DATA or LABEL_PLACEMENT needs: its gate opened, or words about why not. A
 * gate stays closed only where that can end: when a Dataset comes or gets on, or when a person
 * mends what an Event names. */
#include "operator/gate/observed.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/api/data_wait.h"
#include "operator/api/dataset.h"
#include "operator/render/placement.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define WAITING_NO_MORE "no more"
#define PROGRESS_STEP   25 /* percent between two Events about the same wait */

struct gate_words {
    enum data_until until;
    enum data_placement placement;
};

bool gate_is_closed(const json_t *pod)
{
    const json_t *gates = jget_arr(pod, "spec.schedulingGates");
    for (size_t i = 0; i < json_array_size(gates); i++)
        if (strcmp(jget_str(json_array_get(gates, i), "name", ""), GATE_DATA) == 0)
            return true;
    return false;
}

/* Fluid's fluid.io/dataset.NAME.sched: required, as users have it in their templates. */
static bool has_fluid_placement(const json_t *pod)
{
    static const char prefix[] = "fluid.io/dataset.", suffix[] = ".sched";
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)jget_obj(pod, "metadata.labels"), key, value) {
        size_t n = strlen(key);
        if (strncmp(key, prefix, strlen(prefix)) == 0 && n > strlen(suffix)
            && strcmp(key + n - strlen(suffix), suffix) == 0 && json_is_string(value)
            && strcmp(json_string_value(value), "required") == 0)
            return true;
    }
    return false;
}

static bool parse_words(const json_t *pod, struct gate_words *out, struct data_wait *wrong)
{
    const char *data = kube_label(pod, LABEL_DATA), *placement = kube_label(pod, LABEL_PLACEMENT);
    *wrong = (struct data_wait){.reason = "UnknownValue", .percent = -1, .problem = true};
    if (!data_until_parse(data, &out->until)) {
        snprintf(wrong->message, sizeof wrong->message,
            "label " LABEL_DATA " is \"%.63s\": it must be " DATA_UNTIL_WORDS
            ": correct it in the pod's template, and here: `kubectl -n %s label pod %s " LABEL_DATA
            "=%s --overwrite`",
            data, kube_namespace(pod), kube_name(pod),
            strncasecmp(data, "pre", 3) == 0 ? "Preloaded" : "Ready");
        return false;
    }
    if (!data_placement_parse(placement, &out->placement)) {
        snprintf(wrong->message, sizeof wrong->message,
            "label " LABEL_PLACEMENT " is \"%.63s\": it must be " DATA_PLACEMENT_WORDS
            ": correct it in the pod's template, and here: `kubectl -n %s label pod %s " LABEL_PLACEMENT
            "=Prefer --overwrite`",
            placement, kube_namespace(pod), kube_name(pod));
        return false;
    }
    if (out->until == DATA_UNTIL_UNSAID)
        out->until = DATA_UNTIL_READY;
    if (out->placement == DATA_PLACEMENT_UNSAID && has_fluid_placement(pod))
        out->placement = DATA_PLACEMENT_REQUIRE;
    return true;
}

/* The first claim that the pod mounts; NULL: none. */
static const char *any_claim(const json_t *pod)
{
    const json_t *volumes = jget_arr(pod, "spec.volumes");
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        const char *claim = jget_str(
            json_array_get(volumes, i), "persistentVolumeClaim.claimName", "");
        if (*claim)
            return claim;
    }
    return NULL;
}

/* A claim that is neither a Dataset's nor there: without it the pod cannot run anyway, and a
 * Dataset may be about to make it. NULL: none. */
static const char *missing_claim(const struct gate_observed *o)
{
    const json_t *volumes = jget_arr(o->pod, "spec.volumes");
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        const char *claim = jget_str(
            json_array_get(volumes, i), "persistentVolumeClaim.claimName", "");
        if (*claim && !data_is_of_dataset(claim, o->datasets, o->ndatasets)
            && !json_object_get(o->claims, claim))
            return claim;
    }
    return NULL;
}

/* Once for each Dataset, reason and step of progress, as ANNOTATION_WAITING remembers. */
static void plan_waiting(
    const struct gate_observed *o, const char *about, const struct data_wait *w, struct plan *p)
{
    char step[16] = "";
    if (w->percent >= 0 && !w->problem)
        snprintf(step, sizeof step, " %d%%", w->percent / PROGRESS_STEP * PROGRESS_STEP);
    cleanup_free char *said = xasprintf("%s%s%s%s", about, *about ? " " : "", w->reason, step);
    if (strcmp(said, kube_annotation(o->pod, ANNOTATION_WAITING)) == 0)
        return;
    plan_patch(p, &kube_pods, o->pod,
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", ANNOTATION_WAITING, said));
    plan_event(p, &kube_pods, o->pod, w->problem, "WaitingForData", "%s", w->message);
}

/* All but ours; null where there are no others. */
static json_t *other_gates(const json_t *pod)
{
    json_t *others = json_array(), *gate;
    size_t i;
    json_array_foreach ((json_t *)jget_arr(pod, "spec.schedulingGates"), i, gate)
        if (strcmp(jget_str(gate, "name", ""), GATE_DATA) != 0)
            json_array_append(others, gate);
    if (json_array_size(others))
        return others;
    json_decref(others);
    return json_null();
}

/* Guarded by the version that was seen: others may open gates of theirs at the same time. */
static void plan_open(const struct gate_observed *o, json_t *affinity_take, struct plan *p)
{
    json_t *spec = json_pack("{s:o}", "schedulingGates", other_gates(o->pod));
    if (affinity_take)
        json_object_set_new(spec, "affinity", affinity_take);
    plan_patch(p, &kube_pods, o->pod,
        json_pack("{s:{s:s, s:{s:s}}, s:o}", "metadata", "resourceVersion",
            jget_str(o->pod, "metadata.resourceVersion", ""), "annotations", ANNOTATION_WAITING,
            WAITING_NO_MORE, "spec", spec));
}

/* The affinity of the pod, where it has to be narrowed; false: there is no place to go. */
static bool place_pod(
    const struct gate_observed *o, enum data_placement placement, json_t **affinity)
{
    cleanup_json json_t *spec = json_deep_copy(jget_obj(o->pod, "spec"));
    bool has_place = true;
    switch (placement) {
    case DATA_PLACEMENT_UNSAID:
        return true;
    case DATA_PLACEMENT_PREFER:
        placement_prefer(spec, o->cached);
        break;
    case DATA_PLACEMENT_REQUIRE:
        has_place = placement_require(spec, o->cached);
        break;
    }
    *affinity = json_deep_copy(json_object_get(spec, "affinity"));
    return has_place;
}

static void plan_without_dataset(const struct gate_observed *o, struct plan *p)
{
    const char *claim = any_claim(o->pod);
    if (!claim) {
        plan_open(o, NULL, p);
        plan_event(p, &kube_pods, o->pod, true, "NoDataset",
            "the pod has the label " LABEL_DATA
            " but mounts no PersistentVolumeClaim: it waits for nothing, and its gate is opened");
        return;
    }
    struct data_wait w = {.reason = "DatasetNotFound", .percent = -1, .problem = true};
    snprintf(w.message, sizeof w.message,
        "the pod waits until there is a Dataset with the name of a claim that it mounts, such as %s, in namespace %s; there is none: "
        "make it, or correct claimName in the pod's template, or take the label " LABEL_DATA
        " and the scheduling gate out of it if the claim is no Dataset's",
        claim, kube_namespace(o->pod));
    plan_waiting(o, claim, &w, p);
}

static void plan_claim_missing(const struct gate_observed *o, const char *claim, struct plan *p)
{
    struct data_wait w = {.reason = "DatasetNotFound", .percent = -1, .problem = true};
    snprintf(w.message, sizeof w.message,
        "the pod waits for claim %s, too: namespace %s has neither a Dataset nor a PersistentVolumeClaim of that name: "
        "make the one or the other, or correct claimName in the pod's template",
        claim, kube_namespace(o->pod));
    plan_waiting(o, claim, &w, p);
}

static void plan_data_ready(
    const struct gate_observed *o, const json_t *dataset, enum data_until until, struct plan *p)
{
    const char *numbers = until == DATA_UNTIL_PRELOADED
        ? cond_message(jget_arr(dataset, "status.conditions"), DATASET_COND_PRELOADED)
        : "";
    plan_event(p, &kube_pods, o->pod, false, "DataReady", "Dataset %s is %s%s%s",
        kube_name(dataset), until == DATA_UNTIL_PRELOADED ? "preloaded" : "ready",
        *numbers ? ": " : "", numbers);
}

static enum data_until until_of(const struct gate_observed *o, size_t i, enum data_until until)
{
    return data_until_of(o->datasets[i], until, o->datasets, o->ndatasets);
}

static void plan_gated(const struct gate_observed *o, struct plan *p)
{
    struct gate_words words;
    struct data_wait w;
    if (!parse_words(o->pod, &words, &w)) {
        plan_waiting(o, "", &w, p);
        return;
    }
    if (!o->ndatasets) {
        plan_without_dataset(o, p);
        return;
    }
    const char *missing = missing_claim(o);
    if (missing) {
        plan_claim_missing(o, missing, p);
        return;
    }
    for (size_t i = 0; i < o->ndatasets; i++)
        if (data_wait_evaluate(o->datasets[i], until_of(o, i, words.until), &w)) {
            plan_waiting(o, kube_name(o->datasets[i]), &w, p);
            return;
        }
    json_t *affinity = NULL;
    if (!place_pod(o, words.placement, &affinity)) {
        data_wait_no_place(o->datasets[0], &w);
        plan_waiting(o, kube_name(o->datasets[0]), &w, p);
        plan_requeue(p, w.look_ns);
        json_decref(affinity);
        return;
    }
    plan_open(o, affinity, p);
    for (size_t i = 0; i < o->ndatasets; i++) {
        enum data_until until = until_of(o, i, words.until);
        data_wait_evaluate(o->datasets[i], until, &w);
        if (*w.reason)
            plan_event(
                p, &kube_pods, o->pod, true, w.reason, "%s; the pod starts at once", w.message);
        else
            plan_data_ready(o, o->datasets[i], until, p);
    }
}

/* A label alone holds nothing back: the pod may be running already. */
static void warn_no_gate(const struct gate_observed *o, struct plan *p)
{
    const char *label = *kube_label(o->pod, LABEL_DATA) ? LABEL_DATA : LABEL_PLACEMENT;
    if (strcmp(jget_str(o->pod, "status.phase", ""), "Pending") != 0 || !*kube_label(o->pod, label)
        || strcmp(kube_annotation(o->pod, ANNOTATION_WAITING), WAITING_NO_MORE) == 0)
        return;
    plan_event(p, &kube_pods, o->pod, true, "NoSchedulingGate",
        "the label %s holds no pod back by itself: add `schedulingGates: [{name: " GATE_DATA
        "}]` to the pod's spec",
        label);
}

void gate_plan(const struct gate_observed *o, struct plan *p)
{
    const char *phase = jget_str(o->pod, "status.phase", "");
    if (!o->pod || kube_deleting(o->pod) || strcmp(phase, "Succeeded") == 0
        || strcmp(phase, "Failed") == 0)
        return;
    if (gate_is_closed(o->pod))
        plan_gated(o, p);
    else
        warn_no_gate(o, p);
}
