/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/conf/conf.h"

#include <stdlib.h>
#include <string.h>

static void test_full(void **state)
{
    (void)state;
    static const char text[] =
        "{\"namespace\":\"ns\",\"name\":\"d\",\"uid\":\"u\",\"readOnly\":true,\"mounts\":["
        "{\"mountPoint\":\"s3://b/p\",\"path\":\"/a/b/\",\"readOnly\":true,\"immutable\":true,\"options\":{\"region\":\"r\",\"endpoint\":\"e\"},\"defaultOptions\":{\"tls-verify\":\"false\"},"
        "\"secrets\":{\"access-key-id\":\"0/access-key-id\"},\"secretNames\":{\"access-key-id\":\"creds:key\"},\"secretDir\":\"secret-0\",\"secretDirName\":\"s3\",\"caBundle\":\"keys/0/ca\",\"caBundleName\":\"ca:crt\"},"
        "{\"mountPoint\":\"file:///x\",\"path\":\"/second\",\"immutable\":false}],"
        "\"cache\":{\"tiers\":[{\"medium\":\"MEM\",\"quota\":5},{\"medium\":\"HDD\",\"quota\":6}],\"rules\":[{\"path\":\"/\",\"writeType\":\"Through\"},{\"path\":\"/a/b/\"}]},"
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
    assert_int_equal(c->mounts[0].immutable, CONF_IMMUTABLE_TRUE);
    assert_string_equal(c->mounts[0].default_options[0].value, "false");
    assert_string_equal(c->mounts[0].secret_dir, "secret-0");
    assert_string_equal(c->mounts[0].secret_dir_name, "s3");
    assert_string_equal(c->mounts[0].ca_bundle, "keys/0/ca");
    assert_string_equal(c->mounts[0].ca_bundle_name, "ca:crt");
    assert_int_equal(c->mounts[1].immutable, CONF_IMMUTABLE_FALSE);
    assert_null(c->mounts[1].secret_dir);
    assert_null(c->mounts[1].ca_bundle);
    assert_string_equal(c->mounts[1].path, "/second");
    assert_true(c->mounts[1].read_only); /* as the whole dataset is */
    assert_int_equal(c->ntiers, 2);
    assert_int_equal(c->tiers[1].medium, CONF_HDD);
    assert_int_equal(c->tiers[1].quota, 6);
    assert_int_equal(conf_write_of(c, "/x"), CONF_THROUGH);
    assert_int_equal(conf_write_of(c, "/a/b"), CONF_CACHE_THROUGH);
    assert_int_equal(conf_write_of(c, "/a/b/c"), CONF_CACHE_THROUGH);
    assert_int_equal(conf_write_of(c, "/a/bc"), CONF_THROUGH);
    assert_int_equal(c->metadata_sync_ns, 7 * NS_PER_S);
    assert_int_equal(c->worker_count, 2);
    assert_int_equal(c->worker_port, 9400);
}

