/* SPDX-License-Identifier: Apache-2.0 */
/* The operator as a process: what it says before it can work, who leads, how it ends.
 * MILLRACE_OPERATOR is the program. */
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/http.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fake_api *api;
static struct http *http;
static char dir[64];

struct process {
    pid_t pid;
    int port, metrics;
    char log[128];
};

static int setup(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    strcpy(dir, "/tmp/test_operator.XXXXXX");
    api = fake_api_start();
    fake_api_put(api, &kube_secrets,
        json_pack("{s:{s:s, s:s}}", "metadata", "name", NAME_MASTER_KEY, "namespace", "default"));
    http = http_new(&(struct http_conf){0}, &e);
    if (!mkdtemp(dir) || !http)
        return -1;
    cleanup_free char *path = path_join(dir, "kubeconfig"), *text = fake_api_kubeconfig(api);
    return file_write_atomic(path, text, strlen(text), 0600, &e);
}

static int teardown(void **state)
{
    (void)state;
    http_free(http);
    fake_api_stop(api);
    return file_remove_tree(dir, NULL);
}

/* None of those that connections and servers on port 0 get: other tests run meanwhile, and the
 * operator comes to it a little later. */
static int free_port(void)
{
    static int serial;
    for (int tries = 0; tries < 1000; tries++) {
        int port = 10000 + (getpid() * 31 + serial++) % 10000;
        struct sockaddr_in at = {.sin_family = AF_INET,
            .sin_port = htons((uint16_t)port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        cleanup_fd int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return port;
    }
    abort();
}

static struct process start(const char *flag)
{
    static int serial;
    struct process p = {.port = free_port(), .metrics = free_port()};
    cleanup_free char *config = path_join(dir, "kubeconfig"),
                      *address = xasprintf("127.0.0.1:%d", p.port),
                      *metrics = xasprintf("127.0.0.1:%d", p.metrics);
    const char *program = getenv("MILLRACE_OPERATOR");
    assert_non_null(program);
    snprintf(p.log, sizeof p.log, "%s/log.%d", dir, serial++);
    p.pid = fork();
    if (p.pid == 0) {
        int fd = open(p.log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        execl(program, program, "--kubeconfig", config, "--http", address, "--metrics", metrics,
            "--leader-elect", flag, NULL);
        _exit(127);
    }
    return p;
}

/* Exit status; 128 + signal if one ended it. Fails the test, and ends the process, if it does not
 * end by itself in time. */
static int end_of(struct process *p)
{
    int status = -1;
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; waitpid(p->pid, &status, WNOHANG) == 0;) {
        if (clock_mono_ns() > until) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, &status, 0);
            fail_msg("process %d did not end", (int)p->pid);
        }
        clock_sleep_ns(10 * NS_PER_MS);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Does GET path answer with that status and a body that holds the text? */
static bool says(const struct process *p, const char *path, int status, const char *text)
{
    cleanup_free char *url = xasprintf(
        "http://127.0.0.1:%d%s", strcmp(path, "/metrics") == 0 ? p->metrics : p->port, path);
    cleanup_resp struct http_resp resp;
    return http_do(http,
               &(struct http_req){.method = "GET", .url = url, .timeout_ns = 20 * NS_PER_S}, &resp,
               NULL)
        == 0
        && resp.status == status && strstr(buf_str(&resp.body), text);
}

static bool logged(const struct process *p, const char *text)
{
    cleanup_free char *log = file_read(p->log, 1 << 20, NULL, NULL);
    return log && strstr(log, text);
}

static void it_waits_for_its_kinds_and_says_so(void **state)
{
    (void)state;
    fake_api_uninstall(api, &kube_datasets, true);
    struct process p = start("--workers=2");
    eventually(says(&p, "/readyz", 503, "datasets.millrace.dev is not installed"));
    assert_true(says(&p, "/healthz", 200, "ok"));
    eventually(logged(&p, "datasets.millrace.dev is not installed"));
    fake_api_uninstall(api, &kube_datasets, false);
    eventually(says(&p, "/readyz", 200, "leading"));
    assert_true(says(&p, "/metrics", 200, "millrace_leader 1"));
    assert_true(says(&p, "/metrics", 200, "# TYPE millrace_reconciles_total counter"));
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
    cleanup_json json_t *lease = fake_api_get(api, &kube_leases, "default/millrace-operator");
    assert_string_equal(jget_str(lease, "spec.holderIdentity", "?"), ""); /* given up */
}

static void it_can_be_stopped_while_it_waits(void **state)
{
    (void)state;
    fake_api_uninstall(api, &kube_tfjobs, true);
    struct process p = start("--workers=2");
    eventually(says(&p, "/readyz", 503, "tfjobs.kubeflow.org is not installed"));
    kill(p.pid, SIGINT);
    assert_int_equal(end_of(&p), 0);
}

static void one_leads_the_other_stands_by(void **state)
{
    (void)state;
    struct process a = start("--workers=2");
    eventually(says(&a, "/readyz", 200, "leading"));
    struct process b = start("--workers=2");
    eventually(says(&b, "/readyz", 200, "standing by"));
    kill(a.pid, SIGTERM);
    assert_int_equal(end_of(&a), 0);
    eventually(says(&b, "/readyz", 200, "leading"));
    /* somebody takes the lease by force: the process must end, and at once */
    fake_api_put(api, &kube_leases,
        json_pack("{s:{s:s,s:s},s:{s:s,s:i,s:s}}", "metadata", "name", "millrace-operator",
            "namespace", "default", "spec", "holderIdentity", "other", "leaseDurationSeconds", 15,
            "renewTime", "2026-01-01T00:00:00.000000Z"));
    assert_int_equal(end_of(&b), 1);
    assert_true(logged(&b, "leadership is lost"));
}

static void without_its_key_it_ends_and_says_so(void **state)
{
    (void)state;
    fake_api_remove(api, &kube_secrets, "default/" NAME_MASTER_KEY);
    struct process p = start("--workers=2");
    assert_int_equal(end_of(&p), 1);
    assert_true(logged(&p, "the chart makes it"));
}

static void bad_flags_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *says;
        int status;
    } cases[] = {
        {"--no-such-flag", "unknown flag --no-such-flag", 2},
        {"--workers=0", "--workers must be 1 to 256", 2},
        {"--log-level=loud", "--log-level must be", 2},
        {"surplus", "unexpected argument \"surplus\"", 2},
        {"--context=nowhere", "contexts has no entry \\\"nowhere\\\"", 1},
        {"--kubeconfig=/nonexistent", "/nonexistent", 1},
        {"--http=nonsense", "nonsense", 1},
        {"--metrics=nonsense", "nonsense", 1},
        {"--help", "--leader-elect", 0},
        {"--version", "millrace-operator ", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct process p = start(cases[i].flag);
        int status = end_of(&p);
        if (status != cases[i].status || !logged(&p, cases[i].says)) {
            cleanup_free char *log = file_read(p.log, 1 << 20, NULL, NULL);
            fail_msg("%s: status %d: %s", cases[i].flag, status, log);
        }
    }
}

static json_t *job(const char *name, const char *types)
{
    cleanup_free char *text = xasprintf(
        "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"TFJob\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\"},"
        "\"spec\":{\"tfReplicaSpecs\":{%s}}}",
        name, types);
    json_t *j = json_parse(text, strlen(text), NULL);
    assert_non_null(j);
    return j;
}

/* The names are training-operator's. A job without replicas has succeeded at once; one with a chief
 * and a master is none. */
static void it_counts_jobs_by_the_names_that_dashboards_know(void **state)
{
    (void)state;
    static const char template[] =
        "\"template\":{\"spec\":{\"containers\":[{\"name\":\"tensorflow\",\"image\":\"i\"}]}}";
    cleanup_free char *none = xasprintf("\"Worker\":{\"replicas\":0,%s}", template);
    cleanup_free char *both = xasprintf("\"Chief\":{%s},\"Master\":{%s}", template, template);
    fake_api_put(api, &kube_tfjobs, job("old", none));
    struct process p = start("--workers=2");
    eventually(logged(&p, "controllers run"));
    fake_api_put(api, &kube_tfjobs, job("new", none));
    fake_api_put(api, &kube_tfjobs, job("bad", both));
    static const char *const lines[] = {
        "created_total{job_namespace=\"ns\",framework=\"tensorflow\"} 2",
        "successful_total{job_namespace=\"ns\",framework=\"tensorflow\"} 2",
        "failed_total{job_namespace=\"ns\",framework=\"tensorflow\"} 1"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        cleanup_free char *line = xasprintf("\ntraining_operator_jobs_%s\n", lines[i]),
                          *old = xasprintf("\ntf_operator_jobs_%s\n", lines[i]);
        eventually(says(&p, "/metrics", 200, line));
        eventually(says(&p, "/metrics", 200, old));
    }
    static const char *const others[] = {
        "\ncontroller_runtime_reconcile_total{controller=\"tfjob\",result=\"success\"} ",
        "\ncontroller_runtime_reconcile_time_seconds_count{controller=\"tfjob\"} ",
        "\ncontroller_runtime_max_concurrent_reconciles{controller=\"tfjob\"} 2\n",
        "\ncontroller_runtime_active_workers{controller=\"tfjob\"} 0\n",
        "\nworkqueue_adds_total{name=\"tfjob\"} ", "\nworkqueue_retries_total{name=\"tfjob\"} ",
        "\nworkqueue_queue_duration_seconds_count{name=\"tfjob\"} ",
        "\nworkqueue_depth{name=\"tfjob\"} ",
        "\nrest_client_requests_total{code=\"200\",method=\"GET\",host=\"127.0.0.1:",
        "\nrest_client_request_duration_seconds_count{verb=\"GET\",host=\"127.0.0.1:",
        "\nmillrace_api_requests_total{verb=\"list\",resource=\"tfjobs\",code=\"200\"} 1\n",
        "\nmillrace_api_request_seconds_count{verb=\"list\"} ",
        "\nmillrace_cache_stale_seconds{resource=\"tfjobs\",selector=\"\"} 0\n"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        eventually(says(&p, "/metrics", 200, others[i]));
    fake_api_remove(api, &kube_tfjobs, "ns/bad");
    eventually(says(&p, "/metrics", 200,
        "\ntraining_operator_jobs_deleted_total{job_namespace=\"ns\",framework=\"tensorflow\"} 1\n"));
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
}

/* Whoever may make a Dataset must not be able to stop the operator for all others. */
static void an_object_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    fake_api_put(api, &kube_datasets,
        json_pack("{s:{s:s,s:s},s:{s:s}}", "metadata", "name", "bad", "namespace", "ns", "spec",
            "x", FAKE_BROKEN));
    struct process p = start("--workers=2");
    eventually(says(&p, "/readyz", 200, "leading"));
    eventually(
        says(&p, "/metrics", 200, "\nmillrace_objects_skipped_total{resource=\"datasets\"} 1\n"));
    assert_true(logged(&p, "\"object\":\"ns/bad\""));
    eventually(fake_api_count(api, "POST", "/namespaces/ns/events") == 1);
    cleanup_free char *event = fake_api_last(api, "POST", "/namespaces/ns/events");
    assert_non_null(strstr(event, "\"reason\":\"Unreadable\""));
    assert_non_null(strstr(event, "\"name\":\"bad\""));
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
}

static bool job_says(const char *key, const char *text)
{
    cleanup_json json_t *j = fake_api_get(api, &kube_tfjobs, key);
    const json_t *all = jget_arr(j, "status.conditions");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *c = json_array_get(all, i);
        if (strstr(jget_str(c, "message", ""), text) || !strcmp(jget_str(c, "type", ""), text))
            return true;
    }
    return false;
}

