/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset, attach and dataload controllers together, against an API server that keeps objects
 * and pods that answer on addresses of the loopback net: a dataset's whole life. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/serve.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/ctl/manager.h"
#include "operator/dataset/metrics.h"
#include "operator/render/meta.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UID       "11111111-2222-3333-4444-555555555555"
#define PV        "millrace-" UID
#define WORKER_IP "127.94.0.1"
#define CLIENT_IP "127.94.0.2"
#define LOADER_IP "127.94.0.3"
#define OTHER_IP  "127.94.0.4"

static struct fake_api *api;
static struct manager mgr; /* static: what controllers keep stays reachable */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
/* mu: what /status of the pods answers: worker, client, loader, a stranger's pod */
static const char *said[4];
static unsigned asked[4]; /* mu */
static struct http_server *servers[4];

static void on_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)req;
    pthread_mutex_lock(&mu);
    asked[(intptr_t)user]++;
    buf_adds(&resp->body, said[(intptr_t)user]);
    pthread_mutex_unlock(&mu);
}

static void say(int who, const char *json)
{
    pthread_mutex_lock(&mu);
    said[who] = json;
    pthread_mutex_unlock(&mu);
}

static unsigned asked_so_far(int who)
{
    pthread_mutex_lock(&mu);
    unsigned n = asked[who];
    pthread_mutex_unlock(&mu);
    return n;
}

static void serve_at(int who, const char *ip)
{
    struct err e = ERR_INIT;
    cleanup_free char *address = xasprintf("%s:%d", ip, PORT_HTTP);
    const struct serve_route routes[] = {{"GET", "/status", on_status, (void *)(intptr_t)who}};
    const struct serve_conf conf = {
        .address = address, .routes = routes, .nroutes = 1, .max_threads = 4};
    servers[who] = serve_start(&conf, &e);
    if (!servers[who])
        fail_msg("%s", e.msg);
}

/* ---- what other parts of a cluster do ---- */

static void set_status(const struct kube_res *res, const char *key, const char *json)
{
    json_t *o = fake_api_get(api, res, key);
    assert_non_null(o);
    json_t *status = json_loads(json, 0, NULL);
    assert_non_null(status);
    json_object_set_new(o, "status", status);
    fake_api_put(api, res, o);
}

static void pod_runs(const char *key, const char *ip, bool ready)
{
    cleanup_free char *status = xasprintf(
        "{\"phase\":\"Running\",\"podIP\":\"%s\",\"startTime\":\"2026-01-01T00:00:00Z\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"%s\"}],\"containerStatuses\":[{\"name\":\"millrace\",\"restartCount\":0,\"state\":{\"running\":{}}}]}",
        ip, ready ? "True" : "False");
    set_status(&kube_pods, key, status);
}

static bool exists(const struct kube_res *res, const char *key)
{
    cleanup_json json_t *o = fake_api_get(api, res, key);
    return o != NULL;
}

static bool field_is(
    const struct kube_res *res, const char *key, const char *path, const char *want)
{
    cleanup_json json_t *o = fake_api_get(api, res, key);
    return strcmp(jget_str(o, path, ""), want) == 0;
}

static bool dataset_says(const char *type, const char *status, const char *reason)
{
    cleanup_json json_t *o = fake_api_get(api, &kube_datasets, "team/mnist");
    const json_t *c = cond_find(jget_arr(o, "status.conditions"), type);
    return strcmp(jget_str(c, "status", ""), status) == 0
        && strcmp(jget_str(c, "reason", ""), reason) == 0;
}

static void make_dataset(void)
{
    static const char text[] =
        "{\"metadata\":{\"name\":\"mnist\",\"namespace\":\"team\",\"uid\":\"" UID
        "\",\"generation\":1},\"spec\":{\"mounts\":["
        "{\"mountPoint\":\"s3://digits\"}],\"accessModes\":[\"ReadWriteMany\"],\"cache\":{\"replicas\":1}}}";
    fake_api_put(api, &kube_datasets, json_loads(text, 0, NULL));
}

static void attach(const char *node)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"csi-%s\"},\"spec\":{\"attacher\":\"" NAME_DRIVER
        "\",\"nodeName\":\"%s\",\"source\":{"
        "\"persistentVolumeName\":\"" PV "\"}},\"status\":{\"attached\":false}}",
        node, node);
    fake_api_put(api, &kube_volumeattachments, json_loads(text, 0, NULL));
}

