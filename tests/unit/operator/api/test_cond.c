/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"

#include <string.h>

#define AT(s) (INT64_C(1769860800) * NS_PER_S + (s)*NS_PER_S) /* 2026-01-31T12:00:00Z + s */

static bool set_job(
    json_t *conditions, const char *type, enum cond_status status, const char *reason, int64_t now)
{
    return cond_set_job(conditions, &(struct cond){type, status, reason, "m"}, now);
}

static const char *status_of(const json_t *conditions, const char *type)
{
    return jget_str(cond_find(conditions, type), "status", "");
}

static const char *type_at(const json_t *conditions, size_t i)
{
    return jget_str(json_array_get(conditions, i), "type", "");
}

/* The metav1 style: in place, stable order, generation. */
static void test_meta_style(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    assert_true(cond_set(c, &(struct cond){"Ready", COND_FALSE, "Waiting", "for it"}, 1, AT(0)));
    assert_true(cond_set(c, &(struct cond){"Other", COND_UNKNOWN, "R", "m"}, 1, AT(0)));
    assert_false(cond_set(c, &(struct cond){"Ready", COND_FALSE, "Waiting", "for it"}, 1, AT(5)));
    assert_true(cond_set(c, &(struct cond){"Ready", COND_FALSE, "Waiting", "for more"}, 2, AT(5)));
    assert_string_equal(jget_str(c, "[0].lastTransitionTime", ""), "2026-01-31T12:00:00Z");
    assert_int_equal(jget_int(c, "[0].observedGeneration", 0), 2);
    assert_true(cond_set(c, &(struct cond){"Ready", COND_TRUE, "Bound", "m"}, 2, AT(7)));
    assert_string_equal(jget_str(c, "[0].lastTransitionTime", ""), "2026-01-31T12:00:07Z");
    assert_string_equal(type_at(c, 0), "Ready");
    assert_int_equal(json_array_size(c), 2);
    assert_true(cond_is_true(c, "Ready"));
    assert_string_equal(status_of(c, "Other"), "Unknown");
    assert_string_equal(cond_reason(c, "Ready"), "Bound");
    assert_string_equal(cond_message(c, "Nothing"), "");
    assert_true(cond_remove(c, "Other"));
    assert_false(cond_remove(c, "Other"));
}

/* Upstream's TestUpdateJobConditions. */
static void test_job_style(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    assert_true(set_job(c, "Created", COND_TRUE, "TFJobCreated", AT(0)));
    assert_true(set_job(c, "Running", COND_TRUE, "TFJobRunning", AT(1)));
    assert_true(set_job(c, "Restarting", COND_TRUE, "TFJobRestarting", AT(2)));
    assert_int_equal(json_array_size(c), 2); /* instead of Running */
    assert_string_equal(type_at(c, 1), "Restarting");
    assert_true(set_job(c, "Running", COND_TRUE, "TFJobRunning", AT(3)));
    assert_int_equal(json_array_size(c), 2);
    assert_string_equal(type_at(c, 1), "Running");
    assert_false(set_job(c, "Running", COND_TRUE, "TFJobRunning", AT(4)));
    assert_true(set_job(c, "Failed", COND_TRUE, "TFJobFailed", AT(5)));
    assert_int_equal(json_array_size(c), 3);
    assert_string_equal(type_at(c, 1), "Running");
    assert_string_equal(status_of(c, "Running"), "False");
    assert_string_equal(jget_str(c, "[1].lastTransitionTime", ""), "2026-01-31T12:00:05Z");
    assert_string_equal(type_at(c, 2), "Failed");
    /* nothing after Failed */
    assert_false(set_job(c, "Succeeded", COND_TRUE, "TFJobSucceeded", AT(6)));
    assert_int_equal(json_array_size(c), 3);
}

