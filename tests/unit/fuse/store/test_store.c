/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/store/impl.h"
#include "fuse/store/s3.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>

static bool open_with(const char *url, const char *key, const char *value, struct err *e)
{
    struct mount *m = mount_new(url);
    if (key)
        mount_option(m, key, value);
    struct store *s = store_new(
        &(struct store_conf){.mount = &m->conf, .secrets_dir = "/nonexistent"}, e);
    bool opened = s != NULL;
    store_free(s);
    mount_free(m);
    return opened;
}

static void urls_and_options(void **state)
{
    (void)state;
    static const struct {
        const char *url, *key, *value, *reason, *words; /* reason NULL: fine */
    } cases[] = {
        {"s3://bucket", NULL, NULL, NULL, NULL},
        {"s3://bucket/a/b/", "endpoint", "http://h:1", NULL, NULL},
        {"s3://bucket/a", "alluxio.underfs.s3.endpoint", "http://h:1/", NULL, NULL},
        {"s3://bucket/a", "aws.accessKeyId", "x", NULL, NULL},
        {"gs://bucket/a", "user-project", "p", NULL, NULL},
        {"gs://bu/a", NULL, NULL, "InvalidURL", "write gs://bucket/prefix"},
        {"file:///tmp", NULL, NULL, NULL, NULL},
        {"gopher://x", NULL, NULL, "InvalidURL",
            "gopher://x: InvalidURL: unknown scheme 'gopher'; write s3://bucket/prefix, gs://bucket/prefix, file:///directory, http://server/directory, https://server/directory, hdfs://namenode:8020/directory, webhdfs://namenode:9870/directory or swebhdfs://namenode:9871/directory"},
        {"bucket/prefix", NULL, NULL, "InvalidURL",
            "this is not a URL; write s3://bucket/prefix, gs://bucket/prefix, file:"},
        {"https://h:1/a/b/", "user", "u", NULL, NULL}, /* its password may come yet */
        {"http://h", "manifest", "/list", "InvalidOption", "write a path below the URL"},
        {"https://u:p@h/", NULL, NULL, "InvalidURL", "without user"},
        {"hdfs://nn/a\357b", NULL, NULL, "InvalidURL", "are UTF-8, and this one is not"},
        {"hdfs://nn/a:b", NULL, NULL, "InvalidURL", "allows no ':' in names"},
        {"s3://", NULL, NULL, "InvalidURL", "the bucket is missing"},
        {"s3://ab", NULL, NULL, "InvalidURL", "3 to 63 characters"},
        {"s3://buck et/x", NULL, NULL, "InvalidURL", "only letters, digits"},
        {"s3://bucket/a//b", NULL, NULL, "InvalidURL", "single slashes"},
        {"s3://bucket/a/../b", NULL, NULL, "InvalidURL", "prefix"},
        {"file://tmp/x", NULL, NULL, "InvalidURL", "write an absolute path after file://"},
        {"s3://bucket", "endpiont", "http://h", "InvalidOption",
            "s3://bucket: InvalidOption: unknown option 'endpiont'; the options are endpoint, region, path-style, access-key-id, "
            "secret-access-key, session-token, role-arn, external-id, role-session-name, sts-endpoint, "
            "anonymous, instance-metadata, profile, server-side-encryption, kms-key-id, sse-customer-key, "
            "storage-class, requester-pays, acl, expected-bucket-owner, checksum, s3fs, dualstack, fips, accelerate, ca-cert, tls-verify"},
        {"file:///tmp", "endpoint", "http://h", "InvalidOption",
            "unknown option 'endpoint'; the options are can-hang"},
        {"s3://bucket", "endpoint", "h:9000", "InvalidOption",
            "option endpoint is 'h:9000'; write a URL, for example https://"},
        {"s3://bucket", "endpoint", "http://h/path", "InvalidOption", "scheme, host and port only"},
        {"s3://bucket", "endpoint", "http://user@h", "InvalidOption", "scheme, host and port only"},
        {"s3://bucket", "path-style", "yes", "InvalidOption",
            "option path-style is 'yes'; write \"true\" or \"false\""},
        {"s3://bucket.with.dots", "path-style", "false", "InvalidOption", "set it to true"},
        {"s3://bucket", "region", "not a region", "InvalidOption", "option region"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        bool opened = open_with(cases[i].url, cases[i].key, cases[i].value, &e);
        if (opened != !cases[i].reason || (cases[i].words && !strstr(e.msg, cases[i].words)))
            print_error("%s: %s\n", cases[i].url, e.msg);
        assert_int_equal(opened, !cases[i].reason);
        if (opened)
            continue;
        assert_int_equal(e.cls, ERR_INVALID);
        assert_string_equal(store_reason(&e), cases[i].reason);
        assert_non_null(strstr(e.msg, cases[i].words));
    }
}

static void where_requests_go(void **state)
{
    (void)state;
    static const struct {
        const char *url, *options[4], *origin, *host, *path;
    } cases[] = {
        {"s3://bucket/p", {0}, "https://bucket.s3.us-east-1.amazonaws.com",
            "bucket.s3.us-east-1.amazonaws.com", ""},
        {"s3://bucket", {"region", "cn-north-1"}, "https://bucket.s3.cn-north-1.amazonaws.com.cn",
            "bucket.s3.cn-north-1.amazonaws.com.cn", ""},
        {"s3://my.bucket", {0}, "https://s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com",
            "/my.bucket"},
        {"s3://Upper", {0}, "https://s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com",
            "/Upper"},
        {"s3://bucket", {"endpoint", "http://Host:80"}, "http://host", "host", "/bucket"},
        {"s3://bucket", {"endpoint", "https://host:443/"}, "https://host", "host", "/bucket"},
        {"s3://bucket", {"endpoint", "http://[::1]:9000"}, "http://[::1]:9000", "[::1]:9000",
            "/bucket"},
        {"s3://bucket", {"endpoint", "http://host:9000", "path-style", "false"},
            "http://bucket.host:9000", "bucket.host:9000", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct mount *m = mount_new(cases[i].url);
        for (size_t k = 0; k < 4 && cases[i].options[k]; k += 2)
            mount_option(m, cases[i].options[k], cases[i].options[k + 1]);
        struct store_params p = {.url = cases[i].url,
            .rest = cases[i].url + 5,
            .mount = &m->conf,
            .kind = &store_s3.kind,
            .secrets_dir = "/nonexistent",
            .deadline_ns = NS_PER_S};
        struct err e = ERR_INIT;
        struct s3 *s = store_s3.open(&p, &e);
        assert_non_null(s);
        assert_string_equal(s->places->origin, cases[i].origin);
        assert_string_equal(s->places->host, cases[i].host);
        assert_string_equal(s->places->path_prefix, cases[i].path);
        store_s3.close(s);
        mount_free(m);
    }
}

static void reasons_survive_context(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    store_err(&e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, "s3://b/p",
        " (403 InvalidAccessKeyId): check the keys");
    assert_string_equal(e.msg, "s3://b/p: AccessDenied (403 InvalidAccessKeyId): check the keys");
    assert_string_equal(store_reason(&e), "AccessDenied");
    err_wrap(&e, "dataset default/mnist");
    assert_string_equal(store_reason(&e), "AccessDenied");
    char lengthy[1000];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    store_err(&e, ERR_NOTFOUND, ENOENT, REASON_BUCKET_NOT_FOUND, lengthy, ": %s", lengthy);
    assert_string_equal(store_reason(&e), "BucketNotFound");
    store_err(&e, ERR_INVALID, 0, REASON_INVALID_URL, "x: StoreError: y: AccessDenied (z", ": no");
    assert_string_equal(store_reason(&e), "InvalidURL");
    err_set(&e, ERR_RETRY, "something NotFound else");
    assert_string_equal(store_reason(&e), "StoreError");
}

static void names_and_paths(void **state)
{
    (void)state;
    assert_true(store_path_ok(""));
    static const char *const good[] = {
        "a", "a/b", "...", "a/..b", ".a", "a b/ü", "\x01\xff", "a/b.c/...d"};
    static const char *const bad[] = {
        "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "a/.."};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(store_path_ok(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(store_path_ok(bad[i]));
    char longest[4097];
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = i % 200 == 199 ? '/' : 'x';
    longest[4095] = '\0';
    assert_true(store_path_ok(longest));
    longest[4095] = 'x';
    longest[4096] = '\0';
    assert_false(store_path_ok(longest));
    char name[257];
    memset(name, 'x', 256);
    assert_true(store_name_ok(name, 255));
    assert_false(store_name_ok(name, 256));
}

static void pauses_grow_and_stay_in_bounds(void **state)
{
    (void)state;
    for (unsigned attempt = 0; attempt < 70; attempt++)
        for (uint64_t random = 0; random < 5; random++) {
            int64_t pause = retry_pause_ns(attempt, random * UINT64_C(3689348814741910323));
            assert_true(pause >= 25 * NS_PER_MS && pause <= 5 * NS_PER_S);
            assert_true(attempt < 7 || pause >= 2500 * NS_PER_MS);
        }
}

static void requests_of_a_size(void **state)
{
    (void)state;
    assert_int_equal(store_part("hdfs://nn:8020/a"), 32u << 20);
    assert_int_equal(store_part("swebhdfs://nn/a"), 32u << 20);
    assert_int_equal(store_part("s3://bucket/a"), 0);
    assert_int_equal(store_part("nothing:/a"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_and_options),
        cmocka_unit_test(where_requests_go),
        cmocka_unit_test(reasons_survive_context),
        cmocka_unit_test(names_and_paths),
        cmocka_unit_test(requests_of_a_size),
        cmocka_unit_test(pauses_grow_and_stay_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
