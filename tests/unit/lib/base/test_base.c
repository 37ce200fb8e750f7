/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/human.h"
#include "lib/base/log.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void err_keeps_class_and_context(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_int_equal(err_sys(&e, ENOENT, "open %s", "/x"), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    err_wrap(&e, "dataset %s", "a/b");
    assert_string_equal(e.msg, "dataset a/b: open /x: No such file or directory");
    assert_int_equal(err_errno(&e), ENOENT);
    err_set(&e, ERR_DENIED, "no");
    assert_int_equal(err_errno(&e), EACCES);
    assert_int_equal(err_set(NULL, ERR_RETRY, "nobody listens"), -1);
}

static void err_long_messages_are_cut_not_overrun(void **state)
{
    (void)state;
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    struct err e = ERR_INIT;
    err_set(&e, ERR_RETRY, "%s", big);
    err_wrap(&e, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

static void buf_respects_its_ceiling(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(10);
    assert_int_equal(buf_adds(&b, "12345678"), 0);
    assert_int_equal(buf_adds(&b, "abc"), -1);
    assert_true(b.truncated);
    assert_string_equal(buf_str(&b), "12345678ab");
    buf_drop(&b, 8);
    assert_string_equal(buf_str(&b), "ab");
    buf_free(&b);
}

static void buf_json_strings(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {{"a\"b\\c\n\x01", "\"a\\\"b\\\\c\\n\\u0001\""}, {"ü€😀", "\"ü€😀\""},
        {"\xff\xc0\x80x", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf b = BUF_INIT(1000);
        buf_add_json_string(&b, cases[i].in);
        assert_string_equal(buf_str(&b), cases[i].out);
        buf_free(&b);
    }
}

static void map_against_a_shadow(void **state)
{
    (void)state;
    enum { KEYS = 500 };
    struct map *m = map_new(free);
    char *shadow[KEYS] = {0};
    unsigned seed = 1;
    for (int step = 0; step < 20000; step++) {
        int k = rand_r(&seed) % KEYS;
        char key[16];
        snprintf(key, sizeof key, "key%d", k);
        if (rand_r(&seed) % 3) {
            char *v = xasprintf("%d", step);
            map_put(m, key, v);
            shadow[k] = v;
        } else {
            assert_int_equal(map_del(m, key), shadow[k] != NULL);
            shadow[k] = NULL;
        }
    }
    size_t want = 0, seen = 0;
    for (int k = 0; k < KEYS; k++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", k);
        assert_ptr_equal(map_get(m, key), shadow[k]);
        want += shadow[k] != NULL;
    }
    const char *key;
    void *value;
    for (size_t i = 0; map_next(m, &i, &key, &value);)
        seen++;
    assert_int_equal(seen, want);
    assert_int_equal(map_len(m), want);
    map_free(m);
}

static void clock_round_trips(void **state)
{
    (void)state;
    int64_t ns;
    assert_int_equal(clock_parse_rfc3339("2026-01-31T23:59:59.5+02:00", &ns), 0);
    char text[CLOCK_RFC3339_MICRO_LEN];
    clock_rfc3339_micro(ns, text);
    assert_string_equal(text, "2026-01-31T21:59:59.500000Z");
    clock_rfc3339(ns, text);
    assert_string_equal(text, "2026-01-31T21:59:59Z");
    assert_int_equal(clock_parse_rfc3339("2026-01-31 23:59", &ns), -1);
    assert_int_equal(clock_parse_rfc3339("2026-01-31T23:59:59", &ns), -1);
    assert_int_equal(clock_parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT", &ns), 0);
    assert_int_equal(ns / NS_PER_S, 784111777);
}

static void quantities(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } cases[] = {{"10Gi", 10737418240}, {"500M", 500000000}, {"1e3", 1000}, {"1.5Gi", 1610612736},
        {"1500m", 2}, {"0", 0}, {"7E", 7000000000000000000}, {"8Ei", -1}, {"", -1}, {"-1", -1},
        {"1 Gi", -1}, {"0x10", -1}, {"10GB", -1}, {"nan", -1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t got = -2;
        int rc = quantity_parse(cases[i].text, &got);
        assert_int_equal(rc, cases[i].bytes < 0 ? -1 : 0);
        if (rc == 0)
            assert_int_equal(got, cases[i].bytes);
    }
    static const struct {
        const char *text;
        int64_t milli;
    } thousandths[] = {{"250m", 250}, {"2", 2000}, {"0.1", 100}, {"1.1", 1100}, {"0.0001", 1},
        {"1Ki", 1024000}, {"9E", -1}, {"-1", -1}};
    for (size_t i = 0; i < ARRAY_LEN(thousandths); i++) {
        int64_t got = -1;
        assert_int_equal(
            quantity_parse_milli(thousandths[i].text, &got), thousandths[i].milli < 0 ? -1 : 0);
        assert_int_equal(got, thousandths[i].milli);
    }
    char text[HUMAN_BYTES_LEN];
    assert_string_equal(human_bytes(512, text), "512B");
    assert_string_equal(human_bytes(2061584302, text), "1.92GiB");
    assert_string_equal(human_bytes(UINT64_MAX, text), "16.00EiB");
    char count[HUMAN_COUNT_LEN];
    assert_string_equal(human_count(0, count), "0");
    assert_string_equal(human_count(999, count), "999");
    assert_string_equal(human_count(12345, count), "12,345");
    assert_string_equal(human_count(INT64_MAX, count), "9,223,372,036,854,775,807");
}

static void options(void **state)
{
    (void)state;
    const char *s = "dflt";
    int64_t n = 1, bytes = 0, ns = 0;
    bool b = false;
    struct opt table[] = {{"name", OPT_STRING, &s, "TEXT", "a text"},
        {"count", OPT_INT, &n, "N", "a number"}, {"size", OPT_BYTES, &bytes, "SIZE", "a size"},
        {"wait", OPT_SECONDS, &ns, "TIME", "a time"}, {"flag", OPT_BOOL, &b, NULL, "a flag"}};
    char *argv[] = {"x", "--name=v", "--count", "7", "--size", "2Ki", "--wait=1m30s", "--flag",
        "pos", "--name"};
    int first;
    struct err e = ERR_INIT;
    assert_int_equal(opt_parse(table, ARRAY_LEN(table), 10, argv, &first, &e), 0);
    assert_int_equal(first, 8);
    assert_string_equal(s, "v");
    assert_int_equal(n, 7);
    assert_int_equal(bytes, 2048);
    assert_int_equal(ns, 90 * NS_PER_S);
    assert_true(b);
    char *help = opt_help(table, ARRAY_LEN(table), "x [flags]", "Does x.");
    assert_non_null(strstr(help, "--count N"));
    assert_non_null(strstr(help, "(default 2.00KiB)"));
    free(help);
    static char *bad[][2] = {{"--nope", "unknown flag --nope"}, {"--count=x", "not a whole number"},
        {"--size=1Q", "not a size"}, {"--wait=soon", "not a duration"},
        {"--flag=maybe", "neither true nor false"}, {"--name", "needs a value"}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char *one[] = {"x", bad[i][0]};
        assert_int_equal(opt_parse(table, ARRAY_LEN(table), 2, one, &first, &e), -1);
        assert_non_null(strstr(e.msg, bad[i][1]));
    }
}

static void crc32c_known_answers(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    unsigned char zero[32] = {0};
    assert_int_equal(crc32c(0, zero, 32), 0x8a9136aa);
    assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
    assert_int_equal(crc32c_by_table(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_by_table(0, zero, 32), 0x8a9136aa);
    static unsigned char many[40000];
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = (unsigned char)hash64_mix(i, 1);
    for (size_t at = 0; at < 8; at++) /* in one piece as in small ones, however it lies in memory */
        for (size_t len = 1; len <= sizeof many - at; len += len / 3 + 1) {
            uint32_t crc = 0;
            for (size_t done = 0, n; done < len; done += n) {
                n = len - done < 100 ? len - done : 100;
                crc = crc32c(crc, many + at + done, n);
            }
            assert_int_equal(crc32c(0, many + at, len), crc);
            assert_int_equal(crc32c_by_table(0, many + at, len), crc);
        }
}

static void files(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err e = ERR_INIT;
    cleanup_free char *deep = path_join(dir, "/a/b/c");
    assert_int_equal(file_mkdirs(deep, 0755, &e), 0);
    assert_int_equal(file_mkdirs(deep, 0755, &e), 0);
    cleanup_free char *f = path_join(deep, "f");
    assert_int_equal(file_write_atomic(f, "hello", 5, 0640, &e), 0);
    size_t len;
    cleanup_free char *text = file_read(f, 100, &len, &e);
    assert_string_equal(text, "hello");
    assert_null(file_read(f, 4, &len, &e));
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    cleanup_free char *below = path_join(f, "x");
    assert_int_equal(file_mkdirs(below, 0755, &e), -1);
    assert_int_equal(e.sys, ENOTDIR);
    assert_int_equal(file_remove_tree(dir, &e), 0);
    assert_int_equal(file_remove_tree(dir, &e), 0);
    assert_int_equal(access(dir, F_OK), -1);
}

static void secrets_never_reach_the_log(void **state)
{
    (void)state;
    log_redact("s3cr3t-value");
    char text[] = "key=s3cr3t-value, again s3cr3t-value.";
    log_redact_text(text);
    assert_string_equal(text, "key=***, again ***.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_keeps_class_and_context),
        cmocka_unit_test(err_long_messages_are_cut_not_overrun),
        cmocka_unit_test(buf_respects_its_ceiling),
        cmocka_unit_test(buf_json_strings),
        cmocka_unit_test(map_against_a_shadow),
        cmocka_unit_test(clock_round_trips),
        cmocka_unit_test(quantities),
        cmocka_unit_test(options),
        cmocka_unit_test(crc32c_known_answers),
        cmocka_unit_test(files),
        cmocka_unit_test(secrets_never_reach_the_log),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
