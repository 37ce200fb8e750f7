/* SPDX-License-Identifier: Apache-2.0 */
/* Signed requests and answers: the values that others would compute, and everything that differs by
 * a letter. The vectors were made by another implementation of HMAC-SHA256. */
#include "lib/sign/sign.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOW INT64_C(1790000000)
#define KEY_HEX                        \
    "000102030405060708090a0b0c0d0e0f" \
    "101112131415161718191a1b1c1d1e1f"
#define REQUEST                        \
    "Millrace-HMAC-SHA256 1790000000." \
    "8392fb4948757f46b38b32d9972eab553a571aff2be591999448bd1f0ceb30fd"
#define ANSWER "2e1f311990fe11b0cafa5fd5b77e2d5eaaee9f13ef69af7a8d7ddaa5820b8dbc"

static const struct sign_ask ask = {
    "GET", "/v1/data", "mount=0&path=a%2Fb&version=1&size=10", "bytes=0-9"};
static const struct sign_answer answer = {
    .request = REQUEST, .status = 206, .range = "bytes 0-9/10", .crcs = "deadbeef"};

static struct sign_key key(void)
{
    struct sign_key k;
    for (unsigned i = 0; i < SIGN_KEY_BYTES; i++)
        k.bytes[i] = (unsigned char)i;
    return k;
}

static void test_vectors(void **state)
{
    (void)state;
    const struct sign_key k = key();
    char request[SIGN_REQUEST_MAX], signature[SIGN_HEX + 1];
    struct err e = ERR_INIT;
    sign_request(&k, &ask, NOW, request);
    assert_string_equal(request, REQUEST);
    sign_answer(&k, &answer, signature);
    assert_string_equal(signature, ANSWER);
    assert_int_equal(sign_check_request(&k, &ask, REQUEST, NOW, &e), 0);
    assert_true(sign_check_answer(&k, &answer, ANSWER));
}

