/* SPDX-License-Identifier: Apache-2.0 */
/* How the data is cached: spec.cache, the cluster's defaults filled in. */
#include "operator/api/dataset_priv.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <stdio.h>
#include <string.h>

#define MEMORY_BESIDE ((int64_t)64 << 20) /* what a container needs beside its Memory tier */

/* A quantity field: a number or a string. -1 if it is neither or malformed. */
static int quantity_of(const json_t *q, int64_t *bytes)
{
    if (json_is_integer(q)) {
        *bytes = json_integer_value(q);
        return *bytes < 0 ? -1 : 0;
    }
    return json_is_string(q) ? quantity_parse(json_string_value(q), bytes) : -1;
}

/* The list at `where`, for messages; an absent one leaves *out as it is. */
static int parse_tiers(
    const json_t *list, const char *where, struct dataset_tiers *out, struct err *e)
{
    static const int known[] = {CONF_MEM, CONF_SSD, CONF_HDD};
    struct dataset_tiers t = {0};
    if (json_array_size(list) > DATASET_TIERS_MAX)
        return err_set(
            e, ERR_INVALID, "%s: at most %d tiers are possible", where, DATASET_TIERS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i);
        const char *medium = jget_str(j, "medium", "");
        struct conf_tier *tier = &t.tier[t.n++];
        size_t m = 0;
        while (m < ARRAY_LEN(known)
            && strcmp(dataset_medium_name((enum conf_medium)known[m]), medium) != 0)
            m++;
        if (m == ARRAY_LEN(known))
            return err_set(e, ERR_INVALID, "%s[%zu].medium: \"%s\" must be Memory, SSD or HDD",
                where, i, medium);
        tier->medium = (enum conf_medium)known[m];
        if (quantity_of(jget(j, "quota"), &tier->quota) || tier->quota < 1 << 20
            || tier->quota > DATASET_QUOTA_MAX)
            return err_set(e, ERR_INVALID,
                "%s[%zu].quota must be a quantity of at least 1Mi and at most 1Pi, like 10Gi",
                where, i);
        for (size_t k = 0; k < i; k++)
            if (t.tier[k].medium == tier->medium)
                return err_set(
                    e, ERR_INVALID, "%s[%zu].medium: %s is there twice", where, i, medium);
        if (tier->medium == CONF_MEM)
            t.memory = tier->quota;
    }
    if (t.n)
        *out = t;
    return 0;
}

/* A container whose memory limit is below its Memory tier would be killed as soon as the cache
 * fills. */
static int check_resources(const struct dataset_component *c, const char *where, struct err *e)
{
    static const char *const paths[] = {
        "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"};
    const json_t *res = c->resources;
    int64_t v = 0;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (jget(res, paths[i]) && quantity_of(jget(res, paths[i]), &v))
            return err_set(e, ERR_INVALID, "%s.resources.%s must be a quantity, like 500m or 1Gi",
                where, paths[i]);
    const json_t *limit = jget(res, "limits.memory");
    int64_t least = c->tiers.memory + MEMORY_BESIDE;
    if (!limit || quantity_of(limit, &v) || v >= least)
        return 0;
    if (!c->tiers.memory)
        return err_set(e, ERR_INVALID,
            "%s.resources.limits.memory is too small: at least 64Mi are needed, 256Mi are usual",
            where);
    char quota[HUMAN_BYTES_LEN];
    return err_set(e, ERR_INVALID,
        "%s.resources.limits.memory is too small for a Memory tier of %s: at least %lldMi are needed, its quota and 64Mi",
        where, human_bytes((uint64_t)c->tiers.memory, quota),
        (long long)((least + (1 << 20) - 1) >> 20));
}

/* Of labels and annotations: ours are how the operator finds its pods again. */
static int check_map(const json_t *map, const char *where, const char *what, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)map, key, value) {
        if (!json_is_string(value))
            return err_set(
                e, ERR_INVALID, "%s.%s.%s must be a string: put it in quotes", where, what, key);
        if (strncmp(key, NAME_GROUP "/", strlen(NAME_GROUP "/")) == 0
            || strcmp(key, LABEL_MANAGED_BY) == 0)
            return err_set(
                e, ERR_INVALID, "%s.%s: %s is set by Millrace: leave it out", where, what, key);
    }
    return 0;
}

static int parse_component(
    struct dataset *d, const char *name, struct dataset_component *c, struct err *e)
{
    const json_t *j = jget_obj(d->cache, name);
    char where[32], tiers[40];
    snprintf(where, sizeof where, "spec.cache.%s", name);
    snprintf(tiers, sizeof tiers, "%s.tiers", where);
    c->resources = jget_obj(j, "resources");
    c->node_selector = jget_obj(j, "nodeAffinity.required");
    c->tolerations = jget_arr(j, "tolerations");
    c->priority_class = jget_str(j, "priorityClassName", "");
    c->labels = jget_obj(j, "labels");
    c->annotations = jget_obj(j, "annotations");
    if (check_map(c->labels, where, "labels", e)
        || check_map(c->annotations, where, "annotations", e)
        || parse_tiers(jget_arr(j, "tiers"), tiers, &c->tiers, e))
        return -1;
    return check_resources(c, where, e);
}