/* "resource:" for "resources:", and the like. */
static void a_slip_in_a_template_is_said(void **state)
{
    (void)state;
    fake_api_fault(api,
        &(struct fake_fault){.method = "POST",
            .in = "/pods?fieldManager=millrace-operator&fieldValidation=Strict",
            .times = 100,
            .kind = FAULT_STATUS,
            .status = 400,
            .body =
                "{\"kind\":\"Status\",\"code\":400,\"reason\":\"BadRequest\",\"message\":\"strict decoding error: unknown field \\\"spec.containers[0].resource\\\"\"}"});
    struct process p = start("--workers=2");
    eventually(logged(&p, "controllers run"));
    fake_api_put(api, &kube_tfjobs,
        job("slip",
            "\"Worker\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"tensorflow\",\"image\":\"i\",\"resource\":{}}]}}}"));
    eventually(job_says("ns/slip", "unknown field \"spec.containers[0].resource\""));
    eventually(job_says("ns/slip", "Stalled"));
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
}

static void put_crd(bool ours)
{
    const char *field = ours ? "indexes" : "conditions";
    fake_api_put(api, &kube_crds,
        json_pack("{s:{s:s},s:{s:[{s:s,s:b,s:{s:{s:{s:{s:{s:{},s:{}}}}}}}]}}", "metadata", "name",
            "tfjobs.kubeflow.org", "spec", "versions", "name", "v1", "served", 1, "schema",
            "openAPIV3Schema", "properties", "status", "properties", field, "datasets"));
}

