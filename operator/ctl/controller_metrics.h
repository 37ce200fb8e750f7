/* SPDX-License-Identifier: Apache-2.0 */
/* controller_metrics — inside operator/ctl: what a controller and its queue count, under our names
 * and under those of controller-runtime and client-go, which dashboards know. Threads: any. */
#ifndef MILLRACE_OPERATOR_CTL_CONTROLLER_METRICS_H
#define MILLRACE_OPERATOR_CTL_CONTROLLER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metric;
struct controller_metrics {
    struct metric *reconciles, *failures, *duration, *length;
    struct metric *depth, *work, *time, *errors, *active;
    struct metric *by_result[3]; /* of enum reconcile_result */
};
enum reconcile_result { RECONCILE_SUCCESS, RECONCILE_REQUEUE, RECONCILE_ERROR };

void controller_metrics_init(
    struct controller_metrics *m, const char *controller, unsigned workers);
void controller_metrics_begin(struct controller_metrics *m);
/* depth: of the queue */
void controller_metrics_end(
    struct controller_metrics *m, enum reconcile_result result, int64_t took_ns, size_t depth);

struct queue_metrics {
    struct metric *adds, *retries, *waited;
};
void queue_metrics_init(struct queue_metrics *m, const char *controller);

#endif
