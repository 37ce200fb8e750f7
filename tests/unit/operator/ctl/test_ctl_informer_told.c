/* SPDX-License-Identifier: Apache-2.0 */
/* What those hear who listen to an informer. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "operator/ctl/informer.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define WRITES 200

static struct fake_api *api;
static struct kube *k;
static struct informer *inf;
static atomic_int added, changed, removed;
static uint64_t told; /* the last version */

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    k = fake_api_client(api);
    inf = informer_new(k, &(struct informer_conf){.res = &kube_pods});
    added = changed = removed = 0;
    told = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    informer_free(inf);
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static json_t *pod(void)
{
    return json_pack("{s:{s:s,s:s}}", "metadata", "name", "a", "namespace", "n");
}

static void count_change(void *user, const json_t *was, const json_t *now)
{
    (void)user;
    atomic_fetch_add(was ? now ? &changed : &removed : &added, 1);
}

/* Who counts what there is by uid would go on counting the first one. */
static void one_that_was_made_again_is_another(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    fake_api_put(api, &kube_pods, pod());
    informer_on_change(inf, count_change, NULL);
    assert_int_equal(informer_start(inf, &e), 0);
    eventually(fake_api_watchers(api, &kube_pods) == 1);
    assert_int_equal(added, 1);
    fake_api_fault(api,
        &(struct fake_fault){
            .in = "watch=true", .times = UINT_MAX, .kind = FAULT_STATUS, .status = 500});
    fake_api_drop_watches(api);
    eventually(fake_api_watchers(api, &kube_pods) == 0);
    fake_api_remove(api, &kube_pods, "n/a");
    fake_api_put(api, &kube_pods, pod());
    fake_api_compact(api); /* the list has but the second */
    fake_api_mend(api);
    eventually(added == 2);
    assert_int_equal(removed, 1);
    assert_int_equal(changed, 0);
}

static void told_late(void *user, const json_t *was, const json_t *now)
{
    (void)user, (void)was;
    if (kube_rv(now) % 2)
        clock_sleep_ns(NS_PER_MS); /* of two that come at once, one is slower */
    assert_true(kube_rv(now) > told);
    told = kube_rv(now);
}

/* Answers to writes, of every second version. */
static void *write_every_second(void *first)
{
    for (uint64_t v = *(uint64_t *)first; v <= WRITES; v += 2) {
        json_t *p = pod();
        json_object_set_new(json_object_get(p, "metadata"), "resourceVersion",
            json_sprintf("%llu", (unsigned long long)v));
        informer_observe(inf, p);
    }
    return NULL;
}

/* Else who remembers what it was told last remembers what is no longer so. */
static void changes_are_told_in_order(void **state)
{
    (void)state;
    uint64_t first = 1, second = 2;
    pthread_t other;
    informer_on_change(inf, told_late, NULL);
    assert_int_equal(pthread_create(&other, NULL, write_every_second, &second), 0);
    write_every_second(&first);
    pthread_join(other, NULL);
    assert_true(told >= WRITES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_was_made_again_is_another, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_are_told_in_order, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
