/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a Dataset: numbers for programs beside words for people, and nothing that grows
 * without end. */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/dataset.h"

#include <stdio.h>
#include <string.h>

static json_t *status_of(const struct dataset_status *given)
{
    struct dataset_status s = *given;
    cleanup_json json_t *cr = json_object(), *conditions = json_array();
    s.phase = DATASET_BOUND;
    s.conditions = conditions;
    return dataset_status_json(cr, &s);
}

/* All of it is 100 %, all but one byte is not. */
static void test_percentages(void **state)
{
    (void)state;
    static const struct {
        int64_t cached, all;
        const char *text;
        int percent;
    } cases[] = {{0, 0, "0.0%", 0}, {0, 1000, "0.0%", 0}, {999999, 1000000, "99.9%", 99},
        {(INT64_C(1) << 52) - 1, INT64_C(1) << 52, "99.9%", 99}, {1000000, 1000000, "100.0%", 100},
        {2000000, 1000000, "100.0%", 100}, {84, 1000, "8.4%", 8}, {3, 1000, "0.3%", 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct dataset_status s = {.has_ufs = true,
            .ufs_complete = true,
            .cached = cases[i].cached,
            .ufs_bytes = cases[i].all};
        cleanup_json json_t *j = status_of(&s);
        assert_string_equal(jget_str(j, "cacheStates.cachedPercentage", ""), cases[i].text);
        assert_int_equal(jget_int(j, "cacheStates.cachedPercent", -1), cases[i].percent);
    }
}

/* Files without a byte are all there, nothing at all is not; before all is counted it is not all.
 */
static void test_percentages_of_nothing(void **state)
{
    (void)state;
    static const struct {
        int64_t files, cached, all;
        bool complete;
        int percent, told; /* told: to jobs; -1: not known */
    } cases[] = {{0, 0, 0, true, 0, 0}, {3, 0, 0, true, 100, 100}, {3, 0, 0, false, 0, -1},
        {9, 2000, 1000, false, 99, -1}, {9, 500, 1000, false, 50, -1},
        {9, 500, 1000, true, 50, 50}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct dataset_status s = {.has_ufs = true,
            .ufs_complete = cases[i].complete,
            .ufs_files = cases[i].files,
            .cached = cases[i].cached,
            .ufs_bytes = cases[i].all};
        cleanup_json json_t *j = status_of(&s), *cr = json_pack("{s:O}", "status", j);
        assert_int_equal(jget_int(j, "cacheStates.cachedPercent", -1), cases[i].percent);
        assert_int_equal(dataset_cached_percent(cr), cases[i].told);
    }
}

static void test_hits(void **state)
{
    (void)state;
    const struct dataset_status s = {.read_cache = 500, .read_worker = 250, .read_direct = 250};
    cleanup_json json_t *j = status_of(&s);
    assert_int_equal(jget_int(j, "cacheStates.cacheHitPercent", -1), 75);
    assert_int_equal(jget_int(j, "cacheStates.localHitPercent", -1), 50);
    assert_int_equal(jget_int(j, "cacheStates.remoteHitPercent", -1), 25);
    assert_null(jget(j, "cacheStates.cachedPercent")); /* of nobody knows what */
    cleanup_json json_t *idle = status_of(&(struct dataset_status){0});
    assert_null(jget(idle, "cacheStates.cacheHitPercent")); /* nothing was read */
}

static void test_first_nodes(void **state)
{
    (void)state;
    struct dataset_status s = {.clients = {.desired = 30, .ready = 30, .nodes = json_array()}};
    for (int i = 29; i >= 0; i--)
        json_array_append_new(s.clients.nodes, json_sprintf("node-%02d", i));
    cleanup_json json_t *j = status_of(&s);
    assert_int_equal(jget_len(j, "clients.nodes"), DATASET_NODES_MAX);
    assert_string_equal(jget_str(j, "clients.nodes[0]", ""), "node-00");
    assert_string_equal(jget_str(j, "clients.nodes[19]", ""), "node-19");
    assert_int_equal(jget_int(j, "clients.ready", 0), 30);
    assert_string_equal(jget_str(j, "clients.summary", ""), "30/30");
}

/* What the user left out is there with what is used; what is long or secret is not. */
static void test_resolved(void **state)
{
    (void)state;
    char pem[5000];
    memset(pem, 'x', sizeof pem - 1);
    pem[sizeof pem - 1] = '\0';
    const char *reason = "";
    struct err e = ERR_INIT;
    cleanup_json json_t *cr = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s, s:b, s:{s:s, s:s}}]}}",
        "metadata", "name", "d", "namespace", "ns", "uid", "u", "spec", "mounts", "mountPoint",
        "s3://b", "immutable", 1, "options", "ca-cert", pem, "region", "r");
    cleanup_json json_t *defaults = json_pack(
        "{s:{s:{s:s, s:s}, s:{s:s}}, s:{s:i, s:[{s:s, s:s}], s:{s:[{s:s, s:s}]}}}", "options", "s3",
        "endpoint", "https://e", "region", "other", "pvc", "can-hang", "true", "cache", "replicas",
        3, "tiers", "medium", "SSD", "quota", "1536Mi", "client", "tiers", "medium", "Memory",
        "quota", "1000001000");
    cleanup_dataset struct dataset *d = dataset_parse(cr, defaults, &reason, &e);
    if (!d)
        fail_msg("%s", e.msg);
    cleanup_json json_t *j = status_of(&(struct dataset_status){.spec = d});
    assert_true(jget_bool(j, "mounts[0].immutable", false));
    assert_true(jget_bool(j, "mounts[0].readOnly", false));
    assert_string_equal(jget_str(j, "mounts[0].options.region", ""), "r");
    assert_string_equal(jget_str(j, "mounts[0].options.endpoint", ""), "https://e");
    assert_string_equal(jget_str(j, "mounts[0].options.ca-cert", ""), "(4999 characters)");
    assert_null(jget(j, "mounts[0].options.can-hang"));
    assert_int_equal(jget_int(j, "cache.replicas", 0), 3);
    assert_string_equal(jget_str(j, "cache.tiers[0].quota", ""), "1536Mi");
    assert_string_equal(jget_str(j, "cache.client.tiers[0].medium", ""), "Memory");
    assert_string_equal(jget_str(j, "cache.client.tiers[0].quota", ""), "1000001000");
    assert_null(jget(j, "cache.worker.tiers")); /* has the common ones */
    assert_string_equal(jget_str(j, "cache.worker.tolerations[0].key", ""), "nvidia.com/gpu");
    assert_int_equal(jget_int(j, "cache.metadataSyncSeconds", 0), 600);
}

