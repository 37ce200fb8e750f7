/* SPDX-License-Identifier: Apache-2.0 */
/* metrics — what is known of each Dataset, for a monitoring system: its conditions, its numbers,
 * and the counters of its pods summed up, which its status does not have. */
#ifndef MILLRACE_OPERATOR_DATASET_METRICS_H
#define MILLRACE_OPERATOR_DATASET_METRICS_H

#include "lib/base/buf.h"
#include "operator/ctl/manager.h"

/* Appends them. Only the one that leads asks the pods: the others would tell of nothing. Any
 * thread, while the manager lives. */
void dataset_metrics(const struct manager *mgr, struct buf *out);

#endif