/* Where training-operator was, its CRD stays, and drops what we remember in the status. */
static void a_crd_that_is_not_ours_holds_jobs_up(void **state)
{
    (void)state;
    put_crd(false);
    struct process p = start("--workers=2");
    eventually(
        says(&p, "/metrics", 200, "\nmillrace_crd_current{crd=\"tfjobs.kubeflow.org\"} 0\n"));
    eventually(logged(&p, "--force-conflicts"));
    fake_api_put(api, &kube_tfjobs,
        job("held",
            "\"Worker\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"tensorflow\",\"image\":\"i\"}]}}}"));
    eventually(job_says("ns/held", "kubectl apply --server-side --force-conflicts"));
    assert_int_equal(fake_api_count(api, "POST", "/pods"), 0);
    put_crd(true);
    eventually_in(180, fake_api_count(api, "POST", "/pods") == 1); /* it looks each minute */
    assert_true(
        says(&p, "/metrics", 200, "\nmillrace_crd_current{crd=\"tfjobs.kubeflow.org\"} 1\n"));
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
}

static void put_object(const struct kube_res *res, const char *text)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    fake_api_put(api, res, object);
}

static int check_for_uninstall(struct process *p, const char *flag)
{
    *p = start(flag);
    return end_of(p);
}

static void it_tells_who_would_be_left_without_it(void **state)
{
    (void)state;
    struct process p;
    fake_api_uninstall(api, &kube_tfjobs, true); /* where TFJobs are another operator's */
    assert_int_equal(check_for_uninstall(&p, "--uninstall-check"), 0);
    assert_false(logged(&p, "Millrace"));
    fake_api_uninstall(api, &kube_tfjobs, false);
    put_object(&kube_datasets, "{\"metadata\": {\"namespace\": \"a\", \"name\": \"x\"}}");
    put_object(&kube_datasets, "{\"metadata\": {\"namespace\": \"a\", \"name\": \"y\"}}");
    put_object(&kube_tfjobs, "{\"metadata\": {\"namespace\": \"b\", \"name\": \"runs\"}}");
    put_object(&kube_tfjobs,
        "{\"metadata\": {\"namespace\": \"c\", \"name\": \"ended\"}, \"status\": {\"conditions\":"
        " [{\"type\": \"Succeeded\", \"status\": \"True\"}]}}");
    put_object(&kube_dataloads,
        "{\"metadata\": {\"namespace\": \"c\", \"name\": \"ended\"}, \"status\": {\"phase\":"
        " \"Complete\", \"conditions\": [{\"type\": \"Complete\", \"status\": \"True\"}]}}");
    assert_int_equal(check_for_uninstall(&p, "--uninstall-check"), 1);
    assert_true(logged(&p, "namespace a: 2 Datasets (x, y)\n"));
    assert_true(logged(&p, "namespace b: 1 TFJobs that have not ended (runs)\n"));
    assert_false(logged(&p, "namespace c"));
    assert_true(logged(&p, "helm uninstall --no-hooks"));
    assert_true(logged(&p, "helm rollback RELEASE REVISION, which helm history RELEASE shows"));
    fake_api_fault(api, &(struct fake_fault){.in = "datasets", .status = 403});
    assert_int_equal(check_for_uninstall(&p, "--uninstall-check"), 1);
    assert_true(logged(&p, "It is not known whether Millrace is in use"));
}

