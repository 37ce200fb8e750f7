/* SPDX-License-Identifier: Apache-2.0 */
/* TFJobs: json to struct, TF_CONFIG byte for byte, pods and services, status there and back. */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"
#include "operator/tfjob/build.h"
#include "operator/tfjob/plan.h"
#include "tests/golden/golden.h"
#include "tests/unit/operator/tfjob/tfjob_fixture.h"

#include <string.h>

static const struct tfjob_observed nowhere = {.domain = "", .gang = ""};

static struct tfjob parsed(const json_t *cr)
{
    struct tfjob j;
    struct err e = ERR_INIT;
    if (tfjob_parse(cr, &j, &e))
        fail_msg("%s", e.msg);
    return j;
}

/* ---- defaults ---- */

static void test_defaults(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_json(
        "{'metadata': {'name': 'j', 'namespace': 'ns', 'uid': 'u'}, 'spec': {'tfReplicaSpecs': {'WORKER': "
        "{'template': {'spec': {'containers': [{'name': 'tensorflow', 'image': 'i'}]}}}}}}");
    struct tfjob j = parsed(cr);
    assert_true(j.spec[TFJOB_WORKER].present);
    assert_int_equal(j.spec[TFJOB_WORKER].replicas, 1);
    assert_int_equal(j.spec[TFJOB_WORKER].restart, TFJOB_RESTART_NEVER);
    assert_int_equal(j.clean, TFJOB_CLEAN_DEFAULT);
    assert_int_equal(j.ttl_s, -1);
    assert_int_equal(j.deadline_s, -1);
    assert_int_equal(j.backoff_limit, -1);
    assert_false(j.suspend || j.dynamic || j.all_workers || j.external || j.deleting);
    assert_null(j.old_field);
}

/* ---- what is refused ---- */

#define BODY "'template': {'spec': {'containers': [{'name': 'tensorflow', 'image': 'i'}]}}"

#define POLICY(rules)                      \
    "{'tfReplicaSpecs': {'Worker': {" BODY \
    "}}, 'runPolicy': {'podFailurePolicy': {'rules': [" rules "]}}}"
#define RULE_OF_PS "{'action': 'Ignore', 'replicaTypes': ['PS']}"

