/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/pbcheck.h"

#include <stdbool.h>

#define DEPTH_MAX 16

enum wire { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_LEN = 2, WIRE_I32 = 5 };

static int varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (*p == end)
            return -1;
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return 0;
        }
    }
    return -1;
}

/* Length of the sequence at p, 0 if it is not well-formed UTF-8 (overlong, surrogate, beyond
 * U+10FFFF, cut off). */
static size_t utf8_sequence(const uint8_t *p, size_t left)
{
    static const struct {
        uint8_t lead_min, lead_max, second_min, second_max, len;
    } rows[] = {
        {0x01, 0x7f, 0, 0, 1},
        {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (p[0] < rows[i].lead_min || p[0] > rows[i].lead_max)
            continue;
        if (left < rows[i].len)
            return 0;
        if (rows[i].len > 1 && (p[1] < rows[i].second_min || p[1] > rows[i].second_max))
            return 0;
        for (size_t k = 2; k < rows[i].len; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].len;
    }
    return 0;
}

static int check_string(const char *field, const uint8_t *p, size_t len, struct err *e)
{
    for (size_t i = 0; i < len;) {
        if (p[i] == 0)
            return err_set(e, ERR_INVALID, "field %s holds a NUL byte", field);
        size_t n = utf8_sequence(p + i, len - i);
        if (n == 0)
            return err_set(e, ERR_INVALID, "field %s is not valid UTF-8", field);
        i += n;
    }
    return 0;
}

static int check(
    const ProtobufCMessageDescriptor *d, const uint8_t *p, size_t len, int depth, struct err *e)
{
    const uint8_t *end = p + len;
    if (depth > DEPTH_MAX)
        return err_set(e, ERR_INVALID, "the request is nested deeper than %d messages", DEPTH_MAX);
    while (p < end) {
        uint64_t tag, n = 0;
        if (varint(&p, end, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
            return err_set(e, ERR_INVALID, "the request is not a %s: broken tag", d->name);
        enum wire wire = (enum wire)(tag & 7);
        bool ok = true;
        if (wire == WIRE_VARINT)
            ok = varint(&p, end, &n) == 0;
        else if (wire == WIRE_LEN)
            ok = varint(&p, end, &n) == 0 && n <= (uint64_t)(end - p);
        else if (wire == WIRE_I64 || wire == WIRE_I32)
            ok = (size_t)(end - p) >= (n = wire == WIRE_I64 ? 8 : 4);
        else
            ok = false;
        if (!ok)
            return err_set(e, ERR_INVALID,
                "the request is not a %s: field %u is cut off or of an unknown kind", d->name,
                (unsigned)(tag >> 3));
        if (wire == WIRE_VARINT)
            continue;
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(
            d, (unsigned)(tag >> 3));
        if (f && wire == WIRE_LEN && f->type == PROTOBUF_C_TYPE_STRING
            && check_string(f->name, p, (size_t)n, e))
            return -1;
        if (f && wire == WIRE_LEN && f->type == PROTOBUF_C_TYPE_MESSAGE
            && check(f->descriptor, p, (size_t)n, depth + 1, e))
            return -1;
        p += n;
    }
    return 0;
}

int pbcheck(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t len, struct err *e)
{
    return len ? check(d, data, len, 0, e) : 0;
}
