/* SPDX-License-Identifier: Apache-2.0 */
/* operator_memory OPERATOR [DATASETS [CLIENTS [JOBS]]]: how much memory the operator takes that
 * knows so many Datasets (1000), each with one worker and used on so many nodes (10), and so many
 * TFJobs that have ended (0). The API server is the one of tests; pods are as a real one has them.
 * An operator makes what is wanted, then another one finds it there. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/render/meta.h"
#include "tests/fake/api.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET_NS (10 * NS_PER_S) /* without a write: all is done */

/* What servers and kubelets add to a pod. */
static const char real[] =
    "{\"metadata\":{\"managedFields\":[{\"manager\":\"millrace\",\"operation\":\"Update\",\"apiVersion\":\"v1\","
    "\"time\":\"2026-01-01T00:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{\"f:labels\":{}}}}]},"
    "\"spec\":{\"restartPolicy\":\"Always\",\"dnsPolicy\":\"ClusterFirst\",\"serviceAccountName\":\"default\","
    "\"schedulerName\":\"default-scheduler\",\"enableServiceLinks\":false,\"preemptionPolicy\":\"PreemptLowerPriority\"},"
    "\"status\":{\"phase\":\"Running\",\"hostIP\":\"10.0.0.1\",\"hostIPs\":[{\"ip\":\"10.0.0.1\"}],"
    "\"podIPs\":[{\"ip\":\"10.1.0.1\"}],\"startTime\":\"2026-01-01T00:00:00Z\",\"qosClass\":\"Burstable\",\"conditions\":["
    "{\"type\":\"PodReadyToStartContainers\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-01-01T00:00:03Z\"},"
    "{\"type\":\"Initialized\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"},"
    "{\"type\":\"Ready\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-01-01T00:00:04Z\"},"
    "{\"type\":\"ContainersReady\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-01-01T00:00:04Z\"},"
    "{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}],"
    "\"containerStatuses\":[{\"name\":\"millrace\",\"ready\":true,\"started\":true,\"restartCount\":0,\"image\":\"bench:1\","
    "\"imageID\":\"bench@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
    "\"containerID\":\"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
    "\"state\":{\"running\":{\"startedAt\":\"2026-01-01T00:00:02Z\"}},\"lastState\":{}}]}}";

static struct fake_api *api;
static char dir[] = "/tmp/operator_memory.XXXXXX";

static void die(const char *what)
{
    fprintf(stderr, "operator_memory: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void put_dataset(int i, int clients)
{
    cleanup_free char *name = xasprintf("data-%04d", i), *uid = xasprintf("u-%04d", i),
                      *pv = render_pv_name(uid);
    fake_api_put(api, &kube_datasets,
        json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:[{s:s}], s:[s], s:{s:i}}}", "metadata", "name",
            name, "namespace", "team", "uid", uid, "generation", 1, "spec", "mounts", "mountPoint",
            "s3://bucket/prefix", "accessModes", "ReadWriteMany", "cache", "replicas", 1));
    for (int k = 0; k < clients; k++) {
        cleanup_free char *va = xasprintf("csi-%04d-%04d", i, k), *node = xasprintf("node-%04d", k);
        fake_api_put(api, &kube_volumeattachments,
            json_pack("{s:{s:s}, s:{s:s, s:s, s:{s:s}}, s:{s:b}}", "metadata", "name", va, "spec",
                "attacher", NAME_DRIVER, "nodeName", node, "source", "persistentVolumeName", pv,
                "status", "attached", 0));
    }
}

/* Of a chief and two workers, as tests/bench/operator has them. */
static void put_ended_job(int i)
{
    cleanup_free char *name = xasprintf("job-%05d", i), *uid = xasprintf("j-%05d", i);
    json_t *job = json_loads(
        "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"TFJob\",\"spec\":{\"tfReplicaSpecs\":{"
        "\"Chief\":{\"replicas\":1,\"restartPolicy\":\"OnFailure\",\"template\":{\"spec\":{\"containers\":["
        "{\"name\":\"tensorflow\",\"image\":\"bench:1\",\"command\":[\"python3\",\"/train.py\",\"--epochs=3\"],"
        "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}},"
        "\"Worker\":{\"replicas\":2,\"restartPolicy\":\"OnFailure\",\"template\":{\"spec\":{\"containers\":["
        "{\"name\":\"tensorflow\",\"image\":\"bench:1\",\"command\":[\"python3\",\"/train.py\",\"--epochs=3\"],"
        "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}}}},"
        "\"status\":{\"startTime\":\"2026-01-01T00:00:00Z\",\"completionTime\":\"2026-01-01T01:00:00Z\",\"conditions\":["
        "{\"type\":\"Created\",\"status\":\"True\",\"reason\":\"TFJobCreated\",\"message\":\"TFJob is created.\","
        "\"lastUpdateTime\":\"2026-01-01T00:00:00Z\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"},"
        "{\"type\":\"Running\",\"status\":\"False\",\"reason\":\"TFJobRunning\",\"message\":\"TFJob is running.\","
        "\"lastUpdateTime\":\"2026-01-01T00:00:00Z\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"},"
        "{\"type\":\"Succeeded\",\"status\":\"True\",\"reason\":\"TFJobSucceeded\",\"message\":\"TFJob successfully completed.\","
        "\"lastUpdateTime\":\"2026-01-01T01:00:00Z\",\"lastTransitionTime\":\"2026-01-01T01:00:00Z\"}],"
        "\"replicaStatuses\":{\"Chief\":{\"succeeded\":1},\"Worker\":{\"succeeded\":2}}}}",
        0, NULL);
    json_object_set_new(job, "metadata",
        json_pack("{s:s, s:s, s:s, s:i}", "name", name, "namespace", "team", "uid", uid,
            "generation", 1));
    fake_api_put(api, &kube_tfjobs, job);
}

