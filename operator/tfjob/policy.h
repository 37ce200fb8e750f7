/* SPDX-License-Identifier: Apache-2.0 */
/* policy — which rule of runPolicy.podFailurePolicy fits a pod that has failed. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_POLICY_H
#define MILLRACE_OPERATOR_TFJOB_POLICY_H

#include "operator/api/tfjob.h"

/* The first rule of the job for that type that fits the pod; -1: none. */
int tfjob_policy_rule(const struct tfjob *j, enum tfjob_type t, const json_t *pod);

#endif
