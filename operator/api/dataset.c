/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/dataset_priv.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"

#include <stdlib.h>
#include <string.h>

/* More cache workers share no more disks and networks; some for nodes that are to come. */
#define WORKERS_A_NODE   4
#define WORKERS_ANYWHERE 16

static int check_name(const struct dataset *d, const char **reason, struct err *e)
{
    size_t len = strlen(d->name);
    *reason = REASON_NAME;
    if (len > DATASET_NAME_MAX)
        return err_set(e, ERR_INVALID,
            "metadata.name: %zu characters are too many, because the names of pods and services are made from it: use at most %d",
            len, DATASET_NAME_MAX);
    *reason = REASON_SPEC;
    bool ok = len && d->name[0] >= 'a' && d->name[0] <= 'z' && d->name[len - 1] != '-';
    for (const char *s = d->name; *s && ok; s++)
        ok = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '-';
    if (!ok)
        return err_set(e, ERR_INVALID,
            "metadata.name: \"%s\" must begin with a letter and hold only a-z, 0-9 and '-', because a Service is named after it",
            d->name);
    if (!*d->uid || !*d->ns)
        return err_set(e, ERR_INVALID,
            "metadata.uid and metadata.namespace are missing: this is not an object of the API server");
    return 0;
}

static int parse_access(struct dataset *d, struct err *e)
{
    static const char *const known[] = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", NULL};
    d->read_only = true;
    if (jget_len(d->cr, "spec.accessModes"))
        d->access_modes = jget_arr(d->cr, "spec.accessModes");
    for (size_t i = 0; i < json_array_size(d->access_modes); i++) {
        const char *mode = json_string_value(json_array_get(d->access_modes, i));
        if (!mode || !dataset_word_in(mode, known))
            return err_set(e, ERR_INVALID,
                "spec.accessModes[%zu] must be ReadOnlyMany, ReadWriteMany or ReadWriteOnce", i);
        d->read_only = d->read_only && strcmp(mode, "ReadOnlyMany") == 0;
    }
    return 0;
}

/* As API servers are set up; one that takes other audiences is its owner's to know. */
static bool is_of_kubernetes(const char *audience)
{
    static const char *const names[] = {"kubernetes", "k3s", "rke2", "api"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(audience, names[i]) == 0)
            return true;
    return strstr(audience, "kubernetes.default")
        || strncmp(audience, "https://container.googleapis.com/", 33) == 0;
}

static int parse_identity(struct dataset *d, struct err *e)
{
    d->service_account = jget_str(d->cr, "spec.serviceAccountName", NULL);
    d->token_audience = jget_str(d->cr, "spec.serviceAccountTokenAudience", DATASET_AUDIENCE);
    const char *name = d->service_account;
    size_t n = name ? strlen(name) : 0;
    if (name
        && (!n || n > 253 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != n
            || name[0] == '-' || name[0] == '.'))
        return err_set(e, ERR_INVALID,
            "spec.serviceAccountName must be the name of a ServiceAccount of this namespace, like s3-reader");
    if (!*d->token_audience)
        return err_set(e, ERR_INVALID,
            "spec.serviceAccountTokenAudience is empty: name who takes the token, or leave it out for " DATASET_AUDIENCE);
    if (is_of_kubernetes(d->token_audience))
        return err_set(e, ERR_INVALID,
            "spec.serviceAccountTokenAudience is the Kubernetes API's own: the token would be the account's rights in the cluster, and is sent to the token service. Name that service, like " DATASET_AUDIENCE);
    return 0;
}

/* What the user left out is as the cluster's defaults say. Of a map each key by itself, but of
 * resources and affinities all or nothing: a limit of the one below a request of the other would be
 * refused. Lists are never joined. */
static void fill_in(json_t *to, const json_t *from)
{
    static const char *const whole[] = {"resources", "nodeAffinity", NULL};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)from, key, value) {
        json_t *own = json_object_get(to, key);
        if (!own)
            json_object_set_new(to, key, json_deep_copy(value));
        else if (json_is_object(own) && !dataset_word_in(key, whole))
            fill_in(own, value);
    }
}

/* Cache workers belong on nodes with accelerators, where the readers are: they tolerate what keeps
 * other pods off those. The keys are those of the device plugins and of the clouds' own pages; sku
 * is AKS'. */
static json_t *own_tolerations(void)
{
    static const char *const keys[] = {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915",
        "gpu.intel.com/xe", "habana.ai/gaudi", "aws.amazon.com/neuron", "google.com/tpu"};
    json_t *tolerations = json_array();
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        json_array_append_new(
            tolerations, json_pack("{s:s, s:s}", "key", keys[i], "operator", "Exists"));
    json_array_append_new(tolerations,
        json_pack("{s:s, s:s, s:s}", "key", "sku", "operator", "Equal", "value", "gpu"));
    return tolerations;
}