static void bind_claim(void) { set_status(&kube_pvcs, "team/mnist", "{\"phase\":\"Bound\"}"); }

/* ---- life ---- */

static const struct sign_key master = {"of which those of Datasets come"};

static int start(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    api = fake_api_start();
    say(0, "{}");
    say(1, "{}");
    say(2, "{}");
    serve_at(0, WORKER_IP);
    serve_at(1, CLIENT_IP);
    serve_at(2, LOADER_IP);
    say(3, "{}");
    serve_at(3, OTHER_IP);
    mgr = (struct manager){.workers = 2,
        .image = "localhost/millrace:1",
        .pull_policy = "",
        .pull_secrets = "",
        .master = &master,
        .ns = "millrace"};
    mgr.kube = mgr.apply.kube = fake_api_client(api);
    mgr.events = mgr.apply.events = events_new(mgr.kube, "millrace-operator", "test-0");
    mgr.apply.kube = mgr.kube;
    if (dataset_controller_start(&mgr, &e) || attach_controller_start(&mgr, &e)
        || dataload_controller_start(&mgr, &e))
        fail_msg("%s", e.msg);
    size_t next = 0;
    assert_int_equal(manager_start(&mgr, &e), 0);
    eventually((next = 0, !manager_unsynced(&mgr, &next, &e)));
    assert_int_equal(manager_lead(&mgr, &e), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    manager_stop_leading(&mgr);
    events_free(mgr.events);
    manager_close(&mgr);
    kube_free(mgr.kube);
    for (size_t i = 0; i < ARRAY_LEN(servers); i++)
        serve_stop(servers[i]);
    fake_api_stop(api);
    return 0;
}

#define DENIED                                                                                                                     \
    "{\"ready\":false,\"reason\":\"AccessDenied\",\"message\":\"no\",\"mounts\":[{\"mountPoint\":\"s3://digits\",\"ready\":false," \
    "\"reason\":\"AccessDenied\",\"message\":\"403 AccessDenied: check the keys\"}]}"
#define FINE                                                                                                                          \
    "{\"ready\":true,\"reason\":\"\",\"mounts\":[{\"mountPoint\":\"s3://digits\",\"ready\":true,\"reason\":\"\"}],"                   \
    "\"cache\":{\"usedBytes\":1048576,\"capacityBytes\":2097152},\"reads\":{\"cacheBytes\":70,\"workerBytes\":20,\"storeBytes\":10}," \
    "\"ufs\":{\"bytes\":4194304,\"files\":12,\"complete\":true}}"

static bool measured(const char *line)
{
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    dataset_metrics(&mgr, &out);
    return strstr(buf_str(&out), line);
}

static void test_becomes_ready(void **state)
{
    (void)state;
    make_dataset();
    eventually(exists(&kube_pvs, PV) && exists(&kube_pvcs, "team/mnist")
        && exists(&kube_services, "team/mnist-cache") && exists(&kube_pods, "team/mnist-cache-0"));
    eventually(dataset_says("Ready", "False", "VolumeNotBound"));
    bind_claim();
    say(0, DENIED);
    pod_runs("team/mnist-cache-0", WORKER_IP, false);
    eventually(dataset_says("Ready", "False", "AccessDenied"));
    eventually(field_is(&kube_datasets, "team/mnist", "status.phase", "Failed"));
    eventually(fake_api_count(api, "POST", "/namespaces/team/events") > 0);

    say(0, FINE);
    pod_runs("team/mnist-cache-0", WORKER_IP, true);
    eventually(dataset_says("Ready", "True", "Ready"));
    eventually(field_is(&kube_datasets, "team/mnist", "status.phase", "Bound"));
    eventually(field_is(&kube_datasets, "team/mnist", "status.ufsTotal", "4.00MiB"));
    eventually(
        field_is(&kube_datasets, "team/mnist", "status.cacheStates.cachedPercentage", "25.0%"));
    static const char *const lines[] = {
        "\nmillrace_dataset_condition{dataset_namespace=\"team\",dataset=\"mnist\",type=\"Ready\",reason=\"Ready\"} 1\n",
        "# TYPE millrace_dataset_size_bytes gauge\nmillrace_dataset_size_bytes{dataset_namespace=\"team\",dataset=\"mnist\"} 4194304\n",
        "\nmillrace_dataset_files{dataset_namespace=\"team\",dataset=\"mnist\"} 12\n",
        "\nmillrace_dataset_cached_bytes{dataset_namespace=\"team\",dataset=\"mnist\"} 1048576\n",
        "\nmillrace_dataset_cache_capacity_bytes{dataset_namespace=\"team\",dataset=\"mnist\"} 2097152\n",
        "\nmillrace_dataset_pending_files{dataset_namespace=\"team\",dataset=\"mnist\"} 0\n"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        eventually(measured(lines[i])); /* counted when the informer has seen what was written */
}

static bool attached(const char *va)
{
    cleanup_json json_t *o = fake_api_get(api, &kube_volumeattachments, va);
    return jget_bool(o, "status.attached", false);
}

static bool attach_error_has(const char *va, const char *text)
{
    cleanup_json json_t *o = fake_api_get(api, &kube_volumeattachments, va);
    return strstr(jget_str(o, "status.attachError.message", ""), text) != NULL;
}

static char *client_key(const char *node)
{
    cleanup_free char *name = render_client_name("mnist", node);
    return kube_key("team", name);
}

static void test_attaches(void **state)
{
    (void)state;
    cleanup_free char *client = client_key("n1");
    attach("n1");
    eventually(exists(&kube_pods, client));
    say(1, DENIED);
    pod_runs(client, CLIENT_IP, false);
    eventually(field_is(&kube_volumeattachments, "csi-n1", "status.attachError.message",
        "dataset team/mnist: s3://digits: 403 AccessDenied: check the keys"));
    eventually(dataset_says("ClientsReady", "False", "AccessDenied"));
    say(1, FINE);
    pod_runs(client, CLIENT_IP, true);
    eventually(dataset_says("ClientsReady", "True", "AllReady"));
    eventually(attached("csi-n1"));
    cleanup_json json_t *va = fake_api_get(api, &kube_volumeattachments, "csi-n1");
    assert_null(jget(va, "status.attachError"));
    eventually(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"cache\"} 70\n"));
    assert_true(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"worker\"} 20\n"));
    /* of the client and of the worker */
    assert_true(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"store\"} 20\n"));
    eventually(field_is(&kube_datasets, "team/mnist", "status.cacheStates.cacheHitRatio", "90.0%"));

    fake_api_remove(api, &kube_volumeattachments, "csi-n1");
    eventually(!exists(&kube_pods, client));
    eventually(dataset_says("ClientsReady", "True", "None"));
    /* what it had counted stays counted */
    assert_true(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"cache\"} 70\n"));
    eventually(field_is(&kube_datasets, "team/mnist", "status.cacheStates.cacheHitRatio", "90.0%"));
}

