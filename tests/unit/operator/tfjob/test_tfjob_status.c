/* SPDX-License-Identifier: Apache-2.0 */
/* The acceptance cases of training-operator 1.9 about states, restarts and clean-up, each a line;
 * and ours where it differs. */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "tests/golden/golden_tfjob.h"
#include "tests/unit/operator/tfjob/tfjob_fixture.h"

#include <stdio.h>
#include <string.h>

/* ---- one pass, one outcome ---- */

static const struct {
    const char *what, *replicas, *spec, *pods;
    const char *present; /* a condition that must be there */
    const char *state;   /* the last condition that is True; "" : any */
} outcomes[] = {
    {"one failed worker of three", "worker=3", NULL, "worker:RFR", "Failed", "Failed"},
    {"chief succeeded", "chief=1 worker=1", NULL, "chief:S worker:R", "Succeeded", "Succeeded"},
    {"chief running", "chief=1 worker=1", NULL, "chief:R worker:R", "Running", "Running"},
    {"chief failed", "chief=1 worker=1", NULL, "chief:F worker:R", "Failed", "Failed"},
    {"master succeeded", "master=1 worker=1", NULL, "master:S worker:R", "Succeeded", "Succeeded"},
    {"no chief: worker failed", "worker=1", NULL, "worker:F", "Failed", "Failed"},
    {"no chief: worker succeeded", "worker=1", NULL, "worker:S", "Succeeded", "Succeeded"},
    {"no chief: worker running", "worker=1", NULL, "worker:R", "Running", "Running"},
    {"2 succeeded without exit code, 2 active", "worker=4 ps=2", NULL, "worker:ssRR ps:RR",
        "Running", "Running"},
    {"2 running, 2 failed", "worker=4 ps=2", NULL, "worker:RRFF ps:RR", "Failed", "Failed"},
    {"2 succeeded without exit code, 2 failed", "worker=4 ps=2", NULL, "worker:ssFF ps:RR",
        "Failed", "Failed"},
    {"worker 0 succeeded, 3 active", "worker=4 ps=2", NULL, "worker:SRRR ps:RR", "Succeeded",
        "Succeeded"},
    {"a later worker succeeded", "worker=3", NULL, "worker:RSR", "Running", "Running"},
    {"AllWorkers: worker 0 succeeded, 3 active", "worker=4", "{'successPolicy': 'AllWorkers'}",
        "worker:SRRR", "Running", "Running"},
    {"AllWorkers: all succeeded", "worker=4", "{'successPolicy': 'AllWorkers'}", "worker:SSSS",
        "Succeeded", "Succeeded"},
    {"AllWorkers: one failed", "worker=4", "{'successPolicy': 'AllWorkers'}", "worker:SRRF",
        "Failed", "Failed"},
    {"AllWorkers does not matter with a chief", "chief=1 worker=2",
        "{'successPolicy': 'AllWorkers'}", "chief:S worker:RR", "Succeeded", "Succeeded"},
    {"chief running, workers failed", "chief=1 worker=4", NULL, "chief:R worker:FFFF", "Running",
        "Failed"},
    {"chief running, workers succeeded", "chief=1 worker=4", NULL, "chief:R worker:SSSS", "Running",
        "Running"},
    {"chief running, PS failed", "chief=1 worker=4 ps=2", NULL, "chief:R worker:RRRR ps:FF",
        "Failed", "Failed"},
    {"chief failed, workers succeeded", "chief=1 worker=4", NULL, "chief:F worker:SSSS", "Failed",
        "Failed"},
    {"chief succeeded, workers failed", "chief=1 worker=4", NULL, "chief:S worker:FFFF",
        "Succeeded", "Succeeded"},
    {"chief failed with a retryable code", "chief=1:ExitCode worker=4", NULL, "chief:K worker:RRRR",
        "Restarting", "Restarting"},
    {"a permanent code", "worker=2:ExitCode", NULL, "worker:RF", "Failed", "Failed"},
    {"ExitCode without a code is retryable", "worker=2:ExitCode", NULL, "worker:RN", "Restarting",
        "Restarting"},
    {"OnFailure: a failed pod is replaced", "worker=2:OnFailure", NULL, "worker:RF", "Restarting",
        "Restarting"},
    {"Always: a failed pod is replaced", "worker=2:Always", NULL, "worker:RN", "Restarting",
        "Restarting"},
    {"evaluator failed", "chief=1 evaluator=1", NULL, "chief:R evaluator:F", "Failed", "Failed"},
    {"dynamic: a failed worker is tolerated", "worker=2", "{'enableDynamicWorker': true}",
        "worker:RF", "Running", "Running"},
    {"dynamic: a failed PS is not", "worker=2 ps=1", "{'enableDynamicWorker': true}",
        "worker:RR ps:F", "Failed", "Failed"},
    {"no workers wanted, no chief", "worker=0", NULL, "", "Succeeded", "Succeeded"},
    /* ours */
    {"evicted is not failed", "worker=2", NULL, "worker:RE", "Running", "Running"},
    {"being deleted is not failed", "worker=2", NULL, "worker:RD", "Running", "Running"},
    {"an evaluator alone is a job too", "evaluator=1", NULL, "evaluator:S", "Succeeded",
        "Succeeded"},
    {"PS alone run", "ps=2", NULL, "ps:RP", "Running", "Running"},
    {"a chief of 0 replicas is none", "chief=0 worker=1", NULL, "worker:R", "Running", "Running"},
    {"dynamic: none is left", "worker=2", "{'enableDynamicWorker': true}", "worker:FF", "Failed",
        "Failed"},
};

