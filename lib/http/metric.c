/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/metric.h"

#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LABELS_MAX (16u << 10)

static const double bounds_s[] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
#define BUCKETS (ARRAY_LEN(bounds_s) + 1) /* the last one has no bound */

METRIC_GAUGE(resident, "process_resident_memory_bytes", "", "Resident memory size in bytes.");
METRIC_COUNTER(cpu_seconds, "process_cpu_seconds_total", "",
    "Total user and system CPU time spent in seconds.");

struct metric {
    struct metric *next; /* of the same family; written under mu, read under mu */
    char *labels;
    const struct metric_def *def;
    atomic_int_fast64_t value;     /* histogram: sum in ns */
    atomic_uint_fast64_t *buckets; /* histogram: BUCKETS counts, each for itself */
};

struct family {
    struct family *next;
    const struct metric_def *def;
    struct metric *first, **last;
};

/* a leaf: guards the lists, not the values */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct family *families, **families_end = &families; /* mu */

/* name="value",… */
static void add_labels(struct buf *out, const struct metric_def *def, const char *const *values)
{
    size_t i = 0;
    for (const char *name = def->labels; *name; i++) {
        size_t n = strcspn(name, ",");
        if (!values[i])
            break;
        buf_addf(out, "%s%.*s=\"", i ? "," : "", (int)n, name);
        for (const char *v = values[i]; *v; v++) {
            if (*v == '\\' || *v == '"')
                buf_addc(out, '\\');
            buf_addc(out, (unsigned char)*v < ' ' ? ' ' : *v);
        }
        buf_addc(out, '"');
        name += n + (name[n] == ',');
    }
    size_t want = *def->labels ? 1 : 0;
    for (const char *p = def->labels; *p; p++)
        want += *p == ',';
    if (i == want && !values[i])
        return;
    fprintf(stderr, "metric %s has the labels '%s', and another number of values\n", def->name,
        def->labels);
    abort();
}

static struct family *find_family(const struct metric_def *def)
{
    mutex_assert_held(&mu);
    struct family *f = families;
    while (f && f->def != def)
        f = f->next;
    if (f)
        return f;
    f = xcalloc(1, sizeof *f);
    f->def = def;
    f->last = &f->first;
    *families_end = f;
    families_end = &f->next;
    return f;
}

struct metric *metric_find(const struct metric_def *def, const char *const *values)
{
    cleanup_buf struct buf labels = BUF_INIT(LABELS_MAX);
    add_labels(&labels, def, values);
    pthread_mutex_lock(&mu);
    struct family *f = find_family(def);
    struct metric *m = f->first;
    while (m && strcmp(m->labels, buf_str(&labels)) != 0)
        m = m->next;
    if (!m) {
        m = xcalloc(1, sizeof *m);
        m->labels = xstrdup(buf_str(&labels));
        m->def = def;
        if (def->type == METRIC_TYPE_HISTOGRAM)
            m->buckets = xcalloc(BUCKETS, sizeof *m->buckets);
        *f->last = m;
        f->last = &m->next;
    }
    pthread_mutex_unlock(&mu);
    return m;
}

void metric_add(struct metric *m, int64_t delta)
{
    atomic_fetch_add_explicit(&m->value, delta, memory_order_relaxed);
    if (m->def->type != METRIC_TYPE_HISTOGRAM)
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

static void write_histogram(struct buf *out, const struct family *f, const struct metric *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        sum += atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
        buf_addf(out, "%s_bucket{%s%sle=\"", f->def->name, m->labels, *m->labels ? "," : "");
        if (i < ARRAY_LEN(bounds_s))
            buf_addf(out, "%g", bounds_s[i]);
        else
            buf_adds(out, "+Inf");
        buf_addf(out, "\"} %" PRIu64 "\n", sum);
    }
    const char *open = *m->labels ? "{" : "", *close_ = *m->labels ? "}" : "";
    buf_addf(out, "%s_sum%s%s%s %.9f\n", f->def->name, open, m->labels, close_,
        (double)metric_value(m) / 1e9);
    buf_addf(out, "%s_count%s%s%s %" PRIu64 "\n", f->def->name, open, m->labels, close_, sum);
}

static void write_metric(struct buf *out, const struct family *f, const struct metric *m)
{
    if (f->def->type == METRIC_TYPE_HISTOGRAM) {
        write_histogram(out, f, m);
        return;
    }
    const char *open = *m->labels ? "{" : "", *close_ = *m->labels ? "}" : "";
    buf_addf(out, "%s%s%s%s %" PRId64 "\n", f->def->name, open, m->labels, close_, metric_value(m));
}

static const char *type_name(enum metric_type type)
{
    switch (type) {
    case METRIC_TYPE_COUNTER:
        return "counter";
    case METRIC_TYPE_GAUGE:
        return "gauge";
    case METRIC_TYPE_HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

void metric_head(struct buf *out, const struct metric_def *def)
{
    buf_addf(
        out, "# HELP %s %s\n# TYPE %s %s\n", def->name, def->help, def->name, type_name(def->type));
}

void metric_write_sample(
    struct buf *out, const struct metric_def *def, double value, const char *const *values)
{
    buf_adds(out, def->name);
    if (*def->labels)
        buf_addc(out, '{');
    add_labels(out, def, values);
    buf_addf(out, "%s %.15g\n", *def->labels ? "}" : "", value);
}

static void write_process(struct buf *out)
{
    long pages = 0;
    cleanup_file FILE *statm = fopen("/proc/self/statm", "re");
    if (statm && fscanf(statm, "%*d %ld", &pages) != 1)
        pages = 0;
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    metric_head(out, &resident);
    metric_sample(out, &resident, (double)pages * (double)sysconf(_SC_PAGESIZE));
    metric_head(out, &cpu_seconds);
    metric_sample(out, &cpu_seconds, (double)cpu.tv_sec + (double)(cpu.tv_nsec / 1000000) / 1e3);
}

void metric_write(struct buf *out)
{
    pthread_mutex_lock(&mu);
    for (const struct family *f = families; f; f = f->next) {
        metric_head(out, f->def);
        for (const struct metric *m = f->first; m; m = m->next)
            write_metric(out, f, m);
    }
    pthread_mutex_unlock(&mu);
    write_process(out);
}

static int compare_defs(const void *a, const void *b)
{
    const struct metric_def *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

int metric_list(void)
{
    /* the linker's names of the section's ends */
    extern const struct metric_def *const __start_metric_defs[], *const __stop_metric_defs[];
    size_t n = (size_t)(__stop_metric_defs - __start_metric_defs);
    cleanup_free const struct metric_def **all = xcalloc(n, sizeof *all);
    memcpy(all, __start_metric_defs, n * sizeof *all);
    qsort(all, n, sizeof *all, compare_defs);
    for (size_t i = 0; i < n; i++)
        printf("%s\t%s\t%s\t%s\n", all[i]->name, type_name(all[i]->type), all[i]->labels,
            all[i]->help);
    return fflush(stdout) ? 1 : 0;
}
