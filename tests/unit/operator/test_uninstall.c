/* SPDX-License-Identifier: Apache-2.0 */
/* Who is named before an operator of one namespace is uninstalled: of other namespaces those that
 * one has worked for, whose finalizer waits for an operator. (The program: test_operator.c.) */
#include "operator/uninstall.h"

#include "lib/base/names.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <string.h>

static struct fake_api *api;
static struct kube *kube;

static void put_named(
    const struct kube_res *res, const char *ns, const char *name, const char *finalizer)
{
    json_t *object = json_pack("{s:{s:s, s:s, s:[s, s]}}", "metadata", "namespace", ns, "name",
        name, "finalizers", "x/y", finalizer);
    assert_non_null(object);
    fake_api_put(api, res, object);
}

static void expect_named(const char *says, const char * not )
{
    const struct uninstall_scope scope = {"b", true, ""};
    cleanup_buf struct buf out = BUF_INIT(1u << 16);
    struct err e = ERR_INIT;
    if (uninstall_check(kube, &scope, &out, &e))
        fail_msg("%s", e.msg);
    if (!says)
        assert_string_equal(buf_str(&out), "");
    else if (!strstr(buf_str(&out), says) || strstr(buf_str(&out), not ))
        fail_msg("%s", buf_str(&out));
}

static void test_of_other_namespaces(void **state)
{
    (void)state;
    put_named(&kube_datasets, "a", "never", "x/z");
    put_named(&kube_tfjobs, "a", "anothers", "x/z");
    expect_named(NULL, NULL);
    put_named(&kube_datasets, "a", "left", FINALIZER_DATASET);
    expect_named("namespace a: 1 Datasets (left)\n", "anothers");
    put_named(&kube_datasets, "b", "own", "x/z");
    expect_named("namespace b: 1 Datasets (own)\n", "never");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_other_namespaces)};
    api = fake_api_start();
    kube = fake_api_client(api);
    int rc = cmocka_run_group_tests_name("uninstall", tests, NULL, NULL);
    kube_free(kube);
    fake_api_stop(api);
    return rc;
}
