/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that are within their limits each may be more together than a pod's environment takes:
 * that is told, and no pod is made that cannot start, nor one that serves replaced by it. */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/attach/observed.h"
#include "operator/dataload/observed.h"
#include "operator/dataset/observed.h"

#include <stdlib.h>
#include <string.h>

/* With n mounts, whose URLs have about 1000 bytes, and 64 rules. */
static json_t *dataset_of(int n)
{
    json_t *mounts = json_array(), *rules = json_array();
    char name[201];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < n; i++) {
        cleanup_free char *url = xasprintf("s3://bucket/%s/%s/%s/%s", name, name, name, name),
                          *path = xasprintf("/%d", i);
        json_array_append_new(mounts,
            json_pack("{s:s, s:s, s:{s:s, s:s}}", "mountPoint", url, "path", path, "options",
                "role-arn", url, "external-id", url));
    }
    for (int i = 0; i < 64; i++) {
        cleanup_free char *path = xasprintf("/%d/%s/%s/%s/%s", i, name, name, name, name);
        json_array_append_new(rules, json_pack("{s:s, s:s}", "path", path, "writeType", "Through"));
    }
    return json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:o, s:{s:o}}}", "metadata", "name", "d",
        "namespace", "ns", "uid", "u", "generation", 1, "spec", "mounts", mounts, "cache", "rules",
        rules);
}

static const struct render_env env = {
    .image = "i", .pull_policy = "", .pull_secrets = "", .plugin_hash = ""};

/* What Ready says, "" if the plan says nothing of it; *pods: whether any is made. */
static char *plan_of(int mounts, bool *pods)
{
    cleanup_json json_t *cr = dataset_of(mounts);
    struct dataset_observed o = {.cr = cr, .now_ns = 1, .env = env};
    cleanup_plan struct plan p = PLAN_INIT;
    char *said = xstrdup("");
    dataset_plan(&o, &p);
    *pods = false;
    for (size_t i = 0; i < p.n; i++) {
        *pods |= p.actions[i].op == PLAN_CREATE && p.actions[i].res == &kube_pods;
        if (p.actions[i].op != PLAN_STATUS)
            continue;
        const json_t *c = cond_find(
            jget_arr(p.actions[i].body, "status.conditions"), DATASET_COND_READY);
        free(said);
        said = xasprintf("%s %s", jget_str(c, "reason", ""), jget_str(c, "message", ""));
    }
    return said;
}

static void test_what_fits(void **state)
{
    (void)state;
    bool pods;
    cleanup_free char *few = plan_of(10, &pods);
    if (!pods)
        fail_msg("%s", few);
    assert_null(strstr(few, "InvalidSpec"));
    cleanup_free char *many = plan_of(32, &pods);
    assert_false(pods);
    if (strncmp(many, "InvalidSpec spec.mounts, ", 25) != 0 || !strstr(many, "come to 1")
        || !strstr(many, "and pods take 127"))
        fail_msg("%s", many);
}

/* The client as it was made of a spec that fitted, on node n1, where it serves. */
static json_t *serving_client(void)
{
    const char *reason = NULL;
    struct err e = ERR_INIT;
    cleanup_json json_t *cr = dataset_of(10);
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
    json_t *pod = render_client(d, &env, "n1");
    json_object_set_new(json_object_get(pod, "metadata"), "uid", json_string("p1"));
    json_object_set_new(pod, "status",
        json_pack("{s:s, s:[{s:s, s:s}]}", "phase", "Running", "conditions", "type", "Ready",
            "status", "True"));
    return pod;
}

static json_t *attachment_of(const char *node, bool attached)
{
    return json_pack("{s:{s:s}, s:{s:s}, s:{s:b}}", "metadata", "name", node, "spec", "nodeName",
        node, "status", "attached", (int)attached);
}

/* What an edit asks of clients: the node n1 has one that serves, n2 waits for one. */
static void plan_edit(int mounts, struct plan *p)
{
    cleanup_json json_t *cr = dataset_of(mounts), *pod = serving_client(),
                        *n1 = attachment_of("n1", true), *n2 = attachment_of("n2", false);
    const json_t *attachments[] = {n1, n2};
    const struct cache_pod pods[] = {{.pod = pod}};
    struct attach_observed o = {.pv = "pv",
        .cr = cr,
        .attachments = attachments,
        .nattachments = 2,
        .pods = pods,
        .npods = 1,
        .now_ns = 1,
        .env = env};
    attach_plan(&o, p);
}

static size_t changes_of_pods(const struct plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += p->actions[i].res == &kube_pods;
    return n;
}

static void test_clients_stay(void **state)
{
    (void)state;
    cleanup_plan struct plan fits = PLAN_INIT, large = PLAN_INIT;
    plan_edit(11, &fits);
    assert_true(changes_of_pods(&fits) > 0);
    plan_edit(32, &large);
    assert_int_equal(changes_of_pods(&large), 0);
    const char *said = "";
    for (size_t i = 0; i < large.n; i++)
        if (large.actions[i].op == PLAN_STATUS)
            said = jget_str(large.actions[i].body, "status.attachError.message", "");
    if (!strstr(said, "and pods take 127"))
        fail_msg("%s", said);
}

static void test_no_loader(void **state)
{
    (void)state;
    cleanup_json json_t *dataset = dataset_of(32),
                        *cr = json_pack("{s:{s:s, s:s, s:s}, s:{s:{s:s}}}", "metadata", "name", "l",
                            "namespace", "ns", "uid", "lu", "spec", "dataset", "name", "d");
    json_object_set_new(dataset, "status",
        json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "conditions", "type", DATASET_COND_READY,
            "status", "True", "type", DATASET_COND_WORKERS, "status", "True"));
    json_object_set_new(
        json_object_get(json_object_get(dataset, "spec"), "cache"), "replicas", json_integer(1));
    struct dataload_observed o = {.cr = cr, .dataset = dataset, .now_ns = 1, .env = env};
    cleanup_plan struct plan p = PLAN_INIT;
    dataload_plan(&o, &p);
    assert_int_equal(changes_of_pods(&p), 0);
    const char *said = "";
    for (size_t i = 0; i < p.n; i++)
        if (p.actions[i].op == PLAN_STATUS)
            said = cond_message(
                jget_arr(p.actions[i].body, "status.conditions"), DATALOAD_COND_READY);
    if (strncmp(said, "Dataset d is not valid: spec.mounts, ", 37) != 0)
        fail_msg("%s", said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_fits),
        cmocka_unit_test(test_clients_stay), cmocka_unit_test(test_no_loader)};
    return cmocka_run_group_tests_name("config_size", tests, NULL, NULL);
}
