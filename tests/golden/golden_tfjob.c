/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/golden_tfjob.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/tfjob.h"
#include "operator/tfjob/names.h"
#include "operator/tfjob/observe.h"
#include "operator/tfjob/plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As plans see them: with the fields that the informer keeps, and no others. */
static json_t *trim_pods(const json_t **pods, size_t n)
{
    json_t *copies = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *copy = json_deep_copy(pods[i]);
        tfjob_trim_pod(copy);
        json_array_append_new(copies, copy);
        pods[i] = copy;
    }
    return copies;
}

void golden_tfjob_plan(const json_t *cr, const json_t *world, struct plan *plan)
{
    struct tfjob_observed w = {.job = cr,
        .now_ns = golden_now(world),
        .domain = jget_str(world, "clusterDomain", ""),
        .gang = jget_str(world, "gangScheduler", ""),
        .cached = jget_arr(world, "cached"),
        .claims = jget_obj(world, "claims"),
        .logs_missing = jget_bool(world, "logsMissing", false),
        .crd_problem = jget_str(world, "crdProblem", NULL)};
    cleanup_free char *tensorboard = xasprintf("%s" TFJOB_TENSORBOARD_SUFFIX, kube_name(cr));
    json_t *objects = (json_t *)(uintptr_t)world;
    w.pods = golden_objects(world, "Pod", &w.npods);
    cleanup_json json_t *copies = trim_pods(w.pods, w.npods);
    (void)copies; /* lives as long as w.pods */
    w.services = golden_objects(world, "Service", &w.nservices);
    w.nodes = golden_objects(world, "Node", &w.nnodes);
    w.datasets = golden_objects(world, "Dataset", &w.ndatasets);
    w.pod_group = golden_find(objects, "PodGroup", kube_namespace(cr), kube_name(cr));
    w.tensorboard = golden_find(objects, "Deployment", kube_namespace(cr), tensorboard);
    w.tensorboard_service = golden_find(objects, "Service", kube_namespace(cr), tensorboard);
    tfjob_plan(&w, plan);
    free(w.pods);
    free(w.services);
    free(w.nodes);
    free(w.datasets);
}

/* ---- replicas in words ---- */

static json_t *replica(int n, const char *policy)
{
    json_t *r = json_pack("{s:i s:{s:{s:[{s:s s:s}]}}}", "replicas", n, "template", "spec",
        "containers", "name", "tensorflow", "image", "busybox");
    if (*policy)
        json_object_set_new(r, "restartPolicy", json_string(policy));
    return r;
}

json_t *golden_tfjob_replicas(const char *words)
{
    json_t *specs = json_object();
    cleanup_free char *copy = xstrdup(words);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char type[16], policy[16] = "";
        int n;
        enum tfjob_type t;
        if (sscanf(word, "%15[^=]=%d:%15s", type, &n, policy) < 2)
            golden_refuse("job: '%s' is not type=replicas:policy", word);
        const char *key = islower((unsigned char)*type) && tfjob_type_parse(type, &t)
            ? tfjob_type_name(t)
            : type;
        json_object_set_new(specs, key, replica(n, policy));
    }
    return specs;
}

/* ---- pods in letters ---- */

static void set_time(json_t *object, const char *key, int64_t ns)
{
    char text[CLOCK_RFC3339_LEN];
    clock_rfc3339(ns, text);
    json_object_set_new(object, key, json_string(text));
}

static json_t *container_status(const char *state, int restarts, int64_t started_ns)
{
    json_t *in = json_object();
    set_time(in, "startedAt", started_ns);
    return json_pack(
        "{s:s s:i s:{s:o}}", "name", "tensorflow", "restartCount", restarts, "state", state, in);
}

static json_t *running(int restarts, int64_t started_ns)
{
    return json_pack("{s:s s:[o]}", "phase", "Running", "containerStatuses",
        container_status("running", restarts, started_ns));
}

static json_t *ended(const char *phase, int code, int64_t started_ns, int64_t ended_ns)
{
    json_t *c = container_status("terminated", 0, started_ns);
    json_t *in = json_object_get(json_object_get(c, "state"), "terminated");
    json_object_set_new(in, "exitCode", json_integer(code));
    json_object_set_new(in, "reason", json_string(code ? "Error" : "Completed"));
    set_time(in, "finishedAt", ended_ns);
    return json_pack("{s:s s:[o]}", "phase", phase, "containerStatuses", c);
}

static json_t *status_of(struct golden_tfjob_state state, int64_t started_ns, int64_t ended_ns)
{
    switch (state.letter) {
    case 'P':
        return json_pack("{s:s}", "phase", "Pending");
    case 'R':
    case 'D':
        return running(0, started_ns);
    case 'T':
        return running(state.number < 0 ? 1 : state.number, started_ns);
    case 'S':
        return ended("Succeeded", 0, started_ns, ended_ns);
    case 's':
        return json_pack("{s:s}", "phase", "Succeeded");
    case 'F':
        return ended("Failed", state.number < 0 ? 1 : state.number, started_ns, ended_ns);
    case 'K':
        return ended("Failed", 130, started_ns, ended_ns);
    case 'N':
        return json_pack("{s:s}", "phase", "Failed");
    case 'E':
        return json_pack("{s:s s:s}", "phase", "Failed", "reason", "Evicted");
    default:
        golden_refuse("pods: there is no state '%c'", state.letter);
    }
}

