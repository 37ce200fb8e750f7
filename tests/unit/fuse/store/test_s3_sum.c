/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of S3: of known texts, in pieces, of parts put together. */
#include "tests/lib/unit.h"

#include "fuse/store/s3_sum.h"
#include "lib/base/mem.h"
#include "tests/lib/mount.h"

#include <string.h>

static const enum s3_sum both[] = {S3_SUM_CRC32C, S3_SUM_CRC64NVME};

static void known_ones(void **state)
{
    (void)state;
    static const struct {
        enum s3_sum kind;
        const char *of, *text;
    } cases[] = {
        {S3_SUM_CRC32C, "123456789", "4waSgw=="},        /* e3069283 */
        {S3_SUM_CRC64NVME, "123456789", "rosUhgp5mIg="}, /* ae8b14860a799888 */
        {S3_SUM_CRC32C, "", "AAAAAA=="},
        {S3_SUM_CRC64NVME, "", "AAAAAAAAAAA="},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[S3_SUM_TEXT];
        s3_sum_text(
            cases[i].kind, s3_sum_add(cases[i].kind, 0, cases[i].of, strlen(cases[i].of)), text);
        assert_string_equal(text, cases[i].text);
    }
}

static void pieces_and_parts(void **state)
{
    (void)state;
    unsigned char data[1000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = content(5, i);
    for (size_t k = 0; k < ARRAY_LEN(both); k++) {
        uint64_t whole = s3_sum_add(both[k], 0, data, sizeof data);
        for (size_t cut = 0; cut <= sizeof data; cut += 37) {
            uint64_t head = s3_sum_add(both[k], 0, data, cut);
            uint64_t tail = s3_sum_add(both[k], 0, data + cut, sizeof data - cut);
            assert_int_equal(s3_sum_add(both[k], head, data + cut, sizeof data - cut), whole);
            assert_int_equal(s3_sum_join(both[k], head, tail, sizeof data - cut), whole);
        }
    }
    assert_int_equal(s3_sum_join(S3_SUM_CRC64NVME, 0, 7, UINT64_MAX), 7);
}

static void of_a_file(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    uint64_t sum;
    cleanup_fd int fd = content_fd(1, 700000);
    cleanup_free unsigned char *data = xmalloc(600000);
    for (size_t i = 0; i < 600000; i++)
        data[i] = content(1, i + 12345 % 100000);
    assert_int_equal(s3_sum_fd(S3_SUM_CRC64NVME, fd, 12345, 600000, &sum, &e), 0);
    assert_int_equal(sum, s3_sum_add(S3_SUM_CRC64NVME, 0, data, 600000));
    assert_int_equal(s3_sum_fd(S3_SUM_CRC32C, fd, 700000, 1, &sum, &e), -1); /* past its end */
}

static void names(void **state)
{
    (void)state;
    enum s3_sum kind = S3_SUM_NONE;
    assert_true(s3_sum_kind("crc32c", &kind));
    assert_int_equal(kind, S3_SUM_CRC32C);
    assert_true(s3_sum_kind("CRC64NVME", &kind));
    assert_int_equal(kind, S3_SUM_CRC64NVME);
    assert_false(s3_sum_kind("", &kind));
    assert_false(s3_sum_kind("MD5", &kind));
    assert_string_equal(s3_sum_name(S3_SUM_NONE), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_ones),
        cmocka_unit_test(pieces_and_parts), cmocka_unit_test(of_a_file), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
