/* SPDX-License-Identifier: Apache-2.0 */
/* TFJobs in random weather: pods start, end, are evicted, deleted and lost in any order; the
 * operator is killed between writes; jobs are scaled, suspended and resumed. Whatever happens: one
 * terminal state, for ever; nothing finished runs again; restarts and disruptions are never
 * forgotten, but for a job that is resumed, which begins anew; a pass after a pass has nothing to
 * do. MILLRACE_RANDOM_RUNS (1000) sequences from MILLRACE_RANDOM_SEED (1) on.
 */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/tfjob.h"
#include "operator/ctl/plan.h"
#include "tests/golden/golden_tfjob.h"
#include "tests/unit/operator/tfjob/tfjob_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS        40  /* of random weather */
#define CALM_MAX     200 /* rounds within which a job must end once the weather is fair */
#define MAX_REPLICAS 4

struct run {
    uint64_t seed, random;
    json_t *cr, *world; /* owned */
    char terminal[16];  /* "", "Succeeded", "Failed": what the stored status said */
    char completion[32];
    bool done[TFJOB_TYPES][MAX_REPLICAS]; /* stored as completed */
    int restarts[TFJOB_TYPES][MAX_REPLICAS], disruptions[TFJOB_TYPES][MAX_REPLICAS];
    bool fates;                          /* pods end as planned: */
    bool doomed;                         /* the one that decides fails for good */
    int left[TFJOB_TYPES][MAX_REPLICAS]; /* retryable failures before an index succeeds */
    /* retryable failures; those of them whose pod the operator has deleted */
    int happened[TFJOB_TYPES][MAX_REPLICAS], deleted[TFJOB_TYPES][MAX_REPLICAS];
    /* the same of evictions; no pod runs so long that its row ends */
    int evicted[TFJOB_TYPES][MAX_REPLICAS], evicted_deleted[TFJOB_TYPES][MAX_REPLICAS];
};

static uint32_t roll(struct run *r, uint32_t n) /* 0 … n-1 */
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return (uint32_t)(r->random >> 33) % n;
}

#define BROKEN(r, ...)                                                         \
    do {                                                                       \
        cleanup_free char *cr_ = json_dumps((r)->cr, JSON_INDENT(1));          \
        cleanup_free char *world_ = json_dumps((r)->world, JSON_INDENT(1));    \
        fprintf(stderr, "seed %" PRIu64 "\n%s\n%s\n", (r)->seed, cr_, world_); \
        fail_msg(__VA_ARGS__);                                                 \
    } while (0)

/* ---- what must hold ---- */

static void check_terminal(struct run *r)
{
    bool succeeded = !strcmp(fx_cond_status(r->cr, "Succeeded"), "True"),
         failed = !strcmp(fx_cond_status(r->cr, "Failed"), "True");
    if (succeeded && failed)
        BROKEN(r, "it has succeeded and failed");
    const char *now = succeeded ? "Succeeded"
        : failed                ? "Failed"
                                : "",
               *completion = jget_str(r->cr, "status.completionTime", "");
    if (*r->terminal && (strcmp(r->terminal, now) || strcmp(r->completion, completion)))
        BROKEN(r, "it had %s at %s, now it is '%s' at %s", r->terminal, r->completion, now,
            completion);
    if (*now && (!*completion || !strcmp(fx_cond_status(r->cr, "Running"), "True")))
        BROKEN(r, "it has ended without a time, or still runs");
    snprintf(r->terminal, sizeof r->terminal, "%s", now);
    snprintf(r->completion, sizeof r->completion, "%s", completion);
}

