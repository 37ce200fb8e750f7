/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs tell a person who may not read all of it: the rest, and which right is missing. */
#include "fuse/cli/cli.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/obj.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_MAX (64u << 10)

static struct fake_api *api;
static char out[OUT_MAX];

static void put(const struct kube_res *res, const char *text)
{
    struct err e = ERR_INIT;
    json_t *o = json_parse(text, strlen(text), &e);
    if (!o)
        fail_msg("%s", e.msg);
    fake_api_put(api, res, o);
}

static int mend(void **state)
{
    (void)state;
    fake_api_mend(api);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    put(&kube_datasets,
        "{\"metadata\":{\"name\":\"imagenet\",\"namespace\":\"team\",\"uid\":\"ds\"},"
        "\"spec\":{\"mounts\":[{\"path\":\"/\",\"mountPoint\":\"s3://b\"}]},"
        "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Ready\",\"message\":\"m\"}],"
        "\"workers\":{\"desired\":2,\"ready\":1,\"nodes\":[\"n1\"]},\"clients\":{\"desired\":3,\"ready\":3,\"nodes\":[\"n1\",\"n2\",\"n3\"]}}}");
    put(&kube_pvcs,
        "{\"metadata\":{\"name\":\"imagenet\",\"namespace\":\"team\",\"uid\":\"c\",\"ownerReferences\":[{\"kind\":\"Dataset\","
        "\"name\":\"imagenet\",\"uid\":\"ds\",\"controller\":true}]},\"spec\":{\"volumeName\":\"millrace-ds\"}}");
    put(&kube_pods,
        "{\"metadata\":{\"name\":\"train-0\",\"namespace\":\"team\",\"uid\":\"p0\"},"
        "\"spec\":{\"nodeName\":\"n1\",\"volumes\":[{\"name\":\"d\",\"persistentVolumeClaim\":{\"claimName\":\"imagenet\"}}]},"
        "\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"running\":{}}}]}}");
    put(&kube_pods,
        "{\"metadata\":{\"name\":\"train-1\",\"namespace\":\"team\",\"uid\":\"p1\"},"
        "\"spec\":{\"nodeName\":\"n1\",\"volumes\":[{\"name\":\"d\",\"persistentVolumeClaim\":{\"claimName\":\"imagenet\"}}]},"
        "\"status\":{\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"main\",\"image\":\"x:1\","
        "\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"no such image\"}}}]}}");
    put(&kube_pods,
        "{\"metadata\":{\"name\":\"train-2\",\"namespace\":\"team\",\"uid\":\"p2\",\"labels\":{\"millrace.dev/data\":\"Preloaded\"},"
        "\"annotations\":{\"millrace.dev/waiting\":\"imagenet Loading 40\"}},"
        "\"spec\":{\"schedulingGates\":[{\"name\":\"millrace.dev/data\"}],"
        "\"volumes\":[{\"name\":\"d\",\"persistentVolumeClaim\":{\"claimName\":\"imagenet\"}}]},\"status\":{\"phase\":\"Pending\"}}");
    put(&kube_nodes,
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"nodeInfo\":{\"kernelVersion\":\"6.12.1\"}}}");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_api_stop(api);
    return 0;
}

/* From now on until mend(): what is asked of it is refused. */
static void forbid(const char *in)
{
    const struct fake_fault fault = {.in = in, .times = 1000, .kind = FAULT_STATUS, .status = 403};
    fake_api_fault(api, &fault);
}