static const struct {
    const char *name, *spec, *says;
} refused[] = {
    {"j", "{}", "spec.tfReplicaSpecs is missing"},
    {"j", "{'tfReplicaSpecs': {}}", "give at least one of Chief, Master, Worker, PS, Evaluator"},
    {"00test", "{'tfReplicaSpecs': {'Worker': {" BODY "}}}", "metadata.name '00test'"},
    {"j", "{'tfReplicaSpecs': {'Wrker': {" BODY "}}}",
        "spec.tfReplicaSpecs.Wrker: unknown replica type: use Chief, Master, Worker, PS or Evaluator"},
    {"j", "{'tfReplicaSpecs': {'Worker': null}}", "spec.tfReplicaSpecs.Worker is empty"},
    {"j", "{'tfReplicaSpecs': {'Worker': {}}}",
        "spec.tfReplicaSpecs.Worker.template.spec.containers is missing"},
    {"j", "{'tfReplicaSpecs': {'Worker': {'template': {'spec': {'containers': []}}}}}",
        "containers is missing"},
    {"j", "{'tfReplicaSpecs': {'Worker': {'template': {'spec': {'containers': [7]}}}}}",
        "containers[0].name is missing"},
    {"j",
        "{'tfReplicaSpecs': {'Worker': {'template': {'spec': {'containers': [{'name': 'tensorflow', 'image': ''}]}}}}}",
        "containers[0].image is missing"},
    {"j",
        "{'tfReplicaSpecs': {'Worker': {'template': {'spec': {'containers': [{'name': 'main', 'image': 'i'}]}}}}}",
        "no container named 'tensorflow'"},
    {"j", "{'tfReplicaSpecs': {'Chief': {" BODY "}, 'master': {" BODY "}}}", "Chief and Master"},
    {"j", "{'tfReplicaSpecs': {'Worker': {" BODY "}, 'worker': {" BODY "}}}", "given twice"},
    {"j", "{'tfReplicaSpecs': {'Worker': {'replicas': -1, " BODY "}}}",
        "spec.tfReplicaSpecs.Worker: replicas must be"},
    {"j", "{'tfReplicaSpecs': {'Worker': {'replicas': 'two', " BODY "}}}",
        "replicas must be a whole number"},
    {"j", "{'tfReplicaSpecs': {'Worker': {'restartPolicy': 'Sometimes', " BODY "}}}",
        "use Always, OnFailure, Never or ExitCode"},
    {"j", "{'tfReplicaSpecs': {'Worker': {" BODY "}}, 'successPolicy': 'x'}",
        "spec.successPolicy is 'x'"},
    {"j", "{'tfReplicaSpecs': {'Worker': {" BODY "}}, 'runPolicy': {'cleanPodPolicy': 'x'}}",
        "use All, Running or None"},
    {"j", "{'tfReplicaSpecs': {'Worker': {" BODY "}}, 'runPolicy': {'backoffLimit': -1}}",
        "spec.runPolicy.backoffLimit"},
    {"j",
        "{'tfReplicaSpecs': {'Worker': {" BODY "}}, 'runPolicy': {'ttlSecondsAfterFinished': 'x'}}",
        "ttlSecondsAfterFinished"},
    {"j", POLICY("{'onReasons': ['OOMKilled']}"), "podFailurePolicy.rules[0].action is ''"},
    {"j", POLICY("{'action': 'Ignore', 'replicaTypes': ['PS']}, {'action': 'Stop'}"),
        "podFailurePolicy.rules[1].action is 'Stop': use FailJob, FailIndex, Ignore or Count"},
    {"j", POLICY("{'action': 'Ignore'}"), "rules[0] fits everything"},
    {"j", POLICY("{'action': 'Ignore', 'replicaTypes': ['PS', 'Wrker']}"),
        "rules[0].replicaTypes[1] is 'Wrker'"},
    {"j", POLICY("{'action': 'Ignore', 'onExitCodes': {'operator': 'In'}}"),
        "onExitCodes.values is empty"},
    {"j", POLICY("{'action': 'Ignore', 'onExitCodes': {'operator': 'In', 'values': [1, 0]}}"),
        "onExitCodes.values[1] must be"},
    {"j", POLICY("{'action': 'Ignore', 'onExitCodes': {'operator': 'NotIn', 'values': ['1']}}"),
        "onExitCodes.values[0] must be"},
    {"j", POLICY("{'action': 'Ignore', 'onPodConditions': [{'status': 'True'}]}"),
        "onPodConditions[0].type is missing"},
    {"j", POLICY("{'action': 'Ignore', 'onPodConditions': [{'type': 'x', 'status': 'No'}]}"),
        "onPodConditions[0].status is 'No'"},
    {"j",
        POLICY(
            RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS
                       "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS
                       "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS
                       "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS "," RULE_OF_PS),
        "has 21 rules: at most 20"},
    {"a-name-of-55-characters-is-too-long-with-a-hundred-more",
        "{'tfReplicaSpecs': {'Worker': {'replicas': 100, " BODY "}}}", "shorten the name by 2"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        cleanup_json json_t *cr = json_pack("{s:{s:s s:s s:s} s:o}", "metadata", "name",
            refused[i].name, "namespace", "ns", "uid", "u", "spec", fx_json(refused[i].spec));
        struct tfjob j;
        struct err e = ERR_INIT;
        if (tfjob_parse(cr, &j, &e) != -1 || e.cls != ERR_INVALID
            || !strstr(e.msg, refused[i].says))
            fail_msg("%s: wanted '%s', got '%s'", refused[i].spec, refused[i].says, e.msg);
    }
}

static void test_longest_name(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=100", NULL);
    json_object_set_new(json_object_get(cr, "metadata"), "name",
        json_string("a-name-of-53-characters-fits-with-a-hundred-replicas0"));
    parsed(cr);
}

static const struct {
    const char *manager;
    bool external;
} managers[] = {{"kubeflow.org/training-operator", false}, {"kueue.x-k8s.io/multikueue", true},
    {"other", true}, {"", true}};

static void test_managed_by(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(managers); i++) {
        cleanup_json json_t *cr = fx_job("worker=1", "{'runPolicy': {}}");
        json_object_set_new(json_object_get(json_object_get(cr, "spec"), "runPolicy"), "managedBy",
            json_string(managers[i].manager));
        assert_int_equal(parsed(cr).external, managers[i].external);
    }
}

