/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset, attach and dataload controllers together, against an API server that keeps objects
 * and pods that answer on addresses of the loopback net: a dataset's whole life. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/dataset/metrics.h"
#include "operator/render/meta.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"
#include "tests/unit/operator/dataset/dataset_fixture.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    dataset_metrics(&dx_mgr, &out);
    return strstr(buf_str(&out), line);
}

static void test_becomes_ready(void **state)
{
    (void)state;
    dx_make_dataset();
    eventually(dx_exists(&kube_pvs, PV) && dx_exists(&kube_pvcs, "team/mnist")
        && dx_exists(&kube_services, "team/mnist-cache")
        && dx_exists(&kube_pods, "team/mnist-cache-0"));
    eventually(dx_dataset_says("Ready", "False", "VolumeNotBound"));
    dx_bind_claim();
    dx_say(0, DENIED);
    dx_pod_runs("team/mnist-cache-0", WORKER_IP, false);
    eventually(dx_dataset_says("Ready", "False", "AccessDenied"));
    eventually(dx_field_is(&kube_datasets, "team/mnist", "status.phase", "Failed"));
    eventually(fake_api_count(dx_api, "POST", "/namespaces/team/events") > 0);

    dx_say(0, FINE);
    dx_pod_runs("team/mnist-cache-0", WORKER_IP, true);
    eventually(dx_dataset_says("Ready", "True", "Ready"));
    eventually(dx_field_is(&kube_datasets, "team/mnist", "status.phase", "Bound"));
    eventually(dx_field_is(&kube_datasets, "team/mnist", "status.ufsTotal", "4.00MiB"));
    eventually(
        dx_field_is(&kube_datasets, "team/mnist", "status.cacheStates.cachedPercentage", "25.0%"));
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
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_volumeattachments, va);
    return jget_bool(o, "status.attached", false);
}

static bool attach_error_has(const char *va, const char *text)
{
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_volumeattachments, va);
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
    dx_attach("n1");
    eventually(dx_exists(&kube_pods, client));
    dx_say(1, DENIED);
    dx_pod_runs(client, CLIENT_IP, false);
    eventually(dx_field_is(&kube_volumeattachments, "csi-n1", "status.attachError.message",
        "dataset team/mnist: s3://digits: 403 AccessDenied: check the keys"));
    eventually(dx_dataset_says("ClientsReady", "False", "AccessDenied"));
    dx_say(1, FINE);
    dx_pod_runs(client, CLIENT_IP, true);
    eventually(dx_dataset_says("ClientsReady", "True", "AllReady"));
    eventually(attached("csi-n1"));
    cleanup_json json_t *va = fake_api_get(dx_api, &kube_volumeattachments, "csi-n1");
    assert_null(jget(va, "status.attachError"));
    eventually(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"cache\"} 70\n"));
    assert_true(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"worker\"} 20\n"));
    /* of the client and of the worker */
    assert_true(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"store\"} 20\n"));
    eventually(
        dx_field_is(&kube_datasets, "team/mnist", "status.cacheStates.cacheHitRatio", "90.0%"));

    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n1");
    eventually(!dx_exists(&kube_pods, client));
    eventually(dx_dataset_says("ClientsReady", "True", "None"));
    /* what it had counted stays counted */
    assert_true(measured(
        "\nmillrace_dataset_read_bytes_total{dataset_namespace=\"team\",dataset=\"mnist\",from=\"cache\"} 70\n"));
    eventually(
        dx_field_is(&kube_datasets, "team/mnist", "status.cacheStates.cacheHitRatio", "90.0%"));
}

/* A pod that reads all the time has other counters each time it is asked: they are written twice a
 * minute at most. */
static void test_busy(void **state)
{
    (void)state;
    enum { TIMES = 20 };
    static char reports[TIMES][sizeof FINE + 64];
    int64_t begun = clock_mono_ns();
    fake_api_forget(dx_api);
    for (int i = 0; i < TIMES; i++) {
        snprintf(reports[i], sizeof reports[i], "{\"upMs\":%d,\"index\":{\"inodes\":%d},%s", i, i,
            &FINE[1]);
        char *used = strstr(reports[i], "1048576");
        memcpy(used, &(char[]){(char)('2' + i % 8), '0'}, 2);
        dx_say(0, reports[i]);
        unsigned before = dx_asked_so_far(0);
        dx_pod_runs("team/mnist-cache-0", WORKER_IP, true);
        eventually(dx_asked_so_far(0) > before);
    }
    unsigned most = 1 + (unsigned)((clock_mono_ns() - begun) / (30 * NS_PER_S)) + 1;
    assert_in_range(fake_api_count(dx_api, "PATCH", "/datasets/mnist/status"), 1, most);
    dx_say(0, FINE);
}

