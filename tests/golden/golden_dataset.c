/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/golden_dataset.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/attach/observed.h"
#include "operator/dataload/observed.h"
#include "operator/dataset/observed.h"
#include "operator/render/volume.h"

#include <stdlib.h>
#include <string.h>

static const struct render_env env = {"localhost/millrace:1", "IfNotPresent", ""};

/* The hash that plan_apply gives a child. */
static char *applied_hash(const struct kube_res *res, json_t *desired_take)
{
    cleanup_plan struct plan p = PLAN_INIT;
    plan_apply(&p, res, desired_take, NULL);
    return xstrdup(kube_annotation(p.actions[0].body, ANNOTATION_HASH));
}

static const char *node_of(const json_t *pod)
{
    return jget_str(pod, "spec.nodeName",
        jget_str(pod,
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchFields[0].values[0]",
            ""));
}

static char *pod_hash(const struct dataset *d, const json_t *pod)
{
    cleanup_json json_t *desired = NULL;
    if (cache_pod_is(pod, COMPONENT_CLIENT)) {
        desired = render_client(d, &env, node_of(pod));
    } else {
        const char *dash = strrchr(kube_name(pod), '-');
        desired = render_worker(d, &env, dash ? atoi(dash + 1) : 0, NULL);
    }
    return xstrdup(kube_annotation(desired, ANNOTATION_HASH));
}

static void make_current(const struct dataset *d, json_t *o)
{
    const char *kind = jget_str(o, "kind", "");
    if (strcmp(kube_annotation(o, ANNOTATION_HASH), "current") != 0)
        return;
    cleanup_free char *hash = !strcmp(kind, "PersistentVolume")
        ? applied_hash(&kube_pvs, render_pv(d))
        : !strcmp(kind, "PersistentVolumeClaim") ? applied_hash(&kube_pvcs, render_pvc(d))
        : !strcmp(kind, "Service")               ? applied_hash(&kube_services, render_service(d))
                                                 : pod_hash(d, o);
    json_object_set_new(json_object_get(json_object_get(o, "metadata"), "annotations"),
        ANNOTATION_HASH, json_string(hash));
    /* where it is pinned to */
    if (strcmp(kind, "Pod") == 0 && cache_pod_is(o, COMPONENT_CLIENT)
        && !jget(o, "spec.affinity")) {
        cleanup_json json_t *desired = render_client(d, &env, jget_str(o, "spec.nodeName", ""));
        json_object_set_new(
            json_object_get(o, "spec"), "affinity", json_deep_copy(jget(desired, "spec.affinity")));
    }
}

/* A copy of the world in which "current" is the hash it stands for. */
static json_t *prepare(const json_t *dataset, const json_t *world)
{
    const char *reason;
    json_t *copy = json_deep_copy(world), *o;
    cleanup_dataset struct dataset *d = dataset ? dataset_parse(dataset, &reason, NULL) : NULL;
    size_t i;
    json_array_foreach (jget_arr(copy, "objects"), i, o)
        if (d)
            make_current(d, o);
    return copy;
}

static struct cache_pod *members_of(const json_t *world, const json_t **pods, size_t n)
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

int golden_dataset_plan(const json_t *cr, const json_t *world, struct plan *plan, struct err *e)
{
    (void)e;
    cleanup_json json_t *w2 = prepare(cr, world);
    size_t npods, nvas;
    cleanup_free const json_t **pods = golden_objects(w2, "Pod", &npods),
                              **vas = golden_objects(w2, "VolumeAttachment", &nvas);
    cleanup_free struct cache_pod *members = members_of(w2, pods, npods);
    const json_t *retired = jget(w2, "retired");
    const struct dataset_observed w = {.cr = cr,
        .pv = first(w2, "PersistentVolume"),
        .pvc = first(w2, "PersistentVolumeClaim"),
        .service = first(w2, "Service"),
        .pods = members,
        .npods = npods,
        .attachments = vas,
        .nattachments = nvas,
        .gpu_nodes = jget(w2, "gpuNodes"),
        .users = jget(w2, "users"),
        .retired = {jget_int(retired, "cache", 0), jget_int(retired, "worker", 0),
            jget_int(retired, "store", 0), jget_int(retired, "direct", 0),
            jget_int(retired, "written", 0)},
        .now_ns = golden_now(world),
        .env = env};
    dataset_plan(&w, plan);
    return 0;
}

int golden_attach_plan(const json_t *cr, const json_t *world, struct plan *plan, struct err *e)
{
    (void)e;
    cleanup_json json_t *w2 = prepare(cr, world);
    size_t npods, nvas;
    cleanup_free const json_t **pods = golden_objects(w2, "Pod", &npods),
                              **vas = golden_objects(w2, "VolumeAttachment", &nvas);
    cleanup_free struct cache_pod *members = members_of(w2, pods, npods);
    const struct attach_observed w = {.pv = jget_str(w2, "pv", "millrace-u1"),
        .cr = cr,
        .foreign = jget_bool(w2, "foreign", false),
        .attachments = vas,
        .nattachments = nvas,
        .pods = members,
        .npods = npods,
        .now_ns = golden_now(world),
        .env = env};
    attach_plan(&w, plan);
    return 0;
}

int golden_dataload_plan(const json_t *cr, const json_t *world, struct plan *plan, struct err *e)
{
    (void)e;
    size_t npods;
    cleanup_free const json_t **pods = golden_objects(world, "Pod", &npods);
    cleanup_free struct cache_pod *members = members_of(world, pods, npods);
    const struct dataload_observed w = {.cr = cr,
        .dataset = first(world, "Dataset"),
        .pods = members,
        .npods = npods,
        .now_ns = golden_now(world),
        .env = env};
    dataload_plan(&w, plan);
    return 0;
}
