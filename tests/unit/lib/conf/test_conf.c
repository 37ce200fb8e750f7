/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/conf/conf.h"

#include <string.h>

static void test_full(void **state)
{
    (void)state;
    static const char text[] =
        "{\"namespace\":\"ns\",\"name\":\"d\",\"uid\":\"u\",\"readOnly\":true,\"mounts\":["
        "{\"mountPoint\":\"s3://b/p\",\"path\":\"/a/b/\",\"readOnly\":true,\"options\":{\"region\":\"r\",\"endpoint\":\"e\"},"
        "\"secrets\":{\"access-key-id\":\"0/access-key-id\"},\"secretNames\":{\"access-key-id\":\"creds:key\"}},"
        "{\"mountPoint\":\"file:///x\",\"name\":\"second\"}],"
        "\"cache\":{\"tiers\":[{\"medium\":\"MEM\",\"quota\":5},{\"medium\":\"HDD\",\"quota\":6}],\"writeType\":\"Through\",\"profile\":\"sealed\"},"
        "\"metadataSync\":7,\"workers\":{\"service\":\"s\",\"name\":\"n\",\"count\":2,\"port\":9400}}";
    struct err e = ERR_INIT;
    cleanup_conf struct conf *c = conf_parse(text, strlen(text), &e);
    if (!c)
        fail_msg("%s", e.msg);
    assert_string_equal(c->namespace_, "ns");
    assert_string_equal(c->name, "d");
    assert_string_equal(c->uid, "u");
    assert_true(c->read_only);
    assert_int_equal(c->nmounts, 2);
    assert_string_equal(c->mounts[0].mount_point, "s3://b/p");
    assert_string_equal(c->mounts[0].path, "/a/b");
    assert_true(c->mounts[0].read_only);
    assert_int_equal(c->mounts[0].noptions, 2);
    assert_string_equal(c->mounts[0].secrets[0].value, "0/access-key-id");
    assert_string_equal(c->mounts[0].secret_names[0].value, "creds:key");
    assert_string_equal(c->mounts[1].path, "/second");
    assert_true(c->mounts[1].read_only); /* as the whole dataset is */
    assert_int_equal(c->ntiers, 2);
    assert_int_equal(c->tiers[1].medium, CONF_HDD);
    assert_int_equal(c->tiers[1].quota, 6);
    assert_int_equal(c->write, CONF_THROUGH);
    assert_int_equal(c->profile, CONF_PROFILE_SEALED);
    assert_int_equal(c->metadata_sync_ns, 7 * NS_PER_S);
    assert_int_equal(c->worker_count, 2);
    assert_int_equal(c->worker_port, 9400);
}

static void test_defaults(void **state)
{
    (void)state;
    static const char text[] = "{\"mounts\":[{\"mountPoint\":\"file:///x\",\"path\":\"//\"}]}",
                      plain[] = "{\"mounts\":[{\"mountPoint\":\"file:///x\"}]}";
    struct err e = ERR_INIT;
    cleanup_conf struct conf *c = conf_parse(plain, strlen(plain), &e);
    assert_non_null(c);
    assert_string_equal(c->mounts[0].path, "/");
    assert_string_equal(c->name, "");
    assert_int_equal(c->ntiers, 1);
    assert_int_equal(c->tiers[0].medium, CONF_MEM);
    assert_true(c->tiers[0].quota >= 64 << 20);
    assert_int_equal(c->write, CONF_CACHE_THROUGH);
    assert_int_equal(c->profile, CONF_PROFILE_AUTO);
    assert_null(c->worker_name);
    cleanup_conf struct conf *slashes = conf_parse(text, strlen(text), &e);
    assert_non_null(slashes);
    assert_string_equal(slashes->mounts[0].path, "/");
}

/* Every error names the field and what to do. */
static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *word;
    } table[] = {
        {"", "configuration", ""},
        {"[]", "configuration", "object"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\"}", "configuration", "line"},
        {"{}", "mounts", "at least one"},
        {"{\"mounts\":[]}", "mounts", "at least one"},
        {"{\"mounts\":{}}", "mounts", "list"},
        {"{\"mounts\":[1]}", "mounts[0]", "object"},
        {"{\"mounts\":[{}]}", "mounts[0].mountPoint", "missing"},
        {"{\"mounts\":[{\"mountPoint\":7}]}", "mounts[0].mountPoint", "string"},
        {"{\"mounts\":[{\"mountPoint\":\"bucket\"}]}", "mounts[0].mountPoint", "scheme"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"path\":\"x\"}]}", "mounts[0].path",
            "begin with"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"path\":\"/a//b\"}]}", "mounts[0].path",
            "empty"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"path\":\"/a/../b\"}]}", "mounts[0].path", ".."},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"readOnly\":\"yes\"}]}", "mounts[0].readOnly",
            "true or false"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"option\":{}}]}", "mounts[0].option",
            "unknown field; known here: mountPoint"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"options\":{\"path-style\":true}}]}",
            "mounts[0].options.path-style", "quotes"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"options\":[]}]}", "mounts[0].options",
            "object"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"secrets\":{\"k\":\"../../etc/passwd\"}}]}",
            "mounts[0].secrets.k", "inside"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"secrets\":{\"k\":\"/etc/passwd\"}}]}",
            "mounts[0].secrets.k", "inside"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"secrets\":{\"k\":\"a/..\"},\"secretNames\":{\"k\":\"s:k\"}}]}",
            "mounts[0].secrets.k", "inside"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"},{\"mountPoint\":\"s3://b\"}]}", "mounts[0].path",
            "more than one"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\",\"path\":\"/x\"},{\"mountPoint\":\"s3://b\",\"path\":\"/x/\"}]}",
            "mounts[1].path", "mounts[0]"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":[]}", "cache", "object"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"tiers\":[{\"medium\":\"TAPE\",\"quota\":1}]}}",
            "cache.tiers[0].medium", "SSD"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":\"1Gi\"}]}}",
            "cache.tiers[0].quota", "bytes"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":-1}]}}",
            "cache.tiers[0].quota", "greater"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"writeType\":\"AsyncThrough\"}}",
            "cache.writeType", "Through, CacheThrough"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"profile\":\"fast\"}}",
            "cache.profile", "auto, sealed, open"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"profile\":\"sealed\"}}",
            "cache.profile", "readOnly"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\",\"count\":1,\"port\":70000}}",
            "workers", "port"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"count\":1,\"port\":1}}",
            "workers", "service"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"metadataSync\":0}", "metadataSync",
            "greater"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"readonly\":true}", "readonly",
            "unknown field"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct err e = ERR_INIT;
        struct conf *c = conf_parse(table[i].text, strlen(table[i].text), &e);
        if (c)
            fail_msg("accepted: %s", table[i].text);
        if (e.cls != ERR_INVALID || !strstr(e.msg, table[i].field) || !strstr(e.msg, table[i].word))
            fail_msg("%s: \"%s\" lacks \"%s\" or \"%s\"", table[i].text, e.msg, table[i].field,
                table[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