static void refused(
    const struct sign_key *k, const struct sign_ask *a, const char *h, int64_t now, const char *why)
{
    struct err e = ERR_INIT;
    assert_int_equal(sign_check_request(k, a, h, now, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_non_null(strstr(e.msg, why));
}

static void test_other_requests(void **state)
{
    (void)state;
    struct sign_key k = key();
    const struct sign_ask others[] = {{"POST", ask.path, ask.query, ask.range},
        {"GET", "/v1/load", ask.query, ask.range}, {"GET", ask.path, "mount=1", ask.range},
        {"GET", ask.path, NULL, ask.range}, {"GET", ask.path, ask.query, "bytes=0-99"},
        {"GET", ask.path, ask.query, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        refused(&k, &others[i], REQUEST, NOW, "another key");
    refused(&k, &ask, NULL, NOW, "not signed");
    refused(&k, &ask, "", NOW, "not signed");
    refused(&k, &ask, "Bearer x", NOW, "not signed");
    refused(&k, &ask, "Millrace-HMAC-SHA256 .", NOW, "not signed");
    refused(&k, &ask, "Millrace-HMAC-SHA256 1790000000", NOW, "not signed");
    refused(&k, &ask, "Millrace-HMAC-SHA256 1790000000000000.0", NOW, "not signed");
    refused(&k, &ask, "Millrace-HMAC-SHA256 1790000000.", NOW, "another key");
    refused(&k, &ask, REQUEST "0", NOW, "another key");
    char later[] = REQUEST; /* another time needs another signature */
    later[strlen("Millrace-HMAC-SHA256 179000000")] = '1';
    refused(&k, &ask, later, NOW, "another key");
    k.bytes[31] ^= 1;
    refused(&k, &ask, REQUEST, NOW, "another key");
}

static void test_time(void **state)
{
    (void)state;
    const struct sign_key k = key();
    struct err e = ERR_INIT;
    assert_int_equal(sign_check_request(&k, &ask, REQUEST, NOW + SIGN_SKEW_S, &e), 0);
    assert_int_equal(sign_check_request(&k, &ask, REQUEST, NOW - SIGN_SKEW_S, &e), 0);
    refused(&k, &ask, REQUEST, NOW + SIGN_SKEW_S + 1, "301 seconds ago");
    refused(&k, &ask, REQUEST, NOW - SIGN_SKEW_S - 1, "301 seconds in the future");
}

static void test_other_answers(void **state)
{
    (void)state;
    struct sign_key k = key();
    const struct sign_answer others[] = {{"x", 206, answer.range, answer.crcs, NULL, 0},
        {REQUEST, 200, answer.range, answer.crcs, NULL, 0},
        {REQUEST, 206, "bytes 0-9/11", answer.crcs, NULL, 0},
        {REQUEST, 206, answer.range, "deadbeee", NULL, 0},
        {REQUEST, 206, answer.range, NULL, NULL, 0},
        /* a field does not reach into the next */
        {REQUEST, 206, "bytes 0-9/10\ndeadbeef", NULL, NULL, 0},
        {REQUEST, 206, answer.range, answer.crcs, "", 0}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(sign_check_answer(&k, &others[i], ANSWER));
    assert_false(sign_check_answer(&k, &answer, NULL));
    assert_false(sign_check_answer(&k, &answer, ""));
    assert_false(sign_check_answer(&k, &answer, ANSWER "0"));
    k.bytes[0] ^= 1;
    assert_false(sign_check_answer(&k, &answer, ANSWER));
}

/* All of the body, however long, and no other. */
static void test_body(void **state)
{
    (void)state;
    static char body[100000];
    const struct sign_key k = key();
    char signature[SIGN_HEX + 1];
    memset(body, 'x', sizeof body);
    struct sign_answer a = {
        .request = REQUEST, .status = 200, .body = body, .body_len = sizeof body};
    sign_answer(&k, &a, signature);
    assert_true(sign_check_answer(&k, &a, signature));
    a.body_len--;
    assert_false(sign_check_answer(&k, &a, signature));
    a.body_len++;
    body[sizeof body - 1] = 'y';
    assert_false(sign_check_answer(&k, &a, signature));
    a.body = NULL;
    assert_false(sign_check_answer(&k, &a, signature));
}

static int read_key(const char *path, const char *text, struct sign_key *k, struct err *e)
{
    *e = (struct err)ERR_INIT;
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, e), 0);
    return sign_key_read(path, k, e);
}

static void test_key_file(void **state)
{
    (void)state;
    static const unsigned char none[SIGN_KEY_BYTES];
    const struct sign_key want = key();
    struct sign_key k;
    struct err e = ERR_INIT;
    cleanup_free char *path = xasprintf("/tmp/millrace-test-sign-%d", (int)getpid());
    assert_int_equal(read_key(path, KEY_HEX, &k, &e), 0);
    assert_memory_equal(&k, &want, sizeof k);
    assert_int_equal(read_key(path, KEY_HEX "\n", &k, &e), 0);
    assert_memory_equal(&k, &want, sizeof k);
    static const char *const bad[] = {"", "00", KEY_HEX "0", KEY_HEX "\n\n", KEY_HEX KEY_HEX,
        "g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(read_key(path, bad[i], &k, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        assert_non_null(strstr(e.msg, "64 hexadecimal characters"));
        assert_null(strstr(e.msg, "0102")); /* not what is in it */
        assert_memory_equal(&k, none, sizeof k);
    }
    unlink(path);
    e = (struct err)ERR_INIT;
    assert_int_equal(sign_key_read(path, &k, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

/* A Dataset's key is its own, and the same each time. */
static void test_derived(void **state)
{
    (void)state;
    const struct sign_key master = key();
    struct sign_key a, again, b;
    char text[SIGN_HEX + 1];
    sign_key_derive(&master, "11111111-2222", &a);
    sign_key_derive(&master, "11111111-2222", &again);
    sign_key_derive(&master, "11111111-2223", &b);
    sign_key_text(&a, text);
    assert_string_equal(text, "567cb3ac182bb8da6d1d6b4bfe7ef3d6a9d0b0c042dc79970e2f08d19b9926b1");
    assert_memory_equal(&a, &again, sizeof a);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &master, sizeof a);
    assert_int_equal(sign_key_parse(text, SIGN_HEX, &b), 0);
    assert_memory_equal(&a, &b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_other_requests),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_other_answers),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_key_file),
        cmocka_unit_test(test_derived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