static void check_index(struct run *r, int t, size_t i, struct tfjob_index now)
{
    const char *type = tfjob_type_name((enum tfjob_type)t);
    if (r->done[t][i] && !now.completed)
        BROKEN(r, "%s %zu had completed, that is forgotten", type, i);
    if (now.restarts < r->restarts[t][i])
        BROKEN(r, "restarts of %s %zu are forgotten", type, i);
    if (now.disruptions < r->disruptions[t][i])
        BROKEN(r, "disruptions of %s %zu are forgotten", type, i);
    if (now.disruptions > r->evicted[t][i])
        BROKEN(r, "%s %zu was evicted %d times, but %d disruptions are stored", type, i,
            r->evicted[t][i], now.disruptions);
    if (r->fates && now.restarts > r->happened[t][i])
        BROKEN(r, "%s %zu failed %d times, but %d restarts are stored", type, i, r->happened[t][i],
            now.restarts);
    r->done[t][i] = now.completed;
    r->restarts[t][i] = now.restarts;
    r->disruptions[t][i] = now.disruptions;
}

static void check_memory(struct run *r)
{
    cleanup_tfjob_status struct tfjob_status s;
    tfjob_status_read(r->cr, &s);
    for (int t = 0; t < TFJOB_TYPES; t++)
        for (size_t i = 0; i < MAX_REPLICAS; i++)
            check_index(r, t, i, tfjob_index_of(&s.indexes[t], i));
}

/* A job that is resumed begins anew, with no pod of before. */
static void begin_anew(struct run *r)
{
    memset(r->done, 0, sizeof r->done);
    memset(r->restarts, 0, sizeof r->restarts);
    memset(r->disruptions, 0, sizeof r->disruptions);
    memset(r->happened, 0, sizeof r->happened);
    memset(r->deleted, 0, sizeof r->deleted);
    memset(r->evicted, 0, sizeof r->evicted);
    memset(r->evicted_deleted, 0, sizeof r->evicted_deleted);
}

static bool is_resumed(const struct run *r, const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->actions[i].op == PLAN_STATUS)
            return !strcmp(fx_cond_status(r->cr, "Suspended"), "True")
                && !strcmp(fx_cond_status(p->actions[i].body, "Suspended"), "False");
    return false;
}

static void check_creates(struct run *r, const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct plan_action *a = &p->actions[i];
        if (a->op != PLAN_CREATE)
            continue;
        if (golden_find(r->world, a->res->kind, a->ns, a->name))
            BROKEN(r, "it creates %s, which exists", a->name);
        if (*r->terminal)
            BROKEN(r, "it creates %s after its end", a->name);
        enum tfjob_type t;
        int index = atoi(kube_label(a->body, "training.kubeflow.org/replica-index"));
        if (strcmp(a->res->kind, "Pod")
            || !tfjob_type_parse(kube_label(a->body, "training.kubeflow.org/replica-type"), &t))
            continue;
        if (r->done[t][index])
            BROKEN(r, "it runs %s again, which has finished", a->name);
    }
}

/* What a pod knew must be in the stored status before the pod goes. */
static void check_deletes(struct run *r, const struct plan *p, size_t writes)
{
    for (size_t i = 0, n = 0; i < p->n && n < writes; i++) {
        const struct plan_action *a = &p->actions[i];
        n += a->op != PLAN_EVENT && a->op != PLAN_REQUEUE;
        if (a->op != PLAN_DELETE || strcmp(a->res->kind, "Pod"))
            continue;
        const json_t *pod = golden_find(r->world, "Pod", a->ns, a->name);
        enum tfjob_type t = TFJOB_WORKER;
        int index = atoi(kube_label(pod, "training.kubeflow.org/replica-index"));
        tfjob_type_parse(kube_label(pod, "training.kubeflow.org/replica-type"), &t);
        cleanup_free char *path = xasprintf("spec.tfReplicaSpecs.%s.replicas", tfjob_type_name(t));
        const char *phase = jget_str(pod, "status.phase", "");
        if (!strcmp(phase, "Succeeded") && !*r->terminal && index < jget_int(r->cr, path, 1)
            && !r->done[t][index])
            BROKEN(r, "it deletes %s, which has finished, and does not remember it", a->name);
        if (!*r->terminal && !strcmp(jget_str(pod, "status.reason", ""), "Evicted")
            && index < jget_int(r->cr, path, 1)
            && ++r->evicted_deleted[t][index] > r->disruptions[t][index])
            BROKEN(r, "it deletes %s, which was evicted, and does not remember it", a->name);
        if (!r->fates || *r->terminal
            || jget_int(pod, "status.containerStatuses[0].state.terminated.exitCode", 0) != 130)
            continue;
        if (++r->deleted[t][index] > r->restarts[t][index])
            BROKEN(r, "it deletes %s, which has failed, and does not remember it", a->name);
    }
}

