/* SPDX-License-Identifier: Apache-2.0 */
/* A Dataset, its volume, workers and clients with an API server that fails as in test_operator_sim:
 * nodes get and lose the volume, pods die or are evicted, its spec is edited, and anything that the
 * operator has made is deleted by hand at any moment. Whatever comes: a claim goes with the Dataset
 * only, what remains to be removed holds the Dataset; left in peace, all is as asked and nothing is
 * written any more. MILLRACE_RANDOM_RUNS (12) from MILLRACE_RANDOM_SEED (1) on: a seed is a run.
 */
#include "tests/unit/operator/sim/sim_api.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/dataset/cache_pod.h"
#include "operator/render/meta.h"
#include "tests/golden/golden_dataset.h"
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS    150
#define CALM_MAX 150
#define REST     4 /* rounds without a write: it has come to rest */
#define NODES    3
#define PV       "millrace-u1"

struct dsim {
    struct sim_api api;
    uint64_t seed;
    unsigned writes; /* all so far */
    int generation;
};

#define DSIM_BROKEN(s, ...)                                                                        \
    do {                                                                                           \
        cleanup_free char *server_ = json_dumps((s)->api.objects, JSON_INDENT(1));                 \
        cleanup_free char *cache_ = json_dumps((s)->api.cache, JSON_INDENT(1));                    \
        fprintf(stderr, "seed %" PRIu64 "\nserver %s\noperator %s\n", (s)->seed, server_, cache_); \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static json_t *server(struct dsim *s, const char *kind, const char *name)
{
    return sim_find(s->api.objects, kind, name);
}

static bool is_kind(const json_t *o, const char *kind)
{
    return strcmp(jget_str(o, "kind", ""), kind) == 0;
}

static bool is_ready(const json_t *pod)
{
    return pod && !kube_deleting(pod) && cond_is_true(jget_arr(pod, "status.conditions"), "Ready");
}

/* Merges a patch into an object, as another client. */
static void dsim_patch(struct dsim *s, const json_t *o, json_t *patch_take)
{
    json_t *now = json_deep_copy(o);
    golden_merge(now, patch_take);
    json_decref(patch_take);
    sim_put(&s->api, now);
}

static void begin_deletion(struct dsim *s, const json_t *o)
{
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(s->api.now_ns, now);
    if (!kube_deleting(o))
        dsim_patch(s, o,
            json_pack("{s:{s:s, s:i}}", "metadata", "deletionTimestamp", now,
                "deletionGracePeriodSeconds", 30));
}

/* ---- the operator ---- */

static void dsim_look(void *user, const struct plan_action *a)
{
    struct dsim *s = user;
    const json_t *cr = server(s, "Dataset", "mnist");
    bool goes = !cr || kube_deleting(cr), volume = a->res == &kube_pvs || a->res == &kube_pvcs;
    if (a->op != PLAN_TRY)
        s->writes++;
    if (a->op == PLAN_DELETE && volume && !goes)
        DSIM_BROKEN(s, "it deletes %s of a Dataset that is there", a->name);
}

/* What the operator sees; it asks for the one object of a kind that its informer has not. */
static json_t *dsim_world(struct dsim *s)
{
    static const char *const asked[][2] = {
        {"PersistentVolume", PV}, {"PersistentVolumeClaim", "mnist"}, {"Service", "mnist-cache"}};
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(s->api.now_ns, now);
    json_t *world = json_pack(
               "{s:s, s:o, s:{}}", "now", now, "objects", json_deep_copy(s->api.cache), "reports"),
           *o;
    size_t i;
    for (i = 0; i < ARRAY_LEN(asked); i++)
        if (!sim_find(s->api.cache, asked[i][0], asked[i][1])
            && (o = server(s, asked[i][0], asked[i][1])))
            golden_add(world, json_deep_copy(o));
    golden_remove(world, "Dataset", "mnist");
    for (i = 1; i <= NODES; i++)
        golden_add(world,
            json_pack("{s:s, s:{s:o}, s:{s:[{s:s, s:s}]}}", "kind", "Node", "metadata", "name",
                json_sprintf("n%zu", i), "status", "conditions", "type", "Ready", "status",
                "True"));
    json_array_foreach (s->api.cache, i, o)
        if (is_kind(o, "Pod") && is_ready(server(s, "Pod", kube_name(o)))
            && (s->api.fair || sim_roll(&s->api, 5)))
            json_object_set_new(json_object_get(world, "reports"), kube_name(o),
                json_pack("{s:b, s:s, s:s, s:b, s:[{s:s, s:s, s:b, s:s, s:s}], s:{s:i, s:i}}",
                    "ready", 1, "reason", "", "message", "", "serving", 1, "mounts", "mountPoint",
                    "s3://digits/v1", "path", "/", "ready", 1, "reason", "", "message", "", "cache",
                    "usedBytes", 0, "capacityBytes", 0));
    return world;
}

static void reconcile_dataset(struct dsim *s)
{
    if (!sim_ask_again(&s->api, "Dataset", "mnist"))
        return;
    const json_t *cr = sim_find(s->api.cache, "Dataset", "mnist");
    cleanup_json json_t *world = cr ? dsim_world(s) : NULL;
    cleanup_plan struct plan p = PLAN_INIT;
    if (cr)
        golden_dataset_plan(cr, world, &p);
    sim_apply(&s->api, &p, dsim_look, s);
}

static void reconcile_attachments(struct dsim *s)
{
    if (!sim_ask_again(&s->api, "PersistentVolume", PV))
        return;
    cleanup_json json_t *world = dsim_world(s);
    cleanup_plan struct plan p = PLAN_INIT;
    golden_attach_plan(sim_find(s->api.cache, "Dataset", "mnist"), world, &p);
    sim_apply(&s->api, &p, dsim_look, s);
}

/* ---- the rest of the cluster ---- */

/* The node that a client's pod must have; NULL: any. */
static const char *node_asked(const json_t *pod)
{
    return jget_str(pod,
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms[0].matchFields[0].values[0]",
        NULL);
}

static void run_pod(struct dsim *s, const json_t *pod, bool ready)
{
    char now[CLOCK_RFC3339_LEN], any[8];
    clock_rfc3339(s->api.now_ns, now);
    snprintf(any, sizeof any, "n%u", 1 + sim_roll(&s->api, NODES));
    const char *node = jget_str(pod, "spec.nodeName", node_asked(pod));
    dsim_patch(s, pod,
        json_pack("{s:{s:s}, s:{s:s, s:s, s:s, s:[{s:s, s:s}, {s:s, s:s, s:s}], s:[{s:s, s:i, s:b, "
                  "s:{s:{s:s}}}]}}",
            "spec", "nodeName", node ? node : any, "status", "phase", "Running", "podIP",
            "10.0.0.9", "startTime", now, "conditions", "type", "PodScheduled", "status", "True",
            "type", "Ready", "status", ready ? "True" : "False", "lastTransitionTime", now,
            "containerStatuses", "name", "millrace", "restartCount", 0, "ready", (int)ready,
            "state", "running", "startedAt", now));
}

static void kubelet_of(struct dsim *s, const json_t *pod, bool fair)
{
    const char *phase = jget_str(pod, "status.phase", "");
    uint32_t dice = fair ? 0 : sim_roll(&s->api, 12);
    if (kube_deleting(pod)) {
        if (dice < 6)
            sim_remove(&s->api, "Pod", kube_name(pod));
    } else if (dice == 11 && *jget_str(pod, "spec.nodeName", "")) {
        dsim_patch(s, pod,
            json_pack("{s:{s:s, s:s, s:[]}}", "status", "phase", "Failed", "reason", "Evicted",
                "conditions"));
    } else if (strcmp(phase, "Pending") == 0 || (strcmp(phase, "Running") == 0 && !is_ready(pod))) {
        run_pod(s, pod, dice < 8);
    } else if (dice == 10 && strcmp(phase, "Running") == 0) {
        run_pod(s, pod, false);
    }
}

static void kubelets(struct dsim *s, bool fair)
{
    cleanup_json json_t *now = json_deep_copy(s->api.objects);
    size_t i;
    json_t *o;
    json_array_foreach (now, i, o)
        if (is_kind(o, "Pod") && (fair || !sim_roll(&s->api, 3)))
            kubelet_of(s, o, fair);
}

static size_t count(const struct dsim *s, const char *kind)
{
    size_t n = 0, i;
    json_t *o;
    json_array_foreach (s->api.objects, i, o)
        n += is_kind(o, kind);
    return n;
}

/* The volume binder, and who protects claims and volumes in use. */
static void binder(struct dsim *s)
{
    const json_t *pv = server(s, "PersistentVolume", PV),
                 *pvc = server(s, "PersistentVolumeClaim", "mnist");
    if (pvc && kube_deleting(pvc) && !count(s, "VolumeAttachment")) {
        sim_remove(&s->api, "PersistentVolumeClaim", "mnist");
        pvc = NULL;
    }
    if (pv && kube_deleting(pv)
        && (!pvc || strcmp(jget_str(pv, "status.phase", ""), "Bound") != 0)) {
        sim_remove(&s->api, "PersistentVolume", PV);
        return;
    }
    const char *claimed = jget_str(pv, "spec.claimRef.uid", ""),
               *phase = jget_str(pv, "status.phase", "");
    if (pv && pvc && !kube_deleting(pvc) && !kube_deleting(pv)
        && (!*claimed || strcmp(claimed, kube_uid(pvc)) == 0)) {
        if (strcmp(phase, "Bound") == 0 && strcmp(jget_str(pvc, "status.phase", ""), "Bound") == 0)
            return;
        dsim_patch(s, pv,
            json_pack("{s:{s:{s:s}}, s:{s:s}}", "spec", "claimRef", "uid", kube_uid(pvc), "status",
                "phase", "Bound"));
        dsim_patch(s, server(s, "PersistentVolumeClaim", "mnist"),
            json_pack("{s:{s:s}}", "status", "phase", "Bound"));
    } else if (pv && *claimed && strcmp(phase, "Released") != 0
        && (!pvc || strcmp(claimed, kube_uid(pvc)) != 0)) {
        dsim_patch(s, pv, json_pack("{s:{s:s}}", "status", "phase", "Released"));
    }
}

static void detach_all(struct dsim *s)
{
    for (size_t i = json_array_size(s->api.objects); i > 0; i--) {
        const json_t *o = json_array_get(s->api.objects, i - 1);
        if (is_kind(o, "VolumeAttachment"))
            sim_remove(&s->api, "VolumeAttachment", kube_name(o));
    }
}

/* Pods that use the volume come and go. */
static void attacher(struct dsim *s)
{
    char name[16], node[8];
    snprintf(node, sizeof node, "n%u", 1 + sim_roll(&s->api, NODES));
    snprintf(name, sizeof name, "csi-%s", node);
    const json_t *pvc = server(s, "PersistentVolumeClaim", "mnist");
    if (server(s, "VolumeAttachment", name))
        sim_remove(&s->api, "VolumeAttachment", name);
    else if (pvc && !kube_deleting(pvc) && server(s, "PersistentVolume", PV)
        && strcmp(jget_str(pvc, "status.phase", ""), "Bound") == 0)
        sim_put(&s->api,
            json_pack("{s:s, s:s, s:{s:s, s:o}, s:{s:s, s:s, s:{s:s}}, s:{s:b}}", "apiVersion",
                "storage.k8s.io/v1", "kind", "VolumeAttachment", "metadata", "name", name, "uid",
                json_sprintf("va-%u", s->api.counted++), "spec", "attacher", NAME_DRIVER,
                "nodeName", node, "source", "persistentVolumeName", PV, "status", "attached", 0));
}

/* ---- people ---- */

static void edit(struct dsim *s)
{
    const json_t *cr = server(s, "Dataset", "mnist");
    json_t *cache = json_object();
    if (sim_roll(&s->api, 2))
        json_object_set_new(cache, "replicas", json_integer(sim_roll(&s->api, 4)));
    else
        json_object_set_new(cache, sim_roll(&s->api, 2) ? "worker" : "client",
            json_pack("{s:{s:{s:o}}}", "resources", "requests", "cpu",
                json_sprintf("%um", 50 + sim_roll(&s->api, 3))));
    dsim_patch(s, cr,
        json_pack("{s:{s:i}, s:{s:o}}", "metadata", "generation", ++s->generation, "spec", "cache",
            cache));
}

static void delete_by_hand(struct dsim *s)
{
    size_t n = json_array_size(s->api.objects);
    const json_t *o = json_array_get(s->api.objects, sim_roll(&s->api, (uint32_t)n));
    if (is_kind(o, "Dataset") || is_kind(o, "VolumeAttachment"))
        return;
    bool lingers = is_kind(o, "Pod") ? sim_roll(&s->api, 2)
                                     : strncmp(jget_str(o, "kind", ""), "Persistent", 10) == 0;
    if (lingers)
        begin_deletion(s, o);
    else
        sim_remove(&s->api, jget_str(o, "kind", ""), kube_name(o));
}

static void something_happens(struct dsim *s, bool edits)
{
    uint32_t dice = sim_roll(&s->api, 40);
    if (dice < 12)
        kubelets(s, false);
    else if (dice < 16)
        binder(s);
    else if (dice < 18)
        attacher(s);
    else if (dice == 18 && edits)
        edit(s);
    else if (dice == 19)
        delete_by_hand(s);
}

/* ---- what must be in the end ---- */

static bool check_pods(struct dsim *s, char *why, size_t size)
{
    size_t i;
    json_t *o;
    int want = (int)jget_int(server(s, "Dataset", "mnist"), "spec.cache.replicas", 1), workers = 0;
    json_array_foreach (s->api.objects, i, o) {
        char va[64];
        snprintf(va, sizeof va, "csi-%s", jget_str(o, "spec.nodeName", ""));
        if (!is_kind(o, "Pod"))
            continue;
        snprintf(why, size, "%s is there", kube_name(o));
        if (!is_ready(o))
            return false;
        if (cache_pod_is(o, COMPONENT_CLIENT) && !server(s, "VolumeAttachment", va))
            return false;
        workers += cache_pod_is(o, COMPONENT_WORKER);
    }
    snprintf(why, size, "there are %d workers, not %d", workers, want);
    if (workers != want)
        return false;
    json_array_foreach (s->api.objects, i, o) {
        snprintf(why, size, "%s is not attached", kube_name(o));
        cleanup_free char *client = render_client_name("mnist", jget_str(o, "spec.nodeName", ""));
        if (is_kind(o, "VolumeAttachment")
            && (!jget_bool(o, "status.attached", false) || !server(s, "Pod", client)))
            return false;
    }
    return true;
}

static bool is_as_asked(struct dsim *s, char *why, size_t size)
{
    const json_t *cr = server(s, "Dataset", "mnist");
    const json_t *conditions = jget_arr(cr, "status.conditions");
    snprintf(why, size, "Ready is not true: %s", cond_message(conditions, "Ready"));
    if (!cond_is_true(conditions, "Ready"))
        return false;
    snprintf(why, size, "an old generation is told");
    return jget_int(cr, "status.observedGeneration", 0) == jget_int(cr, "metadata.generation", 0)
        && check_pods(s, why, size);
}

static void round_in_peace(struct dsim *s)
{
    sim_deliver_all(&s->api);
    reconcile_dataset(s);
    sim_deliver_all(&s->api);
    reconcile_attachments(s);
    s->api.now_ns += 61 * NS_PER_S;
    kubelets(s, true);
    if (server(s, "PersistentVolumeClaim", "mnist")
        && kube_deleting(server(s, "PersistentVolumeClaim", "mnist")))
        detach_all(s); /* in the end who uses it ends */
    binder(s);
}

static void dsim_calm(struct dsim *s)
{
    char why[512] = "";
    int rest = 0;
    s->api.fair = true;
    for (int i = 0; i < CALM_MAX && rest < REST; i++) {
        unsigned before = s->writes;
        round_in_peace(s);
        rest = s->writes == before && is_as_asked(s, why, sizeof why) ? rest + 1 : 0;
    }
    if (rest < REST)
        DSIM_BROKEN(s, "it does not come to rest: %s", why);
}

static void dsim_end(struct dsim *s)
{
    s->api.fair = false;
    begin_deletion(s, server(s, "Dataset", "mnist"));
    for (int i = 0; i < STEPS && server(s, "Dataset", "mnist"); i++) {
        something_happens(s, false);
        sim_deliver(&s->api);
        if (sim_roll(&s->api, 2))
            reconcile_dataset(s);
        else
            reconcile_attachments(s);
        s->api.now_ns += (int64_t)sim_roll(&s->api, 20) * NS_PER_S;
    }
    s->api.fair = true;
    for (int i = 0; i < CALM_MAX && server(s, "Dataset", "mnist"); i++) {
        detach_all(s);
        round_in_peace(s);
    }
    if (server(s, "Dataset", "mnist"))
        DSIM_BROKEN(s, "the Dataset does not go");
    if (count(s, "PersistentVolume") || count(s, "PersistentVolumeClaim"))
        DSIM_BROKEN(s, "the Dataset has gone, its volume has not");
}

static void dsim_begin(struct dsim *s)
{
    s->generation = 1;
    s->api.updates = true;
    sim_put(&s->api,
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:i, s:s}, s:{s:[{s:s, s:{s:s, s:s}}], s:[s], "
                  "s:{s:i, s:[{s:s, s:s}]}}}",
            "apiVersion", "millrace.dev/v1alpha1", "kind", "Dataset", "metadata", "name", "mnist",
            "namespace", "team", "uid", "u1", "generation", 1, "creationTimestamp", GOLDEN_NOW,
            "spec", "mounts", "mountPoint", "s3://digits/v1", "options", "endpoint",
            "http://s3:7070", "region", "us-east-1", "accessModes", "ReadWriteMany", "cache",
            "replicas", (int)sim_roll(&s->api, 4), "tiers", "medium", "SSD", "quota", "2Gi"));
    sim_restart(&s->api);
}

