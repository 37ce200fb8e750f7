/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of Dataset, its attachments and DataLoad: their children are what the plan for the spec of
 * before has made, put into the states that the case's letters say. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/render/meta.h"
#include "tests/golden/golden_dataset.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGE_S 10 /* of a pod, unless the case says another */

static void run(golden_plan plan, json_t *cr, json_t *world)
{
    cleanup_plan struct plan p = PLAN_INIT;
    plan(cr, world, &p);
    golden_apply(cr, world, &p, GOLDEN_GONE, SIZE_MAX);
}

/* ---- what there is to take children from ---- */

/* The object as it was when its children were made: not being deleted, and with its spec of before,
 * if that is asked for. */
static json_t *object_before(const json_t *base, const json_t *c, const json_t *cr, bool old)
{
    json_t *o = json_deep_copy(cr), *spec = json_object_get(o, "spec");
    cleanup_json json_t *preload = json_deep_copy(jget(o, "status.preload"));
    json_object_del(o, "status");
    if (preload) /* says that there are pins to end */
        json_object_set_new(o, "status", json_pack("{s:O}", "preload", preload));
    json_object_del(json_object_get(o, "metadata"), "deletionTimestamp");
    cleanup_json json_t *patch = json_deep_copy(jget(c, "before"));
    if (old && json_is_string(patch)) { /* "base" */
        json_object_set_new(o, "spec",
            json_deep_copy(jget(json_object_get(base, jget_str(cr, "kind", "")), "spec")));
    } else if (old && patch) {
        json_object_del(patch, "image");
        json_object_del(patch, "config");
        json_object_del(patch, "masterKey");
        golden_merge(spec, patch);
    }
    return o;
}

static json_t *empty_world(const json_t *c, const json_t *world, bool old)
{
    const char *image = jget_str(c, "world.image", NULL),
               *key = jget_str(c, "world.masterKey", NULL);
    const json_t *config = jget_obj(c, "world.config");
    json_t *w = json_pack("{s:s s:[]}", "now", jget_str(world, "now", ""), "objects");
    if (old && !json_is_string(jget(c, "before"))) {
        const json_t *before = jget_obj(c, "before.config");
        image = jget_str(c, "before.image", image);
        key = jget_str(c, "before.masterKey", key);
        config = before ? before : config;
    }
    if (image)
        json_object_set_new(w, "image", json_string(image));
    if (key)
        json_object_set_new(w, "masterKey", json_string(key));
    if (config)
        json_object_set(w, "config", (json_t *)config);
    return w;
}

static json_t *attachment(const char *node, bool attached)
{
    cleanup_free char *name = xasprintf("csi-%s", node), *uid = xasprintf("va-%s", node);
    return json_pack("{s:s s:s s:{s:s s:s} s:{s:s s:s s:{s:s}} s:{s:b}}", "apiVersion",
        "storage.k8s.io/v1", "kind", "VolumeAttachment", "metadata", "name", name, "uid", uid,
        "spec", "attacher", NAME_DRIVER, "nodeName", node, "source", "persistentVolumeName",
        "millrace-u1", "status", "attached", attached);
}

/* Calls fn for each "node=letters" of words. */
static void each_node(
    const char *words, void (*fn)(void *arg, const char *node, const char *value), void *arg)
{
    cleanup_free char *copy = xstrdup(words);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        if (!value)
            golden_refuse("'%s' is not node=state", word);
        *value++ = '\0';
        fn(arg, word, value);
    }
}

static void add_attachment(void *world, const char *node, const char *value)
{
    bool attached = !strcmp(value, "attached");
    if (!attached && strcmp(value, "waiting") != 0)
        golden_refuse("attachments: %s is neither attached nor waiting", node);
    golden_add(world, attachment(node, attached));
}

static void add_waiting(void *world, const char *node, const char *value)
{
    (void)value;
    golden_add(world, attachment(node, false));
}

/* ---- pods in letters ---- */

static void set_time(json_t *object, const char *key, int64_t ns)
{
    char text[CLOCK_RFC3339_LEN];
    clock_rfc3339(ns, text);
    json_object_set_new(object, key, json_string(text));
}

struct state {
    char letter;  /* of the base's states; '-': no pod */
    bool renewed; /* a + behind it: made of the spec as it is, not as it was */
    int age_s;
};

