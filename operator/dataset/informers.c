/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/informers.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/render/env.h"

#include <stdlib.h>
#include <string.h>

struct informer *informers_datasets(struct manager *mgr)
{
    static const struct informer_index indexes[] = {INFORMER_BY_FIELD("uid", "metadata.uid")};
    const struct informer_conf conf = {.res = &kube_datasets,
        .ns = mgr->watch_ns,
        .indexes = indexes,
        .nindexes = ARRAY_LEN(indexes)};
    return manager_shared_informer(mgr, &conf);
}

static void values_dataload(
    const char *arg, const json_t *pod, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    const char *dataload = kube_label(pod, LABEL_DATALOAD);
    if (!*dataload)
        return;
    cleanup_free char *key = kube_key(kube_namespace(pod), dataload);
    emit(to, key);
}

struct informer *informers_cache_pods(struct manager *mgr)
{
    static const struct informer_index indexes[] = {
        INFORMER_BY_LABEL("dataset", LABEL_DATASET_UID), {"dataload", values_dataload, NULL}};
    const struct informer_conf conf = {.res = &kube_pods,
        .ns = mgr->watch_ns,
        .labels = LABEL_MANAGED_BY "=" NAME_FIELD_MANAGER "," LABEL_COMPONENT,
        .indexes = indexes,
        .nindexes = ARRAY_LEN(indexes)};
    return manager_shared_informer(mgr, &conf);
}

bool attachment_is_ours(const json_t *attachment)
{
    return strcmp(jget_str(attachment, "spec.attacher", ""), NAME_DRIVER) == 0;
}

/* Attachments cannot be selected by driver: those of other drivers are kept without their
 * content. */
static void trim_attachment(json_t *object)
{
    if (attachment_is_ours(object))
        return;
    json_object_del(object, "status");
    json_t *meta = json_object_get(object, "metadata");
    json_object_del(meta, "annotations");
    json_object_del(meta, "finalizers");
    json_object_set_new(object, "spec", json_object());
}

struct informer *informers_attachments(struct manager *mgr)
{
    static const struct informer_index indexes[] = {
        INFORMER_BY_FIELD("pv", "spec.source.persistentVolumeName")};
    const struct informer_conf conf = {.res = &kube_volumeattachments,
        .indexes = indexes,
        .nindexes = ARRAY_LEN(indexes),
        .trim = trim_attachment};
    return manager_shared_informer(mgr, &conf);
}

struct informer *informers_pvs(struct manager *mgr)
{
    const struct informer_conf conf = {
        .res = &kube_pvs, .labels = LABEL_MANAGED_BY "=" NAME_FIELD_MANAGER};
    return manager_shared_informer(mgr, &conf);
}

/* ---- what a node means to us: its name, whether it has a GPU, whether it is alive ---- */

static bool is_gpu(const char *resource)
{
    const char *slash = strrchr(resource, '/');
    return slash && strcmp(slash, "/gpu") == 0;
}

static json_t *gpus_of(const json_t *node)
{
    json_t *gpus = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)jget_obj(node, "status.allocatable"), key, value)
        if (is_gpu(key)
            && strcmp(json_string_value(value) ? json_string_value(value) : "0", "0") != 0)
            json_object_set(gpus, key, value);
    return gpus;
}

/* The elements of an array whose `key` is `value`, with this key and one more. */
static json_t *only(const json_t *array, const char *key, const char *value, const char *also)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach ((json_t *)array, i, item)
        if (strcmp(jget_str(item, key, ""), value) == 0)
            json_array_append_new(
                out, json_pack("{s:s, s:s}", key, value, also, jget_str(item, also, "")));
    return out;
}

static void trim_node(json_t *node)
{
    json_t *meta = json_object_get(node, "metadata");
    json_t *status = json_pack("{s:o, s:o}", "allocatable", gpus_of(node), "conditions",
        only(jget_arr(node, "status.conditions"), "type", "Ready", "status"));
    json_t *spec = json_pack("{s:b, s:o}", "unschedulable",
        jget_bool(node, "spec.unschedulable", false), "taints",
        only(jget_arr(node, "spec.taints"), "key", TAINT_OUT_OF_SERVICE, "effect"));
    json_object_set_new(node, "status", status);
    json_object_set_new(node, "spec", spec);
    json_object_del(meta, "annotations");
    const char *host = kube_label(node, LABEL_HOSTNAME);
    json_t *labels = *host ? json_pack("{s:s}", LABEL_HOSTNAME, host) : json_object();
    json_object_set_new(meta, "labels", labels);
}

struct informer *informers_nodes(struct manager *mgr)
{
    const struct informer_conf conf = {.res = &kube_nodes, .trim = trim_node};
    return manager_shared_informer(mgr, &conf);
}

struct render_env dataset_render_env(const struct manager *mgr)
{
    struct render_env env = render_env_of(mgr->config);
    env.image = mgr->image;
    env.master = mgr->master;
    env.pull_policy = mgr->pull_policy ? mgr->pull_policy : "";
    env.pull_secrets = mgr->pull_secrets ? mgr->pull_secrets : "";
    return env;
}
