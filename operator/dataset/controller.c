/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset controller: what it watches, what it collects for its plan. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/dataset.h"
#include "operator/dataset/cache_pods.h"
#include "operator/dataset/gated.h"
#include "operator/dataset/gpu.h"
#include "operator/dataset/informers.h"
#include "operator/dataset/observed.h"
#include "operator/dataset/ring.h"
#include "operator/dataset/trim.h"
#include "operator/dataset/users.h"
#include "operator/render/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes come by the dozen and change while they start, and each change concerns every Dataset. */
#define GPU_BURST_NS  (5 * NS_PER_S)
#define INDEX_MOUNTED "mounted"

struct dataset_controller {
    struct manager *mgr;
    struct informer *datasets, *pods, *pvs, *pvcs, *services, *policies, *attachments, *nodes,
        *claims;
    struct poll *poll;
    struct verdicts *verdicts;
    struct users *users;
    struct gpu_nodes *gpus;
    struct gated *gated;
    struct controller *controller;
};

/* Index of Datasets: "ns/claim" of what they mount by pvc://. */
static void values_mounted(
    const char *arg, const json_t *cr, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    const json_t *mounts = jget_arr(cr, "spec.mounts");
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        cleanup_free char *claim = ring_claim_of(json_array_get(mounts, i));
        cleanup_free char *key = claim ? kube_key(kube_namespace(cr), claim) : NULL;
        if (key)
            emit(to, key);
    }
}

/* ---- observe ---- */

/* Of those that it mounts: another Dataset's, or anybody's. */
static json_t *claims_of(struct dataset_controller *c, const json_t *cr)
{
    json_t *found = json_object();
    const json_t *mounts = jget_arr(cr, "spec.mounts");
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        cleanup_free char *claim = ring_claim_of(json_array_get(mounts, i));
        cleanup_free char *key = claim ? kube_key(kube_namespace(cr), claim) : NULL;
        cleanup_obj struct obj *ours = key ? informer_get(c->pvcs, key) : NULL,
                               *other = key ? informer_get(c->claims, key) : NULL;
        if (ours || other)
            json_object_set_new(found, claim, json_true());
    }
    return found;
}

/* What the informer has, or, since it sees only objects with our labels, what the server has under
 * that name. NULL: nothing. */
static int get_child(struct dataset_controller *c, struct informer *inf, const char *ns,
    const char *name, struct obj **out, struct err *e)
{
    cleanup_free char *key = kube_key(ns, name);
    *out = informer_get(inf, key);
    if (*out)
        return 0;
    json_t *found = NULL;
    struct err why = ERR_INIT;
    if (kube_get(c->mgr->kube, informer_res(inf), ns, name, &found, &why) == 0)
        *out = obj_take(found);
    else if (why.cls != ERR_NOTFOUND) {
        *e = why;
        return -1;
    }
    return 0;
}

/* The attachments of a volume, and of each the node. */
struct attached_nodes {
    struct objs objs;
    struct obj **node_objs; /* one an attachment; NULL: there is none */
    const json_t **attachments, **nodes;
    size_t n;
};

static void take_attached(struct dataset_controller *c, const char *pv, struct attached_nodes *a)
{
    *a = (struct attached_nodes){.objs = informer_by(c->attachments, "pv", pv)};
    a->node_objs = xcalloc(a->objs.n + 1, sizeof *a->node_objs);
    a->attachments = xcalloc(a->objs.n + 1, sizeof *a->attachments);
    a->nodes = xcalloc(a->objs.n + 1, sizeof *a->nodes);
    for (size_t i = 0; i < a->objs.n; i++) {
        const json_t *va = obj_json(a->objs.v[i]);
        if (!attachment_is_ours(va))
            continue;
        a->node_objs[a->n] = informer_get(c->nodes, jget_str(va, "spec.nodeName", ""));
        a->nodes[a->n] = obj_json(a->node_objs[a->n]);
        a->attachments[a->n++] = va;
    }
}

static void free_attached(struct attached_nodes *a)
{
    for (size_t i = 0; i < a->n; i++)
        obj_unref(a->node_objs[i]);
    free(a->node_objs);
    free(a->attachments);
    free(a->nodes);
    objs_free(&a->objs);
}
#define cleanup_attached __attribute__((cleanup(free_attached)))