static void test_job_moves_to_end(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    set_job(c, "Created", COND_TRUE, "TFJobCreated", AT(0));
    set_job(c, "Suspended", COND_TRUE, "TFJobSuspended", AT(1));
    set_job(c, "Running", COND_FALSE, "TFJobSuspended", AT(1));
    assert_true(set_job(c, "Suspended", COND_FALSE, "TFJobResumed", AT(2)));
    assert_string_equal(type_at(c, 2), "Suspended");
    assert_true(set_job(c, "Suspended", COND_FALSE, "Other", AT(9)));
    assert_string_equal(jget_str(c, "[2].lastTransitionTime", ""), "2026-01-31T12:00:02Z");
    assert_string_equal(jget_str(c, "[2].lastUpdateTime", ""), "2026-01-31T12:00:09Z");
}

static void test_restarting_ends(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    set_job(c, "Restarting", COND_TRUE, "TFJobRestarting", AT(0));
    set_job(c, "Succeeded", COND_TRUE, "TFJobSucceeded", AT(1));
    assert_string_equal(status_of(c, "Restarting"), "False");
}

static void test_job_message(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    assert_true(cond_set_job_message(c, &(struct cond){"W", COND_TRUE, "R", "for a"}, AT(0)));
    assert_false(cond_set_job_message(c, &(struct cond){"W", COND_TRUE, "R", "for a"}, AT(1)));
    assert_false(cond_set_job(c, &(struct cond){"W", COND_TRUE, "R", "for b"}, AT(2)));
    assert_string_equal(cond_message(c, "W"), "for a");
    assert_true(cond_set_job_message(c, &(struct cond){"W", COND_TRUE, "R", "for b"}, AT(3)));
    assert_string_equal(cond_message(c, "W"), "for b");
    assert_int_equal(json_array_size(c), 1);
}

static void test_cut_message(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    /* cut in the middle of é */
    const struct cond cut = {"Ready", COND_FALSE, "R", "\xe5\xb8\xb8 caf\xc3"};
    assert_true(cond_set(c, &cut, 1, AT(0)));
    assert_string_equal(cond_message(c, "Ready"), "\xe5\xb8\xb8 caf\xef\xbf\xbd");
    assert_false(cond_set(c, &cut, 1, AT(1))); /* the same again: no write */
    const struct cond job = {"Failed", COND_FALSE, "R", "caf\xc3"};
    assert_true(cond_set_job_message(c, &job, AT(0)));
    assert_false(cond_set_job_message(c, &job, AT(1)));
}

static void test_progress(void **state)
{
    (void)state;
    cleanup_json json_t *c = json_array();
    assert_false(cond_set_progress(c, COND_SETTLED, "R", "m", 1, AT(0)));
    assert_true(cond_set_progress(c, COND_RECONCILING, "Starting", "m", 1, AT(0)));
    assert_false(cond_set_progress(c, COND_RECONCILING, "Starting", "m", 1, AT(1)));
    assert_true(cond_is_true(c, "Reconciling"));
    assert_true(cond_set_progress(c, COND_STALLED, "AccessDenied", "m", 1, AT(2)));
    assert_null(cond_find(c, "Reconciling"));
    assert_string_equal(cond_reason(c, "Stalled"), "AccessDenied");
    assert_true(cond_set_progress(c, COND_SETTLED, "Ready", "m", 1, AT(3)));
    assert_int_equal(json_array_size(c), 0);
}

static void test_copy(void **state)
{
    (void)state;
    cleanup_json json_t *status = json_pack(
        "{s:[{s:s s:s}]}", "conditions", "type", "Ready", "status", "True");
    cleanup_json json_t *copy = cond_copy(status), *empty = cond_copy(NULL);
    cond_set(copy, &(struct cond){"Ready", COND_FALSE, "R", "m"}, 1, AT(0));
    assert_true(cond_is_true(json_object_get(status, "conditions"), "Ready"));
    assert_int_equal(json_array_size(empty), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meta_style),
        cmocka_unit_test(test_job_style),
        cmocka_unit_test(test_job_moves_to_end),
        cmocka_unit_test(test_restarting_ends),
        cmocka_unit_test(test_job_message),
        cmocka_unit_test(test_cut_message),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