static void test_news(void **state)
{
    (void)state;
    static const char before[] =
        "{\"kind\":\"Dataset\",\"metadata\":{\"name\":\"d\",\"generation\":1,\"resourceVersion\":\"1\"},\"spec\":{\"a\":1},"
        "\"status\":{\"phase\":\"Bound\",\"ufsTotalBytes\":3,\"cacheStates\":{\"cachedBytes\":1},\"writes\":{\"pendingFiles\":2},"
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],\"preload\":{\"percent\":3}}}";
    static const struct {
        const char *was, *now;
        bool news;
    } cases[] = {
        {"\"1\"", "\"2\"", false},
        {"\"cachedBytes\":1", "\"cachedBytes\":2", false},
        {"\"writes\"", "\"fileNum\"", false},
        {"\"pendingFiles\":2", "\"pendingFiles\":0", false},
        {"\"ufsTotalBytes\":3", "\"ufsTotalBytes\":4", false},
        {"\"percent\":3", "\"percent\":4", true},
        {"True", "False", true},
        {"Bound", "Failed", true},
        {"\"generation\":1", "\"generation\":2", true},
        {"\"a\":1", "\"a\":2", true},
        {"\"phase\"", "\"other\"", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *at = strstr(before, cases[i].was);
        cleanup_free char *after = xasprintf(
            "%.*s%s%s", (int)(at - before), before, cases[i].now, at + strlen(cases[i].was));
        cleanup_json json_t *was = json_loads(before, 0, NULL), *now = json_loads(after, 0, NULL);
        assert_non_null(now);
        if (dataset_is_news(was, now) != cases[i].news)
            fail_msg("%s", cases[i].now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentages),
        cmocka_unit_test(test_percentages_of_nothing),
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_first_nodes),
        cmocka_unit_test(test_resolved),
        cmocka_unit_test(test_news),
    };
    return cmocka_run_group_tests_name("dataset_status", tests, NULL, NULL);
}