static const char *state_of(const json_t *cr)
{
    const json_t *conditions = jget_arr(cr, "status.conditions");
    for (size_t i = json_array_size(conditions); i > 0; i--)
        if (!strcmp(jget_str(json_array_get(conditions, i - 1), "status", ""), "True"))
            return jget_str(json_array_get(conditions, i - 1), "type", "");
    return "";
}

static void check_terminal(const json_t *cr)
{
    bool over = !strcmp(fx_cond_status(cr, "Succeeded"), "True")
        || !strcmp(fx_cond_status(cr, "Failed"), "True");
    assert_false(fx_cond(cr, "Succeeded") && fx_cond(cr, "Failed"));
    if (over) {
        assert_string_not_equal(fx_cond_status(cr, "Running"), "True");
        assert_string_not_equal(fx_cond_status(cr, "Restarting"), "True");
    }
    assert_int_equal(over, jget(cr, "status.completionTime") != NULL);
}

static void test_outcomes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        cleanup_json json_t *cr = fx_job(outcomes[i].replicas, outcomes[i].spec),
                            *world = fx_world(outcomes[i].pods);
        fx_reconcile(cr, world);
        if (!fx_cond(cr, outcomes[i].present) || strcmp(state_of(cr), outcomes[i].state)) {
            cleanup_free char *status = json_dumps(json_object_get(cr, "status"), JSON_INDENT(1));
            fail_msg("%s: wanted %s and state %s, got %s", outcomes[i].what, outcomes[i].present,
                outcomes[i].state, status);
        }
        check_terminal(cr);
        size_t left = fx_reconcile(cr, world);
        if (left)
            fail_msg("%s: %zu writes in the pass after", outcomes[i].what, left);
    }
}

/* ---- counts ---- */

static void check_counts(const json_t *cr, const char *type, int active, int succeeded, int failed)
{
    cleanup_free char *path = xasprintf("status.replicaStatuses.%s", type);
    const json_t *c = jget_obj(cr, path);
    assert_non_null(c);
    assert_int_equal(jget_int(c, "active", 0), active);
    assert_int_equal(jget_int(c, "succeeded", 0), succeeded);
    assert_int_equal(jget_int(c, "failed", 0), failed);
}

static void test_counts(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=7:OnFailure ps=1", NULL),
                        *world = fx_world("worker:RSFDPET ps:P");
    fx_reconcile(cr, world);
    /* upstream: the pod that is being deleted would count as failed */
    check_counts(cr, "Worker", 2, 1, 1);
    check_counts(cr, "PS", 0, 0, 0);
    assert_int_equal(jget_int(cr, "status.indexes.Worker.restarts.\"2\"", 0), 1);
    assert_int_equal(jget_int(cr, "status.indexes.Worker.restarts.\"6\"", 0), 1);
    assert_int_equal(json_object_size(jget_obj(cr, "status.indexes.Worker.restarts")), 2);
}

static void test_active_become_succeeded(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("chief=1 worker=2", NULL),
                        *world = fx_world("chief:S worker:RR");
    fx_reconcile(cr, world);
    check_counts(cr, "Worker", 0, 2, 0);
    check_counts(cr, "Chief", 0, 1, 0);
}

/* ---- clean-up: pods that stay after the pass that ends the job ---- */