static bool runs(const char *pod, const char *node)
{
    cleanup_free char *key = kube_key("team", pod);
    json_t *o = fake_api_get(api, &kube_pods, key);
    if (!o)
        return false;
    if (jget(o, "status.phase")) {
        json_decref(o);
        return true;
    }
    cleanup_json json_t *more = json_loads(real, 0, NULL);
    json_object_update_recursive(o, more);
    json_object_set_new(json_object_get(o, "spec"), "nodeName", json_string(node));
    fake_api_put(api, &kube_pods, o);
    return true;
}

static bool all_run(int datasets, int clients)
{
    bool all = true;
    for (int i = 0; i < datasets; i++) {
        cleanup_free char *name = xasprintf("data-%04d", i), *worker = render_worker_name(name, 0);
        all &= runs(worker, "node-0000");
        for (int k = 0; k < clients; k++) {
            cleanup_free char *node = xasprintf("node-%04d", k),
                              *client = render_client_name(name, node);
            all &= runs(client, node);
        }
    }
    return all;
}

static pid_t begin(const char *program)
{
    cleanup_free char *config = path_join(dir, "kubeconfig"), *log = path_join(dir, "log");
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_CREAT | O_WRONLY | O_APPEND, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        execl(program, program, "--kubeconfig", config, "--http", "", "--metrics", "", "--image",
            "bench:1", "--log-level", "warn", NULL);
        _exit(127);
    }
    return pid;
}

static unsigned writes_so_far(void)
{
    return fake_api_count(api, "POST", NULL) + fake_api_count(api, "PATCH", NULL)
        + fake_api_count(api, "DELETE", NULL);
}

/* Until there is all that is wanted, and nothing was written for a while. */
static void settle(pid_t pid, int datasets, int clients)
{
    unsigned before = UINT32_MAX;
    for (int64_t since = clock_mono_ns(); clock_mono_ns() - since < QUIET_NS;
         clock_sleep_ns(NS_PER_S)) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            die("the operator ended");
        bool all = all_run(datasets, clients);
        unsigned now = writes_so_far();
        if (!all || now != before)
            since = clock_mono_ns();
        before = now;
    }
}

static void measure(const char *what, const char *program, int datasets, int clients, int jobs)
{
    pid_t pid = begin(program);
    settle(pid, datasets, clients);
    cleanup_free char *path = xasprintf("/proc/%d/status", (int)pid);
    cleanup_free char *status = file_read(path, 1 << 16, NULL, NULL);
    const char *rss = status ? strstr(status, "VmRSS:") : NULL,
               *peak = status ? strstr(status, "VmHWM:") : NULL;
    if (!rss || !peak)
        die("no memory in /proc");
    printf("%d Datasets of %d clients, %d TFJobs, %s: %.1f MiB, at most %.1f MiB\n", datasets,
        clients, jobs, what, strtod(rss + 6, NULL) / 1024, strtod(peak + 6, NULL) / 1024);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    int datasets = argc > 2 ? atoi(argv[2]) : 1000, clients = argc > 3 ? atoi(argv[3]) : 10,
        jobs = argc > 4 ? atoi(argv[4]) : 0;
    if (argc < 2 || datasets < 1 || clients < 0 || jobs < 0) {
        fprintf(stderr, "usage: operator_memory OPERATOR [DATASETS [CLIENTS [JOBS]]]\n");
        return 2;
    }
    if (!mkdtemp(dir))
        die(dir);
    api = fake_api_start();
    cleanup_free char *config = path_join(dir, "kubeconfig"), *text = fake_api_kubeconfig(api);
    struct err e = ERR_INIT;
    if (file_write_atomic(config, text, strlen(text), 0600, &e))
        die(e.msg);
    fake_api_put(api, &kube_secrets,
        json_pack("{s:{s:s, s:s}}", "metadata", "name", NAME_MASTER_KEY, "namespace", "default"));
    for (int k = 0; k < clients; k++) {
        cleanup_free char *node = xasprintf("node-%04d", k);
        fake_api_put(api, &kube_nodes,
            json_pack("{s:{s:s}, s:{s:[{s:s, s:s}]}}", "metadata", "name", node, "status",
                "conditions", "type", "Ready", "status", "True"));
    }
    for (int i = 0; i < datasets; i++)
        put_dataset(i, clients);
    for (int i = 0; i < jobs; i++)
        put_ended_job(i);
    measure("made", argv[1], datasets, clients, jobs);
    measure("found", argv[1], datasets, clients, jobs);
    fake_api_stop(api);
    return file_remove_tree(dir, NULL) ? 1 : 0;
}