/* ---- TF_CONFIG ---- */

static const struct {
    const char *replicas, *spec, *domain;
    enum tfjob_type type;
    int index;
    const char *want; /* NULL: none */
} configs[] = {
    {"worker=1", NULL, "", TFJOB_WORKER, 0, NULL},
    {"worker=1", NULL, "tf.training.com", TFJOB_WORKER, 0, NULL},
    {"worker=1 ps=1", NULL, "tf.training.com", TFJOB_WORKER, 0,
        "{\"cluster\":{\"ps\":[\"j-ps-0.ns.svc.tf.training.com:2222\"],\"worker\":[\"j-worker-0.ns.svc.tf.training.com:2222\"]},"
        "\"task\":{\"type\":\"worker\",\"index\":0},\"environment\":\"cloud\"}"},
    {"worker=1 ps=1 evaluator=1", NULL, "tf.training.com", TFJOB_WORKER, 0,
        "{\"cluster\":{\"evaluator\":[\"j-evaluator-0.ns.svc.tf.training.com:2222\"],\"ps\":[\"j-ps-0.ns.svc.tf.training.com:2222\"],"
        "\"worker\":[\"j-worker-0.ns.svc.tf.training.com:2222\"]},\"task\":{\"type\":\"worker\",\"index\":0},\"environment\":\"cloud\"}"},
    {"chief=1 evaluator=1 ps=1 worker=2", NULL, "", TFJOB_WORKER, 1,
        "{\"cluster\":{\"chief\":[\"j-chief-0.ns.svc:2222\"],\"evaluator\":[\"j-evaluator-0.ns.svc:2222\"],\"ps\":[\"j-ps-0.ns.svc:2222\"],"
        "\"worker\":[\"j-worker-0.ns.svc:2222\",\"j-worker-1.ns.svc:2222\"]},\"task\":{\"type\":\"worker\",\"index\":1},"
        "\"environment\":\"cloud\"}"},
    {"chief=1 worker=1", NULL, "", TFJOB_CHIEF, 0,
        "{\"cluster\":{\"chief\":[\"j-chief-0.ns.svc:2222\"],\"worker\":[\"j-worker-0.ns.svc:2222\"]},"
        "\"task\":{\"type\":\"chief\",\"index\":0},\"environment\":\"cloud\"}"},
    {"master=1 worker=1", NULL, "", TFJOB_MASTER, 0,
        "{\"cluster\":{\"master\":[\"j-master-0.ns.svc:2222\"],\"worker\":[\"j-worker-0.ns.svc:2222\"]},"
        "\"task\":{\"type\":\"master\",\"index\":0},\"environment\":\"cloud\"}"},
    {"worker=2 ps=0", NULL, "", TFJOB_WORKER, 0,
        "{\"cluster\":{\"ps\":[],\"worker\":[\"j-worker-0.ns.svc:2222\",\"j-worker-1.ns.svc:2222\"]},"
        "\"task\":{\"type\":\"worker\",\"index\":0},\"environment\":\"cloud\"}"},
    {"worker=2 ps=1", "{'enableDynamicWorker': true}", "", TFJOB_WORKER, 1,
        "{\"cluster\":{\"worker\":{\"1\":\"j-worker-1.ns.svc:2222\"},\"ps\":[\"j-ps-0.ns.svc:2222\"]},"
        "\"task\":{\"type\":\"worker\",\"index\":1}}"},
    {"worker=2", "{'enableDynamicWorker': true}", "", TFJOB_WORKER, 0,
        "{\"cluster\":{\"worker\":{\"0\":\"j-worker-0.ns.svc:2222\"},\"ps\":null},\"task\":{\"type\":\"worker\",\"index\":0}}"},
    {"worker=2 ps=2", "{'enableDynamicWorker': true}", "", TFJOB_PS, 1,
        "{\"cluster\":{\"worker\":{},\"ps\":[\"j-ps-1.ns.svc:2222\"]},\"task\":{\"type\":\"ps\",\"index\":1}}"},
    {"chief=1 worker=2 ps=2", "{'enableDynamicWorker': true}", "", TFJOB_CHIEF, 0,
        "{\"cluster\":{\"worker\":{},\"ps\":[\"j-ps-0.ns.svc:2222\",\"j-ps-1.ns.svc:2222\"],"
        "\"chief\":[\"j-chief-0.ns.svc:2222\"]},\"task\":{\"type\":\"chief\",\"index\":0}}"},
    {"master=1 worker=2", "{'enableDynamicWorker': true}", "", TFJOB_WORKER, 1,
        "{\"cluster\":{\"worker\":{\"1\":\"j-worker-1.ns.svc:2222\"},\"ps\":[],\"master\":[\"j-master-0.ns.svc:2222\"]},"
        "\"task\":{\"type\":\"worker\",\"index\":1}}"},
    {"chief=1 worker=2 ps=2", "{'enableDynamicWorker': true}", "", TFJOB_PS, 1,
        "{\"cluster\":{\"worker\":{},\"ps\":[\"j-ps-0.ns.svc:2222\",\"j-ps-1.ns.svc:2222\"],"
        "\"chief\":[\"j-chief-0.ns.svc:2222\"]},\"task\":{\"type\":\"ps\",\"index\":1}}"},
};

