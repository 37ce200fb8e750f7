/* SPDX-License-Identifier: Apache-2.0 */
/* The attach controller: the operator is the driver's attacher. Keys are names of
 * PersistentVolumes. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/dataset.h"
#include "operator/attach/observed.h"
#include "operator/dataset/cache_pods.h"
#include "operator/dataset/informers.h"
#include "operator/dataset/trim.h"
#include "operator/render/meta.h"

#include <stdlib.h>
#include <string.h>

struct attach_controller {
    struct manager *mgr;
    struct informer *datasets, *pods, *pvs, *attachments, *plugins, *nodes;
    struct poll *poll;
    struct verdicts *verdicts;
    struct controller *controller;
};

/* With one namespace to watch, Datasets of other namespaces are left to another operator. */
static bool is_foreign(struct attach_controller *c, const char *pv)
{
    if (!c->mgr->watch_ns)
        return false;
    cleanup_obj struct obj *o = informer_get(c->pvs, pv);
    return strcmp(
               jget_str(obj_json(o), "spec.csi.volumeAttributes.\"" VOL_DATASET_NAMESPACE "\"", ""),
               c->mgr->watch_ns)
        != 0;
}

/* What an observed attach_observed borrows. */
struct attach_seen {
    struct objs attachments, plugins;
    struct obj **nodes; /* one an attachment of ours; NULL: it is gone */
    const json_t **json;
    size_t nnodes;
};

static void attach_seen_free(struct attach_seen *s)
{
    for (size_t i = 0; i < s->nnodes; i++)
        obj_unref(s->nodes[i]);
    free(s->nodes);
    free(s->json);
    objs_free(&s->attachments);
    objs_free(&s->plugins);
}
#define cleanup_attach_seen __attribute__((cleanup(attach_seen_free)))

/* Attachments and their nodes, and plugins. */
static void attach_look(
    struct attach_controller *c, const char *pv, struct attach_seen *s, struct attach_observed *o)
{
    *s = (struct attach_seen){
        informer_by(c->attachments, "pv", pv), informer_all(c->plugins), NULL, NULL, 0};
    size_t n = s->attachments.n;
    s->nodes = xcalloc(n + 1, sizeof(struct obj *));
    s->json = xcalloc(2 * n + s->plugins.n + 1, sizeof *s->json);
    const json_t **vas = s->json, **nodes = vas + n, **plugins = nodes + n;
    for (size_t i = 0; i < n; i++) {
        const json_t *va = obj_json(s->attachments.v[i]);
        if (!attachment_is_ours(va))
            continue;
        struct obj *node = informer_get(c->nodes, jget_str(va, "spec.nodeName", ""));
        s->nodes[s->nnodes] = node;
        nodes[s->nnodes] = obj_json(node);
        vas[s->nnodes++] = va;
    }
    for (size_t i = 0; i < s->plugins.n; i++)
        plugins[i] = obj_json(s->plugins.v[i]);
    o->attachments = vas;
    o->nodes = nodes;
    o->nattachments = s->nnodes;
    o->plugins = plugins;
    o->nplugins = s->plugins.n;
}

static int attach_reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)e;
    struct attach_controller *c = user;
    const char *uid = render_pv_dataset_uid(key);
    cleanup_objs struct objs found = uid ? informer_by(c->datasets, "uid", uid)
                                         : (struct objs){NULL, 0};
    cleanup_cache_pods struct cache_pods pods;
    cache_pods_take(&pods, uid ? informer_by(c->pods, "dataset", uid) : (struct objs){NULL, 0},
        found.n ? kube_namespace(obj_json(found.v[0])) : NULL, uid, c->poll);
    cleanup_obj struct obj *volume = informer_get(c->pvs, key);
    cleanup_obj struct obj *said = uid ? verdicts_of(c->verdicts, uid) : NULL;
    struct attach_observed o = {.pv = key,
        .volume = obj_json(volume),
        .cr = found.n ? obj_json(found.v[0]) : NULL,
        .foreign = is_foreign(c, key),
        .pods = pods.v,
        .npods = pods.objs.n,
        .said = obj_json(said),
        .now_ns = clock_real_ns(),
        .env = dataset_render_env(c->mgr, c->nodes)};
    cleanup_attach_seen struct attach_seen seen;
    attach_look(c, key, &seen, &o);
    attach_plan(&o, plan);
    return 0;
}

