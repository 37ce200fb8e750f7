/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/informers.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/dataset.h"
#include "operator/dataset/trim.h"
#include "operator/render/env.h"

#include <stdlib.h>
#include <string.h>

/* One busy Dataset on a thousand nodes: the pods of many idle ones are a tenth as large folded. */
#define RECENT 2048

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
        .nindexes = ARRAY_LEN(indexes),
        .trim = dataset_trim_pod,
        .fold = true,
        .recent = RECENT};
    return manager_shared_informer(mgr, &conf);
}

struct informer *informers_tfjobs(struct manager *mgr)
{
    const struct informer_conf conf = {.res = &kube_tfjobs, .ns = mgr->watch_ns, .fold = true};
    return manager_shared_informer(mgr, &conf);
}

struct informer *informers_gated_pods(struct manager *mgr, size_t which)
{
    static const char *const labels[GATED_PODS] = {LABEL_DATA, LABEL_PLACEMENT ",!" LABEL_DATA};
    const struct informer_conf conf = {.res = &kube_pods,
        .ns = mgr->watch_ns,
        .labels = labels[which],
        .trim = dataset_trim_gated_pod};
    return manager_shared_informer(mgr, &conf);
}

bool attachment_is_ours(const json_t *attachment)
{
    return strcmp(jget_str(attachment, "spec.attacher", ""), NAME_DRIVER) == 0;
}

struct informer *informers_attachments(struct manager *mgr)
{
    static const struct informer_index indexes[] = {
        INFORMER_BY_FIELD("pv", "spec.source.persistentVolumeName")};
    const struct informer_conf conf = {.res = &kube_volumeattachments,
        .indexes = indexes,
        .nindexes = ARRAY_LEN(indexes),
        .trim = dataset_trim_attachment,
        .fold = true,
        .recent = RECENT};
    return manager_shared_informer(mgr, &conf);
}

struct informer *informers_pvs(struct manager *mgr)
{
    const struct informer_conf conf = {.res = &kube_pvs,
        .labels = LABEL_MANAGED_BY "=" NAME_FIELD_MANAGER,
        .trim = dataset_trim_volume,
        .fold = true};
    return manager_shared_informer(mgr, &conf);
}

struct informer *informers_claims(struct manager *mgr)
{
    const struct informer_conf conf = {.res = &kube_pvcs,
        .ns = mgr->watch_ns,
        .labels = "!" LABEL_DATASET_UID,
        .trim = dataset_trim_other_claim};
    return manager_shared_informer(mgr, &conf);
}

bool informers_claim_is_news(const json_t *was, const json_t *now)
{
    (void)was, (void)now; /* it was there before, and is */
    return false;
}

struct informer *informers_nodes(struct manager *mgr)
{
    const struct informer_conf conf = {.res = &kube_nodes, .trim = dataset_trim_node};
    return manager_shared_informer(mgr, &conf);
}

struct render_env dataset_render_env(const struct manager *mgr, struct informer *nodes)
{
    struct render_env env = render_env_of(mgr->config);
    env.most_workers = dataset_most_workers(informer_count(nodes));
    env.image = mgr->image;
    env.master = mgr->master;
    env.pull_policy = mgr->pull_policy ? mgr->pull_policy : "";
    env.pull_secrets = mgr->pull_secrets ? mgr->pull_secrets : "";
    return env;
}