/* A quota of Secrets keeps the client from being made: who waits for the volume is told. */
static void test_no_secret(void **state)
{
    (void)state;
    cleanup_free char *client = client_key("n4");
    const struct fake_fault fault = {.method = "POST",
        .in = "/namespaces/team/secrets",
        .times = UINT_MAX,
        .kind = FAULT_STATUS,
        .status = 403,
        .body =
            "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"exceeded quota: secrets\"}"};
    fake_api_fault(api, &fault);
    attach("n4");
    eventually(attach_error_has("csi-n4", "exceeded quota: secrets"));
    assert_false(exists(&kube_pods, client));
    fake_api_mend(api);
    fake_api_remove(api, &kube_volumeattachments, "csi-n4");
    attach("n4");
    eventually(exists(&kube_pods, client));
    assert_true(exists(&kube_secrets, "team/millrace-key-" UID));
    fake_api_remove(api, &kube_volumeattachments, "csi-n4");
    eventually(!exists(&kube_pods, client));
}

/* Anybody may make a pod with our labels, of the very name, in a namespace of his own. */
static void test_foreign_pod(void **state)
{
    (void)state;
    cleanup_free char *client = client_key("n3"), *name = render_client_name("mnist", "n3"),
                      *foreign = kube_key("mallory", name);
    json_t *pod = json_pack("{s:{s:s, s:s, s:{s:s, s:s, s:s, s:s}}, s:{s:s}}", "metadata", "name",
        name, "namespace", "mallory", "labels", LABEL_MANAGED_BY, NAME_FIELD_MANAGER,
        LABEL_COMPONENT, COMPONENT_CLIENT, LABEL_DATASET, "mnist", LABEL_DATASET_UID, UID, "spec",
        "nodeName", "n3");
    assert_non_null(pod);
    fake_api_put(api, &kube_pods, pod);
    pod_runs(foreign, OTHER_IP, true);
    attach("n3");
    eventually(exists(&kube_pods, client));
    assert_true(exists(&kube_pods, foreign));
    assert_false(attached("csi-n3"));
    say(1, FINE);
    pod_runs(client, CLIENT_IP, true);
    eventually(attached("csi-n3"));
    pthread_mutex_lock(&mu);
    unsigned n = asked[3];
    pthread_mutex_unlock(&mu);
    assert_int_equal(n, 0);
    fake_api_remove(api, &kube_volumeattachments, "csi-n3");
    eventually(!exists(&kube_pods, client));
    assert_true(exists(&kube_pods, foreign)); /* nor is it ours to delete */
    fake_api_remove(api, &kube_pods, foreign);
}