/* One pass of the operator, which dies in front of write stop_at. */
static void reconcile(struct run *r, size_t stop_at)
{
    cleanup_plan struct plan p = PLAN_INIT, again = PLAN_INIT;
    golden_tfjob_plan(r->cr, r->world, &p);
    if (stop_at && is_resumed(r, &p)) {
        if (fx_count(r->world, "Pod", false) + fx_count(r->world, "Pod", true))
            BROKEN(r, "it is resumed beside pods of before");
        begin_anew(r);
    }
    check_creates(r, &p);
    size_t done = golden_apply(r->cr, r->world, &p, GOLDEN_LINGER, stop_at);
    check_memory(r);
    check_deletes(r, &p, done);
    check_terminal(r);
    if (done == stop_at)
        return;
    golden_tfjob_plan(r->cr, r->world, &again);
    if (golden_has_writes(&again)) {
        cleanup_json json_t *j = plan_json(&again);
        cleanup_free char *text = json_dumps(j, JSON_INDENT(1));
        BROKEN(r, "a pass after a pass still writes: %s", text);
    }
}

/* ---- the weather ---- */

static json_t *pick(struct run *r)
{
    json_t *objects = json_object_get(r->world, "objects");
    return json_array_size(objects)
        ? json_array_get(objects, roll(r, (uint32_t)json_array_size(objects)))
        : NULL;
}

static void vanish(struct run *r, json_t *object)
{
    json_t *objects = json_object_get(r->world, "objects");
    for (size_t i = 0; i < json_array_size(objects); i++)
        if (json_array_get(objects, i) == object) {
            json_array_remove(objects, i);
            return;
        }
}

static void set(struct run *r, json_t *pod, char state)
{
    enum tfjob_type t;
    if (!tfjob_type_parse(kube_label(pod, "training.kubeflow.org/replica-type"), &t))
        return;
    fx_set_pod(r->world, tfjob_type_lower(t),
        atoi(kube_label(pod, "training.kubeflow.org/replica-index")), state);
}

static void restart_in_place(json_t *pod)
{
    json_t *c = json_array_get(
        json_object_get(json_object_get(pod, "status"), "containerStatuses"), 0);
    if (c)
        json_object_set_new(c, "restartCount", json_integer(jget_int(c, "restartCount", 0) + 1));
}

/* How a running pod ends: by its outcome, if the run has fates. */
static char ending(struct run *r, const json_t *pod)
{
    enum tfjob_type t = TFJOB_WORKER;
    int i = atoi(kube_label(pod, "training.kubeflow.org/replica-index"));
    tfjob_type_parse(kube_label(pod, "training.kubeflow.org/replica-type"), &t);
    if (!r->fates) {
        char how = "SSSFKKNE"[roll(r, 8)];
        r->evicted[t][i] += how == 'E';
        return how;
    }
    bool decides = i == 0
        && (t == TFJOB_CHIEF || (t == TFJOB_WORKER && !jget(r->cr, "spec.tfReplicaSpecs.Chief")));
    if (!roll(r, 6)) {
        r->evicted[t][i]++;
        return 'E';
    }
    if (r->left[t][i]-- > 0) {
        r->happened[t][i]++;
        return 'K';
    }
    return decides && r->doomed ? 'F' : 'S';
}

