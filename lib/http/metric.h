/* SPDX-License-Identifier: Apache-2.0 */
/* metric — counters, gauges and histograms in Prometheus' text format. A family is defined once, at
 * file scope: no metric exists without its definition, and metric_list() tells all definitions that
 * are linked into the program. Updates from any thread, lock-free. */
#ifndef MILLRACE_LIB_HTTP_METRIC_H
#define MILLRACE_LIB_HTTP_METRIC_H

#include "lib/base/buf.h"

#include <stdint.h>

enum metric_type { METRIC_TYPE_COUNTER, METRIC_TYPE_GAUGE, METRIC_TYPE_HISTOGRAM };
struct metric_def {
    const char *name;
    enum metric_type type;
    const char *labels; /* their names, with commas between them; "": none */
    const char *help;   /* one line */
};

/* At file scope: METRIC_COUNTER(read_bytes, "millrace_read_bytes_total", "from", "Bytes …");
 * A histogram is one of durations: buckets 1 ms … 60 s; metric_add() takes ns. */
#define METRIC_COUNTER(id, name, labels, help) METRIC_DEF(id, COUNTER, name, labels, help)
#define METRIC_GAUGE(id, name, labels, help)   METRIC_DEF(id, GAUGE, name, labels, help)
#define METRIC_SECONDS(id, name, labels, help) METRIC_DEF(id, HISTOGRAM, name, labels, help)
/* The linker collects the pointers: metric_list() walks their section. */
#define METRIC_DEF(id, type, name, labels, help)                                  \
    static const struct metric_def id = {name, METRIC_TYPE_##type, labels, help}; \
    static const struct metric_def *const id##_listed                             \
        __attribute__((used, section("metric_defs"))) = &id

struct metric; /* opaque; lives until exit */
/* The metric of these values of the definition's labels, in its order; the same values give the
 * same metric: metric_of(&read_bytes, "cache"). Values are copied. */
#define metric_of(def, ...) metric_find((def), METRIC_VALUES(__VA_ARGS__))
#define METRIC_VALUES(...)  ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
struct metric *metric_find(const struct metric_def *def, const char *const *values);
void metric_add(struct metric *m, int64_t delta);
void metric_set(struct metric *m, int64_t value);

/* Text of what is not kept, because its labels come and go: the head of a family, then its samples.
 * Not of histograms. */
void metric_head(struct buf *out, const struct metric_def *def);
#define metric_sample(out, def, value, ...) \
    metric_write_sample((out), (def), (value), METRIC_VALUES(__VA_ARGS__))
void metric_write_sample(
    struct buf *out, const struct metric_def *def, double value, const char *const *values);

/* All that is kept, with # HELP and # TYPE, and process_resident_memory_bytes,
 * process_cpu_seconds_total. */
void metric_write(struct buf *out);
/* Prints the definitions, by name: name, type, labels and help with tabs between them. Returns the
 * status to exit with. */
int metric_list(void);

#endif
