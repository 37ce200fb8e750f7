/* SPDX-License-Identifier: Apache-2.0 */
/* The gate controller: pods of users that say in a label what they wait for. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/dataset.h"
#include "operator/dataset/cache_pods.h"
#include "operator/dataset/informers.h"
#include "operator/gate/observed.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_CLAIM "claim" /* of pods whose gate is closed: "ns/claim" of what they mount */

struct gate_controller {
    struct informer *pods[GATED_PODS], *datasets, *claims, *cache_pods, *nodes;
    struct poll *poll;
};

static void each_claim(const json_t *pod, void (*emit)(void *, const char *), void *to)
{
    const json_t *volumes = jget_arr(pod, "spec.volumes");
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        const char *claim = jget_str(
            json_array_get(volumes, i), "persistentVolumeClaim.claimName", "");
        cleanup_free char *key = kube_key(kube_namespace(pod), claim);
        if (*claim)
            emit(to, key);
    }
}

static void values_claim_gated(
    const char *arg, const json_t *pod, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    if (gate_is_closed(pod))
        each_claim(pod, emit, to);
}

/* ---- observe ---- */

struct found_datasets {
    const struct gate_controller *c;
    struct objs objs;
    json_t *cached, *claims;
};

static void find_dataset(void *to, const char *key)
{
    struct found_datasets *f = to;
    struct obj *dataset = informer_get(f->c->datasets, key);
    if (!dataset) {
        cleanup_obj struct obj *claim = informer_get(f->c->claims, key);
        if (claim)
            json_object_set_new(f->claims, kube_name(obj_json(claim)), json_true());
        return;
    }
    f->objs.v = xrealloc(f->objs.v, (f->objs.n + 1) * sizeof *f->objs.v);
    f->objs.v[f->objs.n++] = dataset;
    cache_pods_held(f->c->cache_pods, f->c->poll, f->c->nodes, obj_json(dataset), f->cached);
}

static int gate_reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)e;
    const struct gate_controller *c = user;
    cleanup_obj struct obj *pod = NULL;
    for (size_t i = 0; i < ARRAY_LEN(c->pods) && !pod; i++)
        pod = informer_get(c->pods[i], key);
    if (!pod)
        return 0;
    struct found_datasets f = {.c = c, .cached = json_array(), .claims = json_object()};
    each_claim(obj_json(pod), find_dataset, &f);
    cleanup_free const json_t **datasets = xcalloc(f.objs.n + 1, sizeof *datasets);
    for (size_t i = 0; i < f.objs.n; i++)
        datasets[i] = obj_json(f.objs.v[i]);
    const struct gate_observed o = {.pod = obj_json(pod),
        .datasets = datasets,
        .ndatasets = f.objs.n,
        .claims = f.claims,
        .cached = f.cached};
    gate_plan(&o, plan);
    objs_free(&f.objs);
    json_decref(f.cached);
    json_decref(f.claims);
    return 0;
}

/* ---- what wakes a pod ---- */

/* Of a Dataset or of a claim of its own: their names are those that pods mount. */
static void gate_map_claim(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    const struct gate_controller *c = user;
    cleanup_free char *claim = kube_key_of(object);
    for (size_t i = 0; i < ARRAY_LEN(c->pods); i++) {
        cleanup_keys char **pods = informer_keys(c->pods[i], INDEX_CLAIM, claim);
        for (size_t k = 0; pods[k]; k++)
            emit(to, pods[k]);
    }
}

int gate_controller_start(struct manager *mgr, struct err *e)
{
    static const struct informer_index by_claim = {INDEX_CLAIM, values_claim_gated, NULL};
    static struct gate_controller state; /* lives as long as the process */
    struct gate_controller *c = &state;
    for (size_t i = 0; i < ARRAY_LEN(c->pods); i++) {
        c->pods[i] = informers_gated_pods(mgr, i);
        informer_add_index(c->pods[i], &by_claim);
    }
    c->datasets = informers_datasets(mgr);
    c->claims = informers_claims(mgr);
    c->cache_pods = informers_cache_pods(mgr);
    c->nodes = informers_nodes(mgr);
    c->poll = poll_shared(mgr, e);
    if (!c->poll)
        return err_wrap(e, "gate controller");
    const struct controller_conf conf = {.name = "gate",
        .workers = mgr->workers,
        .keys = c->pods[0],
        .reconcile = gate_reconcile,
        .user = c};
    struct controller *controller = manager_controller(mgr, &conf);
    for (size_t i = 0; i < ARRAY_LEN(c->pods); i++)
        controller_watch(controller, c->pods[i], controller_map_self, NULL);
    controller_watch_news(controller, c->datasets, gate_map_claim, c, dataset_is_news);
    controller_watch_news(controller, c->claims, gate_map_claim, c, informers_claim_is_news);
    return 0;
}
