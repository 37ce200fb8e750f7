/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a Dataset as json: numbers, and the strings of them that kubectl shows. */
#include "operator/api/dataset_priv.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/option_name.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_SHOWN 256 /* characters of an option's value */

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
    if (all == 0)
        return jget_int(cr, "status.fileNum", 0) > 0 ? 100 : 0;
    return cached >= all ? 100 : (int)(100 * ((double)cached / (double)all));
}

static void set_bytes(json_t *o, const char *human_key, const char *bytes_key, int64_t bytes)
{
    char text[HUMAN_BYTES_LEN];
    json_object_set_new(o, human_key, json_string(human_bytes((uint64_t)bytes, text)));
    json_object_set_new(o, bytes_key, json_integer(bytes));
}

/* Of empty files nothing is left to be cached; of no files nothing is. While they are counted, it
 * is not all. */
static int cached_tenths(const struct dataset_status *s)
{
    if (s->ufs_complete && s->ufs_bytes == 0)
        return s->ufs_files > 0 ? 1000 : 0;
    int tenths = dataload_tenths((double)s->cached, (double)s->ufs_bytes);
    return s->ufs_complete ? tenths : MIN(tenths, 999);
}

/* "37.5%", and 37 for those who sort and compare. */
static void set_share(json_t *o, const char *key, const char *int_key, int tenths)
{
    char text[16];
    snprintf(text, sizeof text, "%d.%d%%", tenths / 10, tenths % 10);
    json_object_set_new(o, key, json_string(text));
    json_object_set_new(o, int_key, json_integer(tenths / 10));
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A status that lists a thousand nodes would be written anew for each of them. */
static json_t *first_names(const json_t *names)
{
    size_t n = json_array_size(names), i;
    const char **sorted = xcalloc(n + 1, sizeof *sorted);
    const json_t *name;
    json_array_foreach ((json_t *)names, i, name)
        sorted[i] = json_string_value(name);
    qsort(sorted, n, sizeof *sorted, compare_names);
    json_t *first = json_array();
    for (i = 0; i < n && i < DATASET_NODES_MAX; i++)
        json_array_append_new(first, json_string(sorted[i]));
    free(sorted);
    return first;
}

static json_t *members_json(struct dataset_members *m)
{
    char summary[32];
    snprintf(summary, sizeof summary, "%d/%d", m->ready, m->desired);
    json_t *nodes = first_names(m->nodes);
    json_decref(m->nodes);
    m->nodes = NULL;
    json_t *o = json_pack("{s:i, s:i, s:s, s:o}", "desired", m->desired, "ready", m->ready,
        "summary", summary, "nodes", nodes);
    if (m->rolls) {
        json_object_set_new(o, "current", json_integer(m->current));
        json_object_set_new(o, "outdated", json_integer(m->outdated));
    }
    return o;
}

static bool names_option(const json_t *options, const char *option)
{
    const char *key;
    json_t *unused;
    json_object_foreach ((json_t *)options, key, unused)
        if (strcmp(option_proper_name(key), option_proper_name(option)) == 0)
            return true;
    return false;
}

/* What goes before plain options (usual: before the cluster's): see fuse/store/option.c. What is in
 * a Secret is not known here: a whole one may have any option. */
static bool may_be_elsewhere(const struct dataset_mount *m, const char *option, bool usual)
{
    for (size_t i = 0; i < m->nsecrets; i++)
        if (strcmp(option_proper_name(m->secrets[i].option), option_proper_name(option)) == 0)
            return true;
    return usual
        && (m->secret_ref || names_option(m->options, option)
            || (m->ca_configmap && strcmp(option, "ca-cert") == 0));
}

/* As they are used; a long one, such as certificates, by its length. */
static void show_options(json_t *to, const struct dataset_mount *m, bool usual)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(usual ? m->default_options : m->options), key, value) {
        const char *text = json_string_value(value);
        if (!text || may_be_elsewhere(m, key, usual))
            continue;
        cleanup_free char *length = strlen(text) > OPTION_SHOWN
            ? xasprintf("(%zu characters)", strlen(text))
            : NULL;
        json_object_set_new(to, key, json_string(length ? length : text));
    }
}

