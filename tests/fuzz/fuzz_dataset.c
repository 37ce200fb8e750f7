/* SPDX-License-Identifier: Apache-2.0 */
/* Dataset json → struct → plans of the dataset, of its attachments and of a DataLoad of it → the
 * world after them → plans again. What is valid must give a configuration that the client accepts.
 * Input: {"cr": …, "world": …, "load": a DataLoad}, or a Dataset alone. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/conf.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/dataset.h"
#include "operator/render/pod.h"
#include "operator/render/volume.h"
#include "tests/golden/golden_dataset.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* ---- mutations that keep the input json: a value becomes another one, or goes ---- */

#define NODES_MAX 4096

struct node {
    json_t *in;      /* the array or object that holds it */
    const char *key; /* NULL: in an array, at index */
    size_t index;
};

static size_t collect(json_t *j, struct node *out, size_t n)
{
    const char *key;
    json_t *v;
    size_t i;
    json_object_foreach (j, key, v) {
        if (n < NODES_MAX)
            out[n++] = (struct node){j, key, 0};
        n = collect(v, out, n);
    }
    json_array_foreach (j, i, v) {
        if (n < NODES_MAX)
            out[n++] = (struct node){j, NULL, i};
        n = collect(v, out, n);
    }
    return n;
}

static json_t *at(const struct node *n)
{
    return n->key ? json_object_get(n->in, n->key) : json_array_get(n->in, n->index);
}

