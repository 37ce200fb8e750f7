/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that the operator makes and may not read: what a quota says of them, and what waits for
 * them. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/json/jget.h"
#include "operator/ctl/apply.h"
#include "operator/ctl/verdicts.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <string.h>

static struct fake_api *api;
static struct kube *k;
static struct apply apply;
static struct plan plan;

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    k = fake_api_client(api);
    apply = (struct apply){.kube = k, .verdicts = verdicts_new()};
    plan = (struct plan)PLAN_INIT;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    plan_clear(&plan);
    verdicts_free(apply.verdicts);
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static void run(int rc, enum err_class cls)
{
    struct apply_result r;
    struct err e = ERR_INIT;
    int got = apply_plan(&apply, &plan, &r, &e);
    if (got != rc || e.cls != cls)
        fail_msg("%d %s: %s", got, err_class_name(e.cls), e.msg);
    plan_clear(&plan);
}

static const struct fake_fault quota = {.method = "POST",
    .in = "/secrets",
    .times = 1,
    .kind = FAULT_STATUS,
    .status = 403,
    .body =
        "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"exceeded quota: small\"}"};

/* We may make them, and not read them. */
static void a_secret_that_is_there_is_left_alone(void **state)
{
    (void)state;
    fake_api_put(api, &kube_secrets,
        json_pack("{s:{s:s,s:s}, s:{s:s}}", "metadata", "name", "s", "namespace", "n", "data",
            "key", "old"));
    for (int i = 0; i < 2; i++) {
        plan_create(&plan, &kube_secrets,
            json_pack("{s:{s:s,s:s}, s:{s:s}}", "metadata", "name", i ? "t" : "s", "namespace", "n",
                "data", "key", "new"));
        run(0, ERR_NONE);
    }
    cleanup_json json_t *s = fake_api_get(api, &kube_secrets, "n/s"),
                        *t = fake_api_get(api, &kube_secrets, "n/t");
    assert_string_equal(jget_str(s, "data.key", ""), "old");
    assert_string_equal(jget_str(t, "data.key", ""), "new");
    assert_int_equal(fake_api_count(api, "GET", "/secrets"), 0);
}

/* Its quota is asked before anybody looks whether it is there. */
static void a_quota_says_nothing_of_a_secret_that_was_made(void **state)
{
    (void)state;
    for (int made = 0; made < 2; made++) {
        fake_api_fault(api, &quota);
        plan_create_secret(
            &plan, json_pack("{s:{s:s,s:s}}", "metadata", "name", "s", "namespace", "n"), made);
        run(made ? 0 : -1, made ? ERR_NONE : ERR_DENIED);
        fake_api_mend(api);
    }
}

static json_t *owned(const char *name)
{
    return json_pack("{s:{s:s,s:s,s:s,s:[{s:s,s:b}]}}", "metadata", "name", name, "namespace", "n",
        "uid", name, "ownerReferences", "uid", "u", "controller", 1);
}

static bool is_known(const char *name)
{
    cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
    return verdict_is_made(obj_json(said), name);
}

static enum verdict try_with_secret(const json_t *pod)
{
    cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
    enum verdict verdict = plan_try(
        &plan, obj_json(said), pod, owned(kube_name(pod)), clock_real_ns());
    plan_try_with_secret(&plan, 0, owned("s"));
    return verdict;
}

/* No pod goes before what its successor mounts is there: it would wait for that for ever. */
static void a_successor_waits_for_its_secret(void **state)
{
    (void)state;
    cleanup_json json_t *pod = owned("p"), *other = owned("q");
    fake_api_fault(api, &quota);
    assert_int_equal(try_with_secret(pod), VERDICT_ASKED);
    run(0, ERR_NONE);
    assert_int_equal(fake_api_count(api, "POST", "dryRun"), 0);
    assert_int_equal(try_with_secret(pod), VERDICT_REFUSED);
    plan_clear(&plan);
    assert_false(is_known("s"));
    cleanup_obj struct obj *said = verdicts_of(apply.verdicts, "u");
    const char *words = verdict_refusal(obj_json(said), pod, "");
    assert_non_null(strstr(words, "create secrets n/s"));
    assert_non_null(strstr(words, "exceeded quota"));
    fake_api_mend(api);
    assert_int_equal(try_with_secret(other), VERDICT_ASKED);
    run(0, ERR_NONE);
    assert_int_equal(try_with_secret(other), VERDICT_TAKEN);
    assert_int_equal(fake_api_len(api, &kube_secrets), 1);
    assert_int_equal(fake_api_len(api, &kube_pods), 0);
    assert_true(is_known("s"));
}

/* The next plan knows it, though no pod mounts it yet. */
static void one_that_was_made_is_known(void **state)
{
    (void)state;
    plan_create_secret(&plan, owned("s"), false);
    run(0, ERR_NONE);
    assert_true(is_known("s"));
    assert_false(is_known("t"));
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_secret_that_is_there_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_quota_says_nothing_of_a_secret_that_was_made, setup, teardown),
        cmocka_unit_test_setup_teardown(a_successor_waits_for_its_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_made_is_known, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
