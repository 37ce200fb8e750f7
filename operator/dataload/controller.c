/* SPDX-License-Identifier: Apache-2.0 */
/* The dataload controller: what it watches, what it collects for its plan. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/dataset.h"
#include "operator/ctl/verdicts.h"
#include "operator/dataload/observed.h"
#include "operator/dataset/cache_pods.h"
#include "operator/dataset/informers.h"

#include <stdlib.h>
#include <string.h>

struct dataload_controller {
    struct manager *mgr;
    struct informer *dataloads, *datasets, *pods, *nodes;
    struct poll *poll;
    struct verdicts *verdicts;
    struct controller *controller;
};

static int dataload_reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)e;
    struct dataload_controller *c = user;
    cleanup_obj struct obj *cr = informer_get(c->dataloads, key), *dataset = NULL;
    const json_t *j = obj_json(cr);
    if (!j)
        return 0;
    cleanup_free char *dataset_key = kube_key(
        kube_namespace(j), jget_str(j, "spec.dataset.name", ""));
    dataset = informer_get(c->datasets, dataset_key);
    cleanup_cache_pods struct cache_pods pods;
    cache_pods_take(&pods, informer_by(c->pods, "dataload", key), NULL, NULL, c->poll);
    cache_pods_take_nodes(&pods, c->nodes);
    cleanup_obj struct obj *said = verdicts_of(c->verdicts, kube_uid(j));
    const struct dataload_observed o = {.cr = j,
        .dataset = obj_json(dataset),
        .pods = pods.v,
        .npods = pods.objs.n,
        .pod_nodes = pods.nodes,
        .said = obj_json(said),
        .now_ns = clock_real_ns(),
        .env = dataset_render_env(c->mgr, c->nodes)};
    dataload_plan(&o, plan);
    return 0;
}

/* Index: key of the Dataset that a DataLoad names. */
static void values_dataset(
    const char *arg, const json_t *cr, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    cleanup_free char *key = kube_key(kube_namespace(cr), jget_str(cr, "spec.dataset.name", ""));
    emit(to, key);
}

static void dataload_map_dataset(
    void *user, const json_t *dataset, void (*emit)(void *, const char *), void *to)
{
    struct dataload_controller *c = user;
    cleanup_free char *key = kube_key_of(dataset);
    cleanup_objs struct objs found = informer_by(c->dataloads, "dataset", key);
    for (size_t i = 0; i < found.n; i++) {
        cleanup_free char *load = kube_key_of(obj_json(found.v[i]));
        emit(to, load);
    }
}

static void dataload_map_pod(
    void *user, const json_t *pod, void (*emit)(void *, const char *), void *to)
{
    (void)user;
    const char *name = kube_label(pod, LABEL_DATALOAD);
    cleanup_free char *key = kube_key(kube_namespace(pod), name);
    if (*name)
        emit(to, key);
}

static void dataload_reported(void *user, const struct poll_target *t, bool counts)
{
    (void)counts;
    struct dataload_controller *c = user;
    cleanup_free char *key = kube_key(t->ns, t->dataload);
    if (*t->dataload)
        controller_enqueue(c->controller, key, 0);
}

static void dataload_gone(void *user, const json_t *was, const json_t *now)
{
    struct dataload_controller *c = user;
    if (!now)
        verdicts_forget(c->verdicts, kube_uid(was));
}

static void wake_load(void *to, const char *key) { controller_enqueue(to, key, 0); }

static void dataload_answered(void *user, const json_t *pod)
{
    struct dataload_controller *c = user;
    dataload_map_pod(c, pod, wake_load, c->controller);
}

int dataload_controller_start(struct manager *mgr, struct err *e)
{
    static const struct informer_index indexes[] = {{"dataset", values_dataset, NULL}};
    const struct informer_conf dataloads = {.res = &kube_dataloads,
        .ns = mgr->watch_ns,
        .indexes = indexes,
        .nindexes = ARRAY_LEN(indexes)};
    struct dataload_controller *c = xcalloc(1, sizeof *c); /* lives as long as the process */
    *c = (struct dataload_controller){.mgr = mgr,
        .dataloads = manager_informer(mgr, &dataloads),
        .datasets = informers_datasets(mgr),
        .pods = informers_cache_pods(mgr),
        .nodes = informers_nodes(mgr),
        .verdicts = manager_verdicts(mgr),
        .poll = poll_shared(mgr, e)};
    if (!c->poll) {
        free(c);
        return err_wrap(e, "dataload controller");
    }
    const struct controller_conf conf = {.name = "dataload",
        .workers = mgr->workers,
        .keys = c->dataloads,
        .reconcile = dataload_reconcile,
        .user = c};
    c->controller = manager_controller(mgr, &conf);
    controller_watch(c->controller, c->dataloads, controller_map_self, NULL);
    controller_watch_news(c->controller, c->datasets, dataload_map_dataset, c, dataset_is_news);
    controller_watch(c->controller, c->pods, dataload_map_pod, c);
    informer_on_change(c->dataloads, dataload_gone, c);
    poll_listen(c->poll, dataload_reported, c);
    verdicts_listen(c->verdicts, dataload_answered, c);
    return 0;
}
