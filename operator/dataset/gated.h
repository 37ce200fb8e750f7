/* SPDX-License-Identifier: Apache-2.0 */
/* gated — what the pods that will use a claim ask of their nodes, before they have any: of TFJobs
 * that wait, and of pods that wait behind a scheduling gate of ours. Kept by claim, and each thing
 * asked once, however many ask it. Threads: any. Locks: gated.mu, held while an informer is read,
 * not while `changed` is told. */
#ifndef MILLRACE_OPERATOR_DATASET_GATED_H
#define MILLRACE_OPERATOR_DATASET_GATED_H

#include "operator/ctl/manager.h"

#include <jansson.h>

struct gated; /* opaque */

/* Pods of another kind than these are not counted for a claim. */
#define GATED_DEMANDS_MAX 32

/* Makes its informers; TFJobs are watched where mgr->tfjobs says so. patterns: as of
 * demand_is_gpu(), borrowed. changed: what is asked for this claim ("namespace/name") is not what
 * it was; must not block. */
struct gated *gated_new(struct manager *mgr, const json_t *patterns,
    void (*changed)(void *user, const char *claim), void *user);
void gated_free(struct gated *g); /* once no informer runs */
/* An array of what demand_of() gives, the caller's. */
json_t *gated_demands(struct gated *g, const char *claim);

#endif
