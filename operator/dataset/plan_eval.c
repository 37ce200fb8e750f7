/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of the plan of a Dataset ask of its pods: their health, are they up to date, which
 * is worker 3. */
#include "operator/dataset/observed.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "operator/dataset/dead_node.h"
#include "operator/render/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_MAX 253 /* characters of a name in DNS */

const struct cache_pod *dataset_worker(const struct dataset_eval *v, int index)
{
    cleanup_free char *name = render_worker_name(v->d->name, index);
    const struct cache_pod *m = map_get(v->by_name, name);
    return m && cache_pod_is(m->pod, COMPONENT_WORKER) ? m : NULL;
}

/* The last worker's name, NAME-cache-9.NAME-cache.NAMESPACE.svc, and what a pod's resolv.conf adds
 * to it first. Where that is too long, resolvers look no further. */
static size_t host_length(const struct dataset *d, size_t name)
{
    static const char fixed[] = "-cache-.-cache..svc..svc.cluster.local";
    char index[16];
    int digits = snprintf(index, sizeof index, "%d", d->replicas - 1);
    return 2 * name + 2 * strlen(d->ns) + strlen(fixed) + (size_t)digits;
}

bool dataset_unresolvable(const struct dataset *d, char out[DATASET_WORDS_LEN])
{
    size_t name = strlen(d->name), fits = name;
    if (d->replicas == 0 || host_length(d, name) <= HOST_MAX)
        return false;
    while (host_length(d, fits) > HOST_MAX)
        fits--;
    snprintf(out, DATASET_WORDS_LEN,
        "their addresses are longer than the %d characters of DNS, so nobody finds them: in this namespace, whose name has %zu, make the Dataset with a name of at most %zu instead of %zu, or write spec.cache.replicas: 0",
        HOST_MAX, strlen(d->ns), fits, name);
    return true;
}

size_t dataset_lacks_claim(const struct dataset_observed *o, const struct dataset *d)
{
    for (size_t i = 0; o->claims && i < d->nmounts; i++)
        if (d->mounts[i].claim && !json_object_get(o->claims, d->mounts[i].claim))
            return i;
    return SIZE_MAX;
}

/* Which pods are what would be made of the spec now? */
static void evaluate_current(const struct dataset_observed *o, struct dataset_eval *v)
{
    cleanup_free char *stamp = render_client_stamp(v->d, &o->env);
    for (size_t i = 0; i < o->npods; i++)
        v->current[i] = cache_pod_is(o->pods[i].pod, COMPONENT_CLIENT)
            && strcmp(kube_annotation(o->pods[i].pod, ANNOTATION_HASH), stamp) == 0;
    for (int i = 0; i < v->d->replicas; i++) {
        const struct cache_pod *m = dataset_worker(v, i);
        cleanup_json json_t *desired = m ? render_worker(v->d, &o->env, i, NULL) : NULL;
        if (m)
            v->current[m - o->pods] = render_same(desired, m->pod);
    }
}

void dataset_evaluate(
    const struct dataset_observed *o, const struct dataset *d, struct dataset_eval *v)
{
    *v = (struct dataset_eval){.d = d,
        .health = xcalloc(o->npods + 1, sizeof *v->health),
        .current = xcalloc(o->npods + 1, sizeof *v->current),
        .by_name = map_new(NULL),
        .making = {.d = d,
            .env = &o->env,
            .workers = d ? cache_pod_workers(d, o->pods, o->npods, o->now_ns) : 0,
            .key_made = d && cache_pod_key_made(d, &o->env, o->pods, o->npods, o->said),
            .said = o->said,
            .now_ns = o->now_ns}};
    for (size_t i = 0; i < o->npods; i++) {
        cache_pod_evaluate(&o->pods[i], d, o->now_ns, &v->health[i]);
        map_put(v->by_name, kube_name(o->pods[i].pod), (void *)(uintptr_t)&o->pods[i]);
    }
    if (d)
        evaluate_current(o, v);
    const struct clients_observed clients = {.d = d,
        .dataset = kube_name(o->cr),
        .attachments = o->attachments,
        .nattachments = o->nattachments,
        .nodes = o->nodes,
        .pods = o->pods,
        .npods = o->npods,
        .now_ns = o->now_ns,
        .env = &o->env,
        .said = o->said};
    clients_take(&clients, &v->clients);
}

bool dataset_abandon(const struct dataset_observed *o, size_t at, struct plan *p)
{
    return o->pod_nodes
        && pod_abandon(p, &kube_datasets, o->cr, o->pods[at].pod, o->pod_nodes[at], o->now_ns);
}

void dataset_eval_free(struct dataset_eval *v)
{
    clients_free(&v->clients);
    map_free(v->by_name);
    free(v->health);
    free(v->current);
}