static void test_a_dataset_and_its_nodes(void **state)
{
    (void)state;
    static const char *const kinds[] = {"Dataset", "PersistentVolume", "PersistentVolumeClaim",
        "Service", "Pod", "VolumeAttachment", NULL};
    const char *text = getenv("MILLRACE_RANDOM_RUNS"), *first = getenv("MILLRACE_RANDOM_SEED");
    uint64_t runs = text && *text ? strtoull(text, NULL, 10) : 12,
             seed = first && *first ? strtoull(first, NULL, 10) : 1;
    unsigned faults = 0, restarts = 0, writes = 0;
    for (uint64_t end = seed + runs; seed < end; seed++) {
        struct dsim s = {.seed = seed};
        sim_open(&s.api, seed, kinds);
        dsim_begin(&s);
        for (int i = 0; i < STEPS; i++) {
            something_happens(&s, true);
            sim_deliver(&s.api);
            if (sim_roll(&s.api, 2))
                reconcile_dataset(&s);
            else
                reconcile_attachments(&s);
            s.api.now_ns += (int64_t)sim_roll(&s.api, 20) * NS_PER_S;
        }
        dsim_calm(&s);
        dsim_end(&s);
        faults += s.api.faults;
        restarts += s.api.restarts;
        writes += s.writes;
        sim_close(&s.api);
    }
    print_message("%u writes, %u failed, the operator died %u times\n", writes, faults, restarts);
    if (runs >= 100)
        assert_true(faults > runs && restarts > runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_dataset_and_its_nodes)};
    return cmocka_run_group_tests_name("dataset_sim", tests, NULL, NULL);
}
