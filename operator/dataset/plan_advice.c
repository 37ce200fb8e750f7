/* SPDX-License-Identifier: Apache-2.0 */
/* What users would want to know before they ask why it is slow: does the data fit into the cache,
 * and is a node slower than it could be? None of it makes a Dataset less ready. */
#include "operator/dataset/observed.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/api/dataset_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB         (INT64_C(1) << 30)
#define NAMES_MAX   3   /* nodes that a message names */
#define FITS_AGAIN  95  /* % of the cache: data at its edge does not change the answer each time */
#define SUGGEST_PCT 110 /* of the data: room to grow */

static void advise(struct dataset_advice *a, enum cond_status status, const char *reason,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void advise(
    struct dataset_advice *a, enum cond_status status, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->message, sizeof a->message, fmt, ap);
    va_end(ap);
    a->cond = (struct cond){a->cond.type, status, reason, a->message};
    a->keep = false;
}

/* The condition as it is recorded; NULL: there is none, or it is not known. */
static const json_t *recorded(const struct dataset_observed *o, const char *type)
{
    const json_t *was = cond_find(jget_arr(o->cr, "status.conditions"), type);
    return strcmp(jget_str(was, "status", "Unknown"), "Unknown") != 0 ? was : NULL;
}

/* ---- CacheFits ---- */

/* Without the zeros of "20.00GiB". */
static const char *short_bytes(int64_t bytes, char out[HUMAN_BYTES_LEN])
{
    char *zeros = strstr(human_bytes((uint64_t)bytes, out), ".00");
    if (zeros)
        memmove(zeros, zeros + 3, strlen(zeros + 3) + 1);
    return out;
}

static int64_t quota_sum(const struct dataset_tiers *t)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->n; i++)
        if (__builtin_add_overflow(sum, t->tier[i].quota, &sum))
            return INT64_MAX;
    return sum;
}

static int64_t at_least_gib(int64_t bytes)
{
    double wanted = (double)bytes * SUGGEST_PCT / 100 / (double)GIB;
    return (int64_t)wanted + 1;
}

static bool tiers_equal(const struct dataset_tiers *a, const struct dataset_tiers *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = a->tier[i].medium == b->tier[i].medium && a->tier[i].quota == b->tier[i].quota;
    return same;
}

static void advise_quota(
    const struct dataset *d, int64_t data, int64_t each, int64_t node, struct dataset_advice *a)
{
    char size[HUMAN_BYTES_LEN], all[HUMAN_BYTES_LEN], one[HUMAN_BYTES_LEN];
    int64_t replicas = d->replicas;
    short_bytes(data, size);
    short_bytes(node, one);
    if (!replicas) {
        advise(a, COND_FALSE, "CacheTooSmall",
            "%s of data, %s of cache on each node and no cache workers: a second epoch reads the store again; "
            "set spec.cache.replicas, or spec.cache.tiers[].quota to %lldGi%s",
            size, one, (long long)at_least_gib(data), d->client.tiers.n > 1 ? " together" : "");
        return;
    }
    const char *field = tiers_equal(&d->worker.tiers, &d->tiers) ? "spec.cache.tiers"
                                                                 : "spec.cache.worker.tiers";
    advise(a, COND_FALSE, "CacheTooSmall",
        "%s of data, %s of cache on %lld worker%s and %s a node: a second epoch reads the store again; "
        "set %s[].quota to %lldGi%s, or spec.cache.replicas to %lld, or preload paths that fit (spec.cache.preload)",
        size, short_bytes(each * replicas, all), (long long)replicas, replicas == 1 ? "" : "s", one,
        field, (long long)at_least_gib(data / replicas), d->worker.tiers.n > 1 ? " together" : "",
        (long long)((double)data * SUGGEST_PCT / 100 / (double)MAX(each, 1)) + 1);
}