static void a_bad_configuration_is_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {{"{\"labels\": {\"a\": 1}}", "labels.a must be a string: put it in quotes"},
        {"{\"label\": {}}", "label: there is no such field"},
        {"{\"env\": []}", "env must be a map of strings"},
        {"{\"openshift\": \"yes\"}", "openshift must be true or false"},
        {"{\"cacheKeepFree\": 95}", "cacheKeepFree must be a percentage from 0 to 90"},
        {"{\"cacheKeepFree\": \"5\"}", "cacheKeepFree must be a percentage from 0 to 90"},
        {"{\"endpoints\": \"aws\"}", "endpoints must be a list"},
        {"{\"defaults\": 1}", "defaults must be an object"},
        {"{\"defaults\": {\"cache\": {\"replicas\": -3}}}",
            "defaults, in a Dataset that leaves the field out: spec.cache.replicas must be"},
        {"{\"limits\": {\"replicas\": 0}}",
            "limits.replicas is 0, and a Dataset that says nothing has 1 cache worker: "
            "set defaults.cache.replicas to no more"},
        {"{\"caBundle\": {}}", "caBundle must be a string"}, {"[]", "must be a JSON object"},
        {"{", "config.json: "}};
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(dir, "config.json"), *flag = xasprintf("--config=%s", path);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(
            file_write_atomic(path, cases[i].text, strlen(cases[i].text), 0600, &e), 0);
        struct process p = start(flag);
        assert_int_equal(end_of(&p), 1);
        assert_true(logged(&p, cases[i].says));
        assert_true(logged(&p, "--config "));
    }
    struct process p = start("--config=/nonexistent");
    assert_int_equal(end_of(&p), 1);
    assert_true(logged(&p, "/nonexistent"));
}