/* A policy on Secrets keeps the client from being made: who waits for the volume is told. (A quota
 * would say nothing of a Secret that was made before.) */
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
            "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"no secrets here\"}"};
    fake_api_fault(dx_api, &fault);
    dx_attach("n4");
    eventually(attach_error_has("csi-n4", "no secrets here"));
    assert_false(dx_exists(&kube_pods, client));
    fake_api_mend(dx_api);
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n4");
    dx_attach("n4");
    eventually(dx_exists(&kube_pods, client));
    assert_true(dx_has_key());
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n4");
    eventually(!dx_exists(&kube_pods, client));
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
    fake_api_put(dx_api, &kube_pods, pod);
    dx_pod_runs(foreign, OTHER_IP, true);
    dx_attach("n3");
    eventually(dx_exists(&kube_pods, client));
    assert_true(dx_exists(&kube_pods, foreign));
    assert_false(attached("csi-n3"));
    dx_say(1, FINE);
    dx_pod_runs(client, CLIENT_IP, true);
    eventually(attached("csi-n3"));
    assert_int_equal(dx_asked_so_far(3), 0);
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n3");
    eventually(!dx_exists(&kube_pods, client));
    assert_true(dx_exists(&kube_pods, foreign)); /* nor is it ours to delete */
    fake_api_remove(dx_api, &kube_pods, foreign);
}

/* Nor do pods of its own namespace count that another owner, or nobody, has made; what has the name
 * of one of ours is told, and not before it goes is ours made. */
static void test_name_taken(void **state)
{
    (void)state;
    cleanup_free char *client = client_key("n5"), *name = render_client_name("mnist", "n5");
    json_t *pod = json_pack("{s:{s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:[{s:s, s:s, s:s, s:b}]}}",
        "metadata", "name", name, "namespace", "team", "labels", LABEL_MANAGED_BY,
        NAME_FIELD_MANAGER, LABEL_COMPONENT, COMPONENT_CLIENT, LABEL_DATASET, "mnist",
        LABEL_DATASET_UID, UID, "ownerReferences", "kind", "Dataset", "name", "mnist", "uid",
        "of-an-earlier-one", "controller", 1);
    assert_non_null(pod);
    fake_api_put(dx_api, &kube_pods, pod);
    dx_pod_runs(client, OTHER_IP, true);
    dx_attach("n5");
    eventually(attach_error_has("csi-n5", "belongs to somebody else"));
    assert_false(attached("csi-n5"));
    assert_int_equal(dx_asked_so_far(3), 0);
    assert_true(dx_exists(&kube_pods, client));
    fake_api_remove(dx_api, &kube_pods, client);
    eventually(dx_exists(&kube_pods, client)); /* nothing wakes us but time */
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n5");
    eventually(!dx_exists(&kube_pods, client));
}

