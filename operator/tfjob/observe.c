#include "operator/tfjob/observe.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/tfjob/build.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_JOB "job"

/* "namespace/job": the job that an object's label names. */
static void values_job(const char *arg, const json_t *object, void (*emit)(void *to, const char *value), void *to)
{
    (void)arg;
    cleanup_free char *key = kube_key(kube_namespace(object), kube_label(object, TFJOB_LABEL_JOB));
    emit(to, key);
}

static void keep_only(json_t *object, const char *const *keys, size_t n)
{
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(object, next, key, v) {
        bool kept = false;
        for (size_t i = 0; i < n; i++)
            kept |= !strcmp(key, keys[i]);
        if (!kept)
            json_object_del(object, key);
    }
}

/* What a plan reads of a pod; the rest, most of it the user's template, is not kept in memory. */
static void trim_pod(json_t *pod)
{
    static const char *const annotations[] = {ANNOTATION_RESTARTS}, *const spec[] = {"nodeName"},
                             *const status[] = {"phase", "reason", "message", "conditions", "containerStatuses", "initContainerStatuses"},
                             *const container[] = {"name", "restartCount", "state"};
    keep_only(json_object_get(json_object_get(pod, "metadata"), "annotations"), annotations, ARRAY_LEN(annotations));
    keep_only(json_object_get(pod, "spec"), spec, ARRAY_LEN(spec));
    json_t *s = json_object_get(pod, "status"), *c;
    keep_only(s, status, ARRAY_LEN(status));
    size_t i;
    json_array_foreach(json_object_get(s, "containerStatuses"), i, c)
        keep_only(c, container, ARRAY_LEN(container));
    json_array_foreach(json_object_get(s, "initContainerStatuses"), i, c)
        keep_only(c, container, ARRAY_LEN(container));
}

static void trim_service(json_t *service)
{
    json_object_del(service, "spec");
    json_object_del(service, "status");
}

void tfjob_caches_make(struct operator_env *env, struct tfjob_caches *out)
{
    static const char ours[] = TFJOB_LABEL_OPERATOR "=" TFJOB_OPERATOR_NAME;
    static const struct cache_index by_job[] = {{INDEX_JOB, values_job, NULL}};
    out->jobs = env_cache(env, &(struct cache_conf){.res = &kube_tfjobs, .ns = env->watch_ns});
    out->pods = env_cache(env, &(struct cache_conf){.res = &kube_pods, .ns = env->watch_ns, .labels = ours, .indexes = by_job,
                                                    .nindexes = 1, .trim = trim_pod});
    out->services = env_cache(env, &(struct cache_conf){.res = &kube_services, .ns = env->watch_ns, .labels = ours, .indexes = by_job,
                                                        .nindexes = 1, .trim = trim_service});
}

static const json_t **borrow(const struct objs *l)
{
    const json_t **v = xcalloc(l->n + 1, sizeof *v);
    for (size_t i = 0; i < l->n; i++)
        v[i] = obj_json(l->v[i]);
    return v;
}

void tfjob_observe(const struct tfjob_caches *c, const char *key, int64_t now_ns, const char *domain, struct tfjob_observed *out)
{
    *out = (struct tfjob_observed){.job = cache_get(c->jobs, key)};
    out->world.now_ns = now_ns;
    out->world.domain = domain;
    out->world.job = obj_json(out->job);
    if (!out->job)
        return;
    out->pods = cache_by(c->pods, INDEX_JOB, key);
    out->services = cache_by(c->services, INDEX_JOB, key);
    out->world.pods = borrow(&out->pods);
    out->world.services = borrow(&out->services);
    out->world.npods = out->pods.n;
    out->world.nservices = out->services.n;
}

void tfjob_observed_free(struct tfjob_observed *o)
{
    free(o->world.pods);
    free(o->world.services);
    objs_free(&o->pods);
    objs_free(&o->services);
    obj_unref(o->job);
    *o = (struct tfjob_observed){0};
}
