/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "csi/client_config.h"
#include "csi/volume_context.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/conf.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdio.h>
#include <string.h>

#define UID "0b2c7a9e-1f7d-4f0e-9a0a-7a0e8c1d2e3f"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        bool (*check)(const char *);
        const char *text;
        bool good;
    } cases[] = {
        {volume_is_label, "default", true},
        {volume_is_label, UID, true},
        {volume_is_label, "", false},
        {volume_is_label, "..", false},
        {volume_is_label, "a/b", false},
        {volume_is_label, "-a", false},
        {volume_is_label, "a-", false},
        {volume_is_label, "A", false},
        {volume_is_label, "a.b", false},
        {volume_is_label, "a\n", false},
        {volume_is_subdomain, "a.b-c.d", true},
        {volume_is_subdomain, "a..b", false},
        {volume_is_subdomain, ".a", false},
        {volume_is_subdomain, "a/../b", false},
        {volume_is_subdomain, "", false},
        {volume_is_id, "csi-12ab_C.d", true},
        {volume_is_id, ".hidden", false},
        {volume_is_id, "a/b", false},
        {volume_is_id, "", false},
        {volume_is_path, "/var/lib/x", true},
        {volume_is_path, "/", true},
        {volume_is_path, "//a//b/", true},
        {volume_is_path, "some/path", false},
        {volume_is_path, "", false},
        {volume_is_path, "/a/../b", false},
        {volume_is_path, "/a/..", false},
        {volume_is_path, "/a/./b", false},
        {volume_is_path, "/a/...", true},
        {volume_is_path, "/a..b/c", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (cases[i].check(cases[i].text) != cases[i].good)
            fail_msg("'%s' should %sbe accepted", cases[i].text, cases[i].good ? "" : "not ");
    char text[300];
    memset(text, 'a', sizeof text);
    text[63] = '\0';
    assert_true(volume_is_label(text));
    text[63] = 'a', text[64] = '\0';
    assert_false(volume_is_label(text));
    text[64] = 'a', text[128] = '\0';
    assert_true(volume_is_id(text));
    text[128] = 'a', text[129] = '\0';
    assert_false(volume_is_id(text));
}

static void test_persistent(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct volume_context s;
    struct volume_pair p[] = {{VOL_DATASET_NAMESPACE, "default"}, {VOL_DATASET_UID, UID},
        {VOL_DATASET_NAME, "mnist"}, {VOL_READ_ONLY, "true"}};
    assert_int_equal(volume_context_persistent(p, 4, &s, &e), 0);
    assert_int_equal(s.kind, VOLUME_KIND_DATASET);
    assert_string_equal(s.ns, "default");
    assert_string_equal(s.uid, UID);
    assert_int_equal(s.read_only, 1);
    char title[400];
    volume_context_title(&s, title, sizeof title);
    assert_string_equal(title, "dataset default/mnist");
    assert_int_equal(volume_context_persistent(p, 3, &s, &e), 0);
    assert_int_equal(s.read_only, -1);
    static const char *const bad[] = {"", "..", "../../etc", "a/b", "/", "a b", "A"};
    for (size_t key = 0; key < 3; key++)
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
            const char *good = p[key].value;
            p[key].value = bad[i];
            err_clear(&e);
            assert_int_equal(volume_context_persistent(p, 4, &s, &e), -1);
            assert_int_equal(e.cls, ERR_INVALID);
            assert_non_null(strstr(e.msg, p[key].key));
            p[key].value = good;
        }
    p[3].value = "yes";
    assert_int_equal(volume_context_persistent(p, 4, &s, &e), -1);
}