void dataset_advise_cache(
    const struct dataset_observed *o, const struct dataset_status *s, struct dataset_advice *a)
{
    const struct dataset *d = s->spec;
    struct dataset_reading r;
    char size[HUMAN_BYTES_LEN], room[HUMAN_BYTES_LEN];
    const json_t *was = recorded(o, DATASET_COND_CACHE_FITS);
    *a = (struct dataset_advice){.cond.type = DATASET_COND_CACHE_FITS};
    dataset_read(o->cr, &r);
    if (s->has_ufs) {
        r.bytes = s->ufs_bytes;
        r.counted = s->ufs_complete;
    }
    if (!d || !r.counted || r.bytes < 0) {
        advise(a, COND_UNKNOWN, "SizeUnknown",
            d && !d->replicas
                ? "the size of the data is not known: cache workers count it, and spec.cache.replicas is 0"
                : "the size of the data is not known yet: a cache worker counts it");
        a->keep = was != NULL; /* it is counted anew: what was true stays until it is known */
        return;
    }
    int64_t each = quota_sum(&d->worker.tiers), node = quota_sum(&d->client.tiers), all;
    if (__builtin_mul_overflow(each, (int64_t)d->replicas, &all))
        all = INT64_MAX;
    int64_t most = MAX(all, node);
    bool same_spec = jget_int(was, "observedGeneration", -1) == d->generation;
    if (was && same_spec && strcmp(jget_str(was, "status", ""), "False") == 0)
        most = most / 100 * FITS_AGAIN;
    if (r.bytes > most)
        advise_quota(d, r.bytes, each, node, a);
    else if (r.bytes <= all)
        advise(a, COND_TRUE, "Fits", "%s of data, %s of cache on %d worker%s",
            short_bytes(r.bytes, size), short_bytes(all, room), d->replicas,
            d->replicas == 1 ? "" : "s");
    else
        advise(a, COND_TRUE, "Fits", "%s of data, %s of cache on each node",
            short_bytes(r.bytes, size), short_bytes(node, room));
}

/* ---- FullSpeed ---- */

struct speed_node {
    const char *name, *refused;
    unsigned major, minor; /* of its kernel */
    bool passthrough, resend, needs_passthrough;
};

/* Those nodes whose kernel lacks the same thing. */
struct speed_group {
    const struct speed_node *node[NAMES_MAX]; /* the first by name */
    size_t n;
    const struct speed_node *oldest, *newest;
    bool needs_passthrough; /* one of them */
};

static int by_node_name(const void *a, const void *b)
{
    return strcmp(((const struct speed_node *)a)->name, ((const struct speed_node *)b)->name);
}

static bool older(const struct speed_node *a, const struct speed_node *b)
{
    return a->major != b->major ? a->major < b->major : a->minor < b->minor;
}

static void group_add(struct speed_group *g, const struct speed_node *n)
{
    if (g->n < NAMES_MAX)
        g->node[g->n] = n;
    g->n++;
    g->oldest = !g->oldest || older(n, g->oldest) ? n : g->oldest;
    g->newest = !g->newest || older(g->newest, n) ? n : g->newest;
    g->needs_passthrough |= n->needs_passthrough;
}