static void test_tf_config(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
        cleanup_json json_t *cr = fx_job(configs[i].replicas, configs[i].spec);
        struct tfjob j = parsed(cr);
        cleanup_free char *got = tfjob_tf_config(
            &j, configs[i].type, configs[i].index, configs[i].domain);
        if (!configs[i].want)
            assert_null(got);
        else
            assert_string_equal(got, configs[i].want);
    }
}

static json_t *container_of(json_t *cr, const char *type)
{
    json_t *spec = json_object_get(
        json_object_get(json_object_get(cr, "spec"), "tfReplicaSpecs"), type);
    return json_array_get(
        json_object_get(json_object_get(json_object_get(spec, "template"), "spec"), "containers"),
        0);
}

static void test_own_port(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=1 ps=1", NULL);
    json_object_set_new(container_of(cr, "PS"), "ports",
        fx_json(
            "[{'name': 'web', 'containerPort': 80}, {'name': 'tfjob-port', 'containerPort': 3333}]"));
    struct tfjob j = parsed(cr);
    cleanup_free char *got = tfjob_tf_config(&j, TFJOB_PS, 0, "");
    assert_string_equal(got,
        "{\"cluster\":{\"ps\":[\"j-ps-0.ns.svc:3333\"],\"worker\":[\"j-worker-0.ns.svc:2222\"]},"
        "\"task\":{\"type\":\"ps\",\"index\":0},\"environment\":\"cloud\"}");
    cleanup_json json_t *service = tfjob_build_service(&j, TFJOB_PS, 0);
    assert_int_equal(jget_len(service, "spec.ports"), 2);
    cleanup_json json_t *pod = tfjob_build_pod(&nowhere, &j, TFJOB_PS, 0, &(struct tfjob_index){0});
    assert_int_equal(jget_len(pod, "spec.containers[0].ports"), 2);
}

/* ---- pods and services ---- */

static const struct {
    const char *policy, *pod;
} restarts[] = {
    {"ExitCode", "Never"}, {"Never", "Never"}, {"Always", "Always"}, {"OnFailure", "OnFailure"}};