static const struct {
    const char *what, *replicas, *spec, *pods;
    size_t pods_left, services_left;
} cleanups[] = {
    {"All", "worker=4 ps=2", "{'runPolicy': {'cleanPodPolicy': 'All'}}", "worker:SRRR ps:RR", 0, 0},
    {"Running", "worker=4 ps=2", "{'runPolicy': {'cleanPodPolicy': 'Running'}}",
        "worker:SRRR ps:RR", 1, 1},
    {"Running, all succeeded", "worker=4 ps=2", "{'runPolicy': {'cleanPodPolicy': 'Running'}}",
        "worker:SSSS ps:SS", 6, 6},
    {"None, all succeeded", "worker=4 ps=2", "{'runPolicy': {'cleanPodPolicy': 'None'}}",
        "worker:SSSS ps:SS", 6, 6},
    {"None keeps what runs", "worker=4 ps=2", "{'runPolicy': {'cleanPodPolicy': 'None'}}",
        "worker:SRRR ps:RR", 6, 6},
    {"not set: PS are freed", "worker=4 ps=2", NULL, "worker:SRRR ps:RR", 4, 4},
    {"the old place of the field", "worker=4 ps=2", "{'cleanPodPolicy': 'All'}",
        "worker:SRRR ps:RR", 0, 0},
    {"the new place wins", "worker=2",
        "{'cleanPodPolicy': 'All', 'runPolicy': {'cleanPodPolicy': 'None'}}", "worker:SR", 2, 2},
    {"backoff limit reached, All", "worker=4:OnFailure",
        "{'runPolicy': {'cleanPodPolicy': 'All', 'backoffLimit': 4}}", "worker:TTTT", 0, 0},
    {"backoff limit reached, None", "worker=4:OnFailure",
        "{'runPolicy': {'cleanPodPolicy': 'None', 'backoffLimit': 4}}", "worker:TTTT", 4, 4},
    {"backoff limit reached, Running", "worker=4:OnFailure",
        "{'runPolicy': {'cleanPodPolicy': 'Running', 'backoffLimit': 4}}", "worker:TTTT", 0, 0},
    {"backoff limit 0 without restarts", "worker=1:OnFailure",
        "{'runPolicy': {'cleanPodPolicy': 'All', 'backoffLimit': 0}}", "worker:R", 1, 1},
    {"backoff limit 0, one restart", "worker=1:OnFailure",
        "{'runPolicy': {'cleanPodPolicy': 'All', 'backoffLimit': 0}}", "worker:T", 0, 0},
    {"a deadline of 0", "worker=1",
        "{'runPolicy': {'cleanPodPolicy': 'All', 'activeDeadlineSeconds': 0}}", "worker:R", 0, 0},
    {"a deadline to come", "worker=1",
        "{'runPolicy': {'cleanPodPolicy': 'All', 'activeDeadlineSeconds': 2}}", "worker:R", 1, 1},
    {"suspended, whatever the policy", "worker=2",
        "{'runPolicy': {'cleanPodPolicy': 'None', 'suspend': true}}", "worker:RS", 0, 0},
    {"unfinished", "worker=2", "{'runPolicy': {'cleanPodPolicy': 'None'}}", "worker:RP", 2, 2},
};

static void test_cleanup(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cleanups); i++) {
        cleanup_json json_t *cr = fx_job(cleanups[i].replicas, cleanups[i].spec),
                            *world = fx_world(cleanups[i].pods);
        fx_reconcile(cr, world);
        size_t pods = fx_count(world, "Pod", false), services = fx_count(world, "Service", false);
        if (pods != cleanups[i].pods_left || services != cleanups[i].services_left)
            fail_msg("%s: %zu pods and %zu services left", cleanups[i].what, pods, services);
        check_terminal(cr);
    }
}

/* ---- over several passes ---- */

static void test_deadline_fires(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=1", "{'runPolicy': {'activeDeadlineSeconds': 60}}"),
                        *world = fx_world("worker:R");
    fx_reconcile(cr, world);
    fx_advance(world, 59);
    cleanup_plan struct plan p = PLAN_INIT;
    golden_tfjob_plan(cr, world, &p);
    assert_int_equal(p.n, 1); /* nothing but a timer */
    assert_int_equal(p.actions[0].op, PLAN_REQUEUE);
    assert_int_equal(p.actions[0].after_ns, 1000000000);
    fx_advance(world, 1);
    fx_reconcile(cr, world);
    assert_string_equal(state_of(cr), "Failed");
    assert_string_equal(cond_message(jget(cr, "status.conditions"), "Failed"),
        "Job j has failed because it was active longer than specified deadline");
}

