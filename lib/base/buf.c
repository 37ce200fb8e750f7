/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/buf.h"

#include "lib/base/mem.h"
#include "lib/base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct buf *b, size_t want)
{
    if (want + 1 <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want + 1)
        cap *= 2;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

int buf_add(struct buf *b, const void *data, size_t len)
{
    bool cut = len > b->max - b->len;
    if (cut) {
        len = b->max - b->len;
        b->truncated = true;
    }
    reserve(b, b->len + len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return cut ? -1 : 0;
}

int buf_adds(struct buf *b, const char *s) { return buf_add(b, s, strlen(s)); }
int buf_addc(struct buf *b, char c) { return buf_add(b, &c, 1); }

int buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *s = xvasprintf(fmt, ap);
    va_end(ap);
    return buf_adds(b, s);
}

int buf_add_json_string(struct buf *b, const char *s)
{
    buf_addc(b, '"');
    for (const char *p = s; *p;) {
        size_t n = text_char(p, strnlen(p, 4));
        if (n == 0) {
            buf_adds(b, "\xef\xbf\xbd");
            n = 1;
        } else if (*p == '"' || *p == '\\') {
            buf_addf(b, "\\%c", *p);
        } else if (*p == '\n') {
            buf_adds(b, "\\n");
        } else if ((unsigned char)*p < 0x20) {
            buf_addf(b, "\\u%04x", (unsigned)*p);
        } else {
            buf_add(b, p, n);
        }
        p += n;
    }
    buf_addc(b, '"');
    return b->truncated ? -1 : 0;
}

char *buf_str(struct buf *b)
{
    reserve(b, b->len);
    b->data[b->len] = '\0';
    return b->data;
}

char *buf_take(struct buf *b)
{
    char *s = buf_str(b);
    b->data = NULL;
    b->len = b->cap = 0;
    b->truncated = false;
    return s;
}

void buf_drop(struct buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->truncated = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_free(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}