static void test_inline(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct volume_context s;
    struct volume_pair p[] = {{VOL_EPHEMERAL, "true"}, {VOL_KIND, "worker"},
        {VOL_POD_NAMESPACE, "team-a"}, {VOL_POD_NAME, "mnist-cache-0"}, {VOL_DATASET_UID, UID},
        {VOL_DATASET_NAMESPACE, "kube-system"}};
    assert_true(volume_context_is_inline(p, 6));
    assert_int_equal(volume_context_inline(p, 6, &s, &e), 0);
    assert_int_equal(s.kind, VOLUME_KIND_WORKER);
    assert_string_equal(s.ns, "team-a"); /* kubelet's word, not the user's VOL_DATASET_NAMESPACE */
    assert_string_equal(s.pod, "mnist-cache-0");
    p[1].value = "client";
    assert_int_equal(volume_context_inline(p, 6, &s, &e), 0);
    assert_int_equal(s.kind, VOLUME_KIND_CLIENT);
    static const struct {
        size_t key;
        const char *value;
    } bad[] = {{1, "dataset"}, {1, "child"}, {1, ""}, {2, ".."}, {2, ""}, {3, "a/b"}, {3, ""},
        {4, "../x"}, {4, "/etc"}, {4, ""}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *good = p[bad[i].key].value;
        p[bad[i].key].value = bad[i].value;
        err_clear(&e);
        assert_int_equal(volume_context_inline(p, 6, &s, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        p[bad[i].key].value = good;
    }
    p[0].value = "false";
    assert_false(volume_context_is_inline(p, 6));
}

static void test_child_config(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct volume_pair p[] = {{"url", "s3://bucket/a \"b\""}, {"endpoint", "http://127.0.0.1:7070"},
        {"cache-memory", "64Mi"}, {"cache-disk", "1Gi"}, {"write-type", "CacheThrough"},
        {"csi.storage.k8s.io/pv/name", "x"}, {"immutable", "true"}};
    assert_int_equal(client_config_check(p, ARRAY_LEN(p), true, &e), 0);
    cleanup_free char *text = client_config("vol-1", true, p, ARRAY_LEN(p), true);
    cleanup_json json_t *j = json_parse(text, strlen(text), &e);
    assert_non_null(j);
    assert_string_equal(jget_str(j, "mounts[0].mountPoint", ""), "s3://bucket/a \"b\"");
    assert_string_equal(jget_str(j, "mounts[0].options.endpoint", ""), "http://127.0.0.1:7070");
    assert_string_equal(jget_str(j, "mounts[0].secretDir", ""), "0");
    assert_true(jget_bool(j, "mounts[0].immutable", false));
    assert_null(jget(j, "mounts[0].options.immutable"));
    cleanup_conf struct conf *conf = conf_parse(text, strlen(text), &e); /* a client takes it */
    assert_non_null(conf);
    assert_null(jget(j, "mounts[0].options.url"));
    assert_null(jget(j, "mounts[0].options.\"csi.storage.k8s.io/pv/name\""));
    assert_true(jget_bool(j, "readOnly", false));
    assert_int_equal(jget_int(j, "cache.tiers[0].quota", 0), 64 << 20);
    assert_string_equal(jget_str(j, "cache.tiers[1].medium", ""), "SSD");
    assert_string_equal(jget_str(j, "cache.rules[0].path", ""), "/");
    assert_string_equal(jget_str(j, "cache.rules[0].writeType", ""), "CacheThrough");
    cleanup_free char *plain = client_config("vol-1", true, p, 1, false);
    assert_null(strstr(plain, "secretDir"));
    assert_null(strstr(plain, "immutable"));
    static const struct volume_pair bad[] = {{"url", "no-scheme"}, {"cache-memory", "lots"},
        {"cache-disk", "-1"}, {"write-type", "Sometimes"}, {"write-type", "asyncThrough"},
        {"immutable", "yes"}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct volume_pair q[] = {bad[i], {"url", "file:///x"}};
        err_clear(&e);
        assert_int_equal(client_config_check(q, 2, true, &e), -1);
        assert_non_null(strstr(e.msg, bad[i].key));
    }
}

/* The client would refuse it again and again, and the pod wait for ever. */
static void test_immutable_is_not_written_to(void **state)
{
    (void)state;
    struct volume_pair p[] = {{"url", "file:///data"}, {"immutable", "true"}};
    struct err e = ERR_INIT;
    assert_int_equal(client_config_check(p, 2, true, &e), 0);
    assert_int_equal(client_config_check(p, 2, false, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(
        strstr(e.msg, "parameter immutable is true, but the volume is mounted for writing"));
    p[1].value = "false";
    assert_int_equal(client_config_check(p, 2, false, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
        cmocka_unit_test(test_persistent), cmocka_unit_test(test_inline),
        cmocka_unit_test(test_immutable_is_not_written_to), cmocka_unit_test(test_child_config)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