static void pod_event(struct run *r, json_t *pod, uint32_t what)
{
    const char *phase = jget_str(pod, "status.phase", "");
    if (kube_deleting(pod)) {
        vanish(r, pod);
    } else if (!strcmp(phase, "Pending")) {
        set(r, pod, 'R');
    } else if (!strcmp(phase, "Running")) {
        if (what < 6)
            set(r, pod, ending(r, pod));
        else if (what < 8)
            set(r, pod, 'D'); /* kubectl delete, drain */
        else if (what == 8)
            vanish(r, pod); /* its node is gone */
        else if (!r->fates)
            restart_in_place(pod);
    } else if (what == 0) {
        vanish(r, pod); /* garbage collection of ended pods */
    }
}

static void edit_job(struct run *r)
{
    json_t *spec = json_object_get(r->cr, "spec"),
           *worker = json_object_get(json_object_get(spec, "tfReplicaSpecs"), "Worker");
    json_t *policy = json_object_get(spec, "runPolicy");
    if (roll(r, 2))
        json_object_set_new(policy, "suspend", json_boolean(!jget_bool(policy, "suspend", false)));
    else if (worker && !r->fates)
        json_object_set_new(worker, "replicas", json_integer(1 + roll(r, MAX_REPLICAS)));
}

/* The scheduler of gangs has a word about the group; a dataset comes and goes. */
static void other_event(struct run *r, json_t *o, bool fair_weather)
{
    static const char *const phases[] = {"Inqueue", "Running", "Pending", "Unknown", ""};
    const char *kind = jget_str(o, "kind", "");
    if (!strcmp(kind, "PodGroup"))
        json_object_set_new(o, "status",
            json_pack("{s:s}", "phase", fair_weather ? "Inqueue" : phases[roll(r, 5)]));
    else if (!strcmp(kind, "Dataset"))
        json_object_set_new(o, "status",
            json_pack("{s:[{s:s s:s s:s s:s}]}", "conditions", "type", "Ready", "status",
                fair_weather || roll(r, 2) ? "True" : "False", "reason", "Starting", "message",
                "soon"));
}

static void weather(struct run *r)
{
    uint32_t what = roll(r, 20);
    json_t *o = pick(r);
    if (what < 8)
        reconcile(r, SIZE_MAX);
    else if (what < 10)
        reconcile(r, roll(r, 6));
    else if (what == 10)
        fx_advance(r->world, (int64_t)roll(r, 100));
    else if (what == 11)
        edit_job(r);
    else if (o && !strcmp(jget_str(o, "kind", ""), "Pod"))
        pod_event(r, o, roll(r, 10));
    else if (o && kube_deleting(o))
        vanish(r, o);
    else if (o)
        other_event(r, o, false);
}

static void fair(struct run *r, json_t *o)
{
    const char *phase = jget_str(o, "status.phase", "");
    if (kube_deleting(o))
        vanish(r, o);
    else if (strcmp(jget_str(o, "kind", ""), "Pod"))
        other_event(r, o, true);
    else if (!strcmp(phase, "Pending"))
        set(r, o, 'R');
    else if (!strcmp(phase, "Running") && roll(r, 2))
        set(r, o, r->fates ? ending(r, o) : 'S');
}

/* Fair weather: the operator keeps up, time passes, pods start and come to their end. */
static void calm(struct run *r)
{
    json_object_set_new(
        json_object_get(json_object_get(r->cr, "spec"), "runPolicy"), "suspend", json_false());
    for (int i = 0; i < CALM_MAX && !*r->terminal; i++) {
        reconcile(r, SIZE_MAX);
        fx_advance(r->world, 60);
        for (size_t k = json_array_size(json_object_get(r->world, "objects")); k > 0; k--)
            fair(r, json_array_get(json_object_get(r->world, "objects"), k - 1));
    }
    if (!*r->terminal)
        BROKEN(r, "it never ends");
}

/* ---- runs ---- */

static const char *const policies[] = {"Never", "OnFailure", "Always", "ExitCode"};

