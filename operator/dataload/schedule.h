/* SPDX-License-Identifier: Apache-2.0 */
/* schedule — a DataLoad between its runs. A run is named by the time at which it was due, which is
 * written into the status before its pod is made and stands on the pod: a run is begun once,
 * however often that is seen. What was missed is made up for by one run. */
#ifndef MILLRACE_OPERATOR_DATALOAD_SCHEDULE_H
#define MILLRACE_OPERATOR_DATALOAD_SCHEDULE_H

#include "operator/api/cond.h"
#include "operator/api/dataload.h"
#include "operator/dataload/observed.h"

/* Does it rest between runs, or before the first? Then p has the next step. problem: what a person
 * must mend before a run can begin; NULL: nothing. */
bool schedule_rests(const struct dataload_observed *o, const struct dataload *l,
    const struct cond *problem, struct plan *p);
/* The object with the status of the run that begins now; NULL: none does. Caller owns it. */
json_t *schedule_begin(const struct dataload_observed *o, const struct dataload *l);

#endif
