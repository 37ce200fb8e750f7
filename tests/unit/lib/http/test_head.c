/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/http/head.h"

#include <stdlib.h>
#include <string.h>

static int parse(struct http_head *h, const char *text)
{
    size_t len = http_head_length(text, strlen(text));
    assert_int_not_equal(len, 0);
    return http_head_parse(h, text, len);
}

static void parts_of_a_request(void **state)
{
    (void)state;
    struct http_head h;
    assert_int_equal(
        parse(&h,
            "GET /a%20b/%c3%bc?x=1&y=%202 HTTP/1.1\r\nHost: h\r\nRange:  bytes=0-3 \r\nX-A:\r\n\r\n"),
        0);
    assert_string_equal(h.method, "GET");
    assert_string_equal(h.path, "/a b/ü");
    assert_string_equal(h.query, "x=1&y=%202");
    assert_string_equal(h.headers, "host: h\nrange: bytes=0-3\nx-a: \n");
    assert_true(h.keep_alive);
    char value[16];
    assert_string_equal(http_head_value(h.headers, "range", value, sizeof value), "bytes=0-3");
    assert_string_equal(http_head_value(h.headers, "x-a", value, sizeof value), "");
    assert_null(http_head_value(h.headers, "ran", value, sizeof value));
    assert_null(http_head_value(h.headers, "range", value, 9));
    http_head_free(&h);
}

static void what_stays_open(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {{"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.1\nHost: x\n\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_head h;
        assert_int_equal(parse(&h, cases[i].text), 0);
        assert_int_equal(h.keep_alive, cases[i].keep);
        http_head_free(&h);
    }
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET /\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
        {"GET / HTTP/1.1x\r\nHost: h\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", 400},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999999999999\r\n\r\n", 400},
        {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
        {"PUT / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n", 417},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_head h;
        int status = parse(&h, cases[i].text);
        if (status != cases[i].status)
            print_error("case %zu: %s", i, cases[i].text);
        assert_int_equal(status, cases[i].status);
        http_head_free(&h);
    }
}

static void a_head_ends_at_its_blank_line(void **state)
{
    (void)state;
    const char *text = "GET / HTTP/1.1\r\nHost: h\r\n\r\nbody";
    size_t whole = strlen(text) - 4;
    for (size_t n = 0; n < whole; n++)
        assert_int_equal(http_head_length(text, n), 0);
    assert_int_equal(http_head_length(text, strlen(text)), whole);
}

static void absolute_form_is_a_path_too(void **state)
{
    (void)state;
    struct http_head h;
    assert_int_equal(parse(&h, "GET http://host:80/x/y?z HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_string_equal(h.path, "/x/y");
    assert_string_equal(h.query, "z");
    http_head_free(&h);
    assert_int_equal(parse(&h, "GET http://host HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    http_head_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_a_request),
        cmocka_unit_test(what_stays_open), cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(a_head_ends_at_its_blank_line),
        cmocka_unit_test(absolute_form_is_a_path_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
