/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/demand.h"

#include "lib/base/buf.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 65536

/* As the device plugins of their vendors name them, whole, shared, or in parts. */
static const char *const gpu_names[] = {"*/gpu", "*/gpu.shared", "nvidia.com/mig-*",
    "amd.com/*_gpu", "gpu.intel.com/*", "habana.ai/gaudi*", "aws.amazon.com/neuron*",
    "google.com/tpu", NAME_GPU_PERCENT};

bool demand_is_gpu(const char *resource, const json_t *patterns)
{
    for (size_t i = 0; !patterns && i < ARRAY_LEN(gpu_names); i++)
        if (fnmatch(gpu_names[i], resource, 0) == 0)
            return true;
    for (size_t i = 0; i < json_array_size(patterns); i++) {
        const char *name = json_string_value(json_array_get(patterns, i));
        if (name && fnmatch(name, resource, 0) == 0)
            return true;
    }
    return false;
}

/* ---- what is asked for ---- */

/* Templates of jobs may have a number as users write it: 1 or "1". */
static int64_t gpu_count(const json_t *quantity)
{
    int64_t n = 0;
    if (json_is_integer(quantity))
        return json_integer_value(quantity);
    return json_is_string(quantity) && quantity_parse(json_string_value(quantity), &n) == 0 ? n : 0;
}

static json_t *gpus_of(const json_t *spec, const json_t *patterns)
{
    json_t *sum = json_object(), *container, *quantity;
    const char *name;
    size_t i;
    json_array_foreach ((json_t *)jget_arr(spec, "containers"), i, container)
        json_object_foreach ((json_t *)jget_obj(container, "resources.limits"), name, quantity)
            if (demand_is_gpu(name, patterns) && gpu_count(quantity) > 0)
                json_object_set_new(sum, name,
                    json_integer(
                        gpu_count(quantity) + json_integer_value(json_object_get(sum, name))));
    return sum;
}

json_t *demand_of(const json_t *spec, const json_t *patterns)
{
    static const char required[] =
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    json_t *gpus = gpus_of(spec, patterns);
    if (!json_object_size(gpus)) {
        json_decref(gpus);
        return NULL;
    }
    return json_pack("{s:o, s:o*, s:o*, s:o*}", "resources", gpus, "selector",
        json_deep_copy(jget_obj(spec, "nodeSelector")), "required",
        json_deep_copy(jget_arr(spec, required)), "tolerations",
        json_deep_copy(jget_arr(spec, "tolerations")));
}

/* ---- labels: "\nkey=value\n…\n" ---- */

json_t *demand_pack_labels(const json_t *labels)
{
    cleanup_buf struct buf text = BUF_INIT(LABELS_MAX);
    const char *key;
    json_t *value;
    buf_adds(&text, "\n");
    json_object_foreach ((json_t *)labels, key, value)
        if (json_is_string(value))
            buf_addf(&text, "%s=%s\n", key, json_string_value(value));
    return json_string(buf_str(&text));
}

/* The value of a label, and its length; NULL: there is none. */
static const char *label_of(const json_t *node, const char *key, size_t *len)
{
    cleanup_free char *line = xasprintf("\n%s=", key);
    const char *at = strstr(jget_str(node, "labels", ""), line);
    if (!at)
        return NULL;
    at += strlen(line);
    *len = strcspn(at, "\n");
    return at;
}

static bool is_text(const char *value, size_t len, const json_t *text)
{
    const char *s = json_string_value(text);
    return value && s && strlen(s) == len && strncmp(value, s, len) == 0;
}

/* ---- does a node have it? ---- */

static bool matches_expression(const json_t *node, const json_t *x, bool field)
{
    const char *op = jget_str(x, "operator", ""), *key = jget_str(x, "key", "");
    const json_t *values = jget_arr(x, "values");
    size_t len = 0;
    const char *value = field ? jget_str(node, "name", "") : label_of(node, key, &len);
    bool among = false;
    if (field)
        len = strlen(value);
    for (size_t i = 0; i < json_array_size(values); i++)
        among |= is_text(value, len, json_array_get(values, i));
    if (strcmp(op, "In") == 0)
        return among;
    if (strcmp(op, "NotIn") == 0)
        return !among;
    if (strcmp(op, "Exists") == 0)
        return value != NULL;
    if (strcmp(op, "DoesNotExist") == 0)
        return value == NULL;
    const char *bound = json_string_value(json_array_get(values, 0));
    if (!value || !bound)
        return false;
    long long is = strtoll(value, NULL, 10), than = strtoll(bound, NULL, 10);
    return strcmp(op, "Gt") == 0 ? is > than : strcmp(op, "Lt") == 0 && is < than;
}