/* Pods that take connections and say nothing do not keep us from those that answer. */
static void test_silent_pods(void **state)
{
    (void)state;
    enum { SILENT = 24, ASKED = 8 };
    int listeners[SILENT];
    unsigned first = dx_asked_so_far(0);
    dx_say(0, "{}"); /* not ready: asked again soon */
    eventually(dx_asked_so_far(0) >= first + 2);
    for (int i = 0; i < SILENT; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET,
            .sin_port = htons(PORT_HTTP),
            .sin_addr = {inet_addr(dx_ip(4 + i))}};
        listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(listeners[i], (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(listen(listeners[i], 100), 0);
        cleanup_free char *pod = xasprintf(
            "{\"metadata\":{\"name\":\"silent-%d\",\"namespace\":\"team\",\"uid\":\"silent-%d\",\"labels\":{\"" LABEL_MANAGED_BY
            "\":\"" NAME_FIELD_MANAGER "\",\"" LABEL_COMPONENT "\":\"loader\",\"" LABEL_DATALOAD
            "\":\"some\",\"" LABEL_DATASET_UID "\":\"" UID
            "\"},\"ownerReferences\":[{\"kind\":\"DataLoad\",\"name\":\"some\",\"uid\":\"u\",\"controller\":true}]},"
            "\"status\":{\"phase\":\"Running\",\"podIP\":\"%s\"}}",
            i, i, dx_ip(4 + i));
        fake_api_put(dx_api, &kube_pods, json_loads(pod, 0, NULL));
    }
    unsigned before = dx_asked_so_far(0), questions = 0;
    eventually(dx_asked_so_far(0) >= before + ASKED);
    for (int i = 0; i < SILENT; i++) {
        for (int fd; (fd = accept(listeners[i], NULL, NULL)) >= 0; questions++)
            close(fd);
        close(listeners[i]);
        cleanup_free char *key = xasprintf("team/silent-%d", i);
        fake_api_remove(dx_api, &kube_pods, key);
    }
    assert_true(questions >= SILENT);
    if (questions > SILENT * ASKED * 3 / 4) /* else each of them is asked as often as who answers */
        fail_msg("%u questions to those who say nothing, %d to who answers", questions, ASKED);
    dx_say(0, FINE);
}

static void test_loads(void **state)
{
    (void)state;
    dx_put_load("warm");
    eventually(dx_exists(&kube_pods, "team/warm-loader"));
    dx_say(2,
        "{\"ready\":true,\"load\":{\"files\":10,\"bytes\":1000,\"loadedFiles\":4,\"loadedBytes\":400,\"failedFiles\":0}}");
    dx_pod_runs("team/warm-loader", LOADER_IP, true);
    eventually(dx_field_is(&kube_dataloads, "team/warm", "status.phase", "Executing"));
    eventually(dx_field_is(&kube_dataloads, "team/warm", "status.progress.percentage", "40.0%"));
    dx_set_status(&kube_pods, "team/warm-loader",
        "{\"phase\":\"Succeeded\",\"containerStatuses\":[{\"name\":\"millrace\",\"restartCount\":0,"
        "\"state\":{\"terminated\":{\"exitCode\":0,\"message\":\"{\\\"load\\\":{\\\"files\\\":10,\\\"bytes\\\":1000,\\"
        "\"loadedFiles\\\":10,\\\"loadedBytes\\\":1000}}\\nloaded 10 files\"}}}]}");
    eventually(dx_field_is(&kube_dataloads, "team/warm", "status.phase", "Complete"));
    eventually(dx_field_is(&kube_dataloads, "team/warm", "status.progress.percentage", "100.0%"));
    fake_api_remove(dx_api, &kube_dataloads, "team/warm");
    fake_api_remove(dx_api, &kube_pods, "team/warm-loader");
}

static json_t *with_priority(int generation, const char *component, const char *class)
{
    json_t *o = fake_api_get(dx_api, &kube_datasets, "team/mnist"),
           *cache = json_object_get(json_object_get(o, "spec"), "cache");
    json_object_set_new(json_object_get(o, "metadata"), "generation", json_integer(generation));
    json_object_set_new(
        cache, component, class ? json_pack("{s:s}", "priorityClassName", class) : json_object());
    return o;
}

static bool says_in(const char *type, const char *words)
{
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_datasets, "team/mnist");
    return strstr(cond_message(jget_arr(o, "status.conditions"), type), words) != NULL;
}

/* Successors that the server would refuse: what serves goes on, and the conditions say why. */
static void test_no_successor(void **state)
{
    (void)state;
    static const char node[] =
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}";
    const struct fake_fault fault = {.method = "POST",
        .in = "dryRun=All",
        .times = UINT_MAX,
        .kind = FAULT_STATUS,
        .status = 403,
        .body =
            "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"no PriorityClass with name nope was found\"}"};
    cleanup_free char *client = client_key("n1");
    fake_api_put(dx_api, &kube_nodes, json_loads(node, 0, NULL));
    dx_attach("n1");
    eventually(dx_exists(&kube_pods, client));
    dx_pod_runs(client, CLIENT_IP, true);
    eventually(attached("csi-n1"));
    cleanup_json json_t *worker_was = fake_api_get(dx_api, &kube_pods, "team/mnist-cache-0"),
                        *client_was = fake_api_get(dx_api, &kube_pods, client);
    fake_api_fault(dx_api, &fault);
    fake_api_forget(dx_api);
    fake_api_put(dx_api, &kube_datasets, with_priority(2, "client", "nope"));
    eventually(dx_dataset_says("ClientsReady", "False", "ApplyFailed"));
    assert_true(says_in("ClientsReady", ": correct spec.cache.client.priorityClassName"));
    eventually(fake_api_count(dx_api, "POST", "/namespaces/team/events") >= 1);
    fake_api_put(dx_api, &kube_datasets, with_priority(3, "worker", "nope"));
    eventually(dx_dataset_says("WorkersReady", "False", "ApplyFailed"));
    assert_true(says_in("WorkersReady", ": correct spec.cache.worker.priorityClassName"));
    assert_true(dx_dataset_says("Ready", "True", "Ready"));
    assert_int_equal(fake_api_count(dx_api, "DELETE", "/pods/"), 0);
    assert_true(dx_field_is(&kube_pods, "team/mnist-cache-0", "metadata.uid",
        jget_str(worker_was, "metadata.uid", "")));
    assert_true(
        dx_field_is(&kube_pods, client, "metadata.uid", jget_str(client_was, "metadata.uid", "")));
    fake_api_mend(dx_api);
    fake_api_put(dx_api, &kube_datasets, with_priority(4, "client", NULL));
    fake_api_put(dx_api, &kube_datasets, with_priority(5, "worker", NULL));
    eventually(dx_dataset_says("WorkersReady", "True", "AllReady"));
    eventually(dx_dataset_says("ClientsReady", "True", "AllReady"));
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n1");
    eventually(!dx_exists(&kube_pods, client));
    fake_api_remove(dx_api, &kube_nodes, "n1");
}

