/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/observe.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/ctl/trim.h"
#include "operator/dataset/cache_pods.h"
#include "operator/tfjob/names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INDEX_JOB "job"

/* "namespace/job": the job that an object's label names. */
static void values_job(
    const char *arg, const json_t *object, void (*emit)(void *to, const char *value), void *to)
{
    (void)arg;
    cleanup_free char *key = kube_key(kube_namespace(object), kube_label(object, TFJOB_LABEL_JOB));
    emit(to, key);
}

/* A failure policy may name any condition of a pod that has failed; of the others Events tell. */
static void trim_conditions(json_t *conditions, bool failed)
{
    static const char *const condition[] = {"type", "status", "reason", "message"};
    for (size_t i = json_array_size(conditions); i-- > 0;) {
        json_t *c = json_array_get(conditions, i);
        const char *type = jget_str(c, "type", "");
        bool told = !strcmp(type, "PodScheduled") || !strcmp(type, "DisruptionTarget");
        trim_to(c, condition, told ? 4 : 2);
        if (!told && !failed)
            json_array_remove(conditions, i);
    }
}

void tfjob_trim_pod(json_t *pod)
{
    static const char *const annotations[] = {ANNOTATION_RESTARTS, ANNOTATION_DISRUPTIONS},
                             *const spec[] = {"nodeName", "restartPolicy", "activeDeadlineSeconds"},
                             *const status[] = {"phase", "reason", "message", "conditions",
                                 "containerStatuses", "initContainerStatuses"},
                             *const container[] = {"name", "restartCount", "state"};
    trim_to(json_object_get(json_object_get(pod, "metadata"), "annotations"), annotations,
        ARRAY_LEN(annotations));
    trim_to(json_object_get(pod, "spec"), spec, ARRAY_LEN(spec));
    json_t *s = json_object_get(pod, "status");
    trim_to(s, status, ARRAY_LEN(status));
    trim_conditions(json_object_get(s, "conditions"), !strcmp(jget_str(s, "phase", ""), "Failed"));
    trim_each_to(json_object_get(s, "containerStatuses"), container, ARRAY_LEN(container));
    trim_each_to(json_object_get(s, "initContainerStatuses"), container, ARRAY_LEN(container));
}

static void trim_service(json_t *service)
{
    json_object_del(service, "spec");
    json_object_del(service, "status");
}

/* Jobs that have ended need no data any more: changes of their Datasets do not concern them. */
static void values_claim(
    const char *arg, const json_t *job, void (*emit)(void *to, const char *value), void *to)
{
    (void)arg;
    if (tfjob_has_ended(job))
        return;
    cleanup_json json_t *claims = tfjob_claims(job);
    cleanup_free char *logs = tfjob_tensorboard_claim(job);
    if (logs)
        json_array_append_new(claims, json_string(logs));
    for (size_t i = 0; i < json_array_size(claims); i++) {
        cleanup_free char *key = kube_key(
            kube_namespace(job), json_string_value(json_array_get(claims, i)));
        emit(to, key);
    }
}

static void values_leaving(
    const char *arg, const json_t *pod, void (*emit)(void *to, const char *value), void *to)
{
    (void)arg;
    if (kube_deleting(pod) && *jget_str(pod, "spec.nodeName", ""))
        emit(to, jget_str(pod, "spec.nodeName", ""));
}

static void trim_tensorboard(json_t *deployment)
{
    json_object_del(deployment, "spec");
    json_object_del(deployment, "status");
}

static void trim_pod_group(json_t *group)
{
    static const char *const status[] = {"phase", "conditions"};
    trim_to(json_object_get(group, "status"), status, ARRAY_LEN(status));
}

int tfjob_informers_make(struct manager *mgr, struct tfjob_informers *out, struct err *e)
{
    static const char ours[] = TFJOB_LABEL_OPERATOR "=" TFJOB_OPERATOR_NAME;
    static const struct informer_index by_claim = {TFJOB_INDEX_CLAIM, values_claim, NULL};
    static const struct informer_index by_job[] = {
        {INDEX_JOB, values_job, NULL}, {TFJOB_INDEX_LEAVING, values_leaving, NULL}};
    const struct informer_conf pods = {.res = &kube_pods,
        .ns = mgr->watch_ns,
        .labels = ours,
        .indexes = by_job,
        .nindexes = 2,
        .trim = tfjob_trim_pod,
        .fold = true};
    const struct informer_conf services = {.res = &kube_services,
        .ns = mgr->watch_ns,
        .labels = ours,
        .indexes = by_job,
        .nindexes = 1,
        .trim = trim_service,
        .fold = true};
    const struct informer_conf tensorboards = {
        .res = &kube_deployments, .ns = mgr->watch_ns, .labels = ours, .trim = trim_tensorboard};
    *out = (struct tfjob_informers){.gang = mgr->gang_scheduler ? mgr->gang_scheduler : ""};
    out->jobs = informers_tfjobs(mgr);
    informer_add_index(out->jobs, &by_claim);
    out->pods = manager_informer(mgr, &pods);
    out->services = manager_informer(mgr, &services);
    out->deployments = manager_informer(mgr, &tensorboards);
    if (*out->gang) {
        bool volcano = !strcasecmp(out->gang, "volcano");
        out->pod_groups = manager_informer(mgr,
            &(struct informer_conf){
                .res = volcano ? &kube_volcano_podgroups : &kube_coscheduling_podgroups,
                .ns = mgr->watch_ns,
                .labels = ours,
                .trim = trim_pod_group});
    }
    out->nodes = informers_nodes(mgr);
    out->datasets = informers_datasets(mgr);
    out->claims = informers_claims(mgr);
    out->cache_pods = informers_cache_pods(mgr);
    out->poll = poll_shared(mgr, e);
    return out->poll ? 0 : -1;
}