static void test_restart_policy(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(restarts); i++) {
        cleanup_free char *replicas = xasprintf("worker=1:%s", restarts[i].policy);
        cleanup_json json_t *cr = fx_job(replicas, NULL);
        struct tfjob j = parsed(cr);
        cleanup_json json_t *pod = tfjob_build_pod(
            &nowhere, &j, TFJOB_WORKER, 0, &(struct tfjob_index){0});
        assert_string_equal(jget_str(pod, "spec.restartPolicy", ""), restarts[i].pod);
    }
}

static void test_pod(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=2 ps=1", NULL);
    json_t *template = json_object_get(
        json_object_get(json_object_get(json_object_get(cr, "spec"), "tfReplicaSpecs"), "Worker"),
        "template");
    json_object_set_new(template, "metadata",
        fx_json(
            "{'name': 'x', 'labels': {'a': 'b', 'training.kubeflow.org/job-name': 'x'}, 'annotations': {'c': 'd'}}"));
    json_array_append_new(json_object_get(json_object_get(template, "spec"), "containers"),
        fx_json("{'name': 'sidecar', 'image': 'i'}"));
    json_object_set_new(json_object_get(template, "spec"), "volumes",
        fx_json("[{'name': 'v', 'persistentVolumeClaim': {'claimName': 'data'}}]"));
    cleanup_json json_t *before = json_deep_copy(cr);
    struct tfjob j = parsed(cr);
    cleanup_json json_t *pod = tfjob_build_pod(
        &nowhere, &j, TFJOB_WORKER, 0, &(struct tfjob_index){.restarts = 3, .disruptions = 2});
    assert_true(json_equal(cr, before)); /* the job itself is not touched */

    assert_string_equal(jget_str(pod, "metadata.name", ""), "j-worker-0");
    assert_string_equal(jget_str(pod, "metadata.namespace", ""), "ns");
    cleanup_json json_t *labels = fx_json(
        "{'a': 'b', 'training.kubeflow.org/operator-name': 'tfjob-controller', "
        "'training.kubeflow.org/job-name': 'j', 'training.kubeflow.org/replica-type': 'worker', "
        "'training.kubeflow.org/replica-index': '0', 'training.kubeflow.org/job-role': 'master'}");
    assert_true(json_equal(jget(pod, "metadata.labels"), labels));
    cleanup_json json_t *annotations = fx_json(
        "{'c': 'd', 'millrace.dev/restarts': '3', 'millrace.dev/disruptions': '2'}");
    assert_true(json_equal(jget(pod, "metadata.annotations"), annotations));
    cleanup_json json_t *owners = fx_json(
        "[{'apiVersion': 'kubeflow.org/v1', 'kind': 'TFJob', 'name': 'j', 'uid': 'uid-of-j', "
        "'controller': true, 'blockOwnerDeletion': true}]");
    assert_true(json_equal(jget(pod, "metadata.ownerReferences"), owners));
    assert_string_equal(
        jget_str(pod, "spec.volumes[0].persistentVolumeClaim.claimName", ""), "data");
    assert_string_equal(jget_str(pod, "spec.containers[0].env[0].name", ""), "TF_CONFIG");
    assert_int_equal(jget_len(pod, "spec.containers[0].env"), 1);
    assert_null(jget(pod, "spec.containers[1].env"));
    assert_null(jget(pod, "spec.containers[1].ports"));
    cleanup_json json_t *ports = fx_json("[{'name': 'tfjob-port', 'containerPort': 2222}]");
    assert_true(json_equal(jget(pod, "spec.containers[0].ports"), ports));
}

static void test_role(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("chief=1 worker=1", NULL);
    struct tfjob j = parsed(cr);
    cleanup_json json_t *chief = tfjob_build_pod(
                            &nowhere, &j, TFJOB_CHIEF, 0, &(struct tfjob_index){0}),
                        *worker = tfjob_build_pod(
                            &nowhere, &j, TFJOB_WORKER, 0, &(struct tfjob_index){0});
    assert_string_equal(
        jget_str(chief, "metadata.labels.\"training.kubeflow.org/job-role\"", ""), "master");
    assert_null(jget(worker, "metadata.labels.\"training.kubeflow.org/job-role\""));
}

