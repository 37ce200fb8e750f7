/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster's defaults by themselves: what is wrong with them is told to the administrator who
 * wrote them, not to every team whose Dataset they are filled into. */
#include "operator/api/dataset_priv.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/dataset_kind.h"

#include <string.h>

#define KINDS_MAX 16 /* names below defaults.options */

static int check_keys(const json_t *map, const char *where, const char *const *known, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)map, key, value) {
        if (!dataset_word_in(key, known))
            return err_set(e, ERR_INVALID, "%s.%s: there is no such field", where, key);
        if (!json_is_object(value))
            return err_set(e, ERR_INVALID, "%s.%s must be an object", where, key);
    }
    return 0;
}

static int check_option_shape(const char *where, const char *key, const char *value, struct err *e)
{
    switch (option_shape_of(key)) {
    case OPTION_UNKNOWN:
        return err_set(e, ERR_INVALID, "%s.%s: there is no such option", where, key);
    case OPTION_BOOL:
        if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
            return 0;
        return err_set(
            e, ERR_INVALID, "%s.%s is \"%s\": write \"true\" or \"false\"", where, key, value);
    case OPTION_URL:
        if (strncmp(value, "http://", 7) == 0 || strncmp(value, "https://", 8) == 0)
            return 0;
        return err_set(e, ERR_INVALID,
            "%s.%s is \"%s\": write a URL, like https://s3.example.com:9000", where, key, value);
    case OPTION_CERTS:
        if (strstr(value, "-----BEGIN CERTIFICATE-----"))
            return 0;
        return err_set(e, ERR_INVALID, "%s.%s: write the text of a PEM file", where, key);
    case OPTION_TEXT:
    case OPTION_CREDENTIAL:
        break;
    }
    return 0;
}

static int check_default_options(
    const json_t *defaults, const struct dataset_kind *kind, struct err *e)
{
    const json_t *map = json_object_get(json_object_get(defaults, "options"), kind->defaults);
    cleanup_free char *where = xasprintf("defaults.options.%s", kind->defaults);
    const char *key, *other;
    json_t *value, *unused;
    json_object_foreach ((json_t *)map, key, value) {
        if (!option_is_of(key, kind->options))
            return err_set(e, ERR_INVALID, "%s.%s: there is no such option", where, key);
        if (check_option_shape(where, key, json_string_value(value), e))
            return -1;
        json_object_foreach ((json_t *)map, other, unused)
            if (strcmp(key, other) != 0
                && strcmp(option_proper_name(key), option_proper_name(other)) == 0)
                return err_set(e, ERR_INVALID, "%s: %s and %s are one option: keep one of them",
                    where, key, other);
    }
    return 0;
}

/* One that says nothing but where its data is. */
static json_t *silent_dataset(const char *mount_point)
{
    return json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s}]}}", "metadata", "name", "defaults",
        "namespace", "default", "uid", "u", "spec", "mounts", "mountPoint", mount_point);
}

/* It takes all of them. */
static int check_filled_in(const json_t *defaults, const char *mount_point, struct err *e)
{
    const char *reason = "";
    cleanup_json json_t *cr = silent_dataset(mount_point);
    cleanup_dataset struct dataset *d = dataset_parse(cr, defaults, &reason, e);
    return d ? 0 : err_wrap(e, "defaults, in a Dataset that leaves the field out");
}

static int check_default_quota(
    const struct dataset_tiers *t, const char *limit, int64_t most, struct err *e)
{
    char has[HUMAN_BYTES_LEN];
    for (size_t i = 0; i < t->n; i++)
        if (t->tier[i].quota > most)
            return err_set(e, ERR_INVALID,
                "limits.tierQuota is %s, and a Dataset that says nothing has a tier of %s: set defaults.cache.tiers to no more",
                limit, human_bytes((uint64_t)t->tier[i].quota, has));
    return 0;
}

int dataset_check_limits(const json_t *defaults, const json_t *limits, struct err *e)
{
    const char *reason = "", *quota = jget_str(limits, "tierQuota", "");
    int64_t replicas = jget_int(limits, "replicas", DATASET_REPLICAS_MAX), most = INT64_MAX;
    cleanup_json json_t *cr = silent_dataset("s3://bucket");
    cleanup_dataset struct dataset *d = dataset_parse(cr, defaults, &reason, e);
    if (!d)
        return -1;
    if (*quota && quantity_parse(quota, &most))
        return err_set(e, ERR_INVALID, "limits.tierQuota: \"%s\" is no quantity", quota);
    if (d->replicas > replicas)
        return err_set(e, ERR_INVALID,
            "limits.replicas is %lld, and a Dataset that says nothing has %d cache worker%s: set defaults.cache.replicas to no more",
            (long long)replicas, d->replicas, d->replicas == 1 ? "" : "s");
    return check_default_quota(&d->worker.tiers, quota, most, e)
            || check_default_quota(&d->client.tiers, quota, most, e)
        ? -1
        : 0;
}

int dataset_check_defaults(const json_t *defaults, struct err *e)
{
    static const char *const fields[] = {"options", "cache", NULL};
    const char *of[KINDS_MAX + 1] = {0};
    const struct dataset_kind *kind;
    for (size_t i = 0; i < KINDS_MAX && (kind = dataset_kind_at(i)); i++)
        of[i] = kind->defaults;
    if (check_keys(defaults, "defaults", fields, e)
        || check_keys(json_object_get(defaults, "options"), "defaults.options", of, e))
        return -1;
    for (size_t i = 0; (kind = dataset_kind_at(i)); i++)
        if (check_filled_in(defaults, kind->form, e) || check_default_options(defaults, kind, e))
            return -1;
    return dataset_check_default_cache(json_object_get(defaults, "cache"), e);
}
