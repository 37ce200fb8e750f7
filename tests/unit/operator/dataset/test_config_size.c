/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that are within their limits each may be more together than a pod's environment takes:
 * that is told, and no pod is made that cannot start. */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
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

/* What Ready says, "" if the plan says nothing of it; *pods: whether any is made. */
static char *plan_of(int mounts, bool *pods)
{
    cleanup_json json_t *cr = dataset_of(mounts);
    struct dataset_observed o = {.cr = cr,
        .now_ns = 1,
        .env = {.image = "i", .pull_policy = "", .pull_secrets = "", .plugin_hash = ""}};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_fits)};
    return cmocka_run_group_tests_name("config_size", tests, NULL, NULL);
}
