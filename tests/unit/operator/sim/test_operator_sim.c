/* SPDX-License-Identifier: Apache-2.0 */
/* TFJobs with an API server and kubelets that fail: watches that lag, each kind by its own, and are
 * dropped; writes that are refused or lost; an operator that dies at any of them; kubelets that
 * report an end late, twice, or the contrary, or never end a pod. Whatever comes: what has finished
 * is not run again, failures are counted once, a job ends once, and then nothing of it is left that
 * should not be. MILLRACE_RANDOM_RUNS (400) from MILLRACE_RANDOM_SEED (1) on: a seed is a run. */
#include "tests/unit/operator/sim/sim_api.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"
#include "tests/golden/golden_tfjob.h"
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS        120
#define CALM_MAX     300
#define MAX_REPLICAS 4

struct sim {
    struct sim_api api;
    uint64_t seed;
    bool doomed; /* the one that decides fails for good */
    char terminal[16], completion[32];
    bool done[TFJOB_TYPES][MAX_REPLICAS];
    int left[TFJOB_TYPES][MAX_REPLICAS];     /* retryable failures before it succeeds */
    int restarts[TFJOB_TYPES][MAX_REPLICAS]; /* as stored */
    int happened[TFJOB_TYPES][MAX_REPLICAS], counted[TFJOB_TYPES][MAX_REPLICAS];
};

