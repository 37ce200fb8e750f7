/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a Dataset as json: numbers, and the strings of them that kubectl shows. */
#include "operator/api/dataset.h"

#include "lib/base/human.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"

#include <stdio.h>

bool dataset_is_ready(const json_t *cr, const char **reason, const char **message)
{
    const json_t *conditions = jget_arr(cr, "status.conditions");
    *reason = cond_reason(conditions, DATASET_COND_READY);
    *message = cond_message(conditions, DATASET_COND_READY);
    return cond_is_true(conditions, DATASET_COND_READY);
}

int dataset_cached_percent(const json_t *cr)
{
    int64_t all = jget_int(cr, "status.ufsTotalBytes", -1),
            cached = jget_int(cr, "status.cacheStates.cachedBytes", -1);
    if (all < 0 || cached < 0 || !jget_bool(cr, "status.ufsComplete", false))
        return -1;
    return cached >= all ? 100 : (int)(100 * ((double)cached / (double)all));
}

static void set_bytes(json_t *o, const char *human_key, const char *bytes_key, int64_t bytes)
{
    char text[HUMAN_BYTES_LEN];
    json_object_set_new(o, human_key, json_string(human_bytes((uint64_t)bytes, text)));
    json_object_set_new(o, bytes_key, json_integer(bytes));
}

/* "37.5%"; nothing of nothing is 0 %. */
static void set_share(json_t *o, const char *key, double part, double all)
{
    char text[16];
    double share = all > 0 ? 100 * part / all : 0;
    if (share > 100)
        share = 100;
    snprintf(text, sizeof text, "%.1f%%", share);
    json_object_set_new(o, key, json_string(text));
}

static json_t *members_json(struct dataset_members *m)
{
    char summary[32];
    snprintf(summary, sizeof summary, "%d/%d", m->ready, m->desired);
    json_t *nodes = m->nodes ? m->nodes : json_array();
    m->nodes = NULL;
    return json_pack("{s:i, s:i, s:s, s:o}", "desired", m->desired, "ready", m->ready, "summary",
        summary, "nodes", nodes);
}

static json_t *mounts_json(const struct dataset *d)
{
    json_t *mounts = json_array();
    for (size_t i = 0; i < d->nmounts; i++) {
        const struct dataset_mount *m = &d->mounts[i];
        json_t *j = json_pack("{s:s, s:s, s:b}", "mountPoint", m->mount_point, "path", m->path,
            "readOnly", d->read_only || m->read_only);
        if (*m->name)
            json_object_set_new(j, "name", json_string(m->name));
        json_array_append_new(mounts, j);
    }
    return mounts;
}

static json_t *cache_json(const struct dataset_status *s)
{
    json_t *o = json_object();
    double delivered = (double)s->read_cache + (double)s->read_worker + (double)s->read_direct;
    set_bytes(o, "cached", "cachedBytes", s->cached);
    set_bytes(o, "cacheCapacity", "cacheCapacityBytes", s->capacity);
    if (s->has_ufs)
        set_share(o, "cachedPercentage", (double)s->cached, (double)s->ufs_bytes);
    json_object_set_new(o, "clientCachedBytes", json_integer(s->client_cached));
    if (delivered > 0) {
        set_share(o, "cacheHitRatio", (double)s->read_cache + (double)s->read_worker, delivered);
        set_share(o, "localHitRatio", (double)s->read_cache, delivered);
        set_share(o, "remoteHitRatio", (double)s->read_worker, delivered);
    }
    return o;
}

/* Worker 0 counts what the store holds; while it restarts, the last count stays. */
static void add_ufs(json_t *o, const json_t *cr, const struct dataset_status *s)
{
    static const char *const kept[] = {"ufsTotal", "ufsTotalBytes", "fileNum", "ufsComplete"};
    if (!s->has_ufs) {
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            const json_t *old = json_object_get(jget(cr, "status"), kept[i]);
            if (old)
                json_object_set_new(o, kept[i], json_deep_copy(old));
        }
        return;
    }
    char size[HUMAN_BYTES_LEN], text[HUMAN_BYTES_LEN + 2];
    snprintf(text, sizeof text, "%s%s", human_bytes((uint64_t)s->ufs_bytes, size),
        s->ufs_complete ? "" : "+");
    json_object_set_new(o, "ufsTotal", json_string(text));
    json_object_set_new(o, "ufsTotalBytes", json_integer(s->ufs_bytes));
    json_object_set_new(o, "fileNum", json_integer(s->ufs_files));
    json_object_set_new(o, "ufsComplete", json_boolean(s->ufs_complete));
}

json_t *dataset_status_json(const json_t *cr, struct dataset_status *s)
{
    json_t *o = json_pack("{s:s, s:I, s:o}", "phase", s->phase, "observedGeneration",
        (json_int_t)jget_int(cr, "metadata.generation", 0), "conditions",
        json_deep_copy(s->conditions));
    if (s->spec)
        json_object_set_new(o, "mounts", mounts_json(s->spec));
    add_ufs(o, cr, s);
    json_object_set_new(o, "cacheStates", cache_json(s));
    json_object_set_new(o, "reads",
        json_pack("{s:I, s:I, s:I}", "cacheBytes", (json_int_t)s->read_cache, "workerBytes",
            (json_int_t)s->read_worker, "storeBytes", (json_int_t)s->read_store));
    json_object_set_new(o, "writes",
        json_pack("{s:I, s:I}", "bytes", (json_int_t)s->written, "pendingFiles",
            (json_int_t)s->pending_files));
    json_object_set_new(o, "workers", members_json(&s->workers));
    json_object_set_new(o, "clients", members_json(&s->clients));
    return o;
}