/* Pods that take connections and say nothing do not keep us from those that answer. */
static void test_silent_pods(void **state)
{
    (void)state;
    enum { SILENT = 24, ASKED = 8 };
    int listeners[SILENT];
    unsigned first = asked_so_far(0);
    say(0, "{}"); /* not ready: asked again soon */
    eventually(asked_so_far(0) >= first + 2);
    for (int i = 0; i < SILENT; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET,
            .sin_port = htons(PORT_HTTP),
            .sin_addr = {htonl(0x7f5e0101 + (uint32_t)i)}}; /* 127.94.1.1 … */
        listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(listeners[i], (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(listen(listeners[i], 100), 0);
        cleanup_free char *pod = xasprintf(
            "{\"metadata\":{\"name\":\"silent-%d\",\"namespace\":\"team\",\"uid\":\"silent-%d\",\"labels\":{\"" LABEL_MANAGED_BY
            "\":\"" NAME_FIELD_MANAGER "\",\"" LABEL_COMPONENT "\":\"loader\",\"" LABEL_DATASET_UID
            "\":\"" UID "\"}},\"status\":{\"phase\":\"Running\",\"podIP\":\"127.94.1.%d\"}}",
            i, i, i + 1);
        fake_api_put(api, &kube_pods, json_loads(pod, 0, NULL));
    }
    unsigned before = asked_so_far(0), questions = 0;
    eventually(asked_so_far(0) >= before + ASKED);
    for (int i = 0; i < SILENT; i++) {
        for (int fd; (fd = accept(listeners[i], NULL, NULL)) >= 0; questions++)
            close(fd);
        close(listeners[i]);
        cleanup_free char *key = xasprintf("team/silent-%d", i);
        fake_api_remove(api, &kube_pods, key);
    }
    assert_true(questions >= SILENT);
    if (questions > SILENT * ASKED * 3 / 4) /* else each of them is asked as often as who answers */
        fail_msg("%u questions to those who say nothing, %d to who answers", questions, ASKED);
    say(0, FINE);
}

static void test_loads(void **state)
{
    (void)state;
    static const char text[] =
        "{\"metadata\":{\"name\":\"warm\",\"namespace\":\"team\",\"generation\":1},\"spec\":{\"dataset\":{\"name\":\"mnist\"}}}";
    fake_api_put(api, &kube_dataloads, json_loads(text, 0, NULL));
    eventually(exists(&kube_pods, "team/warm-loader"));
    say(2,
        "{\"ready\":true,\"load\":{\"files\":10,\"bytes\":1000,\"loadedFiles\":4,\"loadedBytes\":400,\"failedFiles\":0}}");
    pod_runs("team/warm-loader", LOADER_IP, true);
    eventually(field_is(&kube_dataloads, "team/warm", "status.phase", "Executing"));
    eventually(field_is(&kube_dataloads, "team/warm", "status.progress.percentage", "40.0%"));
    set_status(&kube_pods, "team/warm-loader",
        "{\"phase\":\"Succeeded\",\"containerStatuses\":[{\"name\":\"millrace\",\"restartCount\":0,"
        "\"state\":{\"terminated\":{\"exitCode\":0,\"message\":\"{\\\"load\\\":{\\\"files\\\":10,\\\"bytes\\\":1000,\\"
        "\"loadedFiles\\\":10,\\\"loadedBytes\\\":1000}}\\nloaded 10 files\"}}}]}");
    eventually(field_is(&kube_dataloads, "team/warm", "status.phase", "Complete"));
    eventually(field_is(&kube_dataloads, "team/warm", "status.progress.percentage", "100.0%"));
    fake_api_remove(api, &kube_dataloads, "team/warm");
    fake_api_remove(api, &kube_pods, "team/warm-loader");
}

/* The server says no: the words are in the condition, and the next change of mind is noticed. */
static void test_refused(void **state)
{
    (void)state;
    const struct fake_fault fault = {.method = "POST",
        .in = "/namespaces/team/pods",
        .times = UINT_MAX,
        .kind = FAULT_STATUS,
        .status = 403,
        .body =
            "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"exceeded quota: small\"}"};
    fake_api_fault(api, &fault);
    fake_api_remove(api, &kube_pods, "team/mnist-cache-0");
    eventually(dataset_says("Ready", "False", "ApplyFailed"));
    cleanup_json json_t *o = fake_api_get(api, &kube_datasets, "team/mnist");
    assert_non_null(
        strstr(cond_message(jget_arr(o, "status.conditions"), "Ready"), "exceeded quota"));
    fake_api_mend(api);
    json_t *touched = json_deep_copy(o);
    json_object_set_new(
        json_object_get(touched, "metadata"), "labels", json_pack("{s:s}", "touched", "yes"));
    fake_api_put(api, &kube_datasets, touched);
    eventually(exists(&kube_pods, "team/mnist-cache-0"));
    pod_runs("team/mnist-cache-0", WORKER_IP, true);
    eventually(dataset_says("Ready", "True", "Ready"));
}

/* Nothing is left, and not before the pod that uses the volume has ended. */
static void test_goes(void **state)
{
    (void)state;
    static const char user[] =
        "{\"metadata\":{\"name\":\"reader\",\"namespace\":\"team\"},\"spec\":{\"volumes\":[{\"name\":\"d\","
        "\"persistentVolumeClaim\":{\"claimName\":\"mnist\"}}]},\"status\":{\"phase\":\"Running\"}}";
    struct err e = ERR_INIT;
    cleanup_free char *client = client_key("n2");
    fake_api_put(api, &kube_pods, json_loads(user, 0, NULL));
    attach("n2");
    eventually(exists(&kube_pods, client));
    json_t *pvc = fake_api_get(api, &kube_pvcs, "team/mnist");
    json_object_set_new(json_object_get(pvc, "metadata"), "finalizers",
        json_pack("[s]", "kubernetes.io/pvc-protection"));
    fake_api_put(api, &kube_pvcs, pvc);
    assert_int_equal(kube_delete(mgr.kube, &kube_datasets, "team", "mnist",
                         &(struct kube_delete)KUBE_DELETE_INIT, NULL, &e),
        0);
    eventually(dataset_says("Ready", "False", "InUse"));
    eventually(field_is(&kube_datasets, "team/mnist", "status.phase", "Deleting"));
    cleanup_json json_t *o = fake_api_get(api, &kube_datasets, "team/mnist");
    assert_non_null(strstr(cond_message(jget_arr(o, "status.conditions"), "Ready"), "reader"));
    assert_true(exists(&kube_pvs, PV) && exists(&kube_pods, "team/mnist-cache-0")
        && exists(&kube_pods, client));

    fake_api_remove(api, &kube_pods, "team/reader");
    fake_api_remove(api, &kube_volumeattachments, "csi-n2");
    fake_api_remove(api, &kube_pvcs, "team/mnist");
    eventually(!exists(&kube_datasets, "team/mnist"));
    assert_false(exists(&kube_pvs, PV));
    assert_false(exists(&kube_services, "team/mnist-cache"));
    assert_int_equal(fake_api_len(api, &kube_pods), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_becomes_ready),
        cmocka_unit_test(test_attaches),
        cmocka_unit_test(test_no_secret),
        cmocka_unit_test(test_foreign_pod),
        cmocka_unit_test(test_silent_pods),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_goes),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests_name("dataset_controller", tests, start, stop);
}
