/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what the plan for one pod that waits for its data looks at. Borrowed and immutable
 * while the plan is made. */
#ifndef MILLRACE_OPERATOR_GATE_OBSERVED_H
#define MILLRACE_OPERATOR_GATE_OBSERVED_H

#include "operator/ctl/plan.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct gate_observed {
    const json_t *pod;             /* NULL: there is none (any more) */
    const json_t *const *datasets; /* whose claims it mounts */
    size_t ndatasets;
    const json_t *claims; /* object, a key each: what else it mounts and is there */
    const json_t *cached; /* array of {dataset, node, host, bytes}, as placement.h wants it */
};

/* Takes the gate GATE_DATA away from the pod when its data is there, and sends it where the data
 * is. Until then Events on the pod, and ANNOTATION_WAITING, say what it waits for. */
void gate_plan(const struct gate_observed *o, struct plan *p);
bool gate_is_closed(const json_t *pod); /* it has the gate */

#endif