static void test_service(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=1", NULL);
    json_object_set_new(container_of(cr, "Worker"), "ports",
        fx_json(
            "[{'containerPort': 6006}, {'containerPort': 53, 'protocol': 'UDP'}, {'name': 'again', 'containerPort': 6006}]"));
    struct tfjob j = parsed(cr);
    cleanup_json json_t *service = tfjob_build_service(&j, TFJOB_WORKER, 0);
    cleanup_json json_t *want = fx_json(
        "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'j-worker-0', 'namespace': 'ns', 'labels': "
        "{'training.kubeflow.org/operator-name': 'tfjob-controller', 'training.kubeflow.org/job-name': 'j', "
        "'training.kubeflow.org/replica-type': 'worker', 'training.kubeflow.org/replica-index': '0'}, 'ownerReferences': "
        "[{'apiVersion': 'kubeflow.org/v1', 'kind': 'TFJob', 'name': 'j', 'uid': 'uid-of-j', 'controller': true, "
        "'blockOwnerDeletion': true}]}, 'spec': {'clusterIP': 'None', 'publishNotReadyAddresses': true, 'selector': "
        "{'training.kubeflow.org/operator-name': 'tfjob-controller', 'training.kubeflow.org/job-name': 'j', "
        "'training.kubeflow.org/replica-type': 'worker', 'training.kubeflow.org/replica-index': '0'}, 'ports': "
        "[{'name': 'port-6006', 'port': 6006}, {'name': 'port-53-udp', 'port': 53, 'protocol': 'UDP'}, "
        "{'name': 'tfjob-port', 'port': 2222}]}}");
    assert_true(json_equal(service, want));
}

/* ---- status ---- */

static void test_status_round_trip(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_json(
        "{'metadata': {'generation': 3}, 'status': {'observedGeneration': 3, "
        "'conditions': [{'type': 'Created', 'status': 'True', 'reason': 'TFJobCreated', 'message': 'm'}], "
        "'replicaStatuses': {'Worker': {'active': 2, 'failed': 1}, 'PS': {}}, 'indexes': {'Worker': {'completed': '0,2-4,9', "
        "'restarts': {'1': 3, '9': 1}, 'disruptions': {'4': 2}}}, 'startTime': '2026-01-31T12:00:00Z', 'completionTime': '2026-01-31T12:00:01Z', "
        "'lastReconcileTime': '2026-01-31T12:00:02Z'}}");
    cleanup_tfjob_status struct tfjob_status s;
    tfjob_status_read(cr, &s);
    assert_true(tfjob_completed(&s.indexes[TFJOB_WORKER], 3));
    assert_false(tfjob_completed(&s.indexes[TFJOB_WORKER], 1));
    assert_false(tfjob_completed(&s.indexes[TFJOB_WORKER], 100));
    assert_int_equal(tfjob_restarts(&s.indexes[TFJOB_WORKER], 1), 3);
    assert_int_equal(tfjob_index_of(&s.indexes[TFJOB_WORKER], 4).disruptions, 2);
    cleanup_json json_t *again = tfjob_status_json(&s);
    assert_true(json_equal(again, json_object_get(cr, "status")));
}

static void test_status_nonsense(void **state)
{
    (void)state;
    static const char *const nonsense[] = {
        "{'status': 7}",
        "{'status': {'conditions': {}, 'replicaStatuses': [], 'indexes': 'x', 'startTime': 'yesterday'}}",
        "{'status': {'replicaStatuses': {'Worker': 3, 'Nobody': {'active': 1}}, 'indexes': {'Worker': {'completed': '3-1'}}}}",
        "{'status': {'indexes': {'Worker': {'completed': '-1,2'}}}}",
        "{'status': {'indexes': {'Worker': {'completed': '0-99999999999999999999', 'restarts': {'x': 1, '-1': 2, '10000': 3}}}}}",
        "{'status': {'indexes': {'Worker': {'restarts': {'0': -5, '1': 'x'}, 'disruptions': [1]}}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(nonsense); i++) {
        cleanup_json json_t *cr = fx_json(nonsense[i]);
        cleanup_tfjob_status struct tfjob_status s;
        tfjob_status_read(cr, &s);
        cleanup_json json_t *j = tfjob_status_json(&s);
        assert_null(jget(j, "indexes"));
        assert_null(jget(j, "startTime"));
    }
}

