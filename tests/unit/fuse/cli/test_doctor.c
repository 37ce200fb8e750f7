/* SPDX-License-Identifier: Apache-2.0 */
/* What `doctor` says of recorded answers of an API server: doctor.yaml. */
#include "fuse/cli/doctor.h"

#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/unit.h"
#include "tests/unit/fuse/cli/recorded.h"

#include <string.h>

static unsigned report_of(const json_t *j, struct buf *out)
{
    const struct doctor_facts f = {.ns = jget_str(j, "ns", ""),
        .version = "1.2.3",
        .may_list_crds = jget_bool(j, "may_list_crds", false),
        .may_get_driver = jget_bool(j, "may_get_driver", true),
        .crds = jget_arr(j, "crds"),
        .driver = jget_obj(j, "driver"),
        .pods = jget_arr(j, "pods"),
        .daemonsets = jget_arr(j, "daemonsets"),
        .nodes = jget_arr(j, "nodes"),
        .csinodes = jget_arr(j, "csinodes"),
        .datasets = jget_arr(j, "datasets"),
        .tfjobs = jget_arr(j, "tfjobs"),
        .all = jget_bool(j, "all", false),
        .all_tfjobs = jget_bool(j, "all", false),
        .all_datasets = jget_bool(j, "all", false),
        .may_not_list = jget_bool(j, "may_not_list", false),
        .refused = jget_arr(j, "refused")};
    return doctor_report(&f, out);
}

static void a_cluster_that_is_well(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("doctor.yaml");
    assert_non_null(all);
    cleanup_buf struct buf out = BUF_INIT(64 << 10);
    assert_int_equal(report_of(jget_obj(all, "base"), &out), 0);
    assert_string_equal(buf_str(&out), jget_str(all, "all_is_well", ""));
}

static void what_is_wrong_is_found(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("doctor.yaml");
    const json_t *c;
    size_t i;
    unsigned wrong = 0;
    assert_true(jget_len(all, "cases") > 20);
    json_array_foreach (jget_arr(all, "cases"), i, c) {
        cleanup_json json_t *answers = json_deep_copy(jget_obj(all, "base"));
        recorded_change(answers, jget_obj(c, "change"));
        cleanup_buf struct buf out = BUF_INIT(64 << 10);
        unsigned failed = report_of(answers, &out);
        if (failed == jget_int(c, "failed", -1) && strstr(buf_str(&out), jget_str(c, "says", "-")))
            continue;
        print_error("%s: %u have failed:\n%s", jget_str(c, "name", "?"), failed, buf_str(&out));
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_that_is_well),
        cmocka_unit_test(what_is_wrong_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
