/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/metric.h"

#include "lib/base/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind { COUNTER, GAUGE, HISTOGRAM };

static const double bounds_s[] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
#define BUCKETS (ARRAY_LEN(bounds_s) + 1) /* the last one has no bound */

struct metric {
    struct metric *next; /* of the same family; written under mu, read under mu */
    char *labels;
    enum kind kind;
    atomic_int_fast64_t value;     /* histogram: sum in ns */
    atomic_uint_fast64_t *buckets; /* histogram: BUCKETS counts, each for itself */
};

struct family {
    struct family *next;
    char *name, *help;
    enum kind kind;
    struct metric *first, **last;
};

/* a leaf: guards the lists, not the values */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct family *families, **families_end = &families; /* mu */

static struct metric *find_or_add(
    const char *name, const char *labels, const char *help, enum kind kind)
{
    pthread_mutex_lock(&mu);
    struct family *f = families;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    if (f && f->kind != kind) {
        fprintf(stderr, "metric %s is registered as two kinds\n", name);
        abort();
    }
    if (!f) {
        f = xcalloc(1, sizeof *f);
        f->name = xstrdup(name);
        f->help = xstrdup(help);
        f->kind = kind;
        f->last = &f->first;
        *families_end = f;
        families_end = &f->next;
    }
    struct metric *m = f->first;
    while (m && strcmp(m->labels, labels) != 0)
        m = m->next;
    if (!m) {
        m = xcalloc(1, sizeof *m);
        m->labels = xstrdup(labels);
        m->kind = kind;
        if (kind == HISTOGRAM)
            m->buckets = xcalloc(BUCKETS, sizeof *m->buckets);
        *f->last = m;
        f->last = &m->next;
    }
    pthread_mutex_unlock(&mu);
    return m;
}

struct metric *metric_counter(const char *name, const char *labels, const char *help)
{
    return find_or_add(name, labels, help, COUNTER);
}

struct metric *metric_gauge(const char *name, const char *labels, const char *help)
{
    return find_or_add(name, labels, help, GAUGE);
}

struct metric *metric_histogram(const char *name, const char *labels, const char *help)
{
    return find_or_add(name, labels, help, HISTOGRAM);
}

void metric_add(struct metric *m, int64_t delta)
{
    atomic_fetch_add_explicit(&m->value, delta, memory_order_relaxed);
    if (m->kind != HISTOGRAM)
        return;
    size_t i = 0;
    while (i < ARRAY_LEN(bounds_s) && (double)delta > bounds_s[i] * 1e9)
        i++;
    atomic_fetch_add_explicit(&m->buckets[i], 1, memory_order_relaxed);
}

void metric_set(struct metric *m, int64_t value)
{
    atomic_store_explicit(&m->value, value, memory_order_relaxed);
}

static int64_t metric_value(const struct metric *m)
{
    return atomic_load_explicit(&m->value, memory_order_relaxed);
}

static void write_sample(struct buf *out, const char *name, const char *labels)
{
    buf_adds(out, name);
    if (*labels)
        buf_addf(out, "{%s}", labels);
    buf_addc(out, ' ');
}

static void write_histogram(struct buf *out, const struct family *f, const struct metric *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        sum += atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
        buf_addf(out, "%s_bucket{%s%sle=\"", f->name, m->labels, *m->labels ? "," : "");
        if (i < ARRAY_LEN(bounds_s))
            buf_addf(out, "%g", bounds_s[i]);
        else
            buf_adds(out, "+Inf");
        buf_addf(out, "\"} %" PRIu64 "\n", sum);
    }
    const char *open = *m->labels ? "{" : "", *close_ = *m->labels ? "}" : "";
    buf_addf(out, "%s_sum%s%s%s %.9f\n", f->name, open, m->labels, close_,
        (double)metric_value(m) / 1e9);
    buf_addf(out, "%s_count%s%s%s %" PRIu64 "\n", f->name, open, m->labels, close_, sum);
}

static void write_metric(struct buf *out, const struct family *f, const struct metric *m)
{
    switch (f->kind) {
    case COUNTER:
    case GAUGE:
        write_sample(out, f->name, m->labels);
        buf_addf(out, "%" PRId64 "\n", metric_value(m));
        return;
    case HISTOGRAM:
        write_histogram(out, f, m);
        return;
    }
}

static const char *type_name(enum kind kind)
{
    switch (kind) {
    case COUNTER:
        return "counter";
    case GAUGE:
        return "gauge";
    case HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

static void write_process(struct buf *out)
{
    long pages = 0;
    cleanup_file FILE *statm = fopen("/proc/self/statm", "re");
    if (statm && fscanf(statm, "%*d %ld", &pages) != 1)
        pages = 0;
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    buf_addf(out,
        "# HELP process_resident_memory_bytes Resident memory size in bytes.\n# TYPE process_resident_memory_bytes gauge\n"
        "process_resident_memory_bytes %" PRId64 "\n"
        "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.\n"
        "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.3f\n",
        (int64_t)pages * sysconf(_SC_PAGESIZE), (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
}

void metric_write(struct buf *out)
{
    pthread_mutex_lock(&mu);
    for (const struct family *f = families; f; f = f->next) {
        buf_addf(
            out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, type_name(f->kind));
        for (const struct metric *m = f->first; m; m = m->next)
            write_metric(out, f, m);
    }
    pthread_mutex_unlock(&mu);
    write_process(out);
}