static void set_count(const char *path, const char *text)
{
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

/* A number that changes while programs run. What cannot be read changes nothing. */
static void test_workers_in_a_file(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "\n", "x", "-1", "2 ", "1001", "99999999999999999999"};
    char dir[] = "/tmp/millrace-conf.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *file = path_join(dir, "workers");
    cleanup_free char *text = xasprintf(
        "{\"mounts\":[{\"mountPoint\":\"file:///x\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\","
        "\"port\":9400,\"countFile\":\"%s\"}}",
        file);
    struct err e = ERR_INIT;
    cleanup_conf struct conf *c = conf_parse(text, strlen(text), &e);
    assert_non_null(c);
    assert_string_equal(c->worker_name, "n");
    assert_int_equal(conf_workers(c, 7), 7);
    set_count(file, "3");
    assert_int_equal(conf_workers(c, 7), 3);
    set_count(file, "0");
    assert_int_equal(conf_workers(c, 7), 0);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        set_count(file, wrong[i]);
        assert_int_equal(conf_workers(c, 7), 7);
    }
    assert_int_equal(file_remove_tree(dir, NULL), 0);
    static const char fixed[] =
        "{\"mounts\":[{\"mountPoint\":\"file:///x\"}],\"workers\":{\"service\":\"s\","
        "\"name\":\"n\",\"port\":9400,\"count\":2}}";
    cleanup_conf struct conf *f = conf_parse(fixed, strlen(fixed), &e);
    assert_int_equal(conf_workers(f, 7), 2);
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
    assert_int_equal(c->keep_free, CONF_KEEP_FREE);
    assert_int_equal(c->nendpoints, 0);
    assert_int_equal(c->ntiers, 1);
    assert_int_equal(c->tiers[0].medium, CONF_MEM);
    assert_true(c->tiers[0].quota >= 64 << 20);
    assert_int_equal(conf_write_of(c, "/x"), CONF_CACHE_THROUGH);
    assert_int_equal(c->mounts[0].immutable, CONF_IMMUTABLE_UNSET);
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
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"secretDir\":\"../x\"}]}", "mounts[0].secretDir",
            "inside"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"caBundle\":\"/x\"}]}", "mounts[0].caBundle",
            "inside"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"immutable\":\"yes\"}]}", "mounts[0].immutable",
            "true or false"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://b\",\"immutable\":true}]}", "mounts[0].immutable",
            "readOnly"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"},{\"mountPoint\":\"s3://b\"}]}", "mounts[1].path",
            "mounts[0] too"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\",\"path\":\"/x\"},{\"mountPoint\":\"s3://b\",\"path\":\"/x/\"}]}",
            "mounts[1].path", "mounts[0]"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":[]}", "cache", "object"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"tiers\":[{\"medium\":\"TAPE\",\"quota\":1}]}}",
            "cache.tiers[0].medium", "SSD"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":\"1Gi\"}]}}",
            "cache.tiers[0].quota", "bytes"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":-1}]}}",
            "cache.tiers[0].quota", "greater"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"rules\":[{\"path\":\"/\",\"writeType\":\"Sometimes\"}]}}",
            "cache.rules[0].writeType", "Through, CacheThrough, AsyncThrough"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"rules\":[{\"path\":\"/x\"},{\"path\":\"/x/\"}]}}",
            "cache.rules[1].path", "cache.rules[0] too"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"rules\":[{}]}}",
            "cache.rules[0].path", "begin with"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"rules\":[1]}}", "cache.rules[0]",
            "object"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"endpoints\":\"aws\"}", "endpoints", "a list"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"endpoints\":[7]}", "endpoints[0]",
            "a string"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"keepFree\":91}}", "cache.keepFree",
            "from 0 to 90"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"keepFree\":\"5\"}}",
            "cache.keepFree", "from 0 to 90"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"rules\":{}}}", "cache.rules",
            "list"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"cache\":{\"profile\":\"open\"}}",
            "cache.profile", "unknown field"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\",\"count\":1,\"port\":70000}}",
            "workers", "port"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"count\":1,\"port\":1}}",
            "workers", "service"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\",\"port\":1,\"countFile\":\"x\"}}",
            "workers.countFile", "absolute"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\",\"port\":1,\"countFile\":7,\"count\":1}}",
            "workers.countFile", "absolute"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\",\"port\":1,\"countFile\":\"/x\",\"count\":1}}",
            "workers.countFile", "instead of count"},
        {"{\"mounts\":[{\"mountPoint\":\"s3://a\"}],\"workers\":{\"service\":\"s\",\"name\":\"n\",\"port\":1}}",
            "workers", "count"},
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

/* Another server is another mount, however the option is spelled: what waits to be uploaded must
 * not go there. */
static void test_mount_of_another_server(void **state)
{
    (void)state;
    static const char *const spelled[] = {"endpoint", "url", "alluxio.underfs.s3.endpoint"};
    static const char *const where[] = {"options", "defaultOptions"};
    for (size_t i = 0; i < ARRAY_LEN(spelled) * ARRAY_LEN(where); i++) {
        const char *key = spelled[i % ARRAY_LEN(spelled)], *in = where[i / ARRAY_LEN(spelled)];
        char *id[2];
        for (int k = 0; k < 2; k++) {
            struct err e = ERR_INIT;
            cleanup_free char *text = xasprintf(
                "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"%s\":{\"%s\":\"http://%c\"}}],\"cache\":{\"tiers\":[{\"medium\":\"MEM\",\"quota\":1048576}]}}",
                in, key, "ab"[k]);
            cleanup_conf struct conf *c = conf_parse(text, strlen(text), &e);
            assert_non_null(c);
            id[k] = conf_mount_id(&c->mounts[0]);
        }
        bool same = strcmp(id[0], id[1]) == 0;
        free(id[0]);
        free(id[1]);
        if (same)
            fail_msg("%s.%s: two servers are one mount", in, key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full),
        cmocka_unit_test(test_workers_in_a_file), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_mount_of_another_server)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
