/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/render/meta.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <string.h>

static uint32_t node_hash(const char *node) { return (uint32_t)hash64(node, strlen(node)); }

char *render_pv_name(const char *dataset_uid) { return xasprintf(NAME_PV_FMT, dataset_uid); }
const char *render_pv_dataset_uid(const char *pv_name)
{
    size_t prefix = strlen(NAME_PV_FMT) - strlen("%s");
    return strncmp(pv_name, NAME_PV_FMT, prefix) == 0 ? pv_name + prefix : NULL;
}
char *render_service_name(const char *dataset)
{
    return xasprintf(NAME_WORKER_SERVICE_FMT, dataset);
}
char *render_worker_name(const char *dataset, int index)
{
    return xasprintf(NAME_WORKER_POD_FMT, dataset, index);
}
char *render_client_name(const char *dataset, const char *node)
{
    return xasprintf(NAME_CLIENT_POD_FMT, dataset, node_hash(node));
}
char *render_loader_name(const char *dataload) { return xasprintf(NAME_LOADER_POD_FMT, dataload); }
char *render_preloader_name(const char *dataset)
{
    return xasprintf(NAME_PRELOADER_POD_FMT, dataset);
}
char *render_node_hash(const char *node) { return xasprintf("%08x", node_hash(node)); }

json_t *render_object(const struct kube_res *res, const char *ns, const char *name,
    const char *dataset, const char *dataset_uid, const char *component)
{
    cleanup_free char *api = kube_res_api_version(res);
    json_t *labels = json_pack("{s:s, s:s, s:s}", LABEL_MANAGED_BY, NAME_FIELD_MANAGER,
        LABEL_DATASET, dataset, LABEL_DATASET_UID, dataset_uid);
    if (component)
        json_object_set_new(labels, LABEL_COMPONENT, json_string(component));
    json_t *meta = json_pack("{s:s, s:o}", "name", name, "labels", labels);
    if (res->namespaced)
        json_object_set_new(meta, "namespace", json_string(ns));
    return json_pack("{s:s, s:s, s:o}", "apiVersion", api, "kind", res->kind, "metadata", meta);
}

void render_label(json_t *object, const char *label, const char *value)
{
    json_object_set_new(
        json_object_get(json_object_get(object, "metadata"), "labels"), label, json_string(value));
}

void render_owner(json_t *object, const struct kube_res *res, const json_t *owner)
{
    cleanup_free char *api = kube_res_api_version(res);
    json_object_set_new(json_object_get(object, "metadata"), "ownerReferences",
        json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion", api, "kind", res->kind, "name",
            kube_name(owner), "uid", kube_uid(owner), "controller", 1, "blockOwnerDeletion", 1));
}