#define SIM_BROKEN(s, ...)                                                                         \
    do {                                                                                           \
        cleanup_free char *server_ = json_dumps((s)->api.objects, JSON_INDENT(1));                 \
        cleanup_free char *cache_ = json_dumps((s)->api.cache, JSON_INDENT(1));                    \
        fprintf(stderr, "seed %" PRIu64 "\nserver %s\noperator %s\n", (s)->seed, server_, cache_); \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static const json_t *stored(const struct sim *s) { return sim_find(s->api.objects, "TFJob", "j"); }

static const char *status_of(const json_t *cr, const char *type)
{
    return jget_str(cond_find(jget(cr, "status.conditions"), type), "status", "");
}

static enum tfjob_type type_of(const json_t *o)
{
    enum tfjob_type t = TFJOB_WORKER;
    tfjob_type_parse(kube_label(o, "training.kubeflow.org/replica-type"), &t);
    return t;
}
static int place_of(const json_t *o)
{
    return atoi(kube_label(o, "training.kubeflow.org/replica-index"));
}

/* ---- what must hold ---- */

static void check_end(struct sim *s)
{
    bool succeeded = !strcmp(status_of(stored(s), "Succeeded"), "True"),
         failed = !strcmp(status_of(stored(s), "Failed"), "True");
    const char *now = succeeded ? "Succeeded"
        : failed                ? "Failed"
                                : "",
               *completion = jget_str(stored(s), "status.completionTime", "");
    if (succeeded && failed)
        SIM_BROKEN(s, "it has succeeded and failed");
    if (*s->terminal && (strcmp(s->terminal, now) || strcmp(s->completion, completion)))
        SIM_BROKEN(s, "it had %s at %s, now it is '%s' at %s", s->terminal, s->completion, now,
            completion);
    snprintf(s->terminal, sizeof s->terminal, "%s", now);
    snprintf(s->completion, sizeof s->completion, "%s", completion);
}

static void check_indexes(struct sim *s)
{
    cleanup_tfjob_status struct tfjob_status st;
    tfjob_status_read(stored(s), &st);
    for (int t = 0; t < TFJOB_TYPES; t++)
        for (size_t i = 0; i < MAX_REPLICAS; i++) {
            struct tfjob_index now = tfjob_index_of(&st.indexes[t], i);
            const char *type = tfjob_type_name((enum tfjob_type)t);
            if (s->done[t][i] && !now.completed)
                SIM_BROKEN(s, "%s %zu had completed, that is forgotten", type, i);
            if (now.restarts < s->restarts[t][i])
                SIM_BROKEN(s, "restarts of %s %zu are forgotten", type, i);
            if (now.restarts > s->happened[t][i])
                SIM_BROKEN(s, "%s %zu failed %d times, but %d restarts are stored", type, i,
                    s->happened[t][i], now.restarts);
            s->done[t][i] = now.completed;
            s->restarts[t][i] = now.restarts;
        }
}

static void look(void *user, const struct plan_action *a)
{
    struct sim *s = user;
    json_t *pod = sim_find(s->api.objects, "Pod", a->name);
    if (strcmp(a->res->kind, "Pod") != 0)
        return;
    if (a->op == PLAN_CREATE && !pod) {
        if (*s->terminal)
            SIM_BROKEN(s, "it makes %s after its end", a->name);
        if (s->done[type_of(a->body)][place_of(a->body)])
            SIM_BROKEN(s, "it runs %s again, which has finished", a->name);
    }
    if (a->op != PLAN_DELETE || !pod || strcmp(a->uid, kube_uid(pod)) != 0 || *s->terminal)
        return;
    enum tfjob_type t = type_of(pod);
    int i = place_of(pod);
    if (!strcmp(jget_str(pod, "status.phase", ""), "Succeeded") && !s->done[t][i])
        SIM_BROKEN(s, "it deletes %s, which has finished, and does not remember it", a->name);
    if (jget_int(pod, "status.containerStatuses[0].state.terminated.exitCode", 0) == 130
        && !kube_deleting(pod) && ++s->counted[t][i] > s->restarts[t][i])
        SIM_BROKEN(s, "it deletes %s, which has failed, and does not remember it", a->name);
}

/* After each write of the plan. */
static void look_and_check(void *user, const struct plan_action *a)
{
    struct sim *s = user;
    check_indexes(s);
    check_end(s);
    look(user, a);
}

static void sim_reconcile(struct sim *s)
{
    if (!sim_ask_again(&s->api, "TFJob", "j"))
        return;
    const json_t *cr = sim_find(s->api.cache, "TFJob", "j");
    cleanup_plan struct plan p = PLAN_INIT;
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(s->api.now_ns, now);
    cleanup_json json_t *world = json_pack(
        "{s:s, s:o}", "now", now, "objects", json_deep_copy(s->api.cache));
    golden_remove(world, "TFJob", "j");
    golden_tfjob_plan(cr, world, &p);
    sim_apply(&s->api, &p, look_and_check, s);
    check_indexes(s);
    check_end(s);
}

/* ---- kubelets ---- */

static void set_state(struct sim *s, const json_t *pod, char letter)
{
    json_t *o = json_deep_copy(pod);
    golden_tfjob_set_state(o, (struct golden_tfjob_state){letter, -1}, s->api.now_ns, 0);
    json_object_del(o, "spec"); /* there are no nodes here: one that is named would be dead */
    sim_put(&s->api, o);
}

static bool decides(const struct sim *s, enum tfjob_type t, int i)
{
    bool chief = jget(stored(s), "spec.tfReplicaSpecs.Chief") != NULL;
    return i == 0 && (t == TFJOB_CHIEF || (t == TFJOB_WORKER && !chief));
}

static void end_pod(struct sim *s, const json_t *pod)
{
    enum tfjob_type t = type_of(pod);
    int i = place_of(pod);
    if (s->left[t][i] > 0) {
        s->left[t][i]--;
        s->happened[t][i]++;
        set_state(s, pod, 'K');
    } else {
        set_state(s, pod, decides(s, t, i) && s->doomed ? 'F' : 'S');
    }
}

static void kubelet(struct sim *s, bool fair)
{
    cleanup_json json_t *all = json_copy(s->api.objects); /* it changes below */
    size_t n;
    json_t *pod;
    json_array_foreach (all, n, pod) {
        uint32_t what = fair ? 2 : sim_roll(&s->api, 12);
        const char *phase = jget_str(pod, "status.phase", "");
        if (strcmp(jget_str(pod, "kind", ""), "Pod") != 0 || what > 4)
            continue;
        if (kube_deleting(pod)) /* it ends it now, or later */
            sim_remove(&s->api, "Pod", kube_name(pod));
        else if (!strcmp(phase, "Pending"))
            set_state(s, pod, 'R');
        else if (!strcmp(phase, "Running") && what < 3)
            end_pod(s, pod);
        else if (!strcmp(phase, "Running") && what == 3)
            set_state(s, pod, 'E');
        else if (!fair && what == 4) /* garbage collection, a node that is gone */
            sim_remove(&s->api, "Pod", kube_name(pod));
        else if (!fair && what == 3) /* the same end is told again */
            sim_put(&s->api, json_deep_copy(pod));
    }
}

/* ---- runs ---- */

static void begin(struct sim *s)
{
    static const char *const clean[] = {"", "None", "Running", "All"};
    char replicas[160];
    snprintf(replicas, sizeof replicas, "%s worker=%u:ExitCode %s",
        sim_roll(&s->api, 2) ? "chief=1:ExitCode" : "", 1 + sim_roll(&s->api, MAX_REPLICAS),
        sim_roll(&s->api, 2) ? "ps=1:ExitCode" : "");
    s->doomed = sim_roll(&s->api, 2);
    for (int t = 0; t < TFJOB_TYPES; t++)
        for (int i = 0; i < MAX_REPLICAS; i++)
            s->left[t][i] = (int)sim_roll(&s->api, 3);
    json_t *spec = json_pack("{s:{s:s}, s:o}", "runPolicy", "cleanPodPolicy",
        clean[sim_roll(&s->api, 4)], "tfReplicaSpecs", golden_tfjob_replicas(replicas));
    sim_put(&s->api,
        json_pack("{s:s s:s s:{s:s s:s s:s} s:o}", "apiVersion", "kubeflow.org/v1", "kind", "TFJob",
            "metadata", "name", "j", "namespace", "ns", "uid", GOLDEN_TFJOB_UID, "spec", spec));
    sim_restart(&s->api);
}

static void check_leaks(struct sim *s)
{
    const char *clean = jget_str(stored(s), "spec.runPolicy.cleanPodPolicy", "");
    size_t i;
    json_t *o;
    json_array_foreach (s->api.objects, i, o) {
        if (strcmp(jget_str(o, "kind", ""), "Pod") != 0)
            continue;
        const char *phase = jget_str(o, "status.phase", "");
        bool ended = !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
        if (!strcmp(clean, "All") || (!ended && !strcmp(clean, "Running")))
            SIM_BROKEN(
                s, "%s is left, %s, though cleanPodPolicy is '%s'", kube_name(o), phase, clean);
    }
}

static void sim_calm(struct sim *s)
{
    s->api.fair = true;
    for (int i = 0; i < CALM_MAX && !*s->terminal; i++) {
        sim_deliver_all(&s->api);
        sim_reconcile(s);
        s->api.now_ns += 60 * NS_PER_S;
        kubelet(s, true);
    }
    if (!*s->terminal)
        SIM_BROKEN(s, "it never ends");
    if (strcmp(s->terminal, s->doomed ? "Failed" : "Succeeded"))
        SIM_BROKEN(s, "it should have %s", s->doomed ? "failed" : "succeeded");
    for (int i = 0; i < 4; i++) {
        sim_deliver_all(&s->api);
        sim_reconcile(s);
        json_t *o;
        for (size_t k = json_array_size(s->api.objects); k > 0; k--)
            if (kube_deleting(o = json_array_get(s->api.objects, k - 1)))
                sim_remove(&s->api, jget_str(o, "kind", ""), kube_name(o));
    }
    check_leaks(s);
}

static void test_whatever_comes(void **state)
{
    (void)state;
    const char *text = getenv("MILLRACE_RANDOM_RUNS"), *first = getenv("MILLRACE_RANDOM_SEED");
    uint64_t runs = text && *text ? strtoull(text, NULL, 10) : 400,
             seed = first && *first ? strtoull(first, NULL, 10) : 1;
    static const char *const kinds[] = {"TFJob", "Pod", "Service", "PodGroup", NULL};
    unsigned faults = 0, restarts = 0;
    for (uint64_t end = seed + runs; seed < end; seed++) {
        struct sim s = {.seed = seed};
        sim_open(&s.api, seed, kinds);
        begin(&s);
        for (int i = 0; i < STEPS; i++) {
            if (!sim_roll(&s.api, 3))
                kubelet(&s, false);
            sim_deliver(&s.api);
            if (sim_roll(&s.api, 2))
                sim_reconcile(&s);
            s.api.now_ns += (int64_t)sim_roll(&s.api, 20) * NS_PER_S;
        }
        sim_calm(&s);
        faults += s.api.faults;
        restarts += s.api.restarts;
        sim_close(&s.api);
    }
    print_message("%u writes failed, the operator died %u times\n", faults, restarts);
    if (runs >= 100)
        assert_true(faults > runs && restarts > runs); /* each begins with one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whatever_comes)};
    return cmocka_run_group_tests_name("operator_sim", tests, NULL, NULL);
}
