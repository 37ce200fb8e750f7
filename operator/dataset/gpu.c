/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/gpu.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/dataset/demand.h"

#include <pthread.h>
#include <stdlib.h>

struct gpu_nodes {
    struct informer *nodes;
    const json_t *patterns;
    pthread_mutex_t mu;
    struct obj *found; /* mu; NULL: to be looked up */
};

bool gpu_node_has(const json_t *node, const json_t *patterns)
{
    const char *resource;
    json_t *count;
    json_object_foreach ((json_t *)jget_obj(node, "status.allocatable"), resource, count)
        if (demand_is_gpu(resource, patterns))
            return true;
    return false;
}

bool gpu_node_is_news(const json_t *was, const json_t *now)
{
    static const char *const parts[] = {"status", "spec", "labels"};
    if (!json_object_size(jget_obj(was, "status.allocatable"))
        && !json_object_size(jget_obj(now, "status.allocatable")))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const json_t *x = json_object_get(was, parts[i]), *y = json_object_get(now, parts[i]);
        if (x != y && !json_equal(x, y))
            return true;
    }
    return false;
}

static json_t *gpu_nodes_look(struct informer *inf, const json_t *patterns)
{
    cleanup_objs struct objs nodes = informer_all(inf);
    json_t *found = json_array();
    for (size_t i = 0; i < nodes.n; i++) {
        const json_t *node = obj_json(nodes.v[i]);
        if (gpu_node_has(node, patterns) && !jget_bool(node, "spec.unschedulable", false))
            json_array_append_new(found,
                json_pack("{s:s, s:o*, s:o*, s:s}", "name", kube_name(node), "taints",
                    json_deep_copy(jget_arr(node, "spec.taints")), "resources",
                    json_deep_copy(jget_obj(node, "status.allocatable")), "labels",
                    jget_str(node, "labels", "")));
    }
    return found;
}

struct obj *gpu_nodes_of(struct gpu_nodes *g)
{
    pthread_mutex_lock(&g->mu);
    if (!g->found)
        g->found = obj_take(gpu_nodes_look(g->nodes, g->patterns));
    struct obj *found = obj_ref(g->found);
    pthread_mutex_unlock(&g->mu);
    return found;
}

static void gpu_nodes_changed(void *user, const json_t *was, const json_t *now)
{
    struct gpu_nodes *g = user;
    if (!gpu_node_is_news(was, now))
        return;
    pthread_mutex_lock(&g->mu);
    obj_unref(g->found);
    g->found = NULL;
    pthread_mutex_unlock(&g->mu);
}

struct gpu_nodes *gpu_nodes_new(struct informer *nodes, const json_t *patterns)
{
    struct gpu_nodes *g = xcalloc(1, sizeof *g);
    *g = (struct gpu_nodes){.nodes = nodes, .patterns = patterns};
    pthread_mutex_init(&g->mu, NULL);
    informer_on_change(nodes, gpu_nodes_changed, g);
    return g;
}

void gpu_nodes_free(struct gpu_nodes *g)
{
    if (!g)
        return;
    obj_unref(g->found);
    pthread_mutex_destroy(&g->mu);
    free(g);
}