/* What the verb prints, on both channels, is in out; its exit status. */
static int says(const char *verb, ...)
{
    char *argv[16] = {(char *)(uintptr_t)verb, (char *)"--server",
        (char *)(uintptr_t)fake_api_url(api), (char *)"-n", (char *)"team"};
    int argc = 5;
    va_list ap;
    va_start(ap, verb);
    for (char *word; (word = va_arg(ap, char *));)
        argv[argc++] = word;
    va_end(ap);
    FILE *file = tmpfile();
    int keep[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    const struct verb *v = verb_find(verb);
    int rc = v->run(v, argc, argv);
    fflush(stdout);
    dup2(keep[0], STDOUT_FILENO);
    dup2(keep[1], STDERR_FILENO);
    close(keep[0]);
    close(keep[1]);
    rewind(file);
    out[fread(out, 1, sizeof out - 1, file)] = '\0';
    fclose(file);
    return rc;
}

static void has(const char *words)
{
    if (!strstr(out, words))
        fail_msg("'%s' is not in:\n%s", words, out);
}

static void has_not(const char *words)
{
    if (strstr(out, words))
        fail_msg("'%s' is in:\n%s", words, out);
}

static void status_without_pods(void **state)
{
    (void)state;
    forbid("/pods");
    assert_int_equal(says("status", NULL), CLI_DONE);
    has("team/imagenet  Ready");
    has("  workers  1 of 2: n1\n");
    has("  clients  3 of 3: n1, n2, n3\n");
    has("  readers  not known: you may not list pods\n");
    has("you may not read them: pods (ask for the role view in namespace team)\n");
    assert_int_equal(says("status", "--json", NULL), CLI_DONE);
    has("\"workersReady\": 1");
    has_not("\"runningPods\"");
    fake_api_mend(api);
    assert_int_equal(says("status", NULL), CLI_DONE);
    has("  readers  running: 1\n");
    has_not("you may not");
}

static void why_without_pods(void **state)
{
    (void)state;
    forbid("/pods");
    assert_int_equal(says("why", "imagenet", NULL), CLI_DONE);
    has("dataset imagenet is Ready");
    assert_int_equal(says("why", "train-0", NULL), CLI_FAILED);
    has("you may not list pods in namespace team, and without them it is not known what they wait for: ask for the role view there");
    fake_api_mend(api);
}

static void why_without_events_and_nodes(void **state)
{
    (void)state;
    forbid("/events");
    forbid("/api/v1/nodes");
    says("why", "train-0", NULL);
    has("pod train-0 runs, and nothing is wrong with Dataset imagenet");
    has("you may not read them: events, nodes (ask for the role view in namespace team; what is of the whole cluster, its administrator may read)\n");
    fake_api_mend(api);
}

static void why_without_datasets(void **state)
{
    (void)state;
    forbid("/datasets");
    says("why", "train-1", NULL);
    has("pod train-1 waits for the image x:1 of container main, not for data: ErrImagePull: no such image");
    has("you may not read them: datasets");
    says("why", "train-0", NULL);
    has("pod train-0 runs; whether anything is wrong with its data (claim imagenet) is not known, since you may not list datasets.millrace.dev");
    says("why", "train-2", NULL);
    has("pod train-2 is gated: it waits for Dataset imagenet (Loading 40)");
    assert_int_equal(says("why", "dataset/imagenet", NULL), CLI_FAILED);
    has("you may not read datasets in namespace team: ask for the role view there");
    has_not("there is no");
    fake_api_mend(api);
}

static void doctor_without_rights(void **state)
{
    (void)state;
    const struct fake_fault may = {.in = "selfsubjectaccessreviews",
        .times = 15,
        .kind = FAULT_STATUS,
        .status = 201,
        .body = "{\"status\":{\"allowed\":true}}"};
    fake_api_fault(api, &may);
    forbid("/api/v1/pods");
    forbid("/v1alpha1/datasets"); /* of all namespaces */
    says("doctor", NULL);
    has("skipped operator: you may not list pods of all namespaces");
    has("Datasets: all 1 in team are Ready");
    fake_api_mend(api);
    fake_api_fault(api, &may);
    forbid("/v1alpha1/datasets");
    says("doctor", NULL);
    has("Datasets: all 1 in team are Ready");
    fake_api_mend(api);
    fake_api_fault(api, &may);
    forbid("/datasets");
    says("doctor", NULL);
    has("skipped Datasets: you may not list them in namespace team");
    fake_api_mend(api);
    forbid("/");
    says("doctor", NULL);
    has("ok      the API server");
    has("skipped rights: the API server does not tell what you may do");
    fake_api_mend(api);
}

/* Somebody whom the server does not know is told what to do about that. */
static void nobody_at_all(void **state)
{
    (void)state;
    const struct fake_fault fault = {.times = 1000,
        .kind = FAULT_STATUS,
        .status = 401,
        .body =
            "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}"};
    static const char *const asked[] = {"status", "doctor"};
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        fake_api_fault(api, &fault);
        assert_int_equal(says(asked[i], NULL), CLI_FAILED);
        has("Unauthorized");
        has("log in again");
        fake_api_mend(api);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(status_without_pods, mend),
        cmocka_unit_test_teardown(why_without_pods, mend),
        cmocka_unit_test_teardown(why_without_events_and_nodes, mend),
        cmocka_unit_test_teardown(why_without_datasets, mend),
        cmocka_unit_test_teardown(doctor_without_rights, mend),
        cmocka_unit_test_teardown(nobody_at_all, mend),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
