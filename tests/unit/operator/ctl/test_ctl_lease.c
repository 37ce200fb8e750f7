/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/ctl/lease.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

/* So far apart that a machine which stops for seconds brings nobody's time to an end, and that it
 * can be told which of them was it. */
#define DEADLINE_NS (6 * NS_PER_S)
#define DURATION_NS (12 * NS_PER_S)
#define REQUEST_NS  (30 * NS_PER_S)

static struct fake_api *api;
static struct kube *k;
static atomic_int losses;

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    k = fake_api_client_opts(api, &(struct kube_opts){.timeout_ns = REQUEST_NS});
    losses = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static void on_lost(void *user, const char *why)
{
    (void)user;
    assert_true(*why);
    atomic_fetch_add(&losses, 1);
}

static struct lease *candidate(const char *identity)
{
    struct err e = ERR_INIT;
    struct lease_conf conf = {.ns = "n",
        .name = "l",
        .identity = identity,
        .duration_ns = DURATION_NS,
        .deadline_ns = DEADLINE_NS,
        .retry_ns = 100 * NS_PER_MS,
        .lost = on_lost};
    struct lease *l = lease_start(k, &conf, &e);
    assert_non_null(l);
    return l;
}

/* Holder as the server has it. */
static const char *holder(void)
{
    static char text[64];
    cleanup_json json_t *j = fake_api_get(api, &kube_leases, "n/l");
    strcpy(text, jget_str(j, "spec.holderIdentity", "-"));
    return text;
}

static void one_leads_and_the_next_follows_at_once(void **state)
{
    (void)state;
    struct lease *a = candidate("a");
    eventually(lease_held(a));
    assert_string_equal(holder(), "a");
    struct lease *b = candidate("b");
    clock_sleep_ns(DURATION_NS + NS_PER_S / 2); /* it is renewed */
    assert_true(lease_held(a));
    assert_false(lease_held(b));
    int64_t begun = clock_mono_ns();
    lease_stop(a); /* gives it up */
    eventually(lease_held(b));
    assert_true(clock_mono_ns() - begun < DURATION_NS); /* without waiting for it to run out */
    assert_string_equal(holder(), "b");
    cleanup_json json_t *j = fake_api_get(api, &kube_leases, "n/l");
    assert_int_equal(jget_int(j, "spec.leaseTransitions", -1), 1);
    lease_stop(b);
    assert_string_equal(holder(), "");
    assert_int_equal(losses, 0);
}

static void the_dead_are_followed_when_their_time_is_over(void **state)
{
    (void)state;
    /* a holder that will never renew; its clock is years ahead of ours */
    fake_api_put(api, &kube_leases,
        json_pack("{s:{s:s,s:s},s:{s:s,s:i,s:s}}", "metadata", "name", "l", "namespace", "n",
            "spec", "holderIdentity", "dead", "leaseDurationSeconds", 1, "renewTime",
            "2099-01-01T00:00:00.000000Z"));
    int64_t begun = clock_mono_ns();
    struct lease *b = candidate("b");
    eventually(lease_held(b));
    assert_true(clock_mono_ns() - begun >= 900 * NS_PER_MS);
    lease_stop(b);
}

static void one_that_cannot_renew_has_lost(void **state)
{
    (void)state;
    struct lease *a = candidate("a");
    eventually(lease_held(a));
    fake_api_fault(api, &(struct fake_fault){.times = 1000, .kind = FAULT_STATUS, .status = 500});
    int64_t begun = clock_mono_ns();
    eventually(losses == 1);
    assert_in_range(clock_mono_ns() - begun, DEADLINE_NS / 2, DURATION_NS);
    assert_false(lease_held(a));
    lease_stop(a);
    assert_int_equal(losses, 1);
}

static void a_renewal_that_hangs_is_no_excuse(void **state)
{
    (void)state;
    struct lease *a = candidate("a");
    eventually(lease_held(a));
    fake_api_fault(
        api, &(struct fake_fault){.times = 100, .kind = FAULT_SLOW, .delay_ns = 2 * REQUEST_NS});
    int64_t begun = clock_mono_ns();
    eventually(losses == 1);
    /* before the request has timed out, and before the lease has run out */
    assert_true(clock_mono_ns() - begun < DURATION_NS);
    fake_api_stop(api); /* lease_stop() waits for the request: end it */
    api = fake_api_start();
    lease_stop(a);
}

static void one_that_was_robbed_has_lost(void **state)
{
    (void)state;
    struct lease *a = candidate("a");
    eventually(lease_held(a));
    fake_api_put(api, &kube_leases,
        json_pack("{s:{s:s,s:s},s:{s:s,s:i,s:s}}", "metadata", "name", "l", "namespace", "n",
            "spec", "holderIdentity", "robber", "leaseDurationSeconds", 100, "renewTime",
            "2026-01-01T00:00:00.000000Z"));
    eventually(losses == 1);
    assert_false(lease_held(a));
    lease_stop(a);
    assert_string_equal(holder(), "robber"); /* not given up: it is not ours */
}

static void a_hiccup_is_survived(void **state)
{
    (void)state;
    struct lease *a = candidate("a");
    eventually(lease_held(a));
    fake_api_fault(api,
        &(struct fake_fault){.method = "PUT", .times = 2, .kind = FAULT_STATUS, .status = 500});
    fake_api_fault(api, &(struct fake_fault){.method = "PUT", .kind = FAULT_STATUS, .status = 409});
    unsigned before = fake_api_count(api, "PUT", NULL);
    eventually(fake_api_count(api, "PUT", NULL) > before + 6);
    assert_true(lease_held(a));
    assert_int_equal(losses, 0);
    lease_stop(a);
}

static void a_candidate_that_waits_can_be_stopped(void **state)
{
    (void)state;
    fake_api_put(api, &kube_leases,
        json_pack("{s:{s:s,s:s},s:{s:s,s:i}}", "metadata", "name", "l", "namespace", "n", "spec",
            "holderIdentity", "other", "leaseDurationSeconds", 100));
    struct lease *b = candidate("b");
    eventually(fake_api_count(api, "GET", NULL) >= 2);
    assert_false(lease_held(b));
    lease_stop(b);
    assert_int_equal(fake_api_count(api, "PUT", NULL), 0);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_leads_and_the_next_follows_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_dead_are_followed_when_their_time_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_renew_has_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(a_renewal_that_hangs_is_no_excuse, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_robbed_has_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hiccup_is_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(a_candidate_that_waits_can_be_stopped, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