void golden_tfjob_set_state(
    json_t *pod, struct golden_tfjob_state state, int64_t now_ns, int64_t age_s)
{
    json_t *meta = json_object_get(pod, "metadata"), *spec = json_object_get(pod, "spec");
    if (!spec)
        json_object_set_new(pod, "spec", spec = json_object());
    if (state.letter != 'P')
        json_object_set_new(spec, "nodeName", json_string("n1"));
    if (state.letter == 'R' && state.number >= 0)
        age_s = state.number;
    set_time(meta, "creationTimestamp", now_ns - age_s * NS_PER_S);
    json_object_set_new(pod, "status",
        status_of(state, now_ns - age_s * NS_PER_S, now_ns - MIN(age_s, 10) * NS_PER_S));
    if (state.letter == 'D') {
        set_time(meta, "deletionTimestamp", now_ns + 25 * NS_PER_S);
        json_object_set_new(meta, "deletionGracePeriodSeconds", json_integer(30));
    }
}

json_t *golden_tfjob_child(const char *kind, const char *type, int index)
{
    cleanup_free char *name = xasprintf("j-%s-%d", type, index), *number = xasprintf("%d", index);
    json_t *labels = json_pack("{s:s s:s s:s s:s}", TFJOB_LABEL_OPERATOR, TFJOB_OPERATOR_NAME,
        TFJOB_LABEL_JOB, "j", TFJOB_LABEL_TYPE, type, TFJOB_LABEL_INDEX, number);
    return json_pack("{s:s s:{s:s s:s s:o s:[{s:s s:s s:s s:s s:b s:b}]}}", "kind", kind,
        "metadata", "name", name, "namespace", "ns", "labels", labels, "ownerReferences",
        "apiVersion", "kubeflow.org/v1", "kind", "TFJob", "name", "j", "uid", GOLDEN_TFJOB_UID,
        "controller", 1, "blockOwnerDeletion", 1);
}

void golden_tfjob_each(const char *words,
    void (*fn)(void *arg, const char *type, int index, struct golden_tfjob_state state), void *arg)
{
    cleanup_free char *copy = xstrdup(words);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *p = strchr(word, ':');
        if (!p)
            golden_refuse("pods: '%s' is not type:letters", word);
        *p++ = '\0';
        for (int i = 0; *p; i++) {
            struct golden_tfjob_state state = {*p++, -1};
            if (isdigit((unsigned char)*p))
                state.number = (int)strtol(p, &p, 10);
            fn(arg, word, i, state);
        }
    }
}

/* ---- cases ---- */

#define AGE_S 60 /* of pods, and since their containers run */

struct children {
    json_t *made, *world; /* what the plan of the old spec made; where they go */
    int64_t now_ns;
};

/* As the plan made it; by hand where it made none: an index too many, or no valid job. */
static json_t *take_child(struct children *c, const char *kind, const char *type, int index)
{
    cleanup_free char *name = xasprintf("j-%s-%d", type, index);
    const json_t *made = golden_find(c->made, kind, "ns", name);
    json_t *child = made ? json_deep_copy(made) : golden_tfjob_child(kind, type, index);
    cleanup_free char *uid = xasprintf("uid-of-%s-%s", kind, name);
    json_object_set_new(json_object_get(child, "metadata"), "uid", json_string(uid));
    return child;
}

static void add_children(void *arg, const char *type, int index, struct golden_tfjob_state state)
{
    struct children *c = arg;
    if (state.letter != '-') {
        json_t *pod = take_child(c, "Pod", type, index);
        golden_tfjob_set_state(pod, state, c->now_ns, AGE_S);
        golden_add(c->world, pod);
    }
    golden_add(c->world, take_child(c, "Service", type, index));
}

/* The job as it was when its children were made, with nothing that keeps it from making them. */
static json_t *job_before(const json_t *c, const json_t *cr)
{
    json_t *job = json_deep_copy(cr), *spec = json_object_get(job, "spec");
    json_object_del(job, "status");
    json_object_del(json_object_get(job, "metadata"), "deletionTimestamp");
    json_object_del(spec, "runPolicy");
    const char *words = jget_str(c, "before.job", NULL);
    if (words)
        json_object_set_new(spec, "tfReplicaSpecs", golden_tfjob_replicas(words));
    if (jget_obj(c, "before.spec"))
        golden_merge(spec, jget_obj(c, "before.spec"));
    return job;
}

static void expand(const json_t *base, const json_t *c, json_t *cr, json_t *world)
{
    (void)base;
    if (jget_str(c, "job", NULL)) {
        json_t *spec = json_pack(
            "{s:o}", "tfReplicaSpecs", golden_tfjob_replicas(jget_str(c, "job", "")));
        if (jget_obj(c, "spec"))
            golden_merge(spec, jget_obj(c, "spec"));
        json_object_set_new(cr, "spec", spec);
    }
    cleanup_json json_t *before = job_before(c, cr), *made = json_deep_copy(world);
    cleanup_plan struct plan p = PLAN_INIT;
    golden_tfjob_plan(before, made, &p);
    golden_apply(before, made, &p, GOLDEN_GONE, SIZE_MAX);
    struct children children = {made, world, golden_now(world)};
    golden_tfjob_each(jget_str(c, "pods", ""), add_children, &children);
}

static void make_ready(const json_t *base, json_t *pod, const json_t *world)
{
    (void)base;
    golden_tfjob_set_state(pod, (struct golden_tfjob_state){'R', -1}, golden_now(world), AGE_S);
}

static const char *const words[] = {"job", "before", "pods", NULL};

const struct golden_kind golden_tfjob = {.dir = "tfjob",
    .base = "tfjob",
    .kind = "TFJob",
    .words = words,
    .plan = golden_tfjob_plan,
    .expand = expand,
    .make_ready = make_ready};