static int parse_components(struct dataset *d, struct err *e)
{
    struct dataset_tiers common = {{{CONF_SSD, (int64_t)10 << 30}}, 1, 0};
    if (parse_tiers(jget_arr(d->cache, "tiers"), "spec.cache.tiers", &common, e))
        return -1;
    d->tiers = d->worker.tiers = d->client.tiers = common;
    if (parse_component(d, "worker", &d->worker, e) || parse_component(d, "client", &d->client, e)
        || parse_component(d, "loader", &d->loader, e))
        return -1;
    if (!d->loader.node_selector)
        d->loader.node_selector = d->worker.node_selector;
    if (!d->loader.tolerations)
        d->loader.tolerations = d->worker.tolerations;
    return 0;
}

/* The path of element i of a list of them, in no other element. */
static int parse_path(
    const json_t *list, const char *where, size_t i, const char **out, struct err *e)
{
    *out = jget_str(json_array_get(list, i), "path", "");
    if (!dataset_plain_path(*out))
        return err_set(
            e, ERR_INVALID, "%s[%zu].path: \"%s\" must be / or like /a/b", where, i, *out);
    for (size_t k = 0; k < i; k++)
        if (strcmp(jget_str(json_array_get(list, k), "path", ""), *out) == 0)
            return err_set(e, ERR_INVALID, "%s[%zu].path: \"%s\" is there twice", where, i, *out);
    return 0;
}

static int parse_rules(struct dataset *d, struct err *e)
{
    static const char *const writes[] = {"Through", "CacheThrough", "AsyncThrough", NULL};
    const json_t *list = jget_arr(d->cache, "rules");
    if (json_array_size(list) > DATASET_RULES_MAX)
        return err_set(
            e, ERR_INVALID, "spec.cache.rules: at most %d rules are possible", DATASET_RULES_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct dataset_rule *r = &d->rules[d->nrules++];
        if (parse_path(list, "spec.cache.rules", i, &r->path, e))
            return -1;
        r->write_type = jget_str(json_array_get(list, i), "writeType", "CacheThrough");
        if (!dataset_word_in(r->write_type, writes))
            return err_set(e, ERR_INVALID,
                "spec.cache.rules[%zu].writeType: \"%s\" must be Through, CacheThrough or AsyncThrough",
                i, r->write_type);
    }
    return 0;
}

static int parse_preload(struct dataset *d, struct err *e)
{
    const json_t *list = jget_arr(d->cache, "preload");
    if (json_array_size(list) > DATASET_PRELOAD_MAX)
        return err_set(e, ERR_INVALID, "spec.cache.preload: at most %d paths are possible",
            DATASET_PRELOAD_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct dataset_preload *p = &d->preload[d->npreload++];
        if (parse_path(list, "spec.cache.preload", i, &p->path, e))
            return -1;
        p->pin = jget_bool(json_array_get(list, i), "pin", false);
    }
    return 0;
}

static int parse_placement(struct dataset *d, struct err *e)
{
    static const char *const words[] = {"BesideGPU", "Any", NULL};
    const char *word = jget_str(d->cache, "placement", words[0]);
    if (!dataset_word_in(word, words))
        return err_set(
            e, ERR_INVALID, "spec.cache.placement: \"%s\" must be BesideGPU or Any", word);
    d->placement = strcmp(word, "Any") == 0 ? DATASET_ANY : DATASET_BESIDE_GPU;
    d->exclusive = jget_bool(d->cache, "exclusive", false);
    return 0;
}

int dataset_parse_cache(struct dataset *d, struct err *e)
{
    int64_t n = jget_int(d->cache, "replicas", 1),
            sync = jget_int(d->cache, "metadataSyncSeconds", 0);
    if (n < 0 || n > DATASET_REPLICAS_MAX)
        return err_set(
            e, ERR_INVALID, "spec.cache.replicas must be from 0 to %d", DATASET_REPLICAS_MAX);
    if (sync < 0 || sync > 31536000)
        return err_set(e, ERR_INVALID, "spec.cache.metadataSyncSeconds must be from 1 to 31536000");
    d->replicas = d->asked = (int)n;
    d->metadata_sync = (int)sync;
    return parse_placement(d, e) || parse_components(d, e) || parse_rules(d, e)
            || parse_preload(d, e)
        ? -1
        : 0;
}
