/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/render/placement.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX  16  /* preferred nodes of one pod */
#define WEIGHT_MAX 100 /* the API's own limit */

struct placement_node {
    const char *node, *host;
    double bytes;
};

bool placement_mounts(const json_t *pod_spec, const char *claim)
{
    size_t i;
    json_t *v;
    json_array_foreach ((json_t *)jget_arr(pod_spec, "volumes"), i, v)
        if (!strcmp(jget_str(v, "persistentVolumeClaim.claimName", ""), claim))
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    const struct placement_node *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->node, y->node);
}

/* Sums by node what is cached of the datasets that the pod mounts; the most first. Returns how many
 * nodes. Caller frees *out. */
static size_t sum_nodes(const json_t *pod_spec, const json_t *cached, struct placement_node **out)
{
    struct placement_node *v = *out = xcalloc(json_array_size(cached) + 1, sizeof *v);
    size_t n = 0, i;
    json_t *c;
    json_array_foreach ((json_t *)cached, i, c) {
        const char *node = jget_str(c, "node", "");
        int64_t bytes = jget_int(c, "bytes", 0);
        size_t k = 0;
        if (bytes <= 0 || !*node || !placement_mounts(pod_spec, jget_str(c, "dataset", "")))
            continue;
        while (k < n && strcmp(v[k].node, node))
            k++;
        if (k == n)
            v[n++] = (struct placement_node){node, jget_str(c, "host", node), 0};
        v[k].bytes += (double)bytes;
    }
    qsort(v, n, sizeof *v, by_bytes);
    return n;
}

static json_t *object_in(json_t *o, const char *key)
{
    if (!json_is_object(json_object_get(o, key)))
        json_object_set_new(o, key, json_object());
    return json_object_get(o, key);
}

static json_t *array_in(json_t *o, const char *key)
{
    if (!json_is_array(json_object_get(o, key)))
        json_object_set_new(o, key, json_array());
    return json_object_get(o, key);
}

static json_t *node_affinity(json_t *pod_spec)
{
    return object_in(object_in(pod_spec, "affinity"), "nodeAffinity");
}

void placement_prefer(json_t *pod_spec, const json_t *cached)
{
    cleanup_free struct placement_node *held = NULL;
    size_t n = sum_nodes(pod_spec, cached, &held);
    if (!n)
        return;
    json_t *preferred = array_in(
        node_affinity(pod_spec), "preferredDuringSchedulingIgnoredDuringExecution");
    for (size_t i = 0; i < MIN(n, NODES_MAX); i++) {
        int weight = (int)(WEIGHT_MAX * (held[i].bytes / held[0].bytes));
        json_array_append_new(preferred,
            json_pack("{s:i, s:{s:[{s:s, s:s, s:[s]}]}}", "weight", MAX(weight, 1), "preference",
                "matchFields", "key", "metadata.name", "operator", "In", "values", held[i].node));
    }
}

/* Of nodes that hold at least half of what the best one holds. */
static json_t *hosts_that_hold(const json_t *pod_spec, const json_t *cached)
{
    cleanup_free struct placement_node *held = NULL;
    size_t n = sum_nodes(pod_spec, cached, &held);
    json_t *hosts = json_array();
    for (size_t i = 0; i < n && held[i].bytes >= held[0].bytes / 2; i++)
        json_array_append_new(hosts, json_string(held[i].host));
    return hosts;
}

void placement_narrow(json_t *node_selector, const json_t *expressions)
{
    json_t *terms = array_in(node_selector, "nodeSelectorTerms"), *term;
    size_t i;
    bool users = json_array_size(terms) > 0;
    if (!users)
        json_array_append_new(terms, json_object());
    json_array_foreach (terms, i, term)
        if (!users || jget_len(term, "matchExpressions") || jget_len(term, "matchFields"))
            json_array_extend(array_in(term, "matchExpressions"), (json_t *)expressions);
}

/* By label, since a term may name many values of one, but only one name of a node. */
bool placement_require(json_t *pod_spec, const json_t *cached)
{
    cleanup_json json_t *hosts = hosts_that_hold(pod_spec, cached);
    if (!json_array_size(hosts))
        return false;
    cleanup_json json_t *held = json_pack(
        "[{s:s, s:s, s:O}]", "key", LABEL_HOSTNAME, "operator", "In", "values", hosts);
    placement_narrow(
        object_in(node_affinity(pod_spec), "requiredDuringSchedulingIgnoredDuringExecution"), held);
    return true;
}
