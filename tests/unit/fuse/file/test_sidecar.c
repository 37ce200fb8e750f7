/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/file/sidecar.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

static void test_same_again(void **state)
{
    (void)state;
    struct sidecar s = {0x1f, UINT64_MAX, "d41d8cd98f00b204e9800998ecf8427e", "a/b\nc"}, again;
    struct err e = ERR_INIT;
    cleanup_free char *text = sidecar_format(&s);
    assert_string_equal(
        text, "000000000000001f-ffffffffffffffff\nd41d8cd98f00b204e9800998ecf8427e\na/b\nc\n");
    assert_int_equal(sidecar_parse(text, strlen(text), "x", &again, &e), 0);
    assert_true(again.source == s.source && again.place == s.place);
    assert_string_equal(again.version, s.version);
    assert_string_equal(again.path, s.path);
}

#define MOUNT "0000000000000000-0123456789abcdef"

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
        TEXT(MOUNT),
        TEXT(MOUNT "\n"),
        TEXT(MOUNT "\nv"),
        TEXT(MOUNT "\nv\n"),
        TEXT(MOUNT "\nv\n\n"),
        TEXT(MOUNT "\nv\npath"),
        TEXT("\nv\npath\n"),
        TEXT("0\nv\npath\n"),
        TEXT(" 000000000000000-0123456789abcdef\nv\npath\n"),
        TEXT("0x00000000000000-0123456789abcdef\nv\npath\n"),
        TEXT("0000000000000000-0123456789ABCDEF\nv\npath\n"),
        TEXT("0000000000000000 0123456789abcdef\nv\npath\n"),
        TEXT("0000000000000000-0123456789abcde\nv\npath\n"),
        TEXT(MOUNT "0\nv\npath\n"),
        TEXT("000000000000000\0-0123456789abcdef\nv\npath\n"),
        TEXT(MOUNT "\nv\n../path\n"),
        TEXT(MOUNT "\nv\n/path\n"),
        TEXT(MOUNT "\nv\na//b\n"),
        TEXT(MOUNT "\nv\npath\0more\n"),
        TEXT(MOUNT "\n\0\npath\n"),
        TEXT(MOUNT
            "\nabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij\npath\n"),
    };
    struct sidecar s;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        if (sidecar_parse(cases[i].text, cases[i].len, "x", &s, &e) == 0)
            fail_msg("taken: %s", cases[i].text);
        assert_int_equal(e.cls, ERR_INVALID);
    }
    struct err e = ERR_INIT;
    char text[SIDECAR_MAX + 2] = MOUNT "\n\n";
    size_t at = strlen(text);
    for (size_t i = 0; i < INODE_PATH_MAX - 1; i++)
        text[at++] = (i + 3) % 100 ? 'x' : '/';
    text[at] = '\n';
    assert_int_equal(sidecar_parse(text, strlen(text), "x", &s, &e), 0); /* the longest */
    assert_int_equal(strlen(s.path), INODE_PATH_MAX - 1);
    strcpy(text + at, "x\n");
    assert_int_equal(sidecar_parse(text, strlen(text), "x", &s, &e), -1);
}

/* Mounts are edited: numbers say nothing. */
static void test_mount_found_again(void **state)
{
    (void)state;
    char a[] = "s3://a", b[] = "s3://b", c[] = "s3://c", out[] = "/out", in[] = "/in", up[] = "/up";
    struct conf_mount was = {.mount_point = b, .path = out};
    struct conf_mount now[] = {{.mount_point = a, .path = out}, {.mount_point = b, .path = in},
        {.mount_point = b, .path = out}, {.mount_point = c, .path = up}};
    struct conf conf = {.mounts = now, .nmounts = ARRAY_LEN(now)};
    struct sidecar s;
    sidecar_set_mount(&s, &was);
    assert_int_equal(sidecar_find_mount(&s, &conf), 2);
    now[2].path = up; /* which of the two became it? */
    assert_int_equal(sidecar_find_mount(&s, &conf), -1);
    now[1].mount_point = c;
    assert_int_equal(sidecar_find_mount(&s, &conf), 2);
    now[2].mount_point = a;
    assert_int_equal(sidecar_find_mount(&s, &conf), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_mount_found_again)};
    return cmocka_run_group_tests_name("sidecar", tests, NULL, NULL);
}
