/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/render/env.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <string.h>

#define CA_BUNDLE_MAX 65536 /* it travels in an environment variable */
#define KEEP_FREE_MAX 90    /* what clients take: lib/conf/conf.h */

enum env_type { ENV_STRINGS, ENV_STRING, ENV_BOOL, ENV_OBJECT, ENV_ARRAY, ENV_PERCENT };

static const struct {
    const char *key;
    enum env_type type;
} env_fields[] = {{"env", ENV_STRINGS}, {"labels", ENV_STRINGS}, {"annotations", ENV_STRINGS},
    {"caBundle", ENV_STRING}, {"priorityClassName", ENV_STRING}, {"openshift", ENV_BOOL},
    {"defaults", ENV_OBJECT}, {"cacheKeepFree", ENV_PERCENT}, {"ingress", ENV_ARRAY},
    {"endpoints", ENV_ARRAY}, {"limits", ENV_OBJECT}, {"pluginHash", ENV_STRING},
    {"gpuResources", ENV_ARRAY}, {"pluginNodes", ENV_ARRAY}, {"pluginTolerations", ENV_ARRAY}};

static int check_strings(const char *field, const json_t *map, struct err *e)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map))
        return err_set(e, ERR_INVALID, "%s must be a map of strings", field);
    json_object_foreach ((json_t *)map, key, value)
        if (!json_is_string(value))
            return err_set(e, ERR_INVALID, "%s.%s must be a string: put it in quotes", field, key);
    return 0;
}

static int check_field(const char *key, const json_t *value, struct err *e)
{
    size_t i = 0;
    while (i < ARRAY_LEN(env_fields) && strcmp(env_fields[i].key, key) != 0)
        i++;
    if (i == ARRAY_LEN(env_fields))
        return err_set(e, ERR_INVALID, "%s: there is no such field", key);
    switch (env_fields[i].type) {
    case ENV_STRINGS:
        return check_strings(key, value, e);
    case ENV_STRING:
        return json_is_string(value) ? 0 : err_set(e, ERR_INVALID, "%s must be a string", key);
    case ENV_BOOL:
        return json_is_boolean(value) ? 0
                                      : err_set(e, ERR_INVALID, "%s must be true or false", key);
    case ENV_ARRAY:
        return json_is_array(value) ? 0 : err_set(e, ERR_INVALID, "%s must be a list", key);
    case ENV_PERCENT:
        if (json_is_integer(value) && json_integer_value(value) >= 0
            && json_integer_value(value) <= KEEP_FREE_MAX)
            return 0;
        return err_set(e, ERR_INVALID, "%s must be a percentage from 0 to %d", key, KEEP_FREE_MAX);
    case ENV_OBJECT:
        return json_is_object(value) ? 0 : err_set(e, ERR_INVALID, "%s must be an object", key);
    }
    return 0;
}

struct render_env render_env_of(const json_t *config)
{
    return (struct render_env){.image = "",
        .pull_policy = "",
        .pull_secrets = "",
        .defaults = jget_obj(config, "defaults"),
        .env = jget_obj(config, "env"),
        .labels = jget_obj(config, "labels"),
        .annotations = jget_obj(config, "annotations"),
        .ca_bundle = jget_str(config, "caBundle", ""),
        .priority_class = jget_str(config, "priorityClassName", ""),
        .plugin_hash = jget_str(config, "pluginHash", ""),
        .openshift = jget_bool(config, "openshift", false),
        .ingress = jget_arr(config, "ingress"),
        .endpoints = jget_arr(config, "endpoints"),
        .gpu_resources = jget_arr(config, "gpuResources"),
        .plugin_nodes = jget_arr(config, "pluginNodes"),
        .keep_free = jget(config, "cacheKeepFree")};
}

int render_env_check(const json_t *config, struct err *e)
{
    const char *key;
    json_t *value;
    if (!json_is_object(config))
        return err_set(e, ERR_INVALID, "it must be a JSON object");
    json_object_foreach ((json_t *)config, key, value)
        if (check_field(key, value, e))
            return -1;
    if (strlen(jget_str(config, "caBundle", "")) > CA_BUNDLE_MAX)
        return err_set(e, ERR_INVALID,
            "caBundle: more than %d bytes: leave certificates out that are public anyway, or not needed",
            CA_BUNDLE_MAX);
    return 0;
}