static json_t *other_value(unsigned r, const struct node *nodes, size_t n)
{
    static const char *const texts[] = {"", "/", "..", "/a/../b", "s3://", "s3://b", "pvc://c/d",
        "Memory", "True", "False", "1Gi", "-1", "9e99", "current", "old", "Failed", "Succeeded",
        "worker", "client", "mnist-cache-0", "millrace-u1", "u1", "2026-01-31T11:59:59Z",
        "\xc3\xa4"};
    static const json_int_t numbers[] = {0, 1, -1, 2, 1000, 1001, INT32_MAX, INT64_MAX, INT64_MIN};
    switch (r % 6) {
    case 0:
        return json_string(texts[r / 6 % ARRAY_LEN(texts)]);
    case 1:
        return json_integer(numbers[r / 6 % ARRAY_LEN(numbers)]);
    case 2:
        return r & 64 ? json_array() : json_object();
    case 3:
        return r & 64 ? json_null() : json_boolean(r & 128);
    default:
        return json_deep_copy(at(&nodes[r / 6 % n]));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static struct node nodes[NODES_MAX];
    cleanup_json json_t *j = json_loadb((const char *)data, size, 0, NULL);
    size_t n = j ? collect(j, nodes, 0) : 0;
    if (!n || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max);
    const struct node *where = &nodes[seed / 16 % n];
    unsigned r = seed * 2654435761u >> 8;
    json_t *v = r % 8 ? other_value(r / 8, nodes, n) : NULL;
    if (v && where->key)
        json_object_set_new(where->in, where->key, v);
    else if (v && r & 4096)
        json_array_append_new(where->in, v);
    else if (v)
        json_array_set_new(where->in, where->index, v);
    else if (where->key)
        json_object_del(where->in, where->key);
    else
        json_array_remove(where->in, where->index);
    size_t len = json_dumpb(j, (char *)data, max, JSON_COMPACT);
    return len <= max ? len : size;
}

/* ---- the target ---- */

static void check_config(const json_t *cr, const json_t *defaults)
{
    const char *reason;
    struct err e = ERR_INIT;
    cleanup_dataset struct dataset *d = dataset_parse(cr, defaults, &reason, &e);
    if (!d) {
        if (!*e.msg)
            abort(); /* refused without a word */
        return;
    }
    cleanup_free char *text = render_config(d, &d->worker.tiers, NULL, NULL);
    cleanup_conf struct conf *c = conf_parse(text, strlen(text), &e);
    if (!c) {
        fprintf(stderr, "%s\n%s\n", e.msg, text);
        abort();
    }
}

/* What the API server puts into every object. */
static json_t *as_stored(const json_t *given, const char *kind, const char *uid)
{
    json_t *cr = json_deep_copy(given), *meta = json_object_get(cr, "metadata");
    if (!json_is_object(meta)) {
        meta = json_pack("{s:s}", "name", "fuzz");
        json_object_set_new(cr, "metadata", meta);
    }
    json_object_set_new(cr, "kind", json_string(kind));
    json_object_set_new(meta, "namespace", json_string("team"));
    json_object_set_new(meta, "uid", json_string(uid));
    if (json_object_get(meta, "finalizers")) /* its schema is the server's own */
        json_object_set_new(meta, "finalizers", json_pack("[s]", "millrace.dev/dataset"));
    return cr;
}

/* ---- children that are current: their annotation millrace.dev/hash is "current" ---- */

static const struct render_env env = {
    .image = "localhost/millrace:1", .pull_policy = "IfNotPresent", .pull_secrets = ""};

/* The hash that plan_apply gives a child. */
static char *applied_hash(const struct kube_res *res, json_t *desired_take)
{
    cleanup_plan struct plan p = PLAN_INIT;
    plan_apply(&p, res, desired_take, NULL);
    return xstrdup(kube_annotation(p.actions[0].body, ANNOTATION_HASH));
}

static char *pod_hash(const struct dataset *d, const json_t *pod)
{
    const char *dash = strrchr(kube_name(pod), '-');
    cleanup_json json_t *desired = !strcmp(kube_label(pod, LABEL_COMPONENT), COMPONENT_CLIENT)
        ? render_client(d, &env, jget_str(pod, "spec.nodeName", ""))
        : render_worker(d, &env, dash ? atoi(dash + 1) : 0, NULL);
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
}

static void make_all_current(const json_t *cr, json_t *world)
{
    const char *reason;
    cleanup_dataset struct dataset *d = dataset_parse(
        cr, jget_obj(world, "defaults"), &reason, NULL);
    json_t *o;
    size_t i;
    json_array_foreach (json_object_get(world, "objects"), i, o)
        if (d)
            make_current(d, o);
}

static void run(golden_plan fn, const json_t *cr, const json_t *world)
{
    cleanup_json json_t *cr2 = json_deep_copy(cr), *world2 = json_deep_copy(world);
    for (int i = 0; i < 2; i++) {
        cleanup_plan struct plan p = PLAN_INIT;
        fn(cr2, world2, &p);
        cleanup_json json_t *j = plan_json(&p);
        if (!json_is_array(j))
            abort();
        golden_apply(cr2, world2, &p, GOLDEN_LINGER, SIZE_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json json_t *input = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(input))
        return 0;
    const json_t *given = jget_obj(input, "cr"), *objects = jget_arr(input, "world.objects"),
                 *reports = jget_obj(input, "world.reports"), *load = jget_obj(input, "load"),
                 *defaults = jget_obj(input, "world.defaults");
    cleanup_json json_t *cr = as_stored(given ? given : input, "Dataset", "u1"),
                        *world = json_object();
    json_object_set_new(world, "now", json_string("2026-01-31T12:00:00Z"));
    json_object_set_new(world, "objects", objects ? json_deep_copy(objects) : json_array());
    json_object_set_new(world, "reports", reports ? json_deep_copy(reports) : json_object());
    if (defaults)
        json_object_set_new(world, "defaults", json_deep_copy(defaults));
    check_config(cr, defaults);
    make_all_current(cr, world);
    run(golden_dataset_plan, cr, world);
    run(golden_attach_plan, cr, world);
    if (!load)
        return 0;
    cleanup_json json_t *l = as_stored(load, "DataLoad", "l1");
    json_array_append(json_object_get(world, "objects"), cr);
    run(golden_dataload_plan, l, world);
    return 0;
}
