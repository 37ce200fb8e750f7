/* SPDX-License-Identifier: Apache-2.0 */
/* metric — counters and gauges in Prometheus' text format. Registration at start-up, updates from
 * any thread, lock-free. */
#ifndef MILLRACE_LIB_HTTP_METRIC_H
#define MILLRACE_LIB_HTTP_METRIC_H

#include "lib/base/buf.h"

#include <stdint.h>

struct metric; /* opaque; lives until exit */
/* The same (name, labels) gives the same metric. name, help and labels are copied; labels like
 * `tier="ssd"` or "". */
struct metric *metric_counter(const char *name, const char *labels, const char *help);
struct metric *metric_gauge(const char *name, const char *labels, const char *help);
/* Histogram of durations: buckets 1 ms … 60 s; metric_add() takes ns. */
struct metric *metric_histogram(const char *name, const char *labels, const char *help);
void metric_add(struct metric *m, int64_t delta);
void metric_set(struct metric *m, int64_t value);
/* everything, with # HELP and # TYPE, and process_resident_memory_bytes, process_cpu_seconds_total
 */
void metric_write(struct buf *out);

#endif
