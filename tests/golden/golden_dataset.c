/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of our own kinds behind the golden interface. */
#include "tests/golden/golden_dataset.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/attach/observed.h"
#include "operator/dataload/observed.h"
#include "operator/dataset/demand.h"
#include "operator/dataset/observed.h"
#include "operator/dataset/report_news.h"
#include "operator/dataset/trim.h"
#include "operator/render/env.h"

#include <stdlib.h>
#include <string.h>

static struct render_env env_of(const json_t *world)
{
    struct render_env env = render_env_of(jget_obj(world, "config"));
    env.image = jget_str(world, "image", "localhost/millrace:1");
    env.pull_policy = "IfNotPresent";
    int64_t nodes = jget_int(world, "nodeCount", 0);
    env.most_workers = nodes ? dataset_most_workers((size_t)nodes) : 0;
    static struct sign_key master;
    const char *key = jget_str(world, "masterKey", NULL);
    if (key && sign_key_parse(key, strlen(key), &master) == 0)
        env.master = &master;
    return env;
}

static struct cache_pod *cache_pods_of(const json_t *world, const json_t **pods, size_t n)
{
    struct cache_pod *m = xcalloc(n + 1, sizeof *m);
    for (size_t i = 0; i < n; i++)
        m[i] = (struct cache_pod){
            pods[i], json_object_get(jget(world, "reports"), kube_name(pods[i]))};
    return m;
}

static const json_t *first(const json_t *world, const char *kind)
{
    size_t n;
    const json_t **all = golden_objects(world, kind, &n), *one = n ? all[0] : NULL;
    free(all);
    return one;
}

/* Of each attachment, or pod, its node; NULL: the world has no nodes. */
static const json_t **nodes_of(const json_t *world, const json_t **objects, size_t n)
{
    size_t nnodes;
    cleanup_free const json_t **nodes = golden_objects(world, "Node", &nnodes);
    if (!nnodes)
        return NULL;
    const json_t **of = xcalloc(n + 1, sizeof *of);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nnodes; k++)
            if (strcmp(kube_name(nodes[k]), jget_str(objects[i], "spec.nodeName", "")) == 0)
                of[i] = nodes[k];
    return of;
}

/* The world as the informers keep it. The caller owns it. */
static json_t *trimmed(const json_t *world)
{
    static const struct {
        const char *kind;
        void (*trim)(json_t *object);
    } kinds[] = {{"Pod", dataset_trim_pod}, {"PersistentVolume", dataset_trim_volume},
        {"PersistentVolumeClaim", dataset_trim_claim}, {"Service", dataset_trim_child},
        {"NetworkPolicy", dataset_trim_child}, {"VolumeAttachment", dataset_trim_attachment},
        {"Node", dataset_trim_node}};
    json_t *copy = json_deep_copy(world), *object;
    size_t at;
    json_array_foreach (json_object_get(copy, "objects"), at, object) {
        cleanup_free char *kind = xstrdup(jget_str(object, "kind", ""));
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
            if (strcmp(kinds[i].kind, kind) == 0)
                kinds[i].trim(object);
        json_object_set_new(object, "kind", json_string(kind)); /* worlds are sorted by it */
    }
    const char *name;
    json_t *report;
    void *next;
    json_object_foreach_safe(json_object_get(copy, "reports"), next, name, report)
        json_object_set_new(json_object_get(copy, "reports"), name, report_kept(report));
    json_array_foreach (json_object_get(copy, "plugins"), at, object)
        dataset_trim_pod(object);
    return copy;
}

/* The server's answers to what the plan asks, and to what it creates and is refused, as
 * world.refused says: by name of the pod, words. */
static bool answer(const struct plan *plan, const json_t *world, json_t *said)
{
    bool news = false;
    for (size_t i = 0; i < plan->n; i++) {
        const struct plan_action *a = &plan->actions[i];
        const char *words = json_string_value(json_object_get(jget(world, "refused"), a->name));
        if (a->op != PLAN_TRY && !(a->op == PLAN_CREATE && a->wanted && words))
            continue;
        if (a->secret) {
            const char *secret = kube_name(a->secret),
                       *no = json_string_value(json_object_get(jget(world, "refused"), secret));
            words = no ? no : words;
            if (!no)
                json_object_set_new(said, secret, json_pack("{s:s}", "wanted", "made"));
        }
        json_t *verdict = json_pack("{s:s, s:I, s:s*}", "wanted", a->wanted, "at",
            (json_int_t)golden_now(world), "refused", words);
        json_object_set_new(said, a->name, verdict);
        news = true;
    }
    return news;
}

typedef void (*asking_plan)(
    const json_t *cr, const json_t *world, const json_t *said, struct plan *plan);

/* The plan once all that it asks is answered. */
static void plan_answered(
    asking_plan make, const json_t *cr, const json_t *world, struct plan *plan)
{
    cleanup_json json_t *said = json_object();
    for (make(cr, world, said, plan); answer(plan, world, said);) {
        plan_clear(plan);
        make(cr, world, said, plan);
    }
}