static void test_suspend_resume(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=2", "{'runPolicy': {'suspend': true}}"),
                        *world = fx_world("");
    fx_reconcile(cr, world);
    const json_t *conditions = jget_arr(cr, "status.conditions");
    assert_int_equal(json_array_size(conditions), 2);
    assert_string_equal(jget_str(conditions, "[0].type", ""), "Created");
    assert_string_equal(jget_str(conditions, "[1].type", ""), "Suspended");
    assert_null(jget(cr, "status.startTime"));
    assert_int_equal(fx_count(world, "Pod", false), 0);

    json_object_set_new(
        json_object_get(json_object_get(cr, "spec"), "runPolicy"), "suspend", json_false());
    fx_advance(world, 10);
    fx_reconcile(cr, world);
    assert_int_equal(fx_count(world, "Pod", false), 2);
    assert_int_equal(fx_count(world, "Service", false), 2);
    assert_string_equal(jget_str(cr, "status.startTime", ""), "2026-01-31T12:00:10Z");
    assert_string_equal(fx_cond_status(cr, "Suspended"), "False");
    assert_string_equal(cond_reason(jget(cr, "status.conditions"), "Suspended"), "TFJobResumed");
    fx_set_pod(world, "worker", 0, 'R');
    fx_reconcile(cr, world);

    json_object_set_new(
        json_object_get(json_object_get(cr, "spec"), "runPolicy"), "suspend", json_true());
    fx_advance(world, 10);
    fx_reconcile(cr, world);
    conditions = jget_arr(cr, "status.conditions");
    assert_int_equal(fx_count(world, "Pod", false) + fx_count(world, "Service", false), 0);
    assert_string_equal(jget_str(cr, "status.startTime", ""), "2026-01-31T12:00:10Z");
    assert_string_equal(jget_str(conditions, "[1].type", ""), "Running");
    assert_string_equal(jget_str(conditions, "[1].status", ""), "False");
    assert_string_equal(jget_str(conditions, "[1].reason", ""), "TFJobSuspended");
    assert_string_equal(jget_str(conditions, "[2].type", ""), "Suspended");
}

static void remove_pod(json_t *world, const char *name)
{
    json_t *pod = golden_find(world, "Pod", "ns", name);
    assert_non_null(pod);
    size_t i;
    json_t *o;
    json_array_foreach (json_object_get(world, "objects"), i, o)
        if (o == pod)
            break;
    json_array_remove(json_object_get(world, "objects"), i);
}

/* A failing replica: deleted at once the first time, later and later after that; the count outlives
 * the pods. */
static void test_restart_delays(void **state)
{
    (void)state;
    static const int waits[] = {0, 10, 20, 40, 80, 160, 300, 300, 300, 300};
    cleanup_json json_t *cr = fx_job("worker=1:ExitCode", NULL), *world = fx_world("worker:R");
    fx_reconcile(cr, world);
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        fx_set_pod(world, "worker", 0, 'K');
        fx_reconcile(cr, world);
        assert_string_equal(state_of(cr), "Restarting");
        assert_int_equal(jget_int(cr, "status.indexes.Worker.restarts.\"0\"", 0), (int)i + 1);
        if (waits[i] > 0) {
            assert_int_equal(fx_count(world, "Pod", true), 0);
            fx_advance(world, waits[i] - 1);
            assert_int_equal(fx_reconcile(cr, world), 0);
            fx_advance(world, 1);
            fx_reconcile(cr, world);
        }
        assert_int_equal(fx_count(world, "Pod", true), 1);
        remove_pod(world, "j-worker-0");
        fx_reconcile(cr, world);
        assert_int_equal(fx_count(world, "Pod", false), 1);
        fx_set_pod(world, "worker", 0, 'R');
        fx_reconcile(cr, world);
        assert_string_equal(state_of(cr), "Running");
    }
}

static void test_finished_is_remembered(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("chief=1 worker=3", NULL),
                        *world = fx_world("chief:R worker:RSR");
    fx_reconcile(cr, world);
    assert_string_equal(jget_str(cr, "status.indexes.Worker.completed", ""), "1");
    remove_pod(world, "j-worker-1");
    assert_int_equal(fx_reconcile(cr, world), 0);
    remove_pod(world, "j-worker-2");
    assert_true(fx_reconcile(cr, world) > 0);
    assert_non_null(golden_find(world, "Pod", "ns", "j-worker-2"));
    assert_null(golden_find(world, "Pod", "ns", "j-worker-1"));
    fx_set_pod(world, "chief", 0, 'S');
    fx_reconcile(cr, world);
    assert_string_equal(state_of(cr), "Succeeded");
}

static void test_ttl(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=1", "{'runPolicy': {'ttlSecondsAfterFinished': 3}}"),
                        *world = fx_world("worker:F");
    fx_reconcile(cr, world);
    fx_advance(world, 2);
    assert_int_equal(fx_reconcile(cr, world), 0);
    fx_advance(world, 1);
    assert_int_equal(fx_reconcile(cr, world), 1);
    assert_non_null(jget(cr, "metadata.deletionTimestamp"));
    assert_int_equal(fx_reconcile(cr, world), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_active_become_succeeded),
        cmocka_unit_test(test_cleanup),
        cmocka_unit_test(test_deadline_fires),
        cmocka_unit_test(test_suspend_resume),
        cmocka_unit_test(test_restart_delays),
        cmocka_unit_test(test_finished_is_remembered),
        cmocka_unit_test(test_ttl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
