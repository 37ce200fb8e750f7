/* SPDX-License-Identifier: Apache-2.0 */
/* Node affinity of a TFJob's pods: preferably beside the bytes that they will read. */
#include "operator/tfjob/build.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX  16  /* preferred nodes of one pod */
#define WEIGHT_MAX 100 /* the API's own limit */

struct cached_node {
    const char *node;
    double bytes;
};

static bool mounts(const json_t *pod_spec, const char *claim)
{
    size_t i;
    json_t *v;
    json_array_foreach ((json_t *)jget_arr(pod_spec, "volumes"), i, v)
        if (!strcmp(jget_str(v, "persistentVolumeClaim.claimName", ""), claim))
            return true;
    return false;
}

/* Sums by node what is cached of the datasets that the pod mounts. Returns how many nodes. */
static size_t sum(const struct tfjob_observed *o, const json_t *pod_spec, struct cached_node *out)
{
    size_t n = 0, i;
    json_t *c;
    json_array_foreach ((json_t *)o->cached, i, c) {
        const char *node = jget_str(c, "node", "");
        int64_t bytes = jget_int(c, "bytes", 0);
        size_t k = 0;
        if (bytes <= 0 || !*node || !mounts(pod_spec, jget_str(c, "dataset", "")))
            continue;
        while (k < n && strcmp(out[k].node, node))
            k++;
        if (k == n)
            out[n++] = (struct cached_node){node, 0};
        out[k].bytes += (double)bytes;
    }
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    const struct cached_node *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->node, y->node);
}

static json_t *object_in(json_t *o, const char *key)
{
    if (!json_is_object(json_object_get(o, key)))
        json_object_set_new(o, key, json_object());
    return json_object_get(o, key);
}

void tfjob_prefer_cached_nodes(const struct tfjob_observed *o, json_t *pod_spec)
{
    static const char preferred[] = "preferredDuringSchedulingIgnoredDuringExecution";
    cleanup_free struct cached_node *held = xcalloc(json_array_size(o->cached) + 1, sizeof *held);
    size_t n = sum(o, pod_spec, held);
    if (!n)
        return;
    qsort(held, n, sizeof *held, by_bytes);
    json_t *node = object_in(object_in(pod_spec, "affinity"), "nodeAffinity");
    if (!json_is_array(json_object_get(node, preferred)))
        json_object_set_new(node, preferred, json_array());
    for (size_t i = 0; i < MIN(n, NODES_MAX); i++) {
        int weight = (int)(WEIGHT_MAX * (held[i].bytes / held[0].bytes));
        json_array_append_new(json_object_get(node, preferred),
            json_pack("{s:i, s:{s:[{s:s, s:s, s:[s]}]}}", "weight", MAX(weight, 1), "preference",
                "matchFields", "key", "metadata.name", "operator", "In", "values", held[i].node));
    }
}
