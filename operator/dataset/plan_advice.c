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

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB       (INT64_C(1) << 20)
#define GIB       (INT64_C(1) << 30)
#define NAMES_MAX 3  /* nodes that a message names */
#define FULL_PCT  95 /* of a cache in use: it begins to give room away (fuse/cache) */
#define FITS_AGAIN                                                                \
    90 /* likewise, so that data at the edge does not change the answer each time \
        */
#define PART      (64 * MIB) /* of a file, that one worker has (fuse/peers) */
#define PAGE      4096       /* a file takes whole ones */
#define QUOTA_LEN 24
/* of the fullest worker's share from the mean: what is advised is enough, as good as always */
#define DEVIATIONS_SURE 3
#define TOO_TIGHT                                                                              \
    ", of which 95 % are used before some leaves, files take whole pages and workers' shares " \
    "differ"

struct cache_data {
    int64_t bytes, files;
};

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

static int64_t root_of(int64_t n) /* rounded up; of what is not above 2^62 */
{
    int64_t low = 0, high = INT64_C(1) << 31;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (mid * mid < n)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* What the fullest of n caches gets of the data: files lie there in pages, and a hash deals parts
 * of PART out to them, unevenly by `deviations`. */
static double fullest_share(const struct cache_data *data, int64_t n, int deviations)
{
    double all = (double)data->bytes + (double)data->files * PAGE, share = all / (double)n;
    double uneven = n > 1
        ? deviations * (double)root_of((int64_t)MIN(share, 1e15)) * (double)root_of(PART)
        : 0;
    return MIN(all, share + uneven);
}

/* Does all of it stay in n caches of so many bytes each? They give room away from FULL_PCT on. */
static bool stays(
    const struct cache_data *data, int64_t n, int64_t each, int deviations, int full_pct)
{
    return n > 0 && fullest_share(data, n, deviations) <= (double)each / 100 * full_pct;
}

/* So much room that what is asked for surely is enough, in figures that people write: "120Mi",
 * "2.3Gi", "79Gi", "1.25Ti". Of more than a tier may have: "". */
static const char *quota_for(const struct cache_data *data, int64_t n, char out[QUOTA_LEN])
{
    static const struct {
        int64_t below, unit; /* bytes */
        int parts;           /* of a unit, that are told */
        const char *name;
    } steps[] = {{100 * MIB, MIB, 1, "Mi"}, {GIB, 10 * MIB, 1, "0Mi"}, {10 * GIB, GIB, 10, "Gi"},
        {1024 * GIB, GIB, 1, "Gi"}, {10240 * GIB, 1024 * GIB, 100, "Ti"},
        {1048576 * GIB, 1024 * GIB, 1, "Ti"}};
    double need = fullest_share(data, n, DEVIATIONS_SURE) * 100 / FULL_PCT;
    *out = '\0';
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        double part = (double)steps[i].unit / steps[i].parts;
        int64_t parts = (int64_t)(need / part) + 1;
        if ((double)parts * part > (double)steps[i].below)
            continue;
        if (parts % steps[i].parts == 0)
            snprintf(out, QUOTA_LEN, "%" PRId64 "%s", parts / steps[i].parts, steps[i].name);
        else
            snprintf(out, QUOTA_LEN, "%.*f%s", steps[i].parts == 100 ? 2 : 1,
                (double)parts / steps[i].parts, steps[i].name);
        break;
    }
    return out;
}

/* The fewest workers of `each` that surely are enough; 0: more than are made. */
static int64_t workers_for(const struct cache_data *data, int64_t each, int most)
{
    int64_t n = 1;
    if (!most)
        most = DATASET_REPLICAS_MAX;
    while (n <= most && !stays(data, n, each, DEVIATIONS_SURE, FULL_PCT))
        n++;
    return n <= most ? n : 0;
}

static bool tiers_equal(const struct dataset_tiers *a, const struct dataset_tiers *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = a->tier[i].medium == b->tier[i].medium && a->tier[i].quota == b->tier[i].quota;
    return same;
}

/* "set A to X, or B to Y, or preload paths that fit": of what there is to be said. */
static void advise_quota(const struct dataset *d, const struct cache_data *data, int64_t each,
    int64_t node, int most_workers, struct dataset_advice *a)
{
    char size[HUMAN_BYTES_LEN], all[HUMAN_BYTES_LEN], one[HUMAN_BYTES_LEN], quota[QUOTA_LEN];
    char set[160] = "", more[64] = "";
    int64_t replicas = d->replicas;
    short_bytes(data->bytes, size);
    short_bytes(node, one);
    if (!replicas) {
        if (*quota_for(data, 1, quota))
            snprintf(set, sizeof set, ", or spec.cache.tiers[].quota to %s%s", quota,
                d->client.tiers.n > 1 ? " together" : "");
        advise(a, COND_FALSE, "CacheTooSmall",
            "%s of data, %s of cache on each node and no cache workers: a second epoch reads the store again; "
            "set spec.cache.replicas%s",
            size, one, set);
        return;
    }
    const char *field = tiers_equal(&d->worker.tiers, &d->tiers) ? "spec.cache.tiers"
                                                                 : "spec.cache.worker.tiers";
    if (*quota_for(data, replicas, quota))
        snprintf(set, sizeof set, "set %s[].quota to %s%s, or ", field, quota,
            d->worker.tiers.n > 1 ? " together" : "");
    int64_t workers = workers_for(data, each, most_workers);
    if (workers)
        snprintf(more, sizeof more, "%sspec.cache.replicas to %lld, or ", *set ? "" : "set ",
            (long long)workers);
    advise(a, COND_FALSE, "CacheTooSmall",
        "%s of data, %s of cache on %lld worker%s and %s a node%s: a second epoch reads the store again; "
        "%s%spreload paths that fit (spec.cache.preload)",
        size, short_bytes(each * replicas, all), (long long)replicas, replicas == 1 ? "" : "s", one,
        data->bytes <= MAX(each * replicas, node) ? TOO_TIGHT : "", set, more);
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
        r.files = s->ufs_files;
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
    const struct cache_data data = {r.bytes, MAX(r.files, 0)};
    int64_t each = quota_sum(&d->worker.tiers), node = quota_sum(&d->client.tiers), all;
    if (__builtin_mul_overflow(each, (int64_t)d->replicas, &all))
        all = INT64_MAX;
    bool same_spec = jget_int(was, "observedGeneration", -1) == d->generation;
    bool was_small = was && same_spec && strcmp(jget_str(was, "status", ""), "False") == 0;
    int full = was_small ? FITS_AGAIN : FULL_PCT;
    if (stays(&data, d->replicas, each, 1, full))
        advise(a, COND_TRUE, "Fits", "%s of data, %s of cache on %d worker%s",
            short_bytes(r.bytes, size), short_bytes(all, room), d->replicas,
            d->replicas == 1 ? "" : "s");
    else if (stays(&data, 1, node, 1, full))
        advise(a, COND_TRUE, "Fits", "%s of data, %s of cache on each node",
            short_bytes(r.bytes, size), short_bytes(node, room));
    else
        advise_quota(d, &data, each, node, o->env.most_workers, a);
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