/* The namespace's quota is used up. */
static const struct fake_fault no_pods = {.method = "POST",
    .in = "/namespaces/team/pods",
    .times = UINT_MAX,
    .kind = FAULT_STATUS,
    .status = 403,
    .body =
        "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"exceeded quota: small\"}"};

/* The server says no: the words are in the condition, and the next change of mind is noticed. */
static void test_refused(void **state)
{
    (void)state;
    static const char stranger[] =
        "{\"metadata\":{\"name\":\"mnist-cache-0\",\"namespace\":\"team\",\"uid\":\"x\"}}";
    fake_api_fault(dx_api, &no_pods);
    fake_api_remove(dx_api, &kube_pods, "team/mnist-cache-0");
    eventually(dx_dataset_says("Ready", "False", "ApplyFailed"));
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_datasets, "team/mnist");
    assert_non_null(
        strstr(cond_message(jget_arr(o, "status.conditions"), "Ready"), "exceeded quota"));
    fake_api_mend(dx_api);
    fake_api_put(dx_api, &kube_pods, json_loads(stranger, 0, NULL));
    fake_api_put(dx_api, &kube_datasets, json_deep_copy(o));
    eventually(dx_dataset_says("Ready", "False", "NameTaken"));
    fake_api_remove(dx_api, &kube_pods, "team/mnist-cache-0");
    json_t *touched = json_deep_copy(o);
    json_object_set_new(
        json_object_get(touched, "metadata"), "labels", json_pack("{s:s}", "touched", "yes"));
    fake_api_put(dx_api, &kube_datasets, touched);
    eventually(dx_exists(&kube_pods, "team/mnist-cache-0"));
    dx_pod_runs("team/mnist-cache-0", WORKER_IP, true);
    eventually(dx_dataset_says("Ready", "True", "Ready"));
}

/* A further worker, and the pod that preloads, are refused: what serves goes on, Ready stays. */
static void test_further_refused(void **state)
{
    (void)state;
    cleanup_json json_t *was = fake_api_get(dx_api, &kube_datasets, "team/mnist"),
                        *more = json_deep_copy(was);
    json_t *cache = json_object_get(json_object_get(more, "spec"), "cache");
    fake_api_fault(dx_api, &no_pods);
    json_object_set_new(cache, "replicas", json_integer(2));
    json_object_set_new(json_object_get(more, "metadata"), "generation", json_integer(20));
    fake_api_put(dx_api, &kube_datasets, json_deep_copy(more));
    eventually(dx_dataset_says("WorkersReady", "False", "ApplyFailed"));
    assert_true(says_in("WorkersReady", "1 of 2 cache workers are ready: "));
    assert_true(says_in("WorkersReady", "exceeded quota: small"));
    assert_true(dx_dataset_says("Ready", "True", "Ready"));
    size_t asked = fake_api_count(dx_api, "POST", "/namespaces/team/pods");
    clock_sleep_ns(2 * NS_PER_S); /* a turn follows the status that it writes */
    assert_true(fake_api_count(dx_api, "POST", "/namespaces/team/pods") <= asked + 1);
    json_object_set_new(cache, "replicas", json_integer(1));
    json_object_set_new(cache, "preload", json_pack("[{s:s}]", "path", "/mnist"));
    json_object_set_new(json_object_get(more, "metadata"), "generation", json_integer(21));
    fake_api_put(dx_api, &kube_datasets, json_deep_copy(more));
    eventually(dx_dataset_says("Preloaded", "False", "ApplyFailed"));
    assert_true(dx_dataset_says("WorkersReady", "True", "AllReady"));
    assert_true(dx_dataset_says("Ready", "True", "Ready"));
    fake_api_mend(dx_api);
    json_object_set_new(json_object_get(was, "metadata"), "generation", json_integer(22));
    fake_api_put(dx_api, &kube_datasets, json_deep_copy(was));
    eventually(dx_dataset_says("Ready", "True", "Ready"));
}

