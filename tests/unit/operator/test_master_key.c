/* SPDX-License-Identifier: Apache-2.0 */
/* The key of an installation: made once, read after that, by two operators at once, and never
 * replaced by another. */
#include "operator/master_key.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "millrace/" NAME_MASTER_KEY

static struct fake_api *api;
static struct kube *kube;

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    kube = fake_api_client(api);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_free(kube);
    fake_api_stop(api);
    return 0;
}

/* As the API server keeps it: base64. NULL: as the chart makes it. */
static void put(const char *key)
{
    char base64[256];
    json_t *secret = json_pack(
        "{s:{s:s, s:s}}", "metadata", "name", NAME_MASTER_KEY, "namespace", "millrace");
    EVP_EncodeBlock((unsigned char *)base64, (const unsigned char *)(key ? key : ""),
        (int)(key ? strlen(key) : 0));
    if (key)
        json_object_set_new(secret, "data", json_pack("{s:s}", "key", base64));
    fake_api_put(api, &kube_secrets, secret);
}

static void test_made_and_read(void **state)
{
    (void)state;
    struct sign_key made, read, zero = {{0}};
    struct err e = ERR_INIT;
    char text[SIGN_HEX + 1];
    put(NULL);
    assert_int_equal(master_key_get(kube, "millrace", &made, &e), 0);
    assert_memory_not_equal(&made, &zero, sizeof made);
    sign_key_text(&made, text);
    cleanup_json json_t *there = fake_api_get(api, &kube_secrets, SECRET);
    assert_string_equal(jget_str(there, "stringData.key", ""), text);
    fake_api_remove(api, &kube_secrets, SECRET);
    put(text);
    assert_int_equal(master_key_get(kube, "millrace", &read, &e), 0);
    assert_memory_equal(&read, &made, sizeof read);
    assert_int_equal(fake_api_count(api, "PATCH", "/namespaces/millrace/secrets"), 1);
}

static const char other[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static enum fake_verdict other_operator(
    void *user, const char *method, const char *target, const char *user_agent)
{
    bool *done = user;
    (void)target;
    (void)user_agent;
    if (strcmp(method, "PATCH") == 0 && !*done) {
        *done = true;
        put(other);
    }
    return FAKE_DO;
}

/* Another operator was faster between our question and our patch: its key is the one. */
static void test_two_at_once(void **state)
{
    (void)state;
    struct sign_key key, want;
    struct err e = ERR_INIT;
    bool done = false;
    put(NULL);
    fake_api_judge(api, other_operator, &done);
    assert_int_equal(master_key_get(kube, "millrace", &key, &e), 0);
    assert_true(done);
    assert_int_equal(sign_key_parse(other, strlen(other), &want), 0);
    assert_memory_equal(&key, &want, sizeof key);
}

static void test_missing(void **state)
{
    (void)state;
    struct sign_key key;
    struct err e = ERR_INIT;
    assert_int_equal(master_key_get(kube, "millrace", &key, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_non_null(strstr(e.msg, "the chart makes it"));
}

static void test_no_key_in_it(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "short",
        "00112233445566778899aabbccddeeff0011223344556677",
        "zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct sign_key key;
        struct err e = ERR_INIT;
        put(bad[i]);
        assert_int_equal(master_key_get(kube, "millrace", &key, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        assert_non_null(strstr(e.msg, "to have a new one made"));
        assert_true(!*bad[i] || !strstr(e.msg, bad[i]));
        fake_api_remove(api, &kube_secrets, SECRET);
    }
    assert_int_equal(fake_api_count(api, "PATCH", "/namespaces/millrace/secrets"), 0);
}

static void test_not_allowed(void **state)
{
    (void)state;
    struct sign_key key;
    struct err e = ERR_INIT;
    const struct fake_fault fault = {.method = "GET",
        .in = "/namespaces/millrace/secrets/" NAME_MASTER_KEY,
        .times = 1,
        .kind = FAULT_STATUS,
        .status = 403,
        .body =
            "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"cannot get resource\"}"};
    fake_api_fault(api, &fault);
    assert_int_equal(master_key_get(kube, "millrace", &key, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_non_null(strstr(e.msg, "cannot get resource"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_key_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_allowed, setup, teardown),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