/* world.gpuNodes: names, or {name, taints, resources, labels}. The caller owns it. */
static json_t *gpu_nodes_of(const json_t *world)
{
    json_t *all = json_array(), *node;
    size_t at;
    json_array_foreach ((json_t *)(uintptr_t)jget_arr(world, "gpuNodes"), at, node)
        json_array_append_new(
            all, json_is_string(node) ? json_pack("{s:O}", "name", node) : json_deep_copy(node));
    json_array_foreach (all, at, node)
        json_object_set_new(node, "labels", demand_pack_labels(jget_obj(node, "labels")));
    return all;
}

/* world.waiting: specs of pods. The caller owns it. */
static json_t *demands_of(const json_t *world)
{
    json_t *all = json_array(), *spec;
    size_t at;
    json_array_foreach ((json_t *)(uintptr_t)jget_arr(world, "waiting"), at, spec) {
        json_t *demand = demand_of(spec, jget_arr(world, "config.gpuResources"));
        if (demand)
            json_array_append_new(all, demand);
    }
    return all;
}

static void plan_dataset_asking(
    const json_t *cr, const json_t *seen, const json_t *said, struct plan *plan)
{
    cleanup_json json_t *world = trimmed(seen), *gpus = gpu_nodes_of(world),
                        *demands = demands_of(world);
    size_t npods, nvas;
    cleanup_free const json_t **pods = golden_objects(world, "Pod", &npods),
                              **vas = golden_objects(world, "VolumeAttachment", &nvas);
    cleanup_free struct cache_pod *observed = cache_pods_of(world, pods, npods);
    cleanup_free const json_t **nodes = nodes_of(world, vas, nvas),
                              **pod_nodes = nodes_of(world, pods, npods);
    const json_t *retired = jget(world, "retired");
    const struct dataset_observed w = {.cr = cr,
        .pv = first(world, "PersistentVolume"),
        .pvc = first(world, "PersistentVolumeClaim"),
        .service = first(world, "Service"),
        .policy = first(world, "NetworkPolicy"),
        .pods = observed,
        .npods = npods,
        .pod_nodes = pod_nodes,
        .attachments = vas,
        .nattachments = nvas,
        .nodes = nodes,
        .gpu_nodes = gpus,
        .demands = demands,
        .users = jget(world, "users"),
        .claims = jget(world, "claims"),
        .ring = jget_str(world, "ring", NULL),
        .said = said,
        .retired = {jget_int(retired, "cache", 0), jget_int(retired, "worker", 0),
            jget_int(retired, "store", 0), jget_int(retired, "direct", 0),
            jget_int(retired, "written", 0)},
        .now_ns = golden_now(world),
        .env = env_of(world)};
    dataset_plan(&w, plan);
}

void golden_dataset_plan(const json_t *cr, const json_t *world, struct plan *plan)
{
    plan_answered(plan_dataset_asking, cr, world, plan);
}

static void plan_attach_asking(
    const json_t *cr, const json_t *seen, const json_t *said, struct plan *plan)
{
    cleanup_json json_t *world = trimmed(seen);
    size_t npods, nvas;
    cleanup_free const json_t **pods = golden_objects(world, "Pod", &npods),
                              **vas = golden_objects(world, "VolumeAttachment", &nvas);
    cleanup_free struct cache_pod *observed = cache_pods_of(world, pods, npods);
    const json_t *plugins = jget_arr(world, "plugins"), *plugin;
    size_t nplugins = json_array_size(plugins), at;
    cleanup_free const json_t **all = xcalloc(nplugins + 1, sizeof *all);
    json_array_foreach (plugins, at, plugin)
        all[at] = plugin;
    cleanup_free const json_t **nodes = nodes_of(world, vas, nvas);
    const struct attach_observed w = {.pv = jget_str(world, "pv", "millrace-u1"),
        .volume = first(world, "PersistentVolume"),
        .cr = cr,
        .foreign = jget_bool(world, "foreign", false),
        .attachments = vas,
        .nattachments = nvas,
        .nodes = nodes,
        .pods = observed,
        .npods = npods,
        .plugins = all,
        .nplugins = nplugins,
        .said = said,
        .now_ns = golden_now(world),
        .env = env_of(world)};
    attach_plan(&w, plan);
}

void golden_attach_plan(const json_t *cr, const json_t *world, struct plan *plan)
{
    plan_answered(plan_attach_asking, cr, world, plan);
}

static void plan_dataload_asking(
    const json_t *cr, const json_t *seen, const json_t *said, struct plan *plan)
{
    cleanup_json json_t *world = trimmed(seen);
    size_t npods;
    cleanup_free const json_t **pods = golden_objects(world, "Pod", &npods);
    cleanup_free struct cache_pod *observed = cache_pods_of(world, pods, npods);
    cleanup_free const json_t **pod_nodes = nodes_of(world, pods, npods);
    const struct dataload_observed w = {.cr = cr,
        .dataset = first(world, "Dataset"),
        .pods = observed,
        .npods = npods,
        .pod_nodes = pod_nodes,
        .said = said,
        .now_ns = golden_now(world),
        .env = env_of(world)};
    dataload_plan(&w, plan);
}

void golden_dataload_plan(const json_t *cr, const json_t *world, struct plan *plan)
{
    plan_answered(plan_dataload_asking, cr, world, plan);
}