/* The loader's pod is refused, or its name is a stranger's: the DataLoad says so, and goes on when
 * that is over. */
static void test_loader_refused(void **state)
{
    (void)state;
    fake_api_fault(dx_api, &no_pods);
    dx_put_load("big");
    eventually(dx_load_says("team/big", "ApplyFailed", "exceeded quota: small"));
    fake_api_mend(dx_api);
    fake_api_remove(dx_api, &kube_dataloads, "team/big");
    fake_api_put(dx_api, &kube_pods,
        json_pack("{s:{s:s, s:s, s:s}}", "metadata", "name", "own-loader", "namespace", "team",
            "uid", "x"));
    dx_put_load("own");
    eventually(dx_load_says("team/own", "NameTaken", "or give the DataLoad another name"));
    fake_api_remove(dx_api, &kube_pods, "team/own-loader");
    eventually(dx_field_is(
        &kube_pods, "team/own-loader", "metadata.ownerReferences[0].uid", "uid-of-own"));
    fake_api_remove(dx_api, &kube_dataloads, "team/own");
    fake_api_remove(dx_api, &kube_pods, "team/own-loader");
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
    fake_api_put(dx_api, &kube_pods, json_loads(user, 0, NULL));
    dx_attach("n2");
    eventually(dx_exists(&kube_pods, client));
    json_t *pvc = fake_api_get(dx_api, &kube_pvcs, "team/mnist");
    json_object_set_new(json_object_get(pvc, "metadata"), "finalizers",
        json_pack("[s]", "kubernetes.io/pvc-protection"));
    fake_api_put(dx_api, &kube_pvcs, pvc);
    assert_int_equal(kube_delete(dx_mgr.kube, &kube_datasets, "team", "mnist",
                         &(struct kube_delete)KUBE_DELETE_INIT, NULL, &e),
        0);
    eventually(dx_dataset_says("Ready", "False", "InUse"));
    eventually(dx_field_is(&kube_datasets, "team/mnist", "status.phase", "Deleting"));
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_datasets, "team/mnist");
    assert_non_null(strstr(cond_message(jget_arr(o, "status.conditions"), "Ready"), "reader"));
    assert_true(dx_exists(&kube_pvs, PV) && dx_exists(&kube_pods, "team/mnist-cache-0")
        && dx_exists(&kube_pods, client));
    for (int i = 0; i < 10; i++) { /* whatever else happens, the server is not asked again */
        dx_set_status(&kube_pods, client, i % 2 ? "{\"phase\":\"Running\"}" : "{}");
        clock_sleep_ns(NS_PER_S / 20);
    }
    assert_int_equal(fake_api_count(dx_api, "GET", "namespaces/team/pods?"), 1);

    fake_api_remove(dx_api, &kube_pods, "team/reader");
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n2");
    fake_api_remove(dx_api, &kube_pvcs, "team/mnist");
    eventually(!dx_exists(&kube_datasets, "team/mnist"));
    assert_false(dx_exists(&kube_pvs, PV));
    assert_false(dx_exists(&kube_services, "team/mnist-cache"));
    eventually(fake_api_len(dx_api, &kube_pods) == 0); /* the server deletes them after it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_becomes_ready),
        cmocka_unit_test(test_attaches),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_no_secret),
        cmocka_unit_test(test_foreign_pod),
        cmocka_unit_test(test_name_taken),
        cmocka_unit_test(test_silent_pods),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_no_successor),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_further_refused),
        cmocka_unit_test(test_loader_refused),
        cmocka_unit_test(test_goes),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests_name("dataset_controller", tests, dx_start, dx_stop);
}
