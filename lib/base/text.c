/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/text.h"

#include "lib/base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ILLEGIBLE "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of a character that begins so; 0: none does. */
static size_t char_size(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

static bool is_tail(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

size_t text_char(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = len ? char_size(u[0]) : 0;
    if (n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (!is_tail(s[i]))
            return 0;
    if (n == 3 && ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] >= 0xa0)))
        return 0; /* overlong; a surrogate */
    if (n == 4 && ((u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] >= 0x90)))
        return 0; /* overlong; past U+10FFFF */
    return n;
}

size_t text_whole(const char *s, size_t len, size_t max)
{
    size_t n = MIN(len, max), back = 1;
    while (back < 4 && back < n && is_tail(s[n - back]))
        back++;
    bool cut = back <= n && char_size((unsigned char)s[n - back]) > back;
    return cut ? n - back : n;
}

char *text_end_whole(char *s)
{
    s[text_whole(s, strlen(s), SIZE_MAX)] = '\0';
    return s;
}

char *text_legible(const char *s, size_t len, size_t max)
{
    max = MIN(max, len * (sizeof ILLEGIBLE - 1));
    char *out = xmalloc(max + 1);
    size_t at = 0;
    for (size_t i = 0; i < len;) {
        size_t n = text_char(s + i, len - i);
        bool good = n && s[i];
        size_t size = good ? n : sizeof ILLEGIBLE - 1;
        if (size > max - at)
            break;
        memcpy(out + at, good ? s + i : ILLEGIBLE, size);
        at += size;
        i += good ? n : 1;
    }
    out[at] = '\0';
    return out;
}

/* ---- what nobody sees ---- */

static const struct {
    uint32_t first, last;
} unseen[] = {{0xa0, 0xa0}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160},
    {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},
    {0x205f, 0x206f}, {0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff9, 0xfffb}};

/* Languages join letters by these, but never one of ASCII. */
static bool is_joiner(uint32_t c) { return c == 0x200c || c == 0x200d; }

static uint32_t text_decode(const char *s, size_t n)
{
    uint32_t c = (unsigned char)s[0] & (n == 1 ? 0x7fu : 0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3fu);
    return c;
}

bool text_has_unseen(const char *s, size_t len)
{
    uint32_t before = UINT32_MAX;
    for (size_t at = 0, n; at < len; at += n) {
        n = text_char(s + at, len - at);
        uint32_t c = n ? text_decode(s + at, n) : UINT32_MAX;
        n = n ? n : 1;
        if ((c < 0x80 && is_joiner(before)) || (before < 0x80 && is_joiner(c)))
            return true;
        for (size_t i = 0; i < ARRAY_LEN(unseen); i++)
            if (c >= unseen[i].first && c <= unseen[i].last)
                return true;
        before = c;
    }
    return is_joiner(before);
}
