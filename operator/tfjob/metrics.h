/* SPDX-License-Identifier: Apache-2.0 */
/* metrics — the counters of training-operator by its names:
 * training_operator_jobs_{created,deleted,successful,failed,restarted}_total with the labels
 * job_namespace and framework="tensorflow", and the names before v1.3, tf_operator_jobs_…_total,
 * for old dashboards. They count what is written, each once: a job that is there when we start
 * was counted by our predecessor. */
#ifndef MILLRACE_OPERATOR_TFJOB_METRICS_H
#define MILLRACE_OPERATOR_TFJOB_METRICS_H

#include "operator/ctl/manager.h"

/* before the informer starts; counts while we lead */
void tfjob_count(struct manager *mgr, struct informer *jobs);

#endif
