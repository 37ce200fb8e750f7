/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "csi/pbcheck.h"
#include "lib/base/mem.h"

#include "csi/proto/csi.pb-c.h"

#include <string.h>

#define DESCRIPTOR &csi__node_stage_volume_request__descriptor

static void packed(const ProtobufCMessage *m, uint8_t **data, size_t *len)
{
    *len = protobuf_c_message_get_packed_size(m);
    *data = xmalloc(*len + 1);
    assert_int_equal(protobuf_c_message_pack(m, *data), *len);
}

static void test_good(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    Csi__NodeStageVolumeRequest r = CSI__NODE_STAGE_VOLUME_REQUEST__INIT;
    Csi__Pair pair = CSI__PAIR__INIT, *pairs[] = {&pair};
    r.volume_id = (char *)"gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0 \xf0\x9f\x9a\x80";
    pair.key = (char *)"a";
    r.volume_context = pairs;
    r.n_volume_context = 1;
    cleanup_free uint8_t *data = NULL;
    size_t len;
    packed(&r.base, &data, &len);
    assert_int_equal(pbcheck(DESCRIPTOR, data, len, &e), 0);
    assert_int_equal(pbcheck(DESCRIPTOR, NULL, 0, &e), 0);
    /* field 100: not known, not looked at */
    assert_int_equal(pbcheck(DESCRIPTOR, (const uint8_t *)"\xa2\x06\x01\xff", 4, &e), 0);
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *why;
    } cases[] = {
        {"\x0a\x03"
         "a\0b",
            5, "field volume_id holds a NUL byte"},
        {"\x0a\x01\xff", 3, "field volume_id is not valid UTF-8"},
        {"\x0a\x02\xc0\x80", 4, "field volume_id is not valid UTF-8"},     /* overlong */
        {"\x0a\x03\xed\xa0\x80", 5, "field volume_id is not valid UTF-8"}, /* surrogate */
        /* beyond U+10FFFF */
        {"\x0a\x04\xf4\x90\x80\x80", 6, "field volume_id is not valid UTF-8"},
        {"\x0a\x02\xe4\xbd", 4, "field volume_id is not valid UTF-8"}, /* cut off */
        {"\x32\x06\x0a\x01"
         "a\x12\x01\x80",
            8, "field value is not valid UTF-8"}, /* in a map */
        {"\x0a\x05"
         "ab",
            4, "field 1 is cut off"},
        {"\x0a", 1, "field 1 is cut off"},
        {"\x0b", 1, "field 1 is cut off or of an unknown kind"}, /* a group */
        {"\x00", 1, "broken tag"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "broken tag"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(
            pbcheck(DESCRIPTOR, (const uint8_t *)cases[i].bytes, cases[i].len, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        if (!strstr(e.msg, cases[i].why))
            fail_msg("case %zu: '%s' does not say '%s'", i, e.msg, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