static json_t *mounts_json(const struct dataset *d)
{
    json_t *mounts = json_array();
    for (size_t i = 0; i < d->nmounts; i++) {
        const struct dataset_mount *m = &d->mounts[i];
        json_t *j = json_pack("{s:s, s:s, s:b}", "mountPoint", m->mount_point, "path", m->path,
                   "readOnly", d->read_only || m->read_only),
               *options = json_object();
        if (m->immutable >= 0)
            json_object_set_new(j, "immutable", json_boolean(m->immutable));
        show_options(options, m, false);
        show_options(options, m, true);
        if (json_object_size(options))
            json_object_set(j, "options", options);
        json_decref(options);
        json_array_append_new(mounts, j);
    }
    return mounts;
}

/* "10Gi": as people write it, without loss. */
static json_t *quantity_json(int64_t bytes)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
    size_t unit = 0;
    for (; unit + 1 < ARRAY_LEN(units) && bytes && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    cleanup_free char *text = xasprintf("%" PRId64 "%s", bytes, units[unit]);
    return json_string(text);
}

static json_t *tiers_json(const struct dataset_tiers *t)
{
    json_t *tiers = json_array();
    for (size_t i = 0; i < t->n; i++)
        json_array_append_new(tiers,
            json_pack("{s:s, s:o}", "medium", dataset_medium_name(t->tier[i].medium), "quota",
                quantity_json(t->tier[i].quota)));
    return tiers;
}

static bool same_tiers(const struct dataset_tiers *a, const struct dataset_tiers *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = a->tier[i].medium == b->tier[i].medium && a->tier[i].quota == b->tier[i].quota;
    return same;
}

/* The part of value that the spec has not said by itself. */
static void add_filled_in(json_t *to, const json_t *spec, const char *key, const json_t *value)
{
    const json_t *said = json_object_get(spec, key);
    const char *name;
    json_t *unused;
    if (!value || (said && !json_is_object(value)))
        return;
    cleanup_json json_t *more = json_deep_copy(value);
    json_object_foreach ((json_t *)said, name, unused)
        json_object_del(more, name);
    if (!said || json_object_size(more))
        json_object_set(to, key, more);
}

/* Of loaders not what they have from the workers. */
static void add_place(json_t *to, const json_t *spec, const struct dataset_component *c,
    const struct dataset_component *otherwise)
{
    if (c->node_selector && (!otherwise || c->node_selector != otherwise->node_selector)) {
        cleanup_json json_t *affinity = json_pack("{s:O}", "required", c->node_selector);
        add_filled_in(to, spec, "nodeAffinity", affinity);
    }
    if (!otherwise || c->tolerations != otherwise->tolerations)
        add_filled_in(to, spec, "tolerations", c->tolerations);
}

static void add_component(
    json_t *to, const struct dataset *d, const char *name, const struct dataset_component *c)
{
    bool loader = c == &d->loader;
    const json_t *spec = json_object_get(jget_obj(d->cr, "spec.cache"), name);
    cleanup_json json_t *o = json_object(),
                        *priority = *c->priority_class ? json_string(c->priority_class) : NULL;
    if (!loader && !same_tiers(&c->tiers, &d->tiers))
        json_object_set_new(o, "tiers", tiers_json(&c->tiers));
    if (c != &d->client)
        add_place(o, spec, c, loader ? &d->worker : NULL);
    add_filled_in(o, spec, "resources", c->resources);
    add_filled_in(o, spec, "priorityClassName", priority);
    add_filled_in(o, spec, "labels", c->labels);
    add_filled_in(o, spec, "annotations", c->annotations);
    if (json_object_size(o))
        json_object_set(to, name, o);
}

/* As the client decides where nothing is said. */
static int metadata_sync(const struct dataset *d)
{
    bool read_only = true;
    for (size_t i = 0; i < d->nmounts; i++)
        read_only = read_only && d->mounts[i].read_only;
    if (d->metadata_sync)
        return d->metadata_sync;
    return d->read_only || read_only ? CONF_SYNC_READ_ONLY_S : CONF_SYNC_WRITABLE_S;
}

/* What spec.cache comes to: the sizes, whoever said them, and of the pods what defaults filled in.
 */
static json_t *resolved_json(const struct dataset *d)
{
    json_t *o = json_pack("{s:i, s:o, s:i}", "replicas", d->replicas, "tiers",
        tiers_json(&d->tiers), "metadataSyncSeconds", metadata_sync(d));
    if (d->placement == DATASET_ANY)
        json_object_set_new(o, "placement", json_string("Any"));
    if (d->exclusive)
        json_object_set_new(o, "exclusive", json_true());
    add_component(o, d, "worker", &d->worker);
    add_component(o, d, "client", &d->client);
    add_component(o, d, "loader", &d->loader);
    return o;
}

