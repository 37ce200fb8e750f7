/* SPDX-License-Identifier: Apache-2.0 */
/* operator_scale [OPTIONS] OPERATOR: what an operator takes of memory and of a processor that knows
 * many Datasets, each with one worker and used on some nodes, pods that report, nodes with GPUs,
 * and TFJobs that have ended. The API server is the one of tests; pods are as a real one has them.
 * An operator makes what is wanted, another one finds it there; then a node with GPUs comes, and
 * one job that waits. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/serve.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/render/meta.h"
#include "tests/fake/api.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET_NS (10 * NS_PER_S) /* without a write: all is done */
#define EVENT_NS (30 * NS_PER_S)
#define STEP_NS  (250 * NS_PER_MS)

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

/* As of a node with GPUs whose features are told in labels, and there are many. */
#define LABELS 40
#define POD_IP "127.79.0.1"

static struct fake_api *api;
static char dir[] = "/tmp/operator_scale.XXXXXX";
static struct sizes {
    int datasets, clients, nodes, jobs;
    bool reports;
} sizes = {1000, 10, 1000, 10000, false};
static atomic_int reported;

static void die(const char *what)
{
    fprintf(stderr, "operator_scale: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Those of a Dataset are beside each other, and not the same for each. */
static char *node_name(int dataset, int client)
{
    return xasprintf("node-%04d", (dataset * sizes.clients + client) % sizes.nodes);
}

static void put_node(int i)
{
    cleanup_free char *name = xasprintf("node-%04d", i);
    json_t *labels = json_pack("{s:s}", "kubernetes.io/hostname", name);
    for (int k = 0; k < LABELS; k++) {
        cleanup_free char *key = xasprintf("feature.node.kubernetes.io/cpu-cpuid.NUMBER%02d", k);
        json_object_set_new(labels, key, json_string("true"));
    }
    fake_api_put(api, &kube_nodes,
        json_pack("{s:{s:s, s:o}, s:{s:{s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name", name,
            "labels", labels, "status", "allocatable", "cpu", "96", "nvidia.com/gpu", "8",
            "conditions", "type", "Ready", "status", "True"));
}

static void put_dataset(int i)
{
    cleanup_free char *name = xasprintf("data-%04d", i), *uid = xasprintf("u-%04d", i),
                      *pv = render_pv_name(uid);
    fake_api_put(api, &kube_datasets,
        json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:[{s:s}], s:[s], s:{s:i}}}", "metadata", "name",
            name, "namespace", "team", "uid", uid, "generation", 1, "spec", "mounts", "mountPoint",
            "s3://bucket/prefix", "accessModes", "ReadWriteMany", "cache", "replicas", 1));
    for (int k = 0; k < sizes.clients; k++) {
        cleanup_free char *va = xasprintf("csi-%04d-%04d", i, k), *node = node_name(i, k);
        fake_api_put(api, &kube_volumeattachments,
            json_pack("{s:{s:s}, s:{s:s, s:s, s:{s:s}}, s:{s:b}}", "metadata", "name", va, "spec",
                "attacher", NAME_DRIVER, "nodeName", node, "source", "persistentVolumeName", pv,
                "status", "attached", 0));
    }
}

/* Of a chief and two workers, as tests/bench/operator has them. */
static json_t *job_of(int i)
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
    return job;
}

/* It mounts the claim of the first Dataset, and has no pods yet. */
static json_t *waiting_job(int i)
{
    json_t *job = job_of(i),
           *replicas = json_object_get(json_object_get(job, "spec"), "tfReplicaSpecs");
    const char *type;
    json_t *replica;
    json_object_del(job, "status");
    json_object_foreach (replicas, type, replica)
        json_object_set_new(json_object_get(json_object_get(replica, "template"), "spec"),
            "volumes",
            json_pack("[{s:s, s:{s:s}}]", "name", "data", "persistentVolumeClaim", "claimName",
                "data-0000"));
    return job;
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
    if (sizes.reports)
        json_object_set_new(json_object_get(o, "status"), "podIP", json_string(POD_IP));
    fake_api_put(api, &kube_pods, o);
    return true;
}