bool demand_is_selected(const json_t *node, const json_t *expressions)
{
    for (size_t i = 0; i < json_array_size(expressions); i++)
        if (!matches_expression(node, json_array_get(expressions, i), false))
            return false;
    return true;
}

static bool matches_term(const json_t *node, const json_t *term)
{
    static const char *const parts[] = {"matchExpressions", "matchFields"};
    size_t all = 0, i;
    json_t *x;
    for (size_t k = 0; k < ARRAY_LEN(parts); k++)
        json_array_foreach ((json_t *)jget_arr(term, parts[k]), i, x) {
            all++;
            if (!matches_expression(node, x, k == 1))
                return false;
        }
    return all > 0; /* an empty term selects nothing */
}

static bool matches_any_term(const json_t *node, const json_t *terms)
{
    for (size_t i = 0; i < json_array_size(terms); i++)
        if (matches_term(node, json_array_get(terms, i)))
            return true;
    return !terms;
}

static bool has_labels(const json_t *node, const json_t *selector)
{
    const char *key;
    json_t *value;
    size_t len;
    json_object_foreach ((json_t *)selector, key, value) {
        const char *is = label_of(node, key, &len);
        if (!is_text(is, len, value))
            return false;
    }
    return true;
}

static bool has_gpus(const json_t *node, const json_t *asked)
{
    const char *name;
    json_t *n;
    json_object_foreach ((json_t *)asked, name, n)
        if (gpu_count(json_object_get(jget_obj(node, "resources"), name)) < json_integer_value(n))
            return false;
    return true;
}

static bool tolerates(const json_t *toleration, const json_t *taint)
{
    const char *key = jget_str(toleration, "key", ""), *effect = jget_str(toleration, "effect", "");
    if (*effect && strcmp(effect, jget_str(taint, "effect", "")) != 0)
        return false;
    if (*key && strcmp(key, jget_str(taint, "key", "")) != 0)
        return false;
    return strcmp(jget_str(toleration, "operator", "Equal"), "Exists") == 0
        || (*key && strcmp(jget_str(toleration, "value", ""), jget_str(taint, "value", "")) == 0);
}

static bool keeps_off(const json_t *taint, const json_t *tolerations)
{
    if (strcmp(jget_str(taint, "effect", ""), "PreferNoSchedule") == 0)
        return false;
    for (size_t i = 0; i < json_array_size(tolerations); i++)
        if (tolerates(json_array_get(tolerations, i), taint))
            return false;
    return true;
}

bool demand_is_tolerated(const json_t *taints, const json_t *tolerations)
{
    for (size_t i = 0; i < json_array_size(taints); i++)
        if (keeps_off(json_array_get(taints, i), tolerations))
            return false;
    return true;
}

/* Where the server has ExtendedResourceToleration, pods need not say that they tolerate the taint
 * which is named as the resource that they ask for. */
static bool is_open(const json_t *node, const json_t *demand)
{
    const json_t *taints = jget_arr(node, "taints"), *asked = jget_obj(demand, "resources");
    for (size_t i = 0; i < json_array_size(taints); i++) {
        const json_t *taint = json_array_get(taints, i);
        if (!json_object_get(asked, jget_str(taint, "key", ""))
            && keeps_off(taint, jget_arr(demand, "tolerations")))
            return false;
    }
    return true;
}

bool demand_fits(const json_t *demand, const json_t *node)
{
    return has_gpus(node, jget_obj(demand, "resources"))
        && has_labels(node, jget_obj(demand, "selector"))
        && matches_any_term(node, jget_arr(demand, "required")) && is_open(node, demand);
}
