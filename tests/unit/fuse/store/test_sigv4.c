/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/store/sigv4.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Amazon's published examples: "Authenticating Requests: Using the Authorization Header" of the S3
 * API reference, and the Signature Version 4 test suite. */
struct vector {
    const char *name, *key_id, *secret, *service, *time;
    struct sigv4_req req;
    const char *signature;
};

#define S3_KEY \
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "s3", "20130524T000000Z"
#define SUITE_KEY \
    "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "service", "20150830T123600Z"
#define S3_HOST                                  \
    {                                            \
        "host", "examplebucket.s3.amazonaws.com" \
    }

static const struct sigv4_pair get_object[] = {S3_HOST, {"range", "bytes=0-9"},
    {"x-amz-content-sha256", SIGV4_EMPTY}, {"x-amz-date", "20130524T000000Z"}};
#define PUT_HASH "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
static const struct sigv4_pair put_object[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, S3_HOST,
    {"x-amz-content-sha256", PUT_HASH}, {"x-amz-date", "20130524T000000Z"},
    {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
static const struct sigv4_pair bucket_get[] = {
    S3_HOST, {"x-amz-content-sha256", SIGV4_EMPTY}, {"x-amz-date", "20130524T000000Z"}};
static const struct sigv4_pair suite[] = {
    {"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};
static const struct sigv4_pair suite_trim[] = {{"host", "example.amazonaws.com"},
    {"my-header1", " value1"}, {"my-header2", " \"a   b   c\""},
    {"x-amz-date", "20150830T123600Z"}};

static const struct vector vectors[] = {
    {"S3 GET Object", S3_KEY,
        {"GET", "/test.txt", "", get_object, ARRAY_LEN(get_object), SIGV4_EMPTY},
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"S3 PUT Object", S3_KEY,
        {"PUT", "/test%24file.text", "", put_object, ARRAY_LEN(put_object), PUT_HASH},
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"S3 GET Bucket Lifecycle", S3_KEY,
        {"GET", "/", "lifecycle=", bucket_get, ARRAY_LEN(bucket_get), SIGV4_EMPTY},
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"S3 List Objects", S3_KEY,
        {"GET", "/", "max-keys=2&prefix=J", bucket_get, ARRAY_LEN(bucket_get), SIGV4_EMPTY},
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    {"get-vanilla", SUITE_KEY, {"GET", "/", "", suite, ARRAY_LEN(suite), SIGV4_EMPTY},
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-query-order-key-case", SUITE_KEY,
        {"GET", "/", "Param1=value1&Param2=value2", suite, ARRAY_LEN(suite), SIGV4_EMPTY},
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-header-value-trim", SUITE_KEY,
        {"GET", "/", "", suite_trim, ARRAY_LEN(suite_trim), SIGV4_EMPTY},
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-vanilla", SUITE_KEY, {"POST", "/", "", suite, ARRAY_LEN(suite), SIGV4_EMPTY},
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
};

static void published_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct sigv4_scope scope = {.region = "us-east-1", .service = v->service};
        memcpy(scope.time, v->time, SIGV4_TIME_LEN);
        unsigned char key[32];
        sigv4_key(v->secret, &scope, key);
        cleanup_free char *value = sigv4_authorization(&v->req, &scope, v->key_id, key);
        const char *signature = strstr(value, "Signature=") + 10;
        if (strcmp(signature, v->signature) != 0)
            print_error("%s\n", v->name);
        assert_string_equal(signature, v->signature);
        assert_memory_equal(value, "AWS4-HMAC-SHA256 Credential=", 28);
    }
}

static void queries_are_encoded_and_sorted(void **state)
{
    (void)state;
    static const struct sigv4_pair pairs[] = {
        {"prefix", "a b/ü+"}, {"Zeta", ""}, {"list-type", "2"}, {"prefix", "A"}};
    cleanup_free char *text = sigv4_query(pairs, ARRAY_LEN(pairs));
    assert_string_equal(text, "Zeta=&list-type=2&prefix=A&prefix=a%20b%2F%C3%BC%2B");
    cleanup_free char *none = sigv4_query(NULL, 0);
    assert_string_equal(none, "");
}

static void digests(void **state)
{
    (void)state;
    char hex[SIGV4_HEX_LEN], again[SIGV4_HEX_LEN];
    sigv4_sha256("", 0, hex);
    assert_string_equal(hex, SIGV4_EMPTY);
    sigv4_sha256("Welcome to Amazon S3.", 21, hex);
    assert_string_equal(hex, PUT_HASH);
    cleanup_fd int fd = memfd_create("x", MFD_CLOEXEC);
    assert_int_equal(write(fd, "--Welcome to Amazon S3.--", 25), 25);
    struct err e = ERR_INIT;
    assert_int_equal(sigv4_sha256_fd(fd, 2, 21, again, &e), 0);
    assert_string_equal(again, PUT_HASH);
    assert_int_equal(sigv4_sha256_fd(fd, 2, 2100, again, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY); /* it is being written to */
}

static void times(void **state)
{
    (void)state;
    char text[SIGV4_TIME_LEN];
    sigv4_time(1369353600 * NS_PER_S + 999, text);
    assert_string_equal(text, "20130524T000000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_examples),
        cmocka_unit_test(queries_are_encoded_and_sorted), cmocka_unit_test(digests),
        cmocka_unit_test(times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