static bool all_run(void)
{
    bool all = true;
    for (int i = 0; i < sizes.datasets; i++) {
        cleanup_free char *name = xasprintf("data-%04d", i), *first = node_name(i, 0),
                          *worker = render_worker_name(name, 0);
        all &= runs(worker, first);
        for (int k = 0; k < sizes.clients; k++) {
            cleanup_free char *node = node_name(i, k), *client = render_client_name(name, node);
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

/* ---- what is measured ---- */

/* Milliseconds of a processor that the process has taken. */
static long cpu_ms(pid_t pid)
{
    cleanup_free char *path = xasprintf("/proc/%d/stat", (int)pid),
                      *stat = file_read(path, 1 << 16, NULL, NULL);
    unsigned long user = 0, kernel = 0;
    const char *rest = stat ? strrchr(stat, ')') : NULL;
    if (!rest
        || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel)
            != 2)
        die("no times in /proc");
    return (long)(user + kernel) * 1000 / sysconf(_SC_CLK_TCK);
}

/* Until there is all that is wanted, and nothing was written for a while: what pods report is
 * written all the time. */
static void settle(pid_t pid)
{
    unsigned before = UINT32_MAX;
    for (int64_t since = clock_mono_ns(); clock_mono_ns() - since < QUIET_NS;
         clock_sleep_ns(NS_PER_S)) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            die("the operator ended");
        bool all = all_run();
        unsigned now = writes_so_far();
        if (!all || (now != before && !sizes.reports))
            since = clock_mono_ns();
        before = now;
    }
}

static void print_memory(const char *what, pid_t pid)
{
    cleanup_free char *path = xasprintf("/proc/%d/status", (int)pid);
    cleanup_free char *status = file_read(path, 1 << 16, NULL, NULL);
    const char *rss = status ? strstr(status, "VmRSS:") : NULL,
               *peak = status ? strstr(status, "VmHWM:") : NULL;
    if (!rss || !peak)
        die("no memory in /proc");
    printf("%s: %.1f MiB, at most %.1f MiB; %ld ms of a processor, %u writes\n", what,
        strtod(rss + 6, NULL) / 1024, strtod(peak + 6, NULL) / 1024, cpu_ms(pid), writes_so_far());
    fflush(stdout);
}

/* What comes of it within a while, beside what comes anyway. */
static void print_event(
    const char *what, pid_t pid, const struct kube_res *res, json_t *(*next)(int i), int n)
{
    long idle = cpu_ms(pid);
    clock_sleep_ns(EVENT_NS);
    idle = cpu_ms(pid) - idle;
    long before = cpu_ms(pid);
    unsigned writes = writes_so_far();
    int64_t until = clock_mono_ns() + EVENT_NS;
    for (int i = 0; i < n; i++) {
        fake_api_put(api, res, next(i));
        clock_sleep_ns(STEP_NS);
    }
    clock_sleep_ns(MAX(until - clock_mono_ns(), 0));
    printf("%s: %ld ms of a processor in %d s, %ld without it; %u writes\n", what,
        cpu_ms(pid) - before, (int)(EVENT_NS / NS_PER_S), idle, writes_so_far() - writes);
    fflush(stdout);
}

static json_t *next_node(int i)
{
    put_node(sizes.nodes);
    cleanup_free char *name = xasprintf("node-%04d", sizes.nodes);
    json_t *node = fake_api_get(api, &kube_nodes, name);
    json_object_set_new(json_object_get(json_object_get(node, "status"), "allocatable"),
        "nvidia.com/gpu", json_string(i % 2 ? "4" : "2"));
    return node;
}

static json_t *next_job(int i) { return waiting_job(sizes.jobs + i); }

static void end_operator(pid_t pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

static void measure(const char *program)
{
    pid_t pid = begin(program);
    settle(pid);
    print_memory("made", pid);
    end_operator(pid);
    pid = begin(program);
    settle(pid);
    print_memory("found", pid);
    print_event("the GPUs of a node change 20 times", pid, &kube_nodes, next_node, 20);
    print_event("20 jobs wait", pid, &kube_tfjobs, next_job, 20);
    print_memory("then", pid);
    end_operator(pid);
}

static void on_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user, (void)req;
    int n = atomic_fetch_add(&reported, 1);
    buf_addf(&resp->body,
        "{\"ready\":true,\"startedMs\":1,\"cache\":{\"usedBytes\":%d,\"files\":%d},\"ufs\":{\"bytes\":1,\"files\":1,\"complete\":true}}",
        n, n);
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"datasets", required_argument, NULL, 'd'},
        {"clients", required_argument, NULL, 'c'}, {"nodes", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'}, {"reports", no_argument, NULL, 'r'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 'd':
            sizes.datasets = atoi(optarg);
            break;
        case 'c':
            sizes.clients = atoi(optarg);
            break;
        case 'n':
            sizes.nodes = atoi(optarg);
            break;
        case 'j':
            sizes.jobs = atoi(optarg);
            break;
        case 'r':
            sizes.reports = true;
            break;
        default:
            optind = argc;
        }
    if (optind == argc - 1 && sizes.datasets > 0 && sizes.clients >= 0 && sizes.jobs >= 0
        && sizes.nodes >= MAX(sizes.clients, 1))
        return;
    fprintf(stderr,
        "usage: operator_scale [--datasets N] [--clients N] [--nodes N, as many as clients] [--jobs N] [--reports] OPERATOR\n");
    exit(2);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    if (!mkdtemp(dir))
        die(dir);
    api = fake_api_start();
    cleanup_free char *config = path_join(dir, "kubeconfig"), *text = fake_api_kubeconfig(api);
    struct err e = ERR_INIT;
    const struct serve_route route = {"GET", "/status", on_status, NULL};
    cleanup_free char *address = xasprintf(POD_IP ":%d", PORT_HTTP);
    const struct serve_conf conf = {.address = address, .routes = &route, .nroutes = 1};
    struct http_server *pods = sizes.reports ? serve_start(&conf, &e) : NULL;
    if ((sizes.reports && !pods) || file_write_atomic(config, text, strlen(text), 0600, &e))
        die(e.msg);
    fake_api_put(api, &kube_secrets,
        json_pack("{s:{s:s, s:s}}", "metadata", "name", NAME_MASTER_KEY, "namespace", "default"));
    for (int k = 0; k < sizes.nodes; k++)
        put_node(k);
    for (int i = 0; i < sizes.datasets; i++)
        put_dataset(i);
    for (int i = 0; i < sizes.jobs; i++)
        fake_api_put(api, &kube_tfjobs, job_of(i));
    printf("%d Datasets of %d clients on %d nodes with GPUs, %d TFJobs that have ended%s\n",
        sizes.datasets, sizes.clients, sizes.nodes, sizes.jobs,
        sizes.reports ? ", pods that report" : "");
    fflush(stdout);
    measure(argv[optind]);
    serve_stop(pods);
    fake_api_stop(api);
    return file_remove_tree(dir, NULL) ? 1 : 0;
}