/* ---- observe ---- */

static const json_t **borrow(const struct objs *l)
{
    const json_t **v = xcalloc(l->n + 1, sizeof *v);
    for (size_t i = 0; i < l->n; i++)
        v[i] = obj_json(l->v[i]);
    return v;
}

static void add_ref(struct objs *l, struct obj *o_take)
{
    if (!o_take)
        return;
    l->v = xrealloc(l->v, (l->n + 1) * sizeof *l->v);
    l->v[l->n++] = o_take;
}

static void find_nodes(const struct tfjob_informers *c, struct tfjob_refs *r)
{
    for (size_t i = 0; i < r->pods.n; i++) {
        const json_t *pod = obj_json(r->pods.v[i]);
        const char *node = jget_str(pod, "spec.nodeName", "");
        if (kube_deleting(pod) && *node)
            add_ref(&r->nodes, informer_get(c->nodes, node));
    }
}

static void find_data(const struct tfjob_informers *c, struct tfjob_refs *r)
{
    const json_t *job = obj_json(r->job);
    cleanup_json json_t *claims = tfjob_claims(job);
    r->cached = json_array();
    r->claims = json_object();
    for (size_t i = 0; i < json_array_size(claims); i++) {
        cleanup_free char *key = kube_key(
            kube_namespace(job), json_string_value(json_array_get(claims, i)));
        struct obj *dataset = informer_get(c->datasets, key);
        if (!dataset) {
            cleanup_obj struct obj *other = informer_get(c->claims, key);
            if (other)
                json_object_set_new(r->claims, kube_name(obj_json(other)), json_true());
            continue;
        }
        cache_pods_held(c->cache_pods, c->poll, c->nodes, obj_json(dataset), r->cached);
        add_ref(&r->datasets, dataset);
    }
}

static void find_tensorboard(const struct tfjob_informers *c, struct tfjob_refs *r)
{
    const json_t *job = obj_json(r->job);
    cleanup_free char *name = xasprintf("%s" TFJOB_TENSORBOARD_SUFFIX, kube_name(job)),
                      *key = kube_key(kube_namespace(job), name);
    r->tensorboard = informer_get(c->deployments, key);
    r->tensorboard_service = informer_get(c->services, key);
}

static bool misses_logs(const struct tfjob_informers *c, const json_t *job)
{
    cleanup_free char *claim = tfjob_tensorboard_claim(job);
    if (!claim)
        return false;
    cleanup_free char *key = kube_key(kube_namespace(job), claim);
    cleanup_obj struct obj *there = informer_get(c->claims, key),
                           *dataset = informer_get(c->datasets, key);
    return !there && !dataset;
}

void tfjob_observe(
    const struct tfjob_informers *c, const char *key, int64_t now_ns, struct tfjob_refs *out)
{
    *out = (struct tfjob_refs){.job = informer_get(c->jobs, key)};
    struct tfjob_observed *o = &out->observed;
    *o = (struct tfjob_observed){
        .now_ns = now_ns, .domain = c->domain, .gang = c->gang, .job = obj_json(out->job)};
    if (!out->job)
        return;
    out->pods = informer_by(c->pods, INDEX_JOB, key);
    out->services = informer_by(c->services, INDEX_JOB, key);
    find_nodes(c, out);
    find_tensorboard(c, out);
    if (!tfjob_has_ended(o->job))
        find_data(c, out);
    o->logs_missing = misses_logs(c, o->job);
    if (c->pod_groups)
        out->pod_group = informer_get(c->pod_groups, key);
    o->pods = borrow(&out->pods), o->npods = out->pods.n;
    o->services = borrow(&out->services), o->nservices = out->services.n;
    o->nodes = borrow(&out->nodes), o->nnodes = out->nodes.n;
    o->datasets = borrow(&out->datasets), o->ndatasets = out->datasets.n;
    o->pod_group = obj_json(out->pod_group);
    o->tensorboard = obj_json(out->tensorboard);
    o->tensorboard_service = obj_json(out->tensorboard_service);
    o->cached = out->cached;
    o->claims = out->claims;
}

void tfjob_refs_free(struct tfjob_refs *r)
{
    struct objs *const lists[] = {&r->pods, &r->services, &r->nodes, &r->datasets};
    const json_t **const borrowed[] = {
        r->observed.pods, r->observed.services, r->observed.nodes, r->observed.datasets};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        objs_free(lists[i]);
        free(borrowed[i]);
    }
    obj_unref(r->job);
    obj_unref(r->pod_group);
    obj_unref(r->tensorboard);
    obj_unref(r->tensorboard_service);
    json_decref(r->cached);
    json_decref(r->claims);
    *r = (struct tfjob_refs){0};
}
