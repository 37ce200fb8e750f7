/* SPDX-License-Identifier: Apache-2.0 */
/* A pod, told to a person who may not read Datasets: what it says itself, and the missing right. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <string.h>

#define MISSING \
    "since you may not list datasets.millrace.dev in namespace %s: ask for the role view there"

static bool has_our_gate(const json_t *pod)
{
    const json_t *gate;
    size_t i;
    json_array_foreach (jget_arr(pod, "spec.schedulingGates"), i, gate)
        if (strcmp(jget_str(gate, "name", ""), GATE_DATA) == 0)
            return true;
    return false;
}

/* The operator notes on the pod what it waits for: "DATASET REASON". */
static bool why_gated_blind(const struct why_facts *f, struct why *w)
{
    const char *said = kube_annotation(f->pod, ANNOTATION_WAITING), *reason = strchr(said, ' ');
    if (!has_our_gate(f->pod))
        return why_gated(f, w);
    if (reason)
        why_say(f, w, WHY_WAITS,
            "is gated: it waits for Dataset %.*s (%s); why, is not known, " MISSING,
            (int)(reason - said), said, reason + 1, f->ns);
    else
        why_say(f, w, WHY_WAITS, "is gated: what it waits for is not known, " MISSING, f->ns);
    return why_describe(f, w);
}

static bool why_data_blind(const struct why_facts *f, struct why *w)
{
    const char *claim = pod_claim(f, 0);
    if (claim)
        why_say(f, w, WHY_FINE,
            "runs; whether anything is wrong with its data (claim %s) is not known, " MISSING,
            claim, f->ns);
    else
        why_say(f, w, WHY_FINE, "runs and mounts no claim, so it does not wait for Millrace");
    return why_next(w, "%s", "");
}

void why_pod_blind(const struct why_facts *f, struct why *w)
{
    static const why_rule rules[] = {
        why_leaving,
        why_pod_ended,
        why_unwatched,
        why_claim_missing,
        why_gated_blind,
        why_unscheduled,
        why_not_attached,
        why_not_mounted,
        why_container_failed,
        why_starting,
        why_container_killed,
        why_data_blind,
    };
    for (size_t i = 0; i < ARRAY_LEN(rules) && !rules[i](f, w); i++)
        ;
}