/* ---- what the API server refuses ---- */

static void test_refused_by_server(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=2", NULL), *world = fx_world("");
    cleanup_plan struct plan first = PLAN_INIT, then = PLAN_INIT, same = PLAN_INIT;
    fx_reconcile(cr, world);
    cleanup_json json_t *pod = fx_json("{'metadata': {'name': 'j-worker-0', 'namespace': 'ns'}}");
    plan_create(&first, &kube_pods, json_incref(pod));
    struct err why = {ERR_DENIED, 0, "create pods ns/j-worker-0: exceeded quota: q"};
    tfjob_plan_refused(cr, &first.actions[0], &why, 1000000000, &then);
    assert_int_equal(then.n, 2);
    assert_int_equal(then.actions[0].op, PLAN_STATUS);
    assert_int_equal(then.actions[1].op, PLAN_EVENT);
    assert_string_equal(then.actions[1].reason, "FailedCreatePod");
    golden_apply(cr, world, &then, GOLDEN_GONE, SIZE_MAX);
    assert_string_equal(fx_cond_status(cr, "Stalled"), "True");
    tfjob_plan_refused(cr, &first.actions[0], &why, 2000000000, &same);
    assert_int_equal(same.n, 1); /* the event again, the status stays */
    fx_reconcile(cr, world);
    /* the pods are there: no more of that */
    assert_string_equal(fx_cond_status(cr, "Stalled"), "");

    /* a typing error in the template: the field is named */
    cleanup_plan struct plan typed = PLAN_INIT;
    struct err strict = {ERR_INVALID, 0,
        "create pods ns/j-worker-0: strict decoding error: unknown field \"spec.containers[0].resource\""};
    tfjob_plan_refused(cr, &first.actions[0], &strict, 1000000000, &typed);
    golden_apply(cr, world, &typed, GOLDEN_GONE, SIZE_MAX);
    assert_string_equal(cond_reason(jget(cr, "status.conditions"), "Stalled"), "FailedCreatePod");
    assert_non_null(strstr(cond_message(jget(cr, "status.conditions"), "Stalled"),
        "unknown field \"spec.containers[0].resource\""));
    assert_string_equal(typed.actions[1].reason, "FailedCreatePod");

    /* a TensorBoard that cannot be is told, and does not stall the job */
    cleanup_plan struct plan extra = PLAN_INIT, told = PLAN_INIT;
    plan_apply(&extra, &kube_services, json_deep_copy(pod), NULL);
    plan_extra(&extra, 0);
    tfjob_plan_refused(cr, &extra.actions[0], &why, 1000000000, &told);
    assert_int_equal(told.n, 1);
    assert_int_equal(told.actions[0].op, PLAN_EVENT);
    assert_string_equal(told.actions[0].reason, "TensorBoardFailed");

    cleanup_plan struct plan none = PLAN_INIT;
    why.cls = ERR_RETRY;
    tfjob_plan_refused(cr, &first.actions[0], &why, 1000000000, &none);
    assert_int_equal(none.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_managed_by),
        cmocka_unit_test(test_tf_config),
        cmocka_unit_test(test_own_port),
        cmocka_unit_test(test_restart_policy),
        cmocka_unit_test(test_pod),
        cmocka_unit_test(test_role),
        cmocka_unit_test(test_service),
        cmocka_unit_test(test_status_round_trip),
        cmocka_unit_test(test_status_nonsense),
        cmocka_unit_test(test_refused_by_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
