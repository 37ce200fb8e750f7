/* SPDX-License-Identifier: Apache-2.0 */
/* crd_check — whether the CustomResourceDefinitions in the cluster are ours. Where
 * training-operator was, or an older Millrace, its own stay: the API server then drops fields that
 * we rely on, without a word. Looked at before we lead, and every 10 minutes after that (every 30 s
 * while one is not ours): log, metric, and crd_problem of the manager, which holds up TFJobs. A
 * right that is missing, or a server that does not answer, is no problem of this kind. */
#ifndef MILLRACE_OPERATOR_CRD_CHECK_H
#define MILLRACE_OPERATOR_CRD_CHECK_H

#include "lib/base/task.h"
#include "operator/ctl/manager.h"

struct crd_check {
    struct task task;
    struct manager *mgr;
    bool tfjob;
    bool reported[3]; /* of the thread: said in the log that this one is not ours */
};

/* Looks once, then on a thread of its own. tfjob: TFJobs, too. */
int crd_check_start(struct crd_check *c, struct manager *mgr, bool tfjob, struct err *e);
void crd_check_stop(struct crd_check *c); /* one that was not started is fine */

#endif