static const char *next_state(const char *p, struct state *s)
{
    *s = (struct state){*p, false, AGE_S};
    char *end = (char *)(uintptr_t)(p + 1);
    if (isdigit((unsigned char)*end))
        s->age_s = (int)strtol(end, &end, 10);
    s->renewed = *end == '+';
    return end + s->renewed;
}

static void set_state(
    const json_t *base, json_t *pod, struct state s, const char *node, const json_t *world)
{
    const char letter[] = {s.letter, '\0'};
    const json_t *patch = json_object_get(jget(base, "states"), letter);
    if (!patch)
        golden_refuse("the base knows no state '%c'", s.letter);
    json_t *meta = json_object_get(pod, "metadata");
    cleanup_free char *uid = xasprintf("uid-of-%s", kube_name(pod));
    json_object_set_new(meta, "uid", json_string(uid));
    json_object_set_new(json_object_get(pod, "spec"), "nodeName", json_string(node));
    json_object_del(pod, "status");
    golden_merge(pod, patch);
    set_time(meta, "creationTimestamp", golden_now(world) - s.age_s * NS_PER_S);
    set_time(json_object_get(pod, "status"), "startTime", golden_now(world) - s.age_s * NS_PER_S);
}

static void let_workers_run(const json_t *base, json_t *made)
{
    size_t n;
    cleanup_free const json_t **pods = golden_objects(made, "Pod", &n);
    for (size_t i = 0; i < n; i++)
        set_state(
            base, (json_t *)(uintptr_t)pods[i], (struct state){'R', false, AGE_S}, "n1", made);
}

/* Everything that the plans make of the Dataset, of its spec as it is or of before. Caller owns. */
static json_t *made_of(
    const json_t *base, const json_t *c, const json_t *cr, const json_t *world, bool old)
{
    json_t *made = empty_world(c, world, old);
    cleanup_json json_t *o = object_before(base, c, cr, old);
    run(golden_dataset_plan, o, made);
    let_workers_run(base, made);
    run(golden_dataset_plan, o, made); /* what is made only then */
    each_node(jget_str(c, "clients", ""), add_waiting, made);
    run(golden_attach_plan, o, made);
    return made;
}

struct children {
    const json_t *base;
    json_t *now, *old; /* made of the spec as it is, and as it was */
    json_t *world;     /* where they go */
};

static void take_pod(struct children *c, const char *name, struct state s, const char *node)
{
    if (s.letter == '-')
        return;
    json_t *pod = golden_find(s.renewed ? c->now : c->old, "Pod", "team", name);
    if (!pod)
        golden_refuse("no plan makes %s: say in before what did", name);
    pod = json_deep_copy(pod);
    set_state(c->base, pod, s, node, c->world);
    golden_add(c->world, pod);
}

static void take_client(void *arg, const char *node, const char *value)
{
    struct state s;
    cleanup_free char *name = render_client_name("mnist", node);
    if (*next_state(value, &s))
        golden_refuse("clients: %s=%s is not one state", node, value);
    take_pod(arg, name, s, node);
}

static void take_workers(struct children *c, const char *letters)
{
    struct state s;
    for (int i = 0; *letters; i++) {
        cleanup_free char *name = xasprintf("mnist-cache-%d", i);
        letters = next_state(letters, &s);
        take_pod(c, name, s, "n1");
    }
}

/* The volume, its claim, the Service and the policy, bound and in use. */
static void take_others(struct children *c)
{
    static const char *const kinds[] = {
        "PersistentVolume", "PersistentVolumeClaim", "Service", "NetworkPolicy"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n;
        cleanup_free const json_t **all = golden_objects(c->old, kinds[i], &n);
        if (!n)
            continue;
        json_t *o = json_deep_copy(all[0]);
        golden_merge(o, json_object_get(jget(c->base, "made"), kinds[i]));
        golden_add(c->world, o);
    }
}

static json_t *reports_of(const json_t *base, const json_t *c, json_t *world);

static void expand(const json_t *base, const json_t *c, json_t *cr, json_t *world)
{
    const char *workers = jget_str(c, "workers", NULL), *preloader = jget_str(c, "preloader", NULL);
    struct state s;
    struct children children = {
        base, made_of(base, c, cr, world, false), made_of(base, c, cr, world, true), world};
    each_node(jget_str(c, "attachments", ""), add_attachment, world);
    if (workers) {
        take_others(&children);
        take_workers(&children, workers);
    }
    each_node(jget_str(c, "clients", ""), take_client, &children);
    if (preloader && !*next_state(preloader, &s))
        take_pod(&children, "mnist-preload", s, "n1");
    json_object_set_new(world, "reports", reports_of(base, c, world));
    json_decref(children.now);
    json_decref(children.old);
}

