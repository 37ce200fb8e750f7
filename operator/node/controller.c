/* SPDX-License-Identifier: Apache-2.0 */
/* The node controller: only where new nodes come with our startup taint. Keys are names of nodes.
 */
#include "operator/ctl/controller.h"
#include "lib/base/mem.h"
#include "operator/ctl/manager.h"
#include "operator/node/plan.h"

#include <stdlib.h>

struct node_controller {
    struct informer *nodes, *csinodes;
};

static int node_reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)e;
    const struct node_controller *c = user;
    cleanup_obj struct obj *node = informer_get(c->nodes, key),
                           *csinode = informer_get(c->csinodes, key);
    node_plan(obj_json(node), obj_json(csinode), plan);
    return 0;
}

static void trim_to_taints(json_t *node)
{
    json_t *meta = json_object_get(node, "metadata");
    json_t *taints = json_incref(json_object_get(json_object_get(node, "spec"), "taints"));
    json_object_del(node, "status");
    json_object_del(meta, "annotations");
    json_object_del(meta, "labels");
    json_object_set_new(
        node, "spec", taints ? json_pack("{s:o}", "taints", taints) : json_object());
}

int node_controller_start(struct manager *mgr, struct err *e)
{
    (void)e;
    static struct node_controller state; /* lives as long as the process */
    state.nodes = manager_shared_informer(
        mgr, &(struct informer_conf){.res = &kube_nodes, .trim = trim_to_taints});
    state.csinodes = manager_shared_informer(mgr, &(struct informer_conf){.res = &kube_csinodes});
    struct controller *c = manager_controller(mgr,
        &(struct controller_conf){
            .name = "node", .keys = state.nodes, .reconcile = node_reconcile, .user = &state});
    controller_watch(c, state.nodes, controller_map_self, NULL);
    controller_watch(c, state.csinodes, controller_map_self, NULL);
    return 0;
}
