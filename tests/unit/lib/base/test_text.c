/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

#include <stdint.h>
#include <string.h>

#define BAD "\xef\xbf\xbd"

static void characters(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        size_t size; /* 0: no character */
    } table[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc3\xa9", 2},
        {"\xe2\x82\xac", 3},
        {"\xef\xbf\xbd", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4}, /* the last one */
        {"\xf4\x90\x80\x80", 0}, /* past it */
        {"\xc0\xaf", 0},         /* overlong */
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xed\x9f\xbf", 3},
        {"\xed\xa0\x80", 0}, /* surrogates */
        {"\xed\xbf\xbf", 0},
        {"\x80", 0}, /* a tail without its head */
        {"\xc3", 0},
        {"\xc3"
         "a",
            0},
        {"\xe2\x82", 0},
        {"\xe2\x82"
         "a",
            0},
        {"\xf0\x9f\x98", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (text_char(table[i].s, strlen(table[i].s)) != table[i].size)
            fail_msg("case %zu", i);
    assert_int_equal(text_char("", 0), 0);
    assert_int_equal(text_char("\0", 1), 1);
}

static void cuts_between_characters(void **state)
{
    (void)state;
    const char *s = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* ends at 1, 3, 6, 10, 11 */
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t max = 0; max < ARRAY_LEN(want); max++)
        if (text_whole(s, strlen(s), max) != want[max])
            fail_msg("at %zu: %zu", max, text_whole(s, strlen(s), max));
    /* what was cut before */
    assert_int_equal(text_whole("caf\xc3", 4, SIZE_MAX), 3);
    assert_int_equal(text_whole("\xf0\x9f\x98", 3, SIZE_MAX), 0);
    /* what is broken, but not by a cut, stays */
    assert_int_equal(text_whole("a\x80\x80\x80\x80", 5, SIZE_MAX), 5);
    assert_int_equal(text_whole("\x80\x80", 2, SIZE_MAX), 2);
    assert_int_equal(text_whole("\xff", 1, SIZE_MAX), 1);
    assert_int_equal(text_whole("", 0, SIZE_MAX), 0);
    char text[] = "caf\xc3";
    assert_string_equal(text_end_whole(text), "caf");
}

static void legible(const char *s, size_t len, size_t max, const char *want)
{
    cleanup_free char *text = text_legible(s, len, max);
    assert_string_equal(text, want);
}

static void shows_what_is_broken(void **state)
{
    (void)state;
    legible("caf\xc3\xa9", 5, SIZE_MAX, "caf\xc3\xa9");
    legible("caf\xc3", 4, SIZE_MAX, "caf" BAD);
    legible("a\0b", 3, SIZE_MAX, "a" BAD "b");
    legible("\xc0\xaf", 2, SIZE_MAX, BAD BAD);
    legible("\xed\xa0\x80", 3, SIZE_MAX, BAD BAD BAD);
    legible("\xe2\x82"
            "a",
        3, SIZE_MAX, BAD BAD "a");
    legible("", 0, SIZE_MAX, "");
    legible("ab\xc3\xa9", 4, 3, "ab"); /* no half character */
    legible("ab\xff", 3, 4, "ab");
    legible("ab\xff", 3, 5, "ab" BAD);
    legible("ab", 2, 0, "");
}

/* An error that does not fit ends between two characters: as what it is put into wants it. */
static void errors_are_cut_between_characters(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_buf struct buf euros = BUF_INIT(4096);
    for (int i = 0; i < 400; i++)
        buf_adds(&euros, "\xe2\x82\xac");
    for (size_t shift = 0; shift < 3; shift++) {
        const char *before = "ab" + shift;
        err_set(&e, ERR_RETRY, "%s%s", before, buf_str(&euros));
        assert_int_equal((strlen(e.msg) - strlen(before)) % 3, 0);
        assert_in_range(strlen(e.msg), sizeof e.msg - 4, sizeof e.msg - 1);
        err_wrap(&e, "x");
        assert_int_equal((strlen(e.msg) - strlen(before)) % 3, 0);
        err_wrap(&e, "%s%s", before, buf_str(&euros));
        assert_int_equal((strlen(e.msg) - strlen(before)) % 3, 0);
        err_sys(&e, 2, "%s%s", before, buf_str(&euros));
        assert_int_equal((strlen(e.msg) - strlen(before)) % 3, 0);
    }
}

/* As the rules of the CRD have it: no blank that is none, joiners only between letters that join.
 */
static void sees_what_nobody_sees(void **state)
{
    (void)state;
    static const char *const seen[] = {"", "plain text", "sch\xc3\xb6n", "\xe3\x80\x80",
        "\xd9\x85\xe2\x80\x8c\xd8\xae", "\xff\xfe", "\xe2\x80", "a\xcc\x88"},
                             *const unseen[] = {"a\xc2\xa0"
                                                "b",
                                 "\xc2\xad", "a\xe2\x80\x8b",
                                 "\xe2\x80\xae"
                                 "a",
                                 "\xef\xbb\xbf"
                                 "a",
                                 "\xe2\x81\xa0", "\xff\xe2\x80\xa8", "\xef\xbf\xb9",
                                 "a\xe2\x80\x8d\xd9\x85", "\xd9\x85\xe2\x80\x8c"};
    for (size_t i = 0; i < ARRAY_LEN(seen); i++)
        if (text_has_unseen(seen[i], strlen(seen[i])))
            fail_msg("seen %zu", i);
    for (size_t i = 0; i < ARRAY_LEN(unseen); i++)
        if (!text_has_unseen(unseen[i], strlen(unseen[i])))
            fail_msg("unseen %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(shows_what_is_broken),
        cmocka_unit_test(errors_are_cut_between_characters),
        cmocka_unit_test(sees_what_nobody_sees),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
