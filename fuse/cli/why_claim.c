/* SPDX-License-Identifier: Apache-2.0 */
/* What claims, gates and Datasets say about a pod that waits for them. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/data_wait.h"
#include "operator/api/dataset.h"
#include "operator/api/dataset_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool why_no_claim_yet(const struct why_facts *f, const json_t *dataset, struct why *w)
{
    struct dataset_reading r;
    dataset_read(dataset, &r);
    cleanup_free char *message = one_line(r.message);
    why_say(f, w, WHY_WAITS, "waits for the PersistentVolumeClaim of Dataset %s: %s%s%s", r.name,
        *r.reason ? r.reason : "the operator has not made it yet; does it run?",
        *message ? ": " : "", message);
    if (*r.reason)
        return why_status(f, w, r.name);
    return why_next(w, "kubectl get pods -A -l " LABEL_COMPONENT "=operator");
}

bool why_claim_missing(const struct why_facts *f, struct why *w)
{
    const char *claim;
    if (pod_started(f) || !f->claims)
        return false;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++) {
        if (named(f->claims, claim))
            continue;
        if (named(f->datasets, claim))
            return why_no_claim_yet(f, named(f->datasets, claim), w);
        const json_t *other = named(f->elsewhere, claim);
        const char *near = similar_name(f->claims, claim);
        if (near)
            why_say(f, w, WHY_FAILS,
                "waits for the PersistentVolumeClaim %s, which is not in namespace %s: did you mean %s?",
                claim, f->ns, near);
        else if (other)
            why_say(f, w, WHY_FAILS,
                "waits for the PersistentVolumeClaim %s, which is not in namespace %s but in %s: a "
                "pod mounts claims of its own namespace only: make a Dataset %s in %s, too",
                claim, f->ns, kube_namespace(other), claim, f->ns);
        else
            why_say(f, w, WHY_FAILS,
                "waits for the PersistentVolumeClaim %s, which is not in namespace %s: make a Dataset "
                "of that name, or correct the pod's claimName",
                claim, f->ns);
        return why_next(w, "kubectl -n %s get datasets.millrace.dev,persistentvolumeclaims", f->ns);
    }
    return false;
}

/* -- gates ------------------------------------------------------------------------------------- */

/* What a gated pod waits for in this Dataset, in the operator's own words; false: nothing. */
static bool why_not_there(
    const struct why_facts *f, const json_t *dataset, enum data_until until, struct why *w)
{
    struct data_wait wait;
    char share[16] = "";
    if (!data_wait_evaluate(dataset, until, &wait))
        return false;
    cleanup_free char *message = one_line(wait.message);
    if (wait.percent >= 0 && strcmp(wait.reason, "Loading") == 0 && !strchr(message, '%'))
        snprintf(share, sizeof share, " (%d%%)", wait.percent);
    why_say(f, w, wait.problem ? WHY_FAILS : WHY_WAITS, "is gated: %s%s", message, share);
    return why_status(f, w, kube_name(dataset));
}

static const char *other_gate(const struct why_facts *f, bool *ours)
{
    const json_t *gate;
    const char *other = NULL;
    size_t i;
    *ours = false;
    json_array_foreach (jget_arr(f->pod, "spec.schedulingGates"), i, gate) {
        const char *name = jget_str(gate, "name", "");
        if (strcmp(name, GATE_DATA) == 0)
            *ours = true;
        else
            other = name;
    }
    return other;
}