static int dataset_reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    struct dataset_controller *c = user;
    cleanup_obj struct obj *cr = informer_get(c->datasets, key), *pv = NULL, *pvc = NULL,
                           *service = NULL, *policy = NULL;
    const json_t *j = obj_json(cr);
    if (!j)
        return 0;
    const char *ns = kube_namespace(j), *name = kube_name(j);
    cleanup_free char *pv_name = render_pv_name(kube_uid(j)),
                      *service_name = render_service_name(name);
    if (get_child(c, c->pvs, NULL, pv_name, &pv, e) || get_child(c, c->pvcs, ns, name, &pvc, e)
        || get_child(c, c->services, ns, service_name, &service, e))
        return -1;
    const struct render_env env = dataset_render_env(c->mgr, c->nodes);
    if (env.ingress) {
        if (get_child(c, c->policies, ns, service_name, &policy, e))
            return -1;
    } else { /* one from before the chart's value was changed has our labels */
        cleanup_free char *policy_key = kube_key(ns, service_name);
        policy = informer_get(c->policies, policy_key);
    }
    cleanup_cache_pods struct cache_pods pods;
    cache_pods_take(&pods, informer_by(c->pods, "dataset", kube_uid(j)), ns, kube_uid(j), c->poll);
    cache_pods_take_nodes(&pods, c->nodes);
    cleanup_attached struct attached_nodes at;
    take_attached(c, pv_name, &at);
    cleanup_obj struct obj *gpus = gpu_nodes_of(c->gpus);
    cleanup_json json_t *demands = gated_demands(c->gated, key), *claims = claims_of(c, j),
                        *users = NULL;
    if (kube_deleting(j) && kube_controlled_by(obj_json(pvc), kube_uid(j))
        && !(users = users_of(c->users, c->mgr->kube, j, clock_mono_ns(), e)))
        return -1;
    cleanup_obj struct obj *said = verdicts_of(c->verdicts, kube_uid(j));
    cleanup_free char *ring = ring_claim(c->datasets, j);
    struct dataset_observed o = {.cr = j,
        .pv = obj_json(pv),
        .pvc = obj_json(pvc),
        .service = obj_json(service),
        .policy = obj_json(policy),
        .pods = pods.v,
        .npods = pods.objs.n,
        .pod_nodes = pods.nodes,
        .attachments = at.attachments,
        .nattachments = at.n,
        .nodes = at.nodes,
        .gpu_nodes = obj_json(gpus),
        .demands = demands,
        .users = users,
        .claims = claims,
        .ring = ring,
        .said = obj_json(said),
        .now_ns = clock_real_ns(),
        .env = env};
    poll_retired(c->poll, kube_uid(j), &o.retired);
    dataset_plan(&o, plan);
    return 0;
}

static void dataset_refused(void *user, const char *key, const struct plan_action *failed,
    const struct err *why, struct plan *then)
{
    struct dataset_controller *c = user;
    cleanup_obj struct obj *cr = informer_get(c->datasets, key);
    if (cr && (why->cls == ERR_INVALID || why->cls == ERR_DENIED || why->cls == ERR_EXISTS))
        dataset_plan_refused(obj_json(cr), failed, why, clock_real_ns(), then);
}

/* ---- what wakes us ---- */

static void dataset_map_labels(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    struct dataset_controller *c = user;
    cleanup_objs struct objs found = informer_by(
        c->datasets, "uid", kube_label(object, LABEL_DATASET_UID));
    for (size_t i = 0; i < found.n; i++) {
        cleanup_free char *key = kube_key_of(obj_json(found.v[i]));
        emit(to, key);
    }
}

/* A claim has come or gone: those that mount it. */
static void dataset_map_claim(
    void *user, const json_t *claim, void (*emit)(void *, const char *), void *to)
{
    struct dataset_controller *c = user;
    cleanup_free char *key = kube_key_of(claim);
    cleanup_keys char **keys = informer_keys(c->datasets, INDEX_MOUNTED, key);
    for (char **k = keys; *k; k++)
        emit(to, *k);
}

static void dataset_map_attachment(
    void *user, const json_t *va, void (*emit)(void *, const char *), void *to)
{
    struct dataset_controller *c = user;
    const char *pv = jget_str(va, "spec.source.persistentVolumeName", "");
    const char *uid = render_pv_dataset_uid(pv);
    if (!attachment_is_ours(va) || !uid)
        return;
    cleanup_objs struct objs found = informer_by(c->datasets, "uid", uid);
    for (size_t i = 0; i < found.n; i++) {
        cleanup_free char *key = kube_key_of(obj_json(found.v[i]));
        emit(to, key);
    }
}

/* A node with GPUs has come, or may be used now: any worker may want to be there. */
static void dataset_map_gpu_node(
    void *user, const json_t *node, void (*emit)(void *, const char *), void *to)
{
    (void)node;
    struct dataset_controller *c = user;
    cleanup_keys char **keys = informer_keys(c->datasets, NULL, NULL);
    for (char **key = keys; *key; key++)
        emit(to, *key);
}