static json_t *states_json(const struct dataset_status *s)
{
    json_t *o = json_object();
    double delivered = (double)s->read_cache + (double)s->read_worker + (double)s->read_direct;
    set_bytes(o, "cached", "cachedBytes", s->cached);
    set_bytes(o, "cacheCapacity", "cacheCapacityBytes", s->capacity);
    if (s->has_ufs)
        set_share(o, "cachedPercentage", "cachedPercent", cached_tenths(s));
    json_object_set_new(o, "clientCachedBytes", json_integer(s->client_cached));
    if (delivered > 0) {
        set_share(o, "cacheHitRatio", "cacheHitPercent",
            dataload_tenths((double)s->read_cache + (double)s->read_worker, delivered));
        set_share(o, "localHitRatio", "localHitPercent",
            dataload_tenths((double)s->read_cache, delivered));
        set_share(o, "remoteHitRatio", "remoteHitPercent",
            dataload_tenths((double)s->read_worker, delivered));
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
    bool empty = s->ufs_complete
        && s->ufs_files == 0; /* mostly a mistyped prefix: where people look */
    json_object_set_new(o, "ufsTotal", json_string(empty ? "0 files" : text));
    json_object_set_new(o, "ufsTotalBytes", json_integer(s->ufs_bytes));
    json_object_set_new(o, "fileNum", json_integer(s->ufs_files));
    json_object_set_new(o, "ufsComplete", json_boolean(s->ufs_complete));
}

static void add_preload(json_t *o, const json_t *cr, const struct dataset_status *s)
{
    const struct dataload_progress *n = &s->preload;
    const json_t *was = jget_obj(cr, "status.preload");
    if (s->has_preload && n->known)
        json_object_set_new(o, "preload",
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:i}", "files", (json_int_t)n->files, "bytes",
                (json_int_t)n->bytes, "doneFiles", (json_int_t)n->done_files, "doneBytes",
                (json_int_t)n->done_bytes, "failedFiles", (json_int_t)n->failed, "percent",
                dataload_percent(n)));
    else if (s->has_preload && was)
        json_object_set_new(o, "preload", json_deep_copy(was));
}

/* Sums without some of their parts would only look like a loss. */
static void keep_unheard(json_t *o, const json_t *cr)
{
    const json_t *states = jget_obj(cr, "status.cacheStates"),
                 *pending = jget(cr, "status.writes.pendingFiles");
    if (states)
        json_object_set_new(o, "cacheStates", json_deep_copy(states));
    if (pending)
        json_object_set_new(json_object_get(o, "writes"), "pendingFiles", json_deep_copy(pending));
}

/* Of the workers' pods, for autoscalers. */
static json_t *worker_selector(const json_t *cr)
{
    cleanup_free char *text = xasprintf(
        LABEL_COMPONENT "=" COMPONENT_WORKER "," LABEL_DATASET_UID "=%s", kube_uid(cr));
    return json_string(text);
}

void dataset_status_set_kept(json_t *status, int64_t kept_files)
{
    json_t *writes = json_object_get(status, "writes");
    if (!kept_files) {
        json_object_del(writes, "keptFiles");
        return;
    }
    if (!writes) {
        writes = json_object();
        json_object_set_new(status, "writes", writes);
    }
    json_object_set_new(writes, "keptFiles", json_integer(kept_files));
}

json_t *dataset_status_json(const json_t *cr, struct dataset_status *s)
{
    json_t *o = json_pack("{s:s, s:I, s:o}", "phase", s->phase, "observedGeneration",
        (json_int_t)jget_int(cr, "metadata.generation", 0), "conditions",
        json_deep_copy(s->conditions));
    if (s->spec) {
        json_object_set_new(o, "mounts", mounts_json(s->spec));
        json_object_set_new(o, "cache", resolved_json(s->spec));
    }
    add_ufs(o, cr, s);
    json_object_set_new(o, "cacheStates", states_json(s));
    json_object_set_new(
        o, "writes", json_pack("{s:I}", "pendingFiles", (json_int_t)s->pending_files));
    dataset_status_set_kept(o, s->kept_files);
    if (s->unheard)
        keep_unheard(o, cr);
    json_object_set_new(o, "selector", worker_selector(cr));
    if (s->key_secret)
        json_object_set_new(o, "keySecret", json_string(s->key_secret));
    json_object_set_new(o, "workers", members_json(&s->workers));
    json_object_set_new(o, "clients", members_json(&s->clients));
    add_preload(o, cr, s);
    return o;
}
