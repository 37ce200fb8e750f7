/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/dataset_read.h"

#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/dataset.h"

#include <string.h>

static void read_group(const json_t *cr, const char *key, struct dataset_group *out)
{
    const json_t *group = json_object_get(jget(cr, "status"), key);
    out->desired = jget_int(group, "desired", -1);
    out->ready = jget_int(group, "ready", -1);
    out->nodes = jget_arr(group, "nodes");
}

static void read_preload(const json_t *cr, struct dataset_reading *out)
{
    const json_t *p = jget_obj(cr, "status.preload");
    out->preloads = jget_len(cr, "spec.cache.preload") > 0;
    out->preload = (struct dataset_preloaded){
        .files = jget_int(p, "files", -1),
        .bytes = jget_int(p, "bytes", -1),
        .done_files = jget_int(p, "doneFiles", -1),
        .done_bytes = jget_int(p, "doneBytes", -1),
        .failed_files = jget_int(p, "failedFiles", -1),
        .percent = jget_int(p, "percent", -1),
    };
}

void dataset_read(const json_t *cr, struct dataset_reading *out)
{
    const json_t *cache = jget_obj(cr, "status.cacheStates");
    *out = (struct dataset_reading){
        .ns = kube_namespace(cr),
        .name = kube_name(cr),
        .uid = kube_uid(cr),
        .deleting = kube_deleting(cr),
        .bytes = jget_int(cr, "status.ufsTotalBytes", -1),
        .files = jget_int(cr, "status.fileNum", -1),
        .counted = jget_bool(cr, "status.ufsComplete", false),
        .cached = jget_int(cache, "cachedBytes", -1),
        .capacity = jget_int(cache, "cacheCapacityBytes", -1),
        .client_cached = jget_int(cache, "clientCachedBytes", -1),
        .pending_files = jget_int(cr, "status.writes.pendingFiles", -1),
        .cached_percent = dataset_cached_percent(cr),
        .hit_percent = jget_int(cache, "cacheHitPercent", -1),
        .local_percent = jget_int(cache, "localHitPercent", -1),
        .remote_percent = jget_int(cache, "remoteHitPercent", -1),
    };
    out->ready = dataset_is_ready(cr, &out->reason, &out->message);
    if (strcmp(out->reason, COND_UNSEEN) == 0)
        out->reason = out->message = "";
    read_group(cr, "workers", &out->workers);
    read_group(cr, "clients", &out->clients);
    read_preload(cr, out);
}

bool dataset_is_false(const json_t *cr, const char *type, const char **message)
{
    const json_t *conditions = jget_arr(cr, "status.conditions");
    bool is_false = strcmp(jget_str(cond_find(conditions, type), "status", ""), "False") == 0;
    *message = is_false ? cond_message(conditions, type) : "";
    return is_false;
}

bool dataset_schema_is_ours(const json_t *crd_version)
{
    static const char newest[] = /* the field that was added last */
        "schema.openAPIV3Schema.properties.spec.properties.serviceAccountName";
    return jget(crd_version, newest) != NULL;
}

bool dataset_mount_at(
    const json_t *cr, size_t i, const char **path, const char **url, bool *read_only)
{
    const json_t *used = jget_arr(cr, "status.mounts"), *asked = jget_arr(cr, "spec.mounts"),
                 *m = json_array_get(json_array_size(used) ? used : asked, i);
    *path = jget_str(m, "path", "/");
    *url = jget_str(m, "mountPoint", "");
    *read_only = jget_bool(m, "readOnly", false);
    return m != NULL;
}