static void dataset_reported(void *user, const struct poll_target *t, bool counts)
{
    (void)counts;
    struct dataset_controller *c = user;
    cleanup_free char *key = kube_key(t->ns, t->dataset);
    if (*t->dataset && !*t->dataload)
        controller_enqueue(c->controller, key, 0);
}

static void dataset_gone(void *user, const json_t *was, const json_t *now)
{
    struct dataset_controller *c = user;
    if (now)
        return;
    poll_forget(c->poll, kube_uid(was));
    verdicts_forget(c->verdicts, kube_uid(was));
    users_forget(c->users, kube_uid(was));
}

/* The claim has the name of the Dataset. */
static void dataset_awaited(void *user, const char *claim)
{
    struct dataset_controller *c = user;
    controller_enqueue(c->controller, claim, 0);
}

static void wake_asking(void *to, const char *key) { controller_enqueue(to, key, 0); }

static void dataset_answered(void *user, const json_t *pod)
{
    struct dataset_controller *c = user;
    dataset_map_labels(c, pod, wake_asking, c->controller);
}

static void make_informers(struct dataset_controller *c)
{
    struct manager *mgr = c->mgr;
    const char *labels = LABEL_MANAGED_BY "=" NAME_FIELD_MANAGER "," LABEL_DATASET_UID;
    struct informer_conf pvcs = {.res = &kube_pvcs,
                             .ns = mgr->watch_ns,
                             .labels = labels,
                             .trim = dataset_trim_claim,
                             .fold = true},
                         services = pvcs, policies = pvcs;
    static const struct informer_index by_mounted = {INDEX_MOUNTED, values_mounted, NULL};
    services.res = &kube_services;
    policies.res = &kube_networkpolicies;
    services.trim = policies.trim = dataset_trim_child;
    c->datasets = informers_datasets(mgr);
    informer_add_index(c->datasets, &by_mounted);
    c->claims = informers_claims(mgr);
    c->pods = informers_cache_pods(mgr);
    c->pvs = informers_pvs(mgr);
    c->attachments = informers_attachments(mgr);
    c->pvcs = manager_informer(mgr, &pvcs);
    c->services = manager_informer(mgr, &services);
    c->policies = manager_informer(mgr, &policies);
    c->nodes = informers_nodes(mgr);
    const json_t *gpu_resources = dataset_render_env(mgr, c->nodes).gpu_resources;
    c->gpus = gpu_nodes_new(c->nodes, gpu_resources);
    c->gated = gated_new(mgr, gpu_resources, dataset_awaited, c);
}

int dataset_controller_start(struct manager *mgr, struct err *e)
{
    struct dataset_controller *c = xcalloc(1, sizeof *c); /* lives as long as the process */
    c->mgr = mgr;
    make_informers(c);
    c->verdicts = manager_verdicts(mgr);
    c->users = users_new();
    c->poll = poll_shared(mgr, e);
    if (!c->poll) {
        users_free(c->users);
        gated_free(c->gated);
        gpu_nodes_free(c->gpus);
        free(c);
        return err_wrap(e, "dataset controller");
    }
    const struct controller_conf conf = {.name = "dataset",
        .workers = mgr->workers,
        .keys = c->datasets,
        .reconcile = dataset_reconcile,
        .on_apply_error = dataset_refused,
        .user = c};
    c->controller = manager_controller(mgr, &conf);
    controller_watch_news(c->controller, c->datasets, controller_map_self, NULL, dataset_is_news);
    controller_watch(c->controller, c->pods, dataset_map_labels, c);
    controller_watch(c->controller, c->pvs, dataset_map_labels, c);
    controller_watch(c->controller, c->pvcs, dataset_map_labels, c);
    controller_watch_news(c->controller, c->pvcs, dataset_map_claim, c, informers_claim_is_news);
    controller_watch_news(c->controller, c->claims, dataset_map_claim, c, informers_claim_is_news);
    controller_watch(c->controller, c->services, dataset_map_labels, c);
    controller_watch(c->controller, c->policies, dataset_map_labels, c);
    controller_watch(c->controller, c->attachments, dataset_map_attachment, c);
    controller_watch_news_after(
        c->controller, c->nodes, dataset_map_gpu_node, c, gpu_node_is_news, GPU_BURST_NS);
    informer_on_change(c->datasets, dataset_gone, c);
    poll_listen(c->poll, dataset_reported, c);
    verdicts_listen(c->verdicts, dataset_answered, c);
    return 0;
}
