/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of files, packed: most are 32 hex digits (an ETag), hex digits and a number of parts, or
 * "size-mtime". */
#include "fuse/index/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form { FORM_NONE, FORM_HEX, FORM_HEX_PARTS, FORM_NUMBERS, FORM_TEXT, FORM_HEAP };
/* rec.form: form in the low 3 bits, a length in the others */
#define FORM(form, len) ((uint8_t)((form) | ((len) << 3)))

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool pack_hex(const char *text, size_t digits, uint8_t *out)
{
    for (size_t i = 0; i < digits; i += 2) {
        int hi = hex_digit(text[i]), lo = hex_digit(text[i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        out[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

static void unpack_hex(const uint8_t *in, size_t bytes, char *text)
{
    for (size_t i = 0; i < bytes; i++) {
        text[i * 2] = "0123456789abcdef"[in[i] >> 4];
        text[i * 2 + 1] = "0123456789abcdef"[in[i] & 15];
    }
    text[bytes * 2] = '\0';
}

static void unpack(
    const struct inodes *ix, uint8_t form, const uint8_t *in, char text[STORE_VERSION_MAX])
{
    size_t len = form >> 3;
    uint64_t a, b;
    uint32_t n;
    switch ((enum form)(form & 7)) {
    case FORM_NONE:
        text[0] = '\0';
        break;
    case FORM_HEX:
        unpack_hex(in, len, text);
        break;
    case FORM_HEX_PARTS:
        unpack_hex(in, 16, text);
        memcpy(&n, in + 16, sizeof n);
        snprintf(text + 32, STORE_VERSION_MAX - 32, "-%" PRIu32, n);
        break;
    case FORM_NUMBERS:
        memcpy(&a, in, sizeof a);
        memcpy(&b, in + 8, sizeof b);
        snprintf(text, STORE_VERSION_MAX, "%" PRIu64 "-%" PRIu64, a, b);
        break;
    case FORM_TEXT:
        memcpy(text, in, len);
        text[len] = '\0';
        break;
    case FORM_HEAP:
        memcpy(&n, in, sizeof n);
        len = in[4];
        memcpy(text, index_text(ix, n), len);
        text[len] = '\0';
        break;
    }
}

/* 0 if no packed form gives exactly this text back. */
static uint8_t pack(const char *text, uint8_t out[VERSION_PACKED])
{
    size_t len = strlen(text);
    char again[STORE_VERSION_MAX];
    const char *dash = strchr(text, '-');
    uint8_t form = 0;
    memset(out, 0, VERSION_PACKED);
    if (len <= VERSION_PACKED) {
        memcpy(out, text, len);
        return FORM(FORM_TEXT, len);
    }
    if (len % 2 == 0 && len <= 2 * VERSION_PACKED && pack_hex(text, len, out))
        return FORM(FORM_HEX, len / 2);
    if (dash && dash - text == 32 && pack_hex(text, 32, out)) {
        uint32_t n = (uint32_t)strtoul(dash + 1, NULL, 10);
        memcpy(out + 16, &n, sizeof n);
        form = FORM(FORM_HEX_PARTS, 0);
    } else if (dash) {
        uint64_t a = strtoull(text, NULL, 10), b = strtoull(dash + 1, NULL, 10);
        memcpy(out, &a, sizeof a);
        memcpy(out + 8, &b, sizeof b);
        form = FORM(FORM_NUMBERS, 0);
    }
    if (!form)
        return 0;
    unpack(NULL, form, out, again);
    return strcmp(text, again) == 0 ? form : 0;
}

void index_version_get(const struct inodes *ix, const struct rec *r, char text[STORE_VERSION_MAX])
{
    unpack(ix, r->form, r->version, text);
}

uint32_t index_version_unit(const struct rec *r)
{
    uint32_t unit = 0;
    if ((r->form & 7) == FORM_HEAP)
        memcpy(&unit, r->version, sizeof unit);
    return unit;
}

bool index_version_ok(const struct rec *r)
{
    size_t len = r->form >> 3;
    switch ((enum form)(r->form & 7)) {
    case FORM_NONE:
    case FORM_HEX_PARTS:
    case FORM_NUMBERS:
        return true;
    case FORM_HEX:
    case FORM_TEXT:
        return len <= VERSION_PACKED;
    case FORM_HEAP:
        return index_version_unit(r) && r->version[4] < STORE_VERSION_MAX;
    }
    return false;
}

void index_version_clear(struct inodes *ix, struct rec *r)
{
    uint32_t unit = index_version_unit(r);
    if (unit)
        index_text_free(ix, unit, r->version[4]);
    r->form = 0;
}

int index_version_pack(struct inodes *ix, struct rec *r, const char *text, struct err *e)
{
    uint8_t packed[VERSION_PACKED] = {0}, form = 0;
    size_t len = strnlen(text, STORE_VERSION_MAX - 1);
    if (len && !(form = pack(text, packed))) {
        uint32_t unit = index_text_new(ix, text, len, e);
        if (!unit)
            return -1;
        memcpy(packed, &unit, sizeof unit);
        packed[4] = (uint8_t)len;
        form = FORM(FORM_HEAP, 0);
    }
    memcpy(r->version, packed, sizeof packed);
    r->form = form;
    return 0;
}
