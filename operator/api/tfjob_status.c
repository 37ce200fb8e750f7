/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a TFJob. Beside upstream's fields there is status.indexes:
 *   {"Worker": {"completed": "0,2-4", "restarts": {"1": 3}, "disruptions": {"3": 1}}}
 */
#include "operator/api/tfjob.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tfjob_index *tfjob_index_at(struct tfjob_indexes *m, size_t index)
{
    if (index >= TFJOB_REPLICAS_MAX)
        abort(); /* callers check: parse limits replicas, read limits what was stored */
    if (index >= m->n) {
        m->index = xrealloc(m->index, (index + 1) * sizeof *m->index);
        memset(m->index + m->n, 0, (index + 1 - m->n) * sizeof *m->index);
        m->n = index + 1;
    }
    return &m->index[index];
}

struct tfjob_index tfjob_index_of(const struct tfjob_indexes *m, size_t index)
{
    return index < m->n ? m->index[index] : (struct tfjob_index){0};
}
bool tfjob_completed(const struct tfjob_indexes *m, size_t index)
{
    return tfjob_index_of(m, index).completed;
}
int tfjob_restarts(const struct tfjob_indexes *m, size_t index)
{
    return tfjob_index_of(m, index).restarts;
}

/* A decimal number at *p that is an index; -1 if there is none. */
static long read_index(const char **p)
{
    char *end;
    long v = **p >= '0' && **p <= '9' ? strtol(*p, &end, 10) : -1;
    if (v < 0 || v >= TFJOB_REPLICAS_MAX)
        return -1;
    *p = end;
    return v;
}

static void read_completed(const char *text, struct tfjob_indexes *m)
{
    for (const char *p = text; *p;) {
        long first = read_index(&p), last = first;
        if (first >= 0 && *p == '-') {
            p++;
            last = read_index(&p);
        }
        if (first < 0 || last < first || (*p && *p != ','))
            return;
        for (long i = first; i <= last; i++)
            tfjob_index_at(m, (size_t)i)->completed = true;
        p += *p == ',';
    }
}

/* The numbers of an index that are stored by themselves. */
static int *restarts_of(struct tfjob_index *x) { return &x->restarts; }
static int *disruptions_of(struct tfjob_index *x) { return &x->disruptions; }

/* {"1": 3} */
static void read_numbers(
    const json_t *numbers, struct tfjob_indexes *m, int *(*of)(struct tfjob_index *))
{
    const char *key;
    json_t *count;
    json_object_foreach ((json_t *)numbers, key, count) {
        const char *p = key;
        long i = read_index(&p);
        json_int_t n = json_integer_value(count);
        if (i >= 0 && !*p && n > 0)
            *of(tfjob_index_at(m, (size_t)i)) = (int)MIN(n, INT32_MAX / 2);
    }
}

static void read_indexes(const json_t *v, struct tfjob_indexes *m)
{
    read_completed(jget_str(v, "completed", ""), m);
    read_numbers(jget_obj(v, "restarts"), m, restarts_of);
    read_numbers(jget_obj(v, "disruptions"), m, disruptions_of);
}

