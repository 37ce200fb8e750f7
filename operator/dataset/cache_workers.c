/* SPDX-License-Identifier: Apache-2.0 */
/* What the pods of a Dataset are made with: the number of cache workers, which is not in their
 * spec, since another one would make all of them anew; and the Secret with the key of these
 * workers. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
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

/* Has it started with that Secret? A pod has no address before its volumes are mounted. */
static bool has_mounted(const json_t *pod, const char *secret)
{
    const json_t *volume;
    size_t i;
    if (!*jget_str(pod, "status.podIP", ""))
        return false;
    json_array_foreach (jget_arr(pod, "spec.volumes"), i, volume)
        if (strcmp(jget_str(volume, "secret.secretName", ""), secret) == 0)
            return true;
    return false;
}

bool cache_pod_key_made(const struct dataset *d, const struct render_env *env,
    const struct cache_pod *pods, size_t npods, const json_t *said)
{
    if (!env->master)
        return false;
    cleanup_free char *name = render_key_name(d, env->master);
    bool made = verdict_is_made(said, name)
        || strcmp(jget_str(d->cr, "status.keySecret", ""), name) == 0;
    for (size_t i = 0; i < npods && !made; i++)
        made = has_mounted(pods[i].pod, name);
    return made;
}

/* What its pod needs before it is there. */
static void prepare(struct plan *p, const struct cache_pod_making *m, json_t *pod)
{
    if (m->env->master)
        plan_create_secret(p, render_key(m->d, m->env->master), m->key_made);
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_WORKERS, json_string(in_words(m->workers).text));
}

void cache_pod_create(struct plan *p, const struct cache_pod_making *m, json_t *pod_take)
{
    prepare(p, m, pod_take);
    plan_create(p, &kube_pods, pod_take);
}

const char *cache_pod_create_heard(
    struct plan *p, const struct cache_pod_making *m, json_t *pod_take)
{
    prepare(p, m, pod_take);
    return plan_create_heard(p, m->said, pod_take, m->now_ns);
}

enum verdict cache_pod_try(
    struct plan *p, const struct cache_pod_making *m, const json_t *pod, json_t *successor_take)
{
    size_t since = p->n;
    enum verdict verdict = plan_try(p, m->said, pod, successor_take, m->now_ns);
    if (m->env->master && !m->key_made)
        plan_try_with_secret(p, since, render_key(m->d, m->env->master));
    return verdict;
}

void cache_pod_tell(struct plan *p, const json_t *pod, int workers)
{
    struct number n = in_words(workers);
    if (!kube_deleting(pod) && strcmp(kube_annotation(pod, ANNOTATION_WORKERS), n.text) != 0)
        plan_patch(p, &kube_pods, pod,
            json_pack("{s:{s:{s:s}}}", "metadata", "annotations", ANNOTATION_WORKERS, n.text));
}
