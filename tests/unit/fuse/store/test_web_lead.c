/* SPDX-License-Identifier: Apache-2.0 */
/* Where a web server's redirects lead, and what messages show of that. Pure. */
#include "tests/lib/unit.h"

#include "fuse/store/web.h"
#include "fuse/store/web_lead.h"
#include "lib/base/mem.h"

#include <string.h>

static void what_others_send_is_shown(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"https://u:hush@h/p?hush#hush", "https://h/p"},
        {"http://u:hu/sh@h/p?hush", "…@h/p"}, {"//u:hush@h/p", "…@h/p"}, {"u:hush@h", "h"},
        {"../p?X-Amz-Signature=hush", "../p"}, {"/p#hush", "/p"}, {"", ""},
        {"http://h/\xff", "http://h/\xef\xbf\xbd"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_free char *shown = web_shown_lead(rows[i][0]);
        assert_string_equal(shown, rows[i][1]);
    }
}

static void where_redirects_lead(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"http://h/a/b", "c", "http://h/a/c"},
        {"http://h/a/b?x=/y", "c", "http://h/a/c"}, {"http://h/a/b", "/c", "http://h/c"},
        {"http://h/a", "HTTPS://o/c", "https://o/c"}, {"https://h/a", "http://h/a", NULL},
        {"http://h/a", "//o/c", NULL}, {"http://h/a", "ftp://o/c", NULL},
        {"http://h/a", "file:/etc/passwd", NULL}, {"http://h", "c", NULL},
        {"http://h/a/", "./b:c", "http://h/a/./b:c"}, {"http://h?x", "/c", "http://h/c"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *to = web_led_to(cases[i][0], cases[i][1]);
        if (!to != !cases[i][2] || (to && strcmp(to, cases[i][2]) != 0))
            fail_msg("%s, %s: %s", cases[i][0], cases[i][1], to ? to : "nowhere");
    }
    assert_true(web_same_origin("https://H/a", "https://h:443/b?c"));
    assert_true(web_same_origin("http://[::1]/a", "http://[::1]:80"));
    assert_false(web_same_origin("http://h/", "https://h/"));
    assert_false(web_same_origin("http://h:81/", "http://h/"));
    assert_false(web_same_origin("http://h.evil/", "http://h/"));
    assert_false(web_same_origin("http://u@h/", "http://u@h/"));
    char *const allowed[] = {(char *)"aws", (char *)"https://a.example"};
    assert_true(web_may_lead("https://a.example:443/x", allowed, 2));
    assert_false(web_may_lead("https://a.example.evil/x", allowed, 2));
    assert_false(web_may_lead("https://b/x", allowed, 1));
    assert_true(web_may_lead("https://b/x", allowed, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_send_is_shown),
        cmocka_unit_test(where_redirects_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
