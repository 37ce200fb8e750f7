/* SPDX-License-Identifier: Apache-2.0 */
/* What a request to a worker says: paths, ranges, parameters; and which mounts a path to load is
 * in. */
#include "tests/lib/unit.h"

#include "fuse/worker/load_pass.h"
#include "fuse/worker/request.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t size;
        enum range want;
        uint64_t off, len;
    } cases[] = {
        {NULL, 100, RANGE_OK, 0, 100},
        {"bytes=0-0", 100, RANGE_OK, 0, 1},
        {"bytes=10-19", 100, RANGE_OK, 10, 10},
        {"bytes=90-500", 100, RANGE_OK, 90, 10},
        {"bytes=90-", 100, RANGE_OK, 90, 10},
        {"bytes=-30", 100, RANGE_OK, 70, 30},
        {"bytes=-300", 100, RANGE_OK, 0, 100},
        {"Bytes=1-2", 100, RANGE_OK, 1, 2},
        {"bytes=100-", 100, RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", 100, RANGE_OUTSIDE, 0, 0},
        {"bytes=0-", 0, RANGE_OUTSIDE, 0, 0},
        {"bytes=-5", 0, RANGE_OUTSIDE, 0, 0},
        {"bytes=5-4", 100, RANGE_BAD, 0, 0},
        {"bytes=", 100, RANGE_BAD, 0, 0},
        {"bytes=-", 100, RANGE_BAD, 0, 0},
        {"bytes=1-2,4-5", 100, RANGE_BAD, 0, 0},
        {"bytes= 1-2", 100, RANGE_BAD, 0, 0},
        {"bytes=+1-2", 100, RANGE_BAD, 0, 0},
        {"bytes=1-2x", 100, RANGE_BAD, 0, 0},
        {"lines=1-2", 100, RANGE_BAD, 0, 0},
        {"bytes=--2", 100, RANGE_BAD, 0, 0},
        {"bytes=0-18446744073709551615", 100, RANGE_BAD, 0, 0},
        {"bytes=99999999999999999999-", 100, RANGE_BAD, 0, 0},
        {"bytes=0-9223372036854775807", 100, RANGE_OK, 0, 100},
        {"", 100, RANGE_BAD, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t off, len;
        enum range got = range_parse(cases[i].header, cases[i].size, &off, &len);
        if (got != cases[i].want)
            print_error("%s\n", cases[i].header);
        assert_int_equal(got, cases[i].want);
        if (got == RANGE_OK) {
            assert_int_equal(off, cases[i].off);
            assert_int_equal(len, cases[i].len);
        }
    }
}

static void test_queries(void **state)
{
    (void)state;
    static const struct {
        const char *query, *complaint; /* NULL: fine */
    } cases[] = {
        {"mount=1&path=a%2Fb&version=x&size=9", NULL},
        {"size=0&version=&path=a&mount=0", NULL},
        {"path=a&version=x&size=9", "mount"},
        {"mount=2&path=a&version=x&size=9", "mount"},
        {"mount=-1&path=a&version=x&size=9", "mount"},
        {"mount=0&version=x&size=9", "path"},
        {"mount=0&path=&version=x&size=9", "path"},
        {"mount=0&path=..&version=x&size=9", "path"},
        {"mount=0&path=%2fetc&version=x&size=9", "path"},
        {"mount=0&path=a%00b&version=x&size=9", "path"},
        {"mount=0&path=a&size=9", "version"},
        {"mount=0&path=a&version=0123456789012345678901234567890123456789012345678901234567890123456789012345678901&size=9",
            "version"},
        {"mount=0&path=a&version=a%0d%0a%0d%0aGET&size=9", "version"},
        {"mount=0&path=a&version=a%20b&size=9", "version"},
        {"mount=0&path=a&version=%ff&size=9", "version"},
        {"mount=0&path=a&version=x", "size"},
        {"mount=0&path=a&version=x&size=1e3", "size"},
        {"mount=0&path=a&version=x&size=99999999999999999999", "size"},
        {"", "mount"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct serve_req req = {
            .method = "GET", .path = "/v1/data", .query = cases[i].query, .headers = ""};
        struct request q;
        struct err e = ERR_INIT;
        int rc = request_parse(&req, 2, &q, &e);
        if (cases[i].complaint) {
            assert_int_equal(rc, -1);
            assert_int_equal(e.cls, ERR_INVALID);
            assert_non_null(strstr(e.msg, cases[i].complaint));
        } else {
            assert_int_equal(rc, 0);
            request_free(&q);
        }
    }
}

static void test_pin_parameter(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        int rc;
        enum request_pin want;
    } cases[] = {
        {"mount=0", 0, REQUEST_PIN_AS_IS},
        {"pin=1", 0, REQUEST_PIN},
        {"off=0&pin=0", 0, REQUEST_UNPIN},
        {"pin=", -1, 0},
        {"pin=2", -1, 0},
        {"pin=true", -1, 0},
        {"pin=10", -1, 0},
        {"pin=-1", -1, 0},
        {"spin=1", 0, REQUEST_PIN_AS_IS},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct serve_req req = {
            .method = "POST", .path = "/v1/load", .query = cases[i].query, .headers = ""};
        struct err e = ERR_INIT;
        enum request_pin pin;
        int rc = request_pin(&req, &pin, &e);
        assert_int_equal(rc, cases[i].rc);
        assert_int_equal(e.cls, rc ? ERR_INVALID : ERR_NONE);
        if (rc == 0)
            assert_int_equal(pin, cases[i].want);
    }
}

static void check_target(struct conf *conf, const char *path, const char *want)
{
    size_t n = 0;
    struct load_target *t = load_targets(conf, path, &n);
    struct buf got = BUF_INIT(1000);
    for (size_t i = 0; i < n; i++)
        buf_addf(&got, "%zu:%s ", t[i].mount, t[i].dir);
    assert_string_equal(buf_str(&got), want);
    buf_free(&got);
    load_targets_free(t, n);
}

static void test_targets(void **state)
{
    (void)state;
    struct conf_mount mounts[] = {
        {.path = (char *)"/a"}, {.path = (char *)"/b"}, {.path = (char *)"/a/deep"}};
    struct conf conf = {.mounts = mounts, .nmounts = 3};
    check_target(&conf, "/", "0: 1: 2: ");
    check_target(&conf, "/a", "0: 2: ");
    check_target(&conf, "/a/", "0: 2: ");
    check_target(&conf, "a/x/y", "0:x/y ");
    check_target(&conf, "/a/deep/z", "2:z ");
    check_target(&conf, "/a/deeper", "0:deeper ");
    check_target(&conf, "/b/c", "1:c ");
    check_target(&conf, "/c", "");
    check_target(&conf, "/ab", "");
    struct conf_mount root = {.path = (char *)"/"};
    struct conf one = {.mounts = &root, .nmounts = 1};
    check_target(&one, "/", "0: ");
    check_target(&one, "/x/y", "0:x/y ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_queries),
        cmocka_unit_test(test_pin_parameter),
        cmocka_unit_test(test_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