/* ---- what pods say of themselves ---- */

/* A report over the base's. One with a reason that does not say "ready" is of a store that does not
 * answer: neither ready nor serving, and so says its mount. */
static json_t *report(const json_t *base, const json_t *given)
{
    const char *reason = jget_str(given, "reason", NULL);
    if (jget(given, "unreachable"))
        return json_deep_copy(given);
    json_t *r = json_deep_copy(json_object_get(base, "report"));
    if (reason && !jget(given, "ready")) {
        cleanup_json json_t *trouble = json_pack("{s:b s:s s:s}", "ready", 0, "reason", reason,
            "message", jget_str(given, "message", ""));
        golden_merge(json_array_get(json_object_get(r, "mounts"), 0), trouble);
        json_object_set_new(trouble, "serving", json_false());
        golden_merge(r, trouble);
    }
    golden_merge(r, given);
    return r;
}

/* by the name of a pod, or of the node of a client */
static json_t *reports_of(const json_t *base, const json_t *c, json_t *world)
{
    json_t *all = json_object(), *given;
    const char *of;
    json_object_foreach ((json_t *)(uintptr_t)jget_obj(c, "reports"), of, given) {
        cleanup_free char *client = render_client_name("mnist", of);
        const char *name = golden_find(world, "Pod", "team", of) ? of : client;
        if (!golden_find(world, "Pod", "team", name))
            golden_refuse("reports: there is no pod %s", of);
        json_object_set_new(all, name, report(base, given));
    }
    return all;
}

static void make_ready(const json_t *base, json_t *pod, const json_t *world)
{
    set_state(
        base, pod, (struct state){'R', false, AGE_S}, jget_str(pod, "spec.nodeName", "n1"), world);
}

static const char *const words[] = {
    "before", "workers", "clients", "preloader", "attachments", "reports", NULL};

const struct golden_kind golden_dataset = {.dir = "dataset",
    .base = "dataset",
    .kind = "Dataset",
    .words = words,
    .plan = golden_dataset_plan,
    .expand = expand,
    .make_ready = make_ready};

const struct golden_kind golden_attach = {.dir = "attach",
    .base = "dataset",
    .kind = "Dataset",
    .words = words,
    .plan = golden_attach_plan,
    .expand = expand,
    .make_ready = make_ready};

/* ---- DataLoad ---- */

static void take_loader(const json_t *base, const json_t *c, const json_t *cr, json_t *world)
{
    const char *letter = jget_str(c, "loader", NULL);
    struct state s;
    if (!letter || *next_state(letter, &s))
        return;
    cleanup_json json_t *o = object_before(base, c, cr, true), *made = empty_world(c, world, true),
                        *ready = json_pack("{s:s}", "was", "ready");
    golden_add(made, golden_object(base, "Dataset", ready));
    json_object_del(json_object_get(o, "spec"), "policy"); /* it is made at once */
    json_object_del(json_object_get(o, "spec"), "schedule");
    run(golden_dataload_plan, o, made);
    struct children children = {base, made, made, world};
    cleanup_free char *name = render_loader_name(kube_name(cr));
    take_pod(&children, name, s, "n1");
}

static void expand_dataload(const json_t *base, const json_t *c, json_t *cr, json_t *world)
{
    const json_t *dataset = jget(c, "dataset");
    cleanup_json json_t *ready = json_pack("{s:s}", "was", "ready");
    if (!json_is_string(dataset)) /* "none" */
        golden_add(world, golden_object(base, "Dataset", dataset ? dataset : ready));
    take_loader(base, c, cr, world);
    json_object_set_new(world, "reports", reports_of(base, c, world));
}

static const char *const dataload_words[] = {"before", "dataset", "loader", "reports", NULL};

const struct golden_kind golden_dataload = {.dir = "dataload",
    .base = "dataset",
    .kind = "DataLoad",
    .words = dataload_words,
    .plan = golden_dataload_plan,
    .expand = expand_dataload,
    .make_ready = make_ready};