static void without_tfjobs_it_needs_no_such_kind(void **state)
{
    (void)state;
    fake_api_uninstall(api, &kube_tfjobs, true);
    struct process p = start("--tfjob=false");
    eventually(says(&p, "/readyz", 200, "ok, leading"));
    assert_int_equal(fake_api_watchers(api, &kube_tfjobs), 0);
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
}

static size_t taints_of(const char *node)
{
    cleanup_json json_t *j = fake_api_get(api, &kube_nodes, node);
    return jget_len(j, "spec.taints");
}

static void a_node_loses_its_startup_taint_once_the_driver_is_there(void **state)
{
    (void)state;
    static const char *const names[] = {"n1", "n2"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        fake_api_put(api, &kube_nodes,
            json_pack("{s:{s:s, s:{s:s}}, s:{s:[{s:s, s:s}, {s:s, s:s}]}}", "metadata", "name",
                names[i], "labels", "a", "b", "spec", "taints", "key", "gpu", "effect",
                "NoSchedule", "key", "csi.millrace.dev/agent-not-ready", "effect", "NoSchedule"));
    put_object(&kube_csinodes,
        "{\"metadata\": {\"name\": \"n2\"}, \"spec\": {\"drivers\": [{\"name\": \"ebs\"}]}}");
    struct process p = start("--startup-taint");
    eventually(says(&p, "/readyz", 200, "ok, leading"));
    put_object(&kube_csinodes,
        "{\"metadata\": {\"name\": \"n1\"}, \"spec\": {\"drivers\": [{\"name\": \"csi.millrace.dev\"}]}}");
    eventually(taints_of("n1") == 1);
    assert_int_equal(taints_of("n2"), 2);
    cleanup_json json_t *j = fake_api_get(api, &kube_nodes, "n1");
    assert_string_equal(jget_str(j, "spec.taints[0].key", ""), "gpu");
    assert_string_equal(kube_label(j, "a"), "b");
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p), 0);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_waits_for_its_kinds_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(it_can_be_stopped_while_it_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(an_object_that_cannot_be_read_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slip_in_a_template_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crd_that_is_not_ours_holds_jobs_up, setup, teardown),
        cmocka_unit_test_setup_teardown(one_leads_the_other_stands_by, setup, teardown),
        cmocka_unit_test_setup_teardown(
            it_counts_jobs_by_the_names_that_dashboards_know, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_flags_are_explained, setup, teardown),
        cmocka_unit_test_setup_teardown(without_its_key_it_ends_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(it_tells_who_would_be_left_without_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_configuration_is_explained, setup, teardown),
        cmocka_unit_test_setup_teardown(without_tfjobs_it_needs_no_such_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_node_loses_its_startup_taint_once_the_driver_is_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