static int read_count(const json_t *v, const char *key)
{
    int64_t n = jget_int(v, key, 0);
    return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

static int64_t time_of(const json_t *status, const char *field)
{
    int64_t ns = 0;
    const char *text = jget_str(status, field, NULL);
    return text && clock_parse_rfc3339(text, &ns) == 0 ? ns : 0;
}

void tfjob_status_read(const json_t *cr, struct tfjob_status *out)
{
    *out = (struct tfjob_status){0};
    const json_t *status = jget_obj(cr, "status");
    out->generation = jget_int(cr, "metadata.generation", 0);
    out->conditions = cond_copy(status);
    out->start_ns = time_of(status, "startTime");
    out->completion_ns = time_of(status, "completionTime");
    out->last_reconcile = jget_str(status, "lastReconcileTime", NULL);
    out->datasets = json_deep_copy(jget_arr(status, "datasets"));
    const char *key;
    json_t *v;
    enum tfjob_type t;
    json_object_foreach ((json_t *)jget_obj(status, "replicaStatuses"), key, v)
        if (tfjob_type_parse(key, &t))
            out->counts[t] = (struct tfjob_counts){
                true, read_count(v, "active"), read_count(v, "succeeded"), read_count(v, "failed")};
    json_object_foreach ((json_t *)jget_obj(status, "indexes"), key, v)
        if (tfjob_type_parse(key, &t))
            read_indexes(v, &out->indexes[t]);
}

static void set_count(json_t *j, const char *key, int n)
{
    if (n)
        json_object_set_new(j, key, json_integer(n));
}

static json_t *counts_json(const struct tfjob_status *s)
{
    json_t *all = json_object();
    for (int t = 0; t < TFJOB_TYPES; t++) {
        const struct tfjob_counts *c = &s->counts[t];
        if (!c->present)
            continue;
        json_t *one = json_object();
        set_count(one, "active", c->active);
        set_count(one, "succeeded", c->succeeded);
        set_count(one, "failed", c->failed);
        json_object_set_new(all, tfjob_type_name((enum tfjob_type)t), one);
    }
    return all;
}

static void set_numbers(
    json_t *j, const char *name, const struct tfjob_indexes *m, int *(*of)(struct tfjob_index *))
{
    json_t *numbers = json_object();
    for (size_t i = 0; i < m->n; i++) {
        int n = *of(&m->index[i]);
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        if (n)
            json_object_set_new(numbers, key, json_integer(n));
    }
    if (json_object_size(numbers))
        json_object_set_new(j, name, numbers);
    else
        json_decref(numbers);
}

static json_t *indexes_json(const struct tfjob_indexes *m)
{
    json_t *one = json_object();
    cleanup_buf struct buf ranges = BUF_INIT(TFJOB_REPLICAS_MAX * 6);
    for (size_t i = 0; i < m->n; i++) {
        if (!m->index[i].completed || (i && m->index[i - 1].completed))
            continue;
        size_t last = i;
        while (last + 1 < m->n && m->index[last + 1].completed)
            last++;
        buf_addf(&ranges, "%s%zu", ranges.len ? "," : "", i);
        if (last > i)
            buf_addf(&ranges, "-%zu", last);
    }
    if (ranges.len)
        json_object_set_new(one, "completed", json_string(buf_str(&ranges)));
    set_numbers(one, "restarts", m, restarts_of);
    set_numbers(one, "disruptions", m, disruptions_of);
    return one;
}

static void set_time(json_t *j, const char *key, int64_t ns)
{
    char text[CLOCK_RFC3339_LEN];
    if (!ns)
        return;
    clock_rfc3339(ns, text);
    json_object_set_new(j, key, json_string(text));
}

json_t *tfjob_status_json(const struct tfjob_status *s)
{
    json_t *j = json_pack("{s:I}", "observedGeneration", (json_int_t)s->generation),
           *counts = counts_json(s), *indexes = json_object();
    if (json_array_size(s->conditions))
        json_object_set_new(j, "conditions", json_deep_copy(s->conditions));
    if (json_object_size(counts))
        json_object_set_new(j, "replicaStatuses", counts);
    else
        json_decref(counts);
    for (int t = 0; t < TFJOB_TYPES; t++) {
        json_t *one = indexes_json(&s->indexes[t]);
        if (json_object_size(one))
            json_object_set_new(indexes, tfjob_type_name((enum tfjob_type)t), one);
        else
            json_decref(one);
    }
    if (json_object_size(indexes))
        json_object_set_new(j, "indexes", indexes);
    else
        json_decref(indexes);
    set_time(j, "startTime", s->start_ns);
    set_time(j, "completionTime", s->completion_ns);
    if (json_array_size(s->datasets))
        json_object_set_new(j, "datasets", json_deep_copy(s->datasets));
    if (s->last_reconcile)
        json_object_set_new(j, "lastReconcileTime", json_string(s->last_reconcile));
    return j;
}

void tfjob_status_forget(struct tfjob_status *s)
{
    for (int t = 0; t < TFJOB_TYPES; t++) {
        free(s->indexes[t].index);
        s->indexes[t] = (struct tfjob_indexes){0};
    }
}

void tfjob_status_free(struct tfjob_status *s)
{
    json_decref(s->conditions);
    json_decref(s->datasets);
    tfjob_status_forget(s);
    *s = (struct tfjob_status){0};
}
