/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets that mount each other are found, however long the way round; others are not blamed. */
#include "operator/dataset/ring.h"

#include "lib/base/mem.h"
#include "lib/json/obj.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <string.h>

static struct fake_api *api;
static struct kube *kube;
static struct informer *datasets;

static json_t *dataset(const char *name, const char *url, const char *more)
{
    return json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s}, {s:s}]}}", "metadata", "name", name,
        "namespace", "team", "uid", name, "spec", "mounts", "mountPoint", url, "mountPoint", more);
}

static void put(const char *name, const char *url, const char *more)
{
    fake_api_put(api, &kube_datasets, dataset(name, url, more));
}

static void check(const char *name, const char *url, const char *want)
{
    cleanup_json json_t *cr = dataset(name, url, "s3://bucket");
    cleanup_free char *found = ring_claim(datasets, cr);
    if (want)
        assert_string_equal(found, want);
    else
        assert_null(found);
}

static void test_round(void **state)
{
    (void)state;
    check("a", "pvc://b", "b");
    check("b", "pvc://c/dir", "c");
    check("c", "pvc://a/", "a");
}

static void test_not_round(void **state)
{
    (void)state;
    check("a", "s3://b", NULL);
    check("a", "pvc://plain", NULL);
    check("a", "pvc://nothing", NULL);
    check("leaf", "pvc://a", NULL); /* it leads into a ring, and is no part of it */
    check("own", "pvc://own", NULL);
    check("much", "pvc://wide", NULL);
}

static int prepare(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    api = fake_api_start();
    kube = fake_api_client(api);
    put("a", "pvc://b", "s3://x");
    put("b", "s3://x", "pvc://c/dir");
    put("c", "pvc://a/", "s3://x");
    put("plain", "s3://x", "pvc://claim");
    put("wide", "pvc://wide", "pvc://wide"); /* each step has two of them */
    datasets = informer_new(kube, &(struct informer_conf){.res = &kube_datasets});
    assert_int_equal(informer_start(datasets, &e), 0);
    eventually(informer_synced(datasets));
    return 0;
}

static int finish(void **state)
{
    (void)state;
    informer_free(datasets);
    kube_free(kube);
    fake_api_stop(api);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_not_round),
    };
    return cmocka_run_group_tests_name("ring", tests, prepare, finish);
}