static json_t *random_job(struct run *r)
{
    char replicas[160];
    const char *p = policies[roll(r, 4)];
    bool chief = roll(r, 2);
    snprintf(replicas, sizeof replicas, "%s worker=%u:%s %s %s", chief ? "chief=1:ExitCode" : "",
        1 + roll(r, MAX_REPLICAS), p, roll(r, 2) ? "ps=2:OnFailure" : "",
        roll(r, 4) ? "" : "evaluator=1:Always");
    cleanup_free char *spec = xasprintf(
        "{'runPolicy': {'cleanPodPolicy': '%s'%s%s}, 'successPolicy': '%s', 'enableDynamicWorker': %s}",
        (const char *[]){"", "None", "Running", "All"}[roll(r, 4)],
        roll(r, 4) ? "" : ", 'backoffLimit': 3", roll(r, 6) ? "" : ", 'activeDeadlineSeconds': 600",
        roll(r, 3) ? "" : "AllWorkers", roll(r, 4) ? "false" : "true");
    return fx_job(replicas, spec);
}

/* Outcomes that do not depend on who comes first: nothing but the one that decides fails for good.
 */
static json_t *fated_job(struct run *r)
{
    char replicas[160];
    snprintf(replicas, sizeof replicas, "%s worker=%u:ExitCode %s",
        roll(r, 2) ? "chief=1:ExitCode" : "", 1 + roll(r, MAX_REPLICAS),
        roll(r, 2) ? "ps=1:ExitCode" : "");
    r->fates = true;
    r->doomed = roll(r, 2);
    for (int t = 0; t < TFJOB_TYPES; t++)
        for (int i = 0; i < MAX_REPLICAS; i++)
            r->left[t][i] = (int)roll(r, 3);
    return fx_job(replicas, "{'runPolicy': {}}");
}

static void sail(uint64_t seed, json_t *(*make)(struct run *), char outcome[16])
{
    struct run r = {.seed = seed, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    for (int i = 0; i < 8; i++)
        roll(&r, 2);
    r.cr = make(&r);
    r.world = fx_world("");
    if (!roll(&r, 4))
        json_object_set_new(
            r.world, "gangScheduler", json_string(roll(&r, 3) ? "volcano" : "other"));
    if (!roll(&r, 4))
        json_array_append_new(json_object_get(r.world, "objects"),
            json_pack("{s:s s:s s:{s:s s:s}}", "apiVersion", "millrace.dev/v1alpha1", "kind",
                "Dataset", "metadata", "name", "d", "namespace", "ns"));
    if (!roll(&r, 4))
        json_object_set_new(json_object_get(r.cr, "metadata"), "annotations",
            json_pack("{s:s}", ANNOTATION_RESTART_SCOPE, "job"));
    for (int i = 0; i < STEPS; i++)
        weather(&r);
    calm(&r);
    for (int i = 0; i < STEPS / 2; i++) /* after the end: nothing changes it */
        weather(&r);
    if (r.fates && strcmp(r.terminal, r.doomed ? "Failed" : "Succeeded"))
        BROKEN(&r, "it should have %s", r.doomed ? "failed" : "succeeded");
    snprintf(outcome, 16, "%s", r.terminal);
    json_decref(r.cr);
    json_decref(r.world);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void sail_all(json_t *(*make)(struct run *))
{
    uint64_t runs = setting("MILLRACE_RANDOM_RUNS", 1000),
             first = setting("MILLRACE_RANDOM_SEED", 1), ended[2] = {0, 0};
    for (uint64_t i = 0; i < runs; i++) {
        char outcome[16];
        sail(first + i, make, outcome);
        ended[!strcmp(outcome, "Failed")]++;
    }
    print_message("%" PRIu64 " succeeded, %" PRIu64 " failed\n", ended[0], ended[1]);
    if (runs >= 100) { /* the weather is worth its name only if both happen */
        assert_true(ended[0] > runs / 40);
        assert_true(ended[1] > runs / 40); /* some 5 in 100 do */
    }
}

static void test_one_end(void **state)
{
    (void)state;
    sail_all(random_job);
}

static void test_same_end_in_any_order(void **state)
{
    (void)state;
    sail_all(fated_job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_end), cmocka_unit_test(test_same_end_in_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