/* A client, or the Secret that clients mount, that the server refuses (quota, Pod Security) is a
 * reason why the volume cannot be attached. */
static void attach_refused(void *user, const char *key, const struct plan_action *failed,
    const struct err *why, struct plan *then)
{
    struct attach_controller *c = user;
    const char *uid = render_pv_dataset_uid(key);
    bool of_all = failed->res == &kube_secrets;
    if (!uid || (failed->res != &kube_pods && !of_all)
        || (why->cls != ERR_INVALID && why->cls != ERR_DENIED && why->cls != ERR_EXISTS))
        return;
    cleanup_objs struct objs found = informer_by(c->datasets, "uid", uid),
                             attachments = informer_by(c->attachments, "pv", key);
    for (size_t i = 0; i < attachments.n && found.n; i++) {
        const json_t *va = obj_json(attachments.v[i]), *cr = obj_json(found.v[0]);
        cleanup_free char *client = render_client_name(
            kube_name(cr), jget_str(va, "spec.nodeName", ""));
        bool meant = of_all ? !jget_bool(va, "status.attached", false)
                            : strcmp(client, failed->name) == 0;
        if (attachment_is_ours(va) && meant)
            attach_plan_refused(cr, va, why->msg, clock_real_ns(), then);
    }
}

static void attach_map_attachment(
    void *user, const json_t *va, void (*emit)(void *, const char *), void *to)
{
    (void)user;
    const char *pv = jget_str(va, "spec.source.persistentVolumeName", "");
    if (attachment_is_ours(va) && *pv)
        emit(to, pv);
}

static void attach_map_dataset(
    void *user, const json_t *cr, void (*emit)(void *, const char *), void *to)
{
    (void)user;
    cleanup_free char *pv = render_pv_name(kube_uid(cr));
    emit(to, pv);
}

static void attach_map_client(
    void *user, const json_t *pod, void (*emit)(void *, const char *), void *to)
{
    (void)user;
    cleanup_free char *pv = render_pv_name(kube_label(pod, LABEL_DATASET_UID));
    if (cache_pod_is(pod, COMPONENT_CLIENT))
        emit(to, pv);
}

static void attach_reported(void *user, const struct poll_target *t, bool counts)
{
    struct attach_controller *c = user;
    cleanup_free char *pv = render_pv_name(t->dataset_uid);
    if (strcmp(t->component, COMPONENT_CLIENT) == 0 && !counts)
        controller_enqueue(c->controller, pv, 0);
}

static void wake_volume(void *to, const char *key) { controller_enqueue(to, key, 0); }

static void attach_answered(void *user, const json_t *pod)
{
    struct attach_controller *c = user;
    attach_map_client(c, pod, wake_volume, c->controller);
}

int attach_controller_start(struct manager *mgr, struct err *e)
{
    const struct informer_conf plugins = {.res = &kube_pods,
        .ns = mgr->ns,
        .labels = LABEL_COMPONENT "=" COMPONENT_CSI,
        .trim = dataset_trim_pod};
    struct attach_controller *c = xcalloc(1, sizeof *c); /* lives as long as the process */
    *c = (struct attach_controller){.mgr = mgr,
        .datasets = informers_datasets(mgr),
        .pods = informers_cache_pods(mgr),
        .pvs = informers_pvs(mgr),
        .attachments = informers_attachments(mgr),
        .plugins = manager_shared_informer(mgr, &plugins),
        .nodes = informers_nodes(mgr),
        .verdicts = manager_verdicts(mgr),
        .poll = poll_shared(mgr, e)};
    if (!c->poll) {
        free(c);
        return err_wrap(e, "attach controller");
    }
    const struct controller_conf conf = {.name = "attach",
        .workers = mgr->workers,
        .keys = c->pvs,
        .reconcile = attach_reconcile,
        .on_apply_error = attach_refused,
        .user = c};
    c->controller = manager_controller(mgr, &conf);
    controller_watch(c->controller, c->attachments, attach_map_attachment, c);
    controller_watch_news(c->controller, c->datasets, attach_map_dataset, c, dataset_is_news);
    controller_watch(c->controller, c->pods, attach_map_client, c);
    controller_watch(c->controller, c->pvs, controller_map_self, NULL);
    poll_listen(c->poll, attach_reported, c);
    verdicts_listen(c->verdicts, attach_answered, c);
    return 0;
}