static json_t *own_defaults(void)
{
    return json_pack("{s:{s:o}}", "worker", "tolerations", own_tolerations());
}

/* What both tolerate, where own is of all effects; NULL: nothing. */
static json_t *common_toleration(const json_t *own, const json_t *other)
{
    const char *key = jget_str(other, "key", ""), *effect = jget_str(other, "effect", "");
    bool all = strcmp(jget_str(other, "operator", "Equal"), "Exists") == 0;
    const char *value = jget_str(own, "value", NULL);
    if (*key && strcmp(key, jget_str(own, "key", "")) != 0)
        return NULL;
    if (value && !all && strcmp(value, jget_str(other, "value", "")) != 0)
        return NULL;
    json_t *both = json_deep_copy(value || all ? own : other);
    json_object_del(both, "tolerationSeconds");
    if (*effect)
        json_object_set_new(both, "effect", json_string(effect));
    return both;
}

void dataset_hold_to_plugin(json_t *config)
{
    const json_t *plugin = jget_arr(config, "pluginTolerations");
    if (!plugin || jget(config, "defaults.cache.worker.tolerations"))
        return;
    cleanup_json json_t *ours = own_tolerations();
    json_t *held = json_array();
    for (size_t i = 0; i < json_array_size(ours); i++)
        for (size_t k = 0; k < json_array_size(plugin); k++) {
            json_t *both = common_toleration(json_array_get(ours, i), json_array_get(plugin, k));
            if (both)
                json_array_append_new(held, both);
        }
    static const char *const at[] = {"defaults", "cache", "worker"};
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        if (!json_object_get(config, at[i]))
            json_object_set_new(config, at[i], json_object());
        config = json_object_get(config, at[i]);
    }
    json_object_set_new(config, "tolerations", held);
}

/* What a Dataset says of all its pods, or of workers for loaders, goes before what the cluster says
 * of one kind of them. */
static json_t *usual_cache(const json_t *own, const json_t *defaults)
{
    static const char *const of_workers[] = {"nodeAffinity", "tolerations"};
    json_t *usual = json_deep_copy(jget_obj(defaults, "cache"));
    if (jget(own, "tiers")) {
        json_object_del(json_object_get(usual, "worker"), "tiers");
        json_object_del(json_object_get(usual, "client"), "tiers");
    }
    for (size_t i = 0; i < ARRAY_LEN(of_workers); i++)
        if (json_object_get(jget_obj(own, "worker"), of_workers[i]))
            json_object_del(json_object_get(usual, "loader"), of_workers[i]);
    return usual;
}

static json_t *cache_with_defaults(const json_t *cr, const json_t *defaults)
{
    const json_t *own = jget_obj(cr, "spec.cache");
    cleanup_json json_t *ours = own_defaults(), *usual = usual_cache(own, defaults);
    json_t *cache = own ? json_deep_copy(own) : json_object();
    fill_in(cache, usual);
    fill_in(cache, ours);
    return cache;
}

struct dataset *dataset_parse(
    const json_t *cr, const json_t *defaults, const char **reason, struct err *e)
{
    cleanup_dataset struct dataset *d = xcalloc(1, sizeof *d);
    d->cr = cr;
    d->ns = kube_namespace(cr);
    d->name = kube_name(cr);
    d->uid = kube_uid(cr);
    d->generation = jget_int(cr, "metadata.generation", 0);
    d->deleting = kube_deleting(cr);
    d->cache = cache_with_defaults(cr, defaults);
    if (check_name(d, reason, e))
        return NULL;
    *reason = REASON_SPEC;
    if (dataset_refuse_gone(d, e) || parse_access(d, e) || parse_identity(d, e)
        || dataset_parse_mounts(d, jget_obj(defaults, "options"), reason, e))
        return NULL;
    *reason = REASON_SPEC;
    return dataset_parse_cache(d, e) ? NULL : steal(&d);
}

int dataset_most_workers(size_t nodes)
{
    return nodes < DATASET_REPLICAS_MAX / WORKERS_A_NODE
        ? WORKERS_ANYWHERE + WORKERS_A_NODE * (int)nodes
        : DATASET_REPLICAS_MAX;
}

void dataset_cap_workers(struct dataset *d, int most)
{
    int64_t there = jget_int(d->cr, "status.workers.desired", 0);
    if (most > 0 && d->replicas > most)
        d->replicas = (int)MIN(d->replicas, MAX(most, there));
}

void dataset_free(struct dataset *d)
{
    for (size_t i = 0; d && i < d->nmounts; i++) {
        free(d->mounts[i].claim);
        free(d->mounts[i].claim_path);
    }
    if (d)
        json_decref(d->cache);
    free(d);
}

void cleanup_datasetp(struct dataset **d) { dataset_free(*d); }
