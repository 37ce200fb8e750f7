/* SPDX-License-Identifier: Apache-2.0 */
/* plan — the next steps for one TFJob: the semantics of training-operator 1.9.4, without its bugs.
 * Pure.
 *
 * Order: status → deletes → services → pods → events → requeue. The status goes first, unlike
 * elsewhere, because it is the memory: which indexes have finished, how often each was restarted,
 * that the job is over. Were a pod deleted before that is written, an operator killed in between
 * would run finished work again or forget a failure. */
#ifndef MILLRACE_OPERATOR_TFJOB_PLAN_H
#define MILLRACE_OPERATOR_TFJOB_PLAN_H

#include "operator/ctl/plan.h"
#include "operator/tfjob/observed.h"

void tfjob_plan(const struct tfjob_observed *o, struct plan *p);

/* The API server refused an action of that plan, and a person must act: an Event, and the condition
 * Stalled. */
void tfjob_plan_refused(const json_t *job, const struct plan_action *failed, const struct err *why,
    int64_t now_ns, struct plan *then);

#endif
