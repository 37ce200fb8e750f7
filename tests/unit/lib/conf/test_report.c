/* SPDX-License-Identifier: Apache-2.0 */
/* The document at /status: what its writer makes of every key that readers ask for. */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"

#include <jansson.h>
#include <string.h>

static json_t *parse(struct buf *out)
{
    json_t *j = json_loads(buf_str(out), 0, NULL);
    if (!j)
        fail_msg("no JSON: %s", buf_str(out));
    return j;
}

static void test_common(void **state)
{
    (void)state;
    static struct conf_mount mounts[] = {
        {.mount_point = "s3://a/\"b\"", .path = "/x"}, {.mount_point = "file:///c", .path = "/y"}};
    static const struct conf conf = {.mounts = mounts, .nmounts = 2};
    static const struct report_problem of[2] = {{"", ""}, {"AccessDenied", "no\nkey"}},
                                       whole = {"Starting", "a \"word\""};
    static const struct {
        const char *path;
        uint64_t value;
    } counts[] = {{REPORT_CACHE_USED, 1}, {REPORT_CACHE_CAPACITY, 2}, {REPORT_CACHE_FILES, 3},
        {REPORT_CACHE_COMPLETE, 4}, {REPORT_CACHE_PINNED, 5}, {REPORT_CACHE_PINNED_MOST, 6},
        {REPORT_CACHE_PINNED_FILES, 7}, {REPORT_READS_CACHE, 8}, {REPORT_READS_WORKER, 9},
        {REPORT_READS_STORE, 10}, {REPORT_WRITES_BYTES, 11}, {REPORT_WRITES_PENDING, 12}};
    for (int all = 0; all < 2; all++) {
        cleanup_buf struct buf out = BUF_INIT(1 << 16);
        report_begin(&out,
            &(struct report_common){.component = "worker",
                .ready = all,
                .serving = !all,
                .problem = &whole,
                .conf = &conf,
                .mounts = of,
                .checked = true,
                .cache = {1, 2, 3, 4, 5, 6, 7},
                .reads = {8, 9, 10},
                .writes = {11, 12}});
        buf_adds(&out, "}\n");
        json_t *j = parse(&out);
        assert_string_equal(jget_str(j, REPORT_COMPONENT, ""), "worker");
        assert_true(jget_bool(j, REPORT_READY, !all) == all);
        assert_true(jget_bool(j, REPORT_SERVING, all) == !all);
        assert_string_equal(jget_str(j, REPORT_REASON, ""), "Starting");
        assert_string_equal(jget_str(j, REPORT_MESSAGE, ""), "a \"word\"");
        assert_int_equal(jget_len(j, REPORT_MOUNTS), 2);
        for (size_t i = 0; i < 2; i++) {
            const json_t *m = json_array_get(jget_arr(j, REPORT_MOUNTS), i);
            assert_string_equal(jget_str(m, REPORT_MOUNT_POINT, ""), mounts[i].mount_point);
            assert_string_equal(jget_str(m, REPORT_MOUNT_PATH, ""), mounts[i].path);
            assert_string_equal(jget_str(m, REPORT_REASON, "?"), of[i].reason);
            assert_string_equal(jget_str(m, REPORT_MESSAGE, "?"), of[i].message);
            assert_true(jget_bool(m, REPORT_READY, i == 1) == (i == 0));
        }
        for (size_t i = 0; i < ARRAY_LEN(counts); i++)
            assert_int_equal(jget_int(j, counts[i].path, -1), counts[i].value);
        json_decref(j);
    }
}

/* Not looked at yet, or without a configuration: no mount is ready, and the document is whole. */
static void test_unchecked(void **state)
{
    (void)state;
    static struct conf_mount mount = {.mount_point = "s3://a", .path = "/"};
    static const struct conf conf = {.mounts = &mount, .nmounts = 1};
    static const struct report_problem none;
    for (int known = 0; known < 2; known++) {
        cleanup_buf struct buf out = BUF_INIT(1 << 16);
        report_begin(&out,
            &(struct report_common){.component = "worker",
                .problem = &none,
                .conf = known ? &conf : NULL,
                .mounts = &none});
        buf_adds(&out, "}\n");
        json_t *j = parse(&out);
        assert_int_equal(jget_len(j, REPORT_MOUNTS), known);
        assert_false(jget_bool(json_array_get(jget_arr(j, REPORT_MOUNTS), 0), REPORT_READY, known));
        assert_int_equal(jget_int(j, REPORT_CACHE_USED, -1), 0);
        json_decref(j);
    }
}

static void test_groups(void **state)
{
    (void)state;
    static const struct report_member members[] = {{"a", REPORT_COUNT, UINT64_MAX / 2, NULL},
        {"g.b", REPORT_BOOL, 1, NULL}, {"g.c", REPORT_TEXT, 0, "t"},
        {"gg.d", REPORT_COUNT, 4, NULL}, {"e", REPORT_BOOL, 0, NULL},
        {"h.f", REPORT_COUNT, 5, NULL}};
    cleanup_buf struct buf out = BUF_INIT(1 << 10);
    buf_adds(&out, "{");
    report_add(&out, members, 3);
    report_add(&out, members + 3, 3);
    buf_adds(&out, "}");
    assert_string_equal(buf_str(&out),
        "{\"a\":9223372036854775807,\"g\":{\"b\":true,\"c\":\"t\"},\"gg\":{\"d\":4},\"e\":false,"
        "\"h\":{\"f\":5}}");
}

static void test_problem(void **state)
{
    (void)state;
    struct report_problem p;
    char reason[100], message[1000];
    memset(reason, 'r', sizeof reason - 1);
    memset(message, 'm', sizeof message - 1);
    reason[sizeof reason - 1] = message[sizeof message - 1] = '\0';
    report_problem_set(&p, reason, message);
    assert_int_equal(strlen(p.reason), sizeof p.reason - 1);
    assert_int_equal(strlen(p.message), sizeof p.message - 1);
    report_problem_set(&p, "", "");
    assert_true(!*p.reason && !*p.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_unchecked),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
