/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/controller_metrics.h"

#include "lib/http/metric.h"

METRIC_COUNTER(
    reconciles, "millrace_reconciles_total", "controller", "Reconciles of the controller.");
METRIC_COUNTER(reconcile_errors, "millrace_reconcile_errors_total", "controller",
    "Reconciles that failed and are tried again.");
METRIC_SECONDS(
    reconcile_seconds, "millrace_reconcile_seconds", "controller", "Duration of a reconcile.");
METRIC_GAUGE(
    queue_length, "millrace_queue_length", "controller", "Keys that wait, delayed ones too.");

METRIC_COUNTER(runtime_total, "controller_runtime_reconcile_total", "controller,result",
    "Reconciles by result: success, requeue_after, error; as controller-runtime counts them.");
METRIC_COUNTER(runtime_errors, "controller_runtime_reconcile_errors_total", "controller",
    "The same as millrace_reconcile_errors_total.");
METRIC_SECONDS(runtime_time, "controller_runtime_reconcile_time_seconds", "controller",
    "The same as millrace_reconcile_seconds.");
METRIC_GAUGE(runtime_active, "controller_runtime_active_workers", "controller",
    "Threads of the controller that reconcile now.");
METRIC_GAUGE(runtime_max, "controller_runtime_max_concurrent_reconciles", "controller",
    "Threads of the controller.");

METRIC_GAUGE(workqueue_depth, "workqueue_depth", "name", "The same as millrace_queue_length.");
METRIC_COUNTER(workqueue_adds, "workqueue_adds_total", "name", "Times a key began to wait.");
METRIC_COUNTER(workqueue_retries, "workqueue_retries_total", "name",
    "Times a key was to be tried again after a failure.");
METRIC_SECONDS(workqueue_waited, "workqueue_queue_duration_seconds", "name",
    "How long a key waited after it was due.");
METRIC_SECONDS(workqueue_work, "workqueue_work_duration_seconds", "name",
    "The same as millrace_reconcile_seconds.");

void controller_metrics_init(struct controller_metrics *m, const char *controller, unsigned workers)
{
    static const char *const results[] = {[RECONCILE_SUCCESS] = "success",
        [RECONCILE_REQUEUE] = "requeue_after",
        [RECONCILE_ERROR] = "error"};
    m->reconciles = metric_of(&reconciles, controller);
    m->failures = metric_of(&reconcile_errors, controller);
    m->duration = metric_of(&reconcile_seconds, controller);
    m->length = metric_of(&queue_length, controller);
    m->depth = metric_of(&workqueue_depth, controller);
    m->work = metric_of(&workqueue_work, controller);
    m->time = metric_of(&runtime_time, controller);
    m->errors = metric_of(&runtime_errors, controller);
    m->active = metric_of(&runtime_active, controller);
    for (int i = RECONCILE_SUCCESS; i <= RECONCILE_ERROR; i++)
        m->by_result[i] = metric_of(&runtime_total, controller, results[i]);
    metric_set(metric_of(&runtime_max, controller), workers);
}

void controller_metrics_begin(struct controller_metrics *m) { metric_add(m->active, 1); }

void controller_metrics_end(
    struct controller_metrics *m, enum reconcile_result result, int64_t took_ns, size_t depth)
{
    metric_add(m->active, -1);
    metric_add(m->reconciles, 1);
    metric_add(m->by_result[result], 1);
    metric_add(m->duration, took_ns);
    metric_add(m->time, took_ns);
    metric_add(m->work, took_ns);
    metric_set(m->length, (int64_t)depth);
    metric_set(m->depth, (int64_t)depth);
    if (result == RECONCILE_ERROR) {
        metric_add(m->failures, 1);
        metric_add(m->errors, 1);
    }
}

void queue_metrics_init(struct queue_metrics *m, const char *controller)
{
    m->adds = metric_of(&workqueue_adds, controller);
    m->retries = metric_of(&workqueue_retries, controller);
    m->waited = metric_of(&workqueue_waited, controller);
}
