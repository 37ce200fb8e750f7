/* SPDX-License-Identifier: Apache-2.0 */
/* How many cache workers the pods of a Dataset are told of. It is not in their spec: another number
 * would make all of them anew. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/ctl/verdicts.h"
#include "operator/dataset/cache_pod.h"
#include "operator/render/meta.h"
#include "operator/render/volume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct number {
    char text[12];
};

static struct number in_words(int workers)
{
    struct number n;
    snprintf(n.text, sizeof n.text, "%d", workers);
    return n;
}

/* The largest number that any of the pods was told; -1: none. */
static int told(const struct cache_pod *pods, size_t npods)
{
    int most = -1;
    for (size_t i = 0; i < npods; i++) {
        const char *text = kube_annotation(pods[i].pod, ANNOTATION_WORKERS);
        long n = *text ? strtol(text, NULL, 10) : -1;
        most = n >= 0 && n <= DATASET_REPLICAS_MAX ? MAX(most, (int)n) : most;
    }
    return most;
}

static enum cache_pod_state state_of_worker(
    const struct dataset *d, int index, const struct cache_pod *pods, size_t npods, int64_t now_ns)
{
    cleanup_free char *name = render_worker_name(d->name, index);
    struct cache_pod_health v = {.state = CACHE_POD_STARTING};
    for (size_t i = 0; i < npods; i++)
        if (cache_pod_is(pods[i].pod, COMPONENT_WORKER)
            && strcmp(kube_name(pods[i].pod), name) == 0)
            cache_pod_evaluate(&pods[i], d, now_ns, &v);
    return v.state;
}

int cache_pod_workers(
    const struct dataset *d, const struct cache_pod *pods, size_t npods, int64_t now_ns)
{
    int most = told(pods, npods), serving = 0;
    if (most < 0 || most >= d->replicas)
        return d->replicas;
    while (serving < d->replicas
        && state_of_worker(d, serving, pods, npods, now_ns) == CACHE_POD_READY)
        serving++;
    for (int i = serving; i < d->replicas; i++) /* all at once, but for those that cannot */
        if (state_of_worker(d, i, pods, npods, now_ns) != CACHE_POD_PROBLEM)
            return most;
    return MAX(most, serving);
}

/* Has any of its pods served? Then its key was made. */
static bool has_served(const json_t *dataset)
{
    return jget_int(dataset, "status.workers.ready", 0) > 0
        || jget_int(dataset, "status.clients.ready", 0) > 0
        || (jget_int(dataset, "status.workers.desired", 0) > 0
            && cond_is_true(jget_arr(dataset, "status.conditions"), DATASET_COND_READY));
}

/* What its pod needs before it is there. */
static void prepare(
    struct plan *p, const struct dataset *d, const struct render_env *env, int workers, json_t *pod)
{
    if (env->master)
        plan_create_secret(p, render_key(d, env->master), has_served(d->cr));
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_WORKERS, json_string(in_words(workers).text));
}

void cache_pod_create(struct plan *p, const struct dataset *d, const struct render_env *env,
    int workers, json_t *pod_take)
{
    prepare(p, d, env, workers, pod_take);
    plan_create(p, &kube_pods, pod_take);
}

const char *cache_pod_create_heard(struct plan *p, const struct dataset *d,
    const struct render_env *env, int workers, const json_t *said, json_t *pod_take, int64_t now_ns)
{
    prepare(p, d, env, workers, pod_take);
    return plan_create_heard(p, said, pod_take, now_ns);
}

void cache_pod_tell(struct plan *p, const json_t *pod, int workers)
{
    struct number n = in_words(workers);
    if (!kube_deleting(pod) && strcmp(kube_annotation(pod, ANNOTATION_WORKERS), n.text) != 0)
        plan_patch(p, &kube_pods, pod,
            json_pack("{s:{s:{s:s}}}", "metadata", "annotations", ANNOTATION_WORKERS, n.text));
}