/* A label that the operator does not understand, or none at all: the gate stays closed. */
static bool why_gate_words(const struct why_facts *f, enum data_until *until, struct why *w)
{
    const char *data = kube_label(f->pod, LABEL_DATA),
               *placement = kube_label(f->pod, LABEL_PLACEMENT);
    enum data_placement unused;
    if (!data_until_parse(data, until) || (!*data && !*placement)) {
        why_say(f, w, WHY_FAILS,
            "has the gate " GATE_DATA " but no label " LABEL_DATA " with " DATA_UNTIL_WORDS
            ": nothing opens it");
        return why_next(w, "kubectl -n %s label --overwrite pod %s " LABEL_DATA "=Ready", f->ns,
            kube_name(f->pod));
    }
    if (!data_placement_parse(placement, &unused)) {
        why_say(f, w, WHY_FAILS,
            "is gated: its label " LABEL_PLACEMENT " is %s: it must be " DATA_PLACEMENT_WORDS,
            placement);
        return why_next(w, "kubectl -n %s label --overwrite pod %s " LABEL_PLACEMENT "=Prefer",
            f->ns, kube_name(f->pod));
    }
    if (*until == DATA_UNTIL_UNSAID)
        *until = DATA_UNTIL_READY; /* placement alone */
    return false;
}

/* That nothing holds bytes is known to the operator alone, which notes it: "DATASET REASON". */
static bool why_no_place(const struct why_facts *f, struct why *w)
{
    const char *said = kube_annotation(f->pod, ANNOTATION_WAITING), *reason = strchr(said, ' ');
    cleanup_free char *name = reason ? xstrndup(said, (size_t)(reason - said)) : NULL;
    const json_t *dataset = name ? claim_dataset(f, name) : NULL;
    struct data_wait wait;
    if (!dataset)
        return false;
    data_wait_no_place(dataset, &wait);
    if (strcmp(reason + 1, wait.reason) != 0)
        return false;
    cleanup_free char *message = one_line(wait.message);
    why_say(f, w, WHY_FAILS, "is gated: %s", message);
    return why_next(w, "kubectl -n %s label --overwrite pod %s " LABEL_PLACEMENT "=Prefer", f->ns,
        kube_name(f->pod));
}

static bool why_our_gate(const struct why_facts *f, struct why *w)
{
    enum data_until until;
    const char *claim;
    size_t ours = 0;
    if (why_gate_words(f, &until, w))
        return true;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++) {
        const json_t *dataset = claim_dataset(f, claim);
        ours += dataset != NULL;
        if (dataset && why_not_there(f, dataset, until, w))
            return true;
    }
    if (!ours && pod_claim(f, 0)) {
        why_say(f, w, WHY_FAILS,
            "is gated, but no claim that it mounts is of a Dataset, as %s is not: nothing opens the "
            "gate: mount a Dataset's claim, or take the label and the gate out of the pod's template",
            pod_claim(f, 0));
        return why_next(w, "kubectl -n %s get datasets.millrace.dev,persistentvolumeclaims", f->ns);
    }
    if (why_no_place(f, w))
        return true;
    cleanup_free char *waiting = one_line(kube_annotation(f->pod, ANNOTATION_WAITING));
    why_say(f, w, WHY_WAITS, "is gated although there is nothing to wait for%s%s",
        *waiting ? ": " : ": the operator opens the gate; does it run?", waiting);
    return why_next(w, "kubectl get pods -A -l " LABEL_COMPONENT "=operator");
}

bool why_gated(const struct why_facts *f, struct why *w)
{
    bool ours;
    const char *other = other_gate(f, &ours);
    if (*jget_str(f->pod, "spec.nodeName", "") || (!ours && !other))
        return false;
    if (ours)
        return why_our_gate(f, w);
    why_say(f, w, WHY_WAITS, "is held back by the scheduling gate %s, which is not Millrace's%s",
        other, strncmp(other, "kueue.x-k8s.io/", 15) == 0 ? ": Kueue has no room for it yet" : "");
    if (strncmp(other, "kueue.x-k8s.io/", 15) == 0)
        return why_next(w, "kubectl -n %s get workloads.kueue.x-k8s.io", f->ns);
    return why_describe(f, w);
}

/* -- Datasets ---------------------------------------------------------------------------------- */