/* "n1, n2, n3 and 5 more" */
static const char *group_names(const struct speed_group *g, char *out, size_t cap)
{
    size_t len = 0;
    *out = '\0';
    for (size_t i = 0; i < MIN(g->n, NAMES_MAX) && len < cap; i++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s", i ? ", " : "", g->node[i]->name);
    if (g->n > NAMES_MAX && len < cap)
        snprintf(out + len, cap - len, " and %zu more", g->n - NAMES_MAX);
    return out;
}

/* "Linux 6.6", "Linux 5.15 to 6.6" */
static const char *group_kernels(const struct speed_group *g, char *out, size_t cap)
{
    int len = snprintf(out, cap, "Linux %u.%u", g->oldest->major, g->oldest->minor);
    if (older(g->oldest, g->newest))
        snprintf(out + len, cap - (size_t)len, " to %u.%u", g->newest->major, g->newest->minor);
    return out;
}

static bool read_node(const struct cache_pod *p, struct speed_node *n)
{
    const char *release = jget_str(p->report, REPORT_KERNEL_RELEASE, "");
    if (!cache_pod_is(p->pod, COMPONENT_CLIENT) || kube_deleting(p->pod) || !*release)
        return false;
    *n = (struct speed_node){.name = jget_str(p->pod, "spec.nodeName", ""),
        .refused = jget_str(p->report, REPORT_KERNEL_REFUSED, ""),
        .passthrough = jget_bool(p->report, REPORT_KERNEL_PASSTHROUGH, false),
        .resend = jget_bool(p->report, REPORT_KERNEL_RESEND, false),
        /* of data that nobody changes the kernel keeps what it has read */
        .needs_passthrough = strcmp(jget_str(p->report, REPORT_PROFILE, ""), "sealed") != 0};
    char *end;
    n->major = (unsigned)strtoul(release, &end, 10);
    n->minor = *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    return true;
}

static void advise_nodes(
    const struct speed_node *nodes, size_t n, int desired, struct dataset_advice *a)
{
    struct speed_group old = {0}, without = {0}, refused = {0};
    char names[400], kernels[64];
    for (size_t i = 0; i < n; i++) {
        const struct speed_node *node = &nodes[i];
        if (!node->resend)
            group_add(&old, node);
        else if (!node->passthrough && node->needs_passthrough)
            group_add(&without, node);
        else if (*node->refused)
            group_add(&refused, node);
    }
    if (old.n)
        advise(a, COND_FALSE, "KernelTooOld",
            "%zu of %zu nodes run %s: %sreads that are under way when a client is killed hang there: %s; use nodes with Linux 6.9 or later",
            old.n, n, group_kernels(&old, kernels, sizeof kernels),
            old.needs_passthrough ? "no passthrough, cached files are read through the client, and "
                                  : "",
            group_names(&old, names, sizeof names));
    else if (without.n)
        advise(a, COND_FALSE, "KernelWithoutPassthrough",
            "%zu of %zu nodes run %s built without CONFIG_FUSE_PASSTHROUGH: cached files are read through the client there: %s; "
            "use a kernel that has it",
            without.n, n, group_kernels(&without, kernels, sizeof kernels),
            group_names(&without, names, sizeof names));
    else if (refused.n)
        advise(a, COND_FALSE, "PassthroughRefused",
            "on %zu of %zu nodes the kernel reads no cached file by itself, but through the client: %s: %.200s; "
            "put the cache on a local ext4 or xfs (csi.cacheDir of the chart)",
            refused.n, n, group_names(&refused, names, sizeof names), refused.node[0]->refused);
    else if (n)
        advise(a, COND_TRUE, "AllNodes", "no node that uses it is slower than it could be");
    else
        advise(a, COND_UNKNOWN, desired ? "Starting" : "NotInUse",
            desired ? "no client has told yet what the kernel of its node can do"
                    : "no node uses the volume; what a kernel can do is known once one does");
}

void dataset_advise_speed(const struct dataset_observed *o, int desired, struct dataset_advice *a)
{
    const json_t *was = recorded(o, DATASET_COND_FULL_SPEED);
    bool was_slow = strcmp(jget_str(was, "status", ""), "False") == 0;
    cleanup_free struct speed_node *nodes = xcalloc(o->npods + 1, sizeof *nodes);
    size_t n = 0;
    *a = (struct dataset_advice){.cond.type = DATASET_COND_FULL_SPEED};
    for (size_t i = 0; i < o->npods; i++)
        n += read_node(&o->pods[i], &nodes[n]);
    qsort(nodes, n, sizeof *nodes, by_node_name);
    advise_nodes(nodes, n, desired, a);
    /* a client that is replaced may be that of the slow node: wait until all have told */
    a->keep = (int)n < desired
        && ((was_slow && a->cond.status != COND_FALSE) || (was && a->cond.status == COND_UNKNOWN));
}
