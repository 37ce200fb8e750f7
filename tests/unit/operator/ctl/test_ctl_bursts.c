/* SPDX-License-Identifier: Apache-2.0 */
/* A controller that gathers what comes in bursts, and looks only at what is news to it. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/ctl/manager.h"
#include "tests/fake/api.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <stdatomic.h>

static atomic_int looks, heard;
static struct manager mgrs[2]; /* what they keep of their lists stays reachable */

static int on_key(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)user, (void)key, (void)plan, (void)e;
    atomic_fetch_add(&looks, 1);
    return 0;
}

static void on_service(void *user, const json_t *was, const json_t *now)
{
    (void)user, (void)was, (void)now;
    atomic_fetch_add(&heard, 1);
}

static void map_all(void *user, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    (void)user, (void)object;
    emit(to, "all");
}

static bool number_differs(const json_t *was, const json_t *now)
{
    return jget_int(was, "spec.n", 0) != jget_int(now, "spec.n", 0);
}

static void put(struct fake_api *api, int n)
{
    fake_api_put(api, &kube_services,
        json_pack(
            "{s:{s:s, s:s}, s:{s:i}}", "metadata", "name", "s", "namespace", "n", "spec", "n", n));
}

/* How often a key is looked at that five changes concern, and one that is no news. */
static int looks_at(struct manager *mgr, int64_t after_ns)
{
    struct err e = ERR_INIT;
    struct fake_api *api = fake_api_start();
    *mgr = (struct manager){.workers = 1};
    mgr->kube = mgr->apply.kube = fake_api_client(api);
    struct informer *services = manager_informer(
        mgr, &(struct informer_conf){.res = &kube_services});
    struct controller *c = manager_controller(
        mgr, &(struct controller_conf){.name = "bursts", .reconcile = on_key, .resync_ns = -1});
    controller_watch_news_after(c, services, map_all, NULL, number_differs, after_ns);
    informer_on_change(services, on_service, NULL); /* after the controller's own */
    looks = heard = 0;
    assert_int_equal(manager_start(mgr, &e), 0);
    assert_int_equal(manager_lead(mgr, &e), 0);
    for (int i = 1; i <= 5; i++) {
        int before = looks; /* as it was and as it is: a change may be looked at twice */
        put(api, i);
        eventually(heard == i && (after_ns || looks > before));
    }
    put(api, 5);
    eventually(heard == 6);
    clock_sleep_ns(50 * NS_PER_MS);
    int n = looks;
    manager_stop_leading(mgr);
    manager_close(mgr);
    kube_free(mgr->kube);
    fake_api_stop(api);
    return n;
}

static void what_comes_in_bursts_is_gathered(void **state)
{
    (void)state;
    assert_true(looks_at(&mgrs[0], 0) >= 5);
    assert_int_equal(looks_at(&mgrs[1], 300 * NS_PER_S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_comes_in_bursts_is_gathered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
