/* SPDX-License-Identifier: Apache-2.0 */
/* What `status` prints of recorded answers of an API server: status.yaml. */
#include "fuse/cli/status.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/unit.h"
#include "tests/unit/fuse/cli/recorded.h"

#include <string.h>

static json_t *document_of(const json_t *answers)
{
    struct facts f = {.datasets = json_object_get(answers, "datasets"),
        .claims = json_object_get(answers, "claims"),
        .caches = json_object_get(answers, "caches"),
        .operators = json_object_get(answers, "operators")};
    return status_document(json_array_get(f.datasets, 0), &f, jget_arr(answers, "pods"));
}

static void check_text(const json_t *document, const char *expected)
{
    cleanup_buf struct buf out = BUF_INIT(64 << 10);
    status_print(document, &out);
    assert_string_equal(buf_str(&out), expected);
    for (const char *line = buf_str(&out); *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
}

static void a_dataset_is_shown_with_all_that_belongs_to_it(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("status.yaml");
    assert_non_null(all);
    cleanup_json json_t *document = document_of(jget_obj(all, "full"));
    check_text(document, jget_str(all, "text", ""));
    assert_int_equal(jget_int(document, "preload.doneFiles", 0), 100);
    assert_int_equal(jget_int(document, "waitingPods", 0), 1);
    assert_string_equal(jget_str(document, "waiting[0].pod", ""), "train-1");
    assert_string_equal(jget_str(document, "clients[0].node", ""), "node-a");
    assert_int_equal(jget_len(document, "clients"), 1);
}

static void a_new_dataset_has_no_numbers(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("status.yaml");
    assert_non_null(all);
    cleanup_json json_t *document = document_of(jget_obj(all, "new"));
    check_text(document, jget_str(all, "new_text", ""));
    assert_null(jget(document, "bytes"));
}

static void an_operator_of_another_namespace_is_told(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("status.yaml");
    assert_non_null(all);
    cleanup_json json_t *document = document_of(jget_obj(all, "unwatched"));
    check_text(document, jget_str(all, "unwatched_text", ""));
    assert_string_equal(jget_str(document, "watchedOnly", ""), "other");
}

/* The percentage is the one of kubectl's column. */
static void no_bytes_are_told_plainly(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("status.yaml");
    assert_non_null(all);
    cleanup_json json_t *empty = document_of(jget_obj(all, "empty")),
                        *zeros = document_of(jget_obj(all, "zeros"));
    check_text(empty, jget_str(all, "empty_text", ""));
    check_text(zeros, jget_str(all, "zeros_text", ""));
    assert_int_equal(jget_int(empty, "cachedPercent", -1), 0);
}

/* Its conditions all say the same: it is printed once. */
static void a_problem_is_said_once(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("status.yaml");
    assert_non_null(all);
    cleanup_json json_t *document = document_of(jget_obj(all, "denied"));
    check_text(document, jget_str(all, "denied_text", ""));
}

/* Each pod is told of its own Events, however many there are. */
static void events_are_of_their_pods(void **state)
{
    (void)state;
    cleanup_json json_t *all = recorded_read("status.yaml");
    assert_non_null(all);
    json_t *answers = json_object_get(all, "mounting");
    struct facts f = {.datasets = json_object_get(answers, "datasets"),
        .claims = json_object_get(answers, "claims"),
        .events = json_object_get(answers, "events")};
    cleanup_json json_t *document = status_document(
        json_array_get(f.datasets, 0), &f, jget_arr(answers, "pods"));
    assert_int_equal(jget_int(document, "waitingPods", 0), 2);
    assert_non_null(strstr(jget_str(document, "waiting[0].why", ""), "configmap \"a\" not found"));
    assert_non_null(strstr(jget_str(document, "waiting[1].why", ""), "configmap \"b\" not found"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dataset_is_shown_with_all_that_belongs_to_it),
        cmocka_unit_test(a_new_dataset_has_no_numbers),
        cmocka_unit_test(an_operator_of_another_namespace_is_told),
        cmocka_unit_test(no_bytes_are_told_plainly),
        cmocka_unit_test(a_problem_is_said_once),
        cmocka_unit_test(events_are_of_their_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
