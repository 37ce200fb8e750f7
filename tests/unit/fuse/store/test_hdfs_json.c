/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from WebHDFS' answers, and what is not. */
#include "tests/lib/unit.h"

#include "fuse/store/hdfs_json.h"
#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static char *corpus(const char *name)
{
    const char *source = getenv("MILLRACE_SOURCE");
    assert_non_null(source);
    cleanup_free char *path = xasprintf("%s/tests/fuzz/corpus/hdfs_json/%s", source, name);
    char *text = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(text);
    return text;
}

static int collect_entry(void *out, const char *name, const struct hdfs_status *status)
{
    buf_addf(out, "%s%s:%llu:%o|", name, status->st.is_dir ? "/" : "",
        (unsigned long long)status->st.size, status->permission);
    return 0;
}

static void expect_listing(const char *text, const char *names, const char *last, bool more)
{
    cleanup_buf struct buf got = BUF_INIT(4096);
    cleanup_free char *end = NULL;
    struct err e = ERR_INIT;
    bool others;
    int rc = hdfs_json_listing(text, strlen(text), collect_entry, &got, &end, &others, &e);
    assert_int_equal(rc, names ? 0 : -1);
    if (!names) {
        assert_int_equal(e.cls, ERR_INVALID);
        return;
    }
    assert_string_equal(buf_str(&got), names);
    assert_int_equal(others, more);
    if (last)
        assert_string_equal(end, last);
    else
        assert_null(end);
}

#define ENTRY(name, type)                                                                     \
    "{\"pathSuffix\":\"" name "\",\"type\":\"" type "\",\"length\":1,\"modificationTime\":2," \
    "\"permission\":\"600\"}"
#define LIST(entries) "{\"FileStatuses\":{\"FileStatus\":[" entries "]}}"

static void listings(void **state)
{
    (void)state;
    cleanup_free char *page = corpus("page"), *whole = corpus("whole");
    expect_listing(page, "f:1221:644|d/:0:1777|", "d", true);
    expect_listing(whole, "a b:12:644|", "link", false);
    expect_listing(LIST(""), "", NULL, false);
    expect_listing(LIST(ENTRY("", "FILE")), ":1:600|", "", false);
    /* names that would lead elsewhere */
    expect_listing(LIST(ENTRY("../x", "FILE") "," ENTRY("..", "DIRECTORY") "," ENTRY(
                       "", "FILE") "," ENTRY("ok", "FILE")),
        "ok:1:600|", "ok", false);
    expect_listing("{}", NULL, NULL, false);
    expect_listing("", NULL, NULL, false);
    expect_listing(LIST("{}"), NULL, NULL, false);
    expect_listing(LIST("{\"pathSuffix\":\"a\",\"type\":\"FILE\",\"length\":-1,"
                        "\"modificationTime\":2}"),
        NULL, NULL, false);
}

static void statuses(void **state)
{
    (void)state;
    cleanup_free char *text = corpus("status");
    struct hdfs_status s;
    struct err e = ERR_INIT;
    assert_int_equal(hdfs_json_status(text, strlen(text), &s, &e), 0);
    assert_false(s.st.is_dir);
    assert_int_equal(s.st.size, 1221);
    assert_int_equal(s.st.mtime_ns, INT64_C(1795770433704) * 1000000);
    assert_string_equal(s.st.version, "16388-1795770433704-1221");
    assert_int_equal(s.id, 16388);
    assert_int_equal(s.permission, 0644);
    assert_string_equal(s.owner, "root");
    assert_string_equal(s.group, "supergroup");
    static const char link[] = "{\"FileStatus\":" ENTRY("", "SYMLINK") "}";
    assert_int_equal(hdfs_json_status(link, sizeof link - 1, &s, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_int_equal(hdfs_json_status("[]", 2, &s, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
}

static void faults(void **state)
{
    (void)state;
    cleanup_free char *text = corpus("fault");
    struct hdfs_fault f;
    hdfs_json_fault(text, strlen(text), &f);
    assert_string_equal(f.exception, "StandbyException");
    assert_string_equal(f.message,
        "Operation category READ is not supported in state standby. Visit https://s.apache.org/sbnn-error");
    hdfs_json_fault("<html>", 6, &f);
    assert_string_equal(f.exception, "");
    assert_string_equal(f.message, "");
}

static void small_answers(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    bool value;
    assert_int_equal(hdfs_json_boolean("{\"boolean\":true}", 16, &value, &e), 0);
    assert_true(value);
    assert_int_equal(hdfs_json_boolean("{\"boolean\":false}", 17, &value, &e), 0);
    assert_false(value);
    assert_int_equal(hdfs_json_boolean("{\"boolean\":1}", 13, &value, &e), -1);
    int64_t ms;
    cleanup_free char *answer = corpus("token");
    cleanup_free char *token = hdfs_json_token(answer, strlen(answer), &e);
    assert_string_equal(token, "HAAEcm9vdAtyb290QFJFQUxNAIoBkQ");
    assert_null(hdfs_json_token("{\"Token\":null}", 14, &e)); /* without security */
    assert_null(hdfs_json_token("{\"Token\":{\"urlString\":\"a b\"}}", 31, &e));
    assert_null(hdfs_json_token("{}", 2, &e));
    assert_int_equal(hdfs_json_time("{\"long\":1764333000123}", 22, &ms, &e), 0);
    assert_int_equal(ms, 1764333000123);
    assert_int_equal(hdfs_json_time("{\"long\":-1}", 11, &ms, &e), -1);
    assert_int_equal(hdfs_json_time("{\"long\":9223372036854775807}", 28, &ms, &e), -1);
    assert_int_equal(hdfs_json_time("{}", 2, &ms, &e), -1);
    cleanup_free char *text = corpus("attributes");
    cleanup_free char *there = hdfs_json_attribute(text, strlen(text), "user.x");
    assert_string_equal(there, "00ff");
    assert_null(hdfs_json_attribute(text, strlen(text), "user.y"));
}

static void redirects(void **state)
{
    (void)state;
    static const struct {
        const char *location;
        bool tls, ok;
        const char *host;
    } cases[] = {
        {"http://dn1:9864/webhdfs/v1/a?op=OPEN", false, true, "dn1:9864"},
        {"https://dn1:9865/webhdfs/v1/a?op=OPEN", false, true, "dn1:9865"},
        {"https://knox:8443/gateway/x/webhdfs/v1/a?_=y", true, true, "knox:8443"},
        {"http://dn1:9864/webhdfs/v1/a?op=OPEN", true, false, NULL}, /* out of TLS */
        {"http://u:p@dn1:9864/webhdfs/v1/a", false, false, NULL},
        {"http:///webhdfs/v1/a", false, false, NULL},
        {"http://dn1/other?x=/webhdfs/v1/", false, false, NULL},
        {"http://dn1/webhdfs/v1/a b", false, false, NULL},
        {"http://dn1/webhdfs/v1/a#b", false, false, NULL},
        {"/webhdfs/v1/a", false, false, NULL},
        {"file:///webhdfs/v1/a", false, false, NULL},
        {"", false, false, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *host;
        size_t n;
        bool ok = hdfs_redirect_ok(cases[i].location, cases[i].tls, &host, &n);
        if (ok != cases[i].ok)
            print_error("%s\n", cases[i].location);
        assert_int_equal(ok, cases[i].ok);
        if (ok)
            assert_int_equal(strncmp(host, cases[i].host, n) || strlen(cases[i].host) != n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(listings), cmocka_unit_test(statuses),
        cmocka_unit_test(faults), cmocka_unit_test(small_answers), cmocka_unit_test(redirects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
