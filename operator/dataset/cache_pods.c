/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/cache_pods.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <stdlib.h>
#include <string.h>

static struct objs only_ours(struct objs take, const char *ns, const char *owner_uid)
{
    size_t n = 0;
    for (size_t i = 0; i < take.n; i++) {
        const json_t *pod = obj_json(take.v[i]);
        if ((!ns || strcmp(kube_namespace(pod), ns) == 0)
            && (!owner_uid || kube_controlled_by(pod, owner_uid)))
            take.v[n++] = take.v[i];
        else
            obj_unref(take.v[i]);
    }
    take.n = n;
    return take;
}

void cache_pods_take(struct cache_pods *m, struct objs pods_take, const char *ns,
    const char *owner_uid, struct poll *poll)
{
    pods_take = only_ours(pods_take, ns, owner_uid);
    *m = (struct cache_pods){pods_take, xcalloc(pods_take.n + 1, sizeof *m->reports),
        xcalloc(pods_take.n + 1, sizeof *m->v), {NULL, 0}, NULL};
    for (size_t i = 0; i < m->objs.n; i++) {
        const json_t *pod = obj_json(m->objs.v[i]);
        m->reports[i] = poll_report(poll, kube_uid(pod));
        m->v[i] = (struct cache_pod){pod, obj_json(m->reports[i])};
    }
}

void cache_pods_take_nodes(struct cache_pods *m, struct informer *nodes)
{
    m->node_objs = (struct objs){xcalloc(m->objs.n + 1, sizeof *m->node_objs.v), m->objs.n};
    m->nodes = xcalloc(m->objs.n + 1, sizeof *m->nodes);
    for (size_t i = 0; i < m->objs.n; i++) {
        m->node_objs.v[i] = informer_get(nodes, jget_str(m->v[i].pod, "spec.nodeName", ""));
        m->nodes[i] = obj_json(m->node_objs.v[i]);
    }
}

void cache_pods_free(struct cache_pods *m)
{
    for (size_t i = 0; i < m->objs.n && m->reports; i++)
        obj_unref(m->reports[i]);
    free(m->reports);
    free(m->v);
    free(m->nodes);
    objs_free(&m->node_objs);
    objs_free(&m->objs);
    m->reports = NULL;
    m->v = NULL;
}

void cache_pods_held(struct informer *pods, struct poll *poll, struct informer *nodes,
    const json_t *dataset, json_t *to)
{
    cleanup_cache_pods struct cache_pods m;
    cache_pods_take(&m, informer_by(pods, "dataset", kube_uid(dataset)), kube_namespace(dataset),
        kube_uid(dataset), poll);
    for (size_t i = 0; i < m.objs.n; i++) {
        int64_t bytes = cache_pod_holds(&m.v[i]);
        const char *node = jget_str(m.v[i].pod, "spec.nodeName", "");
        if (bytes <= 0 || !*node)
            continue;
        cleanup_obj struct obj *of = informer_get(nodes, node);
        const char *host = kube_label(obj_json(of), LABEL_HOSTNAME);
        json_array_append_new(to,
            json_pack("{s:s, s:s, s:s, s:I}", "dataset", kube_name(dataset), "node", node, "host",
                *host ? host : node, "bytes", (json_int_t)bytes));
    }
}
