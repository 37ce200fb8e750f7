/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/file/sidecar.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

static void test_same_again(void **state)
{
    (void)state;
    struct sidecar s = {1, "d41d8cd98f00b204e9800998ecf8427e", "a/b\nc"}, again;
    struct err e = ERR_INIT;
    cleanup_free char *text = sidecar_format(&s);
    assert_string_equal(text, "1\nd41d8cd98f00b204e9800998ecf8427e\na/b\nc\n");
    assert_int_equal(sidecar_parse(text, strlen(text), 2, "x", &again, &e), 0);
    assert_int_equal(again.mount, 1);
    assert_string_equal(again.version, s.version);
    assert_string_equal(again.path, s.path);
}

static void test_refused(void **state)
{
    (void)state;
#define TEXT(text)            \
    {                         \
        text, sizeof text - 1 \
    }
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        TEXT(""),
        TEXT("0"),
        TEXT("0\n"),
        TEXT("0\nv"),
        TEXT("0\nv\n"),
        TEXT("0\nv\n\n"),
        TEXT("0\nv\npath"),
        TEXT("\nv\npath\n"),
        TEXT("2\nv\npath\n"),
        TEXT("-1\nv\npath\n"),
        TEXT(" 0\nv\npath\n"),
        TEXT("+0\nv\npath\n"),
        TEXT("0x\nv\npath\n"),
        TEXT("4294967296\nv\npath\n"),
        TEXT("18446744073709551616\nv\npath\n"),
        TEXT("0\nv\n../path\n"),
        TEXT("0\nv\n/path\n"),
        TEXT("0\nv\na//b\n"),
        TEXT("0\nv\npath\0more\n"),
        TEXT("0\n\0\npath\n"),
        TEXT(
            "0\nabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij\npath\n"),
    };
    struct sidecar s;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        if (sidecar_parse(cases[i].text, cases[i].len, 2, "x", &s, &e) == 0)
            fail_msg("taken: %s", cases[i].text);
        assert_int_equal(e.cls, ERR_INVALID);
    }
    struct err e = ERR_INIT;
    char text[INODE_PATH_MAX + 16] = "0\n\n";
    for (size_t i = 3; i < INODE_PATH_MAX + 2; i++)
        text[i] = i % 100 ? 'x' : '/';
    text[INODE_PATH_MAX + 2] = '\n';
    assert_int_equal(sidecar_parse(text, strlen(text), 2, "x", &s, &e), 0); /* the longest */
    assert_int_equal(strlen(s.path), INODE_PATH_MAX - 1);
    strcpy(text + INODE_PATH_MAX + 2, "x\n");
    assert_int_equal(sidecar_parse(text, strlen(text), 2, "x", &s, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_again), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("sidecar", tests, NULL, NULL);
}
