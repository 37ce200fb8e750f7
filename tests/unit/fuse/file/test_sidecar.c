/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/file/sidecar.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

#define MOUNT "0000000000000000-0123456789abcdef"
#define BOOT  "b3f0c1d2-0000-4000-8000-000000000001"

static void test_same_again(void **state)
{
    (void)state;
    struct sidecar s = {.source = 0x1f,
                       .place = UINT64_MAX,
                       .boot = BOOT,
                       .asked = true,
                       .asked_len = 12,
                       .asked_crc = 0xab,
                       .sent = true,
                       .sent_len = 7,
                       .sent_crc = 0xcd,
                       .why = "conflict",
                       .version = "d41d8cd98f00b204e9800998ecf8427e",
                       .path = "a/b\nc"},
                   again;
    struct err e = ERR_INIT;
    cleanup_free char *text = sidecar_format(&s);
    assert_string_equal(text,
        "millrace-staged 4\n000000000000001f-ffffffffffffffff\n" BOOT
        "\nsave 12 000000ab\nsent 7 000000cd\nconflict\nd41d8cd98f00b204e9800998ecf8427e\na/b\nc\n");
    assert_int_equal(sidecar_parse(text, strlen(text), "x", &again, &e), 0);
    assert_memory_equal(&again, &s, sizeof s);
    s = (struct sidecar){.path = "new"};
    cleanup_free char *least = sidecar_format(&s);
    assert_string_equal(
        least, "millrace-staged 4\n0000000000000000-0000000000000000\n-\nnone\nnone\n-\n\nnew\n");
    assert_int_equal(sidecar_parse(least, strlen(least), "x", &again, &e), 0);
    assert_memory_equal(&again, &s, sizeof s);
}

/* Of an earlier version: it said no more than where. */
static void test_earlier(void **state)
{
    (void)state;
    static const char text[] = MOUNT "\nd41d8cd98f00b204e9800998ecf8427e\na/b\nc\n";
    struct sidecar s;
    struct err e = ERR_INIT;
    assert_int_equal(sidecar_parse(text, strlen(text), "x", &s, &e), 0);
    assert_true(s.source == 0 && s.place == 0x0123456789abcdef);
    assert_string_equal(s.version, "d41d8cd98f00b204e9800998ecf8427e");
    assert_string_equal(s.path, "a/b\nc");
    assert_string_equal(s.boot, "");
    assert_string_equal(s.why, "");
    assert_false(s.asked);
    assert_true(s.earlier);
}

/* Of the third version, which did not say what the store may have. */
static void test_third(void **state)
{
    (void)state;
    static const char text[] = "millrace-staged 3\n" MOUNT "\n" BOOT
                               "\nsave 12 000000ab\n-\nv\na/b\n";
    struct sidecar s;
    struct err e = ERR_INIT;
    assert_int_equal(sidecar_parse(text, strlen(text), "x", &s, &e), 0);
    assert_true(s.asked && s.asked_len == 12 && s.asked_crc == 0xab);
    assert_false(s.sent || s.earlier);
    assert_string_equal(s.path, "a/b");
}

/* Of the second version, which knew the endpoint by one of its names only. */
static void test_endpoint_by_another_name(void **state)
{
    (void)state;
    struct conf_pair endpoint = {(char *)"url", (char *)"http://a"},
                     usual = {(char *)"endpoint", (char *)"http://c"};
    struct conf_mount was = {.mount_point = (char *)"s3://b", .path = (char *)"/"}, now = was;
    struct conf conf = {.mounts = &now, .nmounts = 1};
    struct sidecar s = {.path = "p"}, again;
    struct err e = ERR_INIT;
    now.options = &endpoint;
    now.noptions = 1;
    for (int with_default = 0; with_default < 2; with_default++) {
        sidecar_set_mount(&s, &was);
        assert_int_equal(sidecar_find_mount(&s, &conf), -1); /* it was on no server of a name */
        s.earlier = true;
        cleanup_free char *text = sidecar_format(&s);
        assert_int_equal(sidecar_parse(text, strlen(text), "x", &again, &e), 0);
        assert_int_equal(sidecar_find_mount(&again, &conf), 0);
        was.default_options = now.default_options = &usual;
        was.ndefault_options = now.ndefault_options = 1;
    }
    endpoint.key = (char *)"endpoint";
    assert_int_equal(sidecar_find_mount(&again, &conf), -1);
    sidecar_set_mount(&s, &now);
    endpoint.key = (char *)"url";
    assert_int_equal(sidecar_find_mount(&s, &conf), 0);
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
#define NOW "millrace-staged 3\n" MOUNT "\n"
        TEXT("millrace-staged 4\n" MOUNT "\n-\nnone\n-\nv\npath\n"),
        TEXT("millrace-staged 3 \n" MOUNT "\n-\nnone\n-\nv\npath\n"),
        TEXT(NOW),
        TEXT(NOW "-\nnone\n-\nv\n"),
        TEXT(NOW "\nnone\n-\nv\npath\n"),
        TEXT(NOW "no boot\nnone\n-\nv\npath\n"),
        TEXT(NOW BOOT "0\nnone\n-\nv\npath\n"),
        TEXT(NOW "-\n\n-\nv\npath\n"),
        TEXT(NOW "-\nsave\n-\nv\npath\n"),
        TEXT(NOW "-\nsave 1\n-\nv\npath\n"),
        TEXT(NOW "-\nsave -1 00000000\n-\nv\npath\n"),
        TEXT(NOW "-\nsave 1 0\n-\nv\npath\n"),
        TEXT(NOW "-\nsave 1 00000000 \n-\nv\npath\n"),
        TEXT("millrace-staged 4\n" MOUNT "\n-\nnone\nsave 1 00000000\n-\nv\npath\n"),
        TEXT("millrace-staged 4\n" MOUNT "\n-\nnone\nsent 1\n-\nv\npath\n"),
        TEXT("millrace-staged 4\n" MOUNT "\n-\nsent 1 00000000\nnone\n-\nv\npath\n"),
        TEXT(NOW "-\nsave1 1 00000000\n-\nv\npath\n"),
        TEXT(NOW "-\nnone\n\nv\npath\n"),
        TEXT(NOW "-\nnone\nno word\nv\npath\n"),
        TEXT(NOW "-\nnone\nlongerthanawordmaybe\nv\npath\n"),
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
        cmocka_unit_test(test_earlier), cmocka_unit_test(test_third),
        cmocka_unit_test(test_endpoint_by_another_name), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_mount_found_again)};
    return cmocka_run_group_tests_name("sidecar", tests, NULL, NULL);
}