static bool why_dataset(const struct why_facts *f, const json_t *dataset, struct why *w)
{
    struct dataset_reading r;
    dataset_read(dataset, &r);
    bool runs = pod_started(f);
    if (r.deleting && !runs) {
        why_say(f, w, WHY_FAILS,
            "cannot mount Dataset %s: it is being deleted, and no further node can mount it",
            r.name);
        return why_status(f, w, r.name);
    }
    if (r.ready)
        return false;
    if (r.deleting) {
        why_say(f, w, WHY_SLOW, /* it is well, and status says the rest */
            "runs, but Dataset %s is being deleted: it goes when its last pod has ended, and no "
            "other pod can use it before it is made again: delete the jobs that use it, or let them "
            "end, then apply the Dataset and the jobs again",
            r.name);
        return why_status(f, w, r.name);
    }
    cleanup_free char *message = one_line(r.message);
    why_say(f, w, runs ? WHY_FAILS : WHY_WAITS, "%s Dataset %s%s: %s%s%s",
        runs ? "runs, but" : "waits for", r.name, runs ? " is not ready" : "",
        *r.reason ? r.reason : "the operator has not looked at it yet", *message ? ": " : "",
        message);
    return why_status(f, w, r.name);
}

bool why_dataset_not_ready(const struct why_facts *f, struct why *w)
{
    const char *claim;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++) {
        const json_t *dataset = claim_dataset(f, claim);
        if (dataset && why_dataset(f, dataset, w))
            return true;
    }
    return false;
}

/* -- slow reads -------------------------------------------------------------------------------- */

#define HITS_GOOD 90 /* percent of what is read */

/* Is the pod's node one of those that FullSpeed=False is about? Its message names the first ones;
 * the kernel of a node is known otherwise. */
static bool is_slow_here(const struct why_facts *f, const json_t *dataset, const char *message)
{
    const char *name = jget_str(f->pod, "spec.nodeName", ""),
               *reason = cond_reason(
                   jget_arr(dataset, "status.conditions"), DATASET_COND_FULL_SPEED);
    const char *kernel = jget_str(named(f->nodes, name), "status.nodeInfo.kernelVersion", "");
    int major = 0, minor = 0;
    if (strcmp(reason, "KernelTooOld") == 0 && sscanf(kernel, "%d.%d", &major, &minor) == 2)
        return major < 6 || (major == 6 && minor < 9);
    return strstr(message, name) || strstr(message, " more");
}

static bool why_slow_dataset(const struct why_facts *f, const json_t *dataset, struct why *w)
{
    struct dataset_reading r;
    const char *message = "";
    dataset_read(dataset, &r);
    if (dataset_is_false(dataset, DATASET_COND_PRELOADED, &message)) {
        why_say(f, w, WHY_SLOW,
            "reads part of Dataset %s from the store, because it is not preloaded: %s", r.name,
            message);
    } else if (dataset_is_false(dataset, DATASET_COND_CACHE_FITS, &message)) {
        why_say(f, w, WHY_SLOW, "reads Dataset %s, which is larger than its cache: %s", r.name,
            message);
    } else if (r.hit_percent >= 0 && r.hit_percent < HITS_GOOD) {
        why_say(f, w, WHY_SLOW,
            "reads Dataset %s, of which %d%% come from the store: a first epoch has to; later ones "
            "come from the cache, if the data fits into it",
            r.name, 100 - (int)r.hit_percent);
    } else if (dataset_is_false(dataset, DATASET_COND_FULL_SPEED, &message)
        && is_slow_here(f, dataset, message)) {
        why_say(f, w, WHY_SLOW, "reads Dataset %s at less than full speed: %s", r.name, message);
    } else {
        return false;
    }
    return why_status(f, w, r.name);
}

bool why_reads_slow(const struct why_facts *f, struct why *w)
{
    const char *claim;
    for (size_t i = 0; (claim = pod_claim(f, i)); i++) {
        const json_t *dataset = claim_dataset(f, claim);
        if (dataset && why_slow_dataset(f, dataset, w))
            return true;
    }
    return false;
}
