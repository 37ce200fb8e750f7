/* SPDX-License-Identifier: Apache-2.0 */
/* What the classification says of each replica, in a few letters: its outcome (- none, r replace,
 * f fail, t tolerate), c if it has completed, its restarts, + if it failed newly. */
#include "operator/tfjob/replicas.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/json/obj.h"
#include "operator/tfjob/pod.h"
#include "tests/golden/golden.h"
#include "tests/lib/unit.h"
#include "tests/unit/operator/tfjob/tfjob_fixture.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Replicas as the plan for cr in world has them, with all that they borrow from. */
struct fixture {
    struct tfjob_observed observed;
    struct tfjob job;
    struct tfjob_status status;
    struct tfjob_replicas replicas;
};

static void fixture_make(struct fixture *x, const json_t *cr, const json_t *world)
{
    struct err e = ERR_INIT;
    *x = (struct fixture){.observed = {.job = cr, .domain = "", .gang = ""}};
    x->observed.pods = golden_objects(world, "Pod", &x->observed.npods);
    x->observed.services = golden_objects(world, "Service", &x->observed.nservices);
    assert_int_equal(tfjob_parse(cr, &x->job, &e), 0);
    tfjob_status_read(cr, &x->status);
    tfjob_replicas_make(&x->observed, &x->job, &x->status, &x->replicas);
}

static void fixture_free(struct fixture *x)
{
    tfjob_replicas_free(&x->replicas);
    tfjob_status_free(&x->status);
    free(x->observed.pods);
    free(x->observed.services);
}

static char *describe(const struct tfjob_replicas *rs)
{
    struct buf b = BUF_INIT(4096);
    tfjob_each (r, rs)
        buf_addf(&b, "%s%c%s%d%s", b.len ? " " : "", "-rft"[r->outcome], r -> completed ? "c" : "",
            r->restarts, r->newly_failed ? "+" : "");
    return buf_take(&b);
}

static void each_replica_is_classified(void **state)
{
    (void)state;
    static const struct {
        const char *job, *spec, *status, *pods, *want;
    } cases[] = {
        {"worker=6:Never", NULL, NULL, "worker:PRSsD-", "-0 -0 -c0 -c0 -0 -0"},
        /* a program's own exit code is final, signals and pods that never ran are not */
        {"worker=3:ExitCode", NULL, NULL, "worker:FKN", "f0 r1+ r1+"},
        {"worker=2:Never", NULL, NULL, "worker:FE", "f0 r0"},
        {"worker=2:OnFailure", NULL, NULL, "worker:FE", "r1+ r0"},
        {"worker=1:Always", NULL, NULL, "worker:T", "-1"},
        /* not counted where nothing is ever restarted */
        {"worker=1:Never", NULL, NULL, "worker:T", "-0"},
        {"ps=1:Never worker=1:Never", "{'enableDynamicWorker': true}", NULL, "ps:F worker:F",
            "f0 t0"},
        /* the status remembers: completed replicas are never replaced, counts never fall */
        {"worker=4:OnFailure", NULL,
            "{'indexes': {'Worker': {'completed': '0-1', 'restarts': {'2': 3}}}}", "worker:-FFR",
            "-c0 -c1+ r3 -0"},
        /* in the order of types */
        {"chief=1:Never worker=2:Never", NULL, NULL, "worker:RS chief:F", "f0 -0 -c0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_json json_t *cr = fx_job(cases[i].job, cases[i].spec),
                            *world = fx_world(cases[i].pods);
        if (cases[i].status)
            json_object_set_new(cr, "status", fx_json(cases[i].status));
        struct fixture x;
        fixture_make(&x, cr, world);
        cleanup_free char *got = describe(&x.replicas);
        assert_string_equal(got, cases[i].want);
        fixture_free(&x);
    }
}

static void children_without_a_replica_are_extra(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=1 ps=1", NULL), *world = fx_world("worker:RR ps:-");
    struct fixture x;
    fixture_make(&x, cr, world);
    assert_int_equal(x.replicas.n, 2);
    tfjob_each_of (r, &x.replicas, TFJOB_WORKER)
        assert_true(r->index == 0 && r->pod && r->service);
    tfjob_each_of (r, &x.replicas, TFJOB_PS)
        assert_true(r->index == 0 && !r->pod && r->service);
    tfjob_each_of (r, &x.replicas, TFJOB_CHIEF)
        fail_msg("there is no chief");
    assert_int_equal(x.replicas.nextra_pods, 1);
    assert_int_equal(x.replicas.nextra_services, 1);
    fixture_free(&x);
}

static void a_pod_of_another_owner_is_foreign(void **state)
{
    (void)state;
    cleanup_json json_t *cr = fx_job("worker=1:OnFailure", NULL), *world = fx_world("worker:F");
    json_object_set_new(json_object_get(cr, "metadata"), "uid", json_string("another"));
    struct fixture x;
    fixture_make(&x, cr, world);
    const struct tfjob_replica *r = &x.replicas.v[0];
    assert_int_equal(r->is.state, TFJOB_POD_FOREIGN);
    assert_int_equal(r->outcome, TFJOB_OUTCOME_NONE);
    assert_int_equal(r->restarts, 0);
    assert_true(r->service_foreign);
    assert_int_equal(x.replicas.nextra_pods + x.replicas.nextra_services, 0);
    fixture_free(&x);
}

/* The last line of a log, which is in no language that its length knows. */
static void a_long_last_line_is_cut_between_characters(void **state)
{
    (void)state;
    cleanup_buf struct buf line = BUF_INIT(4096);
    for (int i = 0; i < 400; i++)
        buf_adds(&line, "\xe5\xb8\xb8");
    cleanup_json json_t *pod = json_pack("{s:{s:s},s:{s:[{s:s,s:{s:{s:i,s:s}}}]}}", "metadata",
        "name", "p", "status", "containerStatuses", "name", "tensorflow", "state", "terminated",
        "exitCode", 1, "message", buf_str(&line));
    assert_non_null(pod);
    cleanup_free char *said = tfjob_pod_summary(pod);
    assert_int_equal(text_whole(said, strlen(said), SIZE_MAX), strlen(said));
    assert_non_null(strstr(said, "exited with code 1: \xe5\xb8\xb8"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_replica_is_classified),
        cmocka_unit_test(children_without_a_replica_are_extra),
        cmocka_unit_test(a_pod_of_another_owner_is_foreign),
        cmocka_unit_test(a_long_last_line_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
