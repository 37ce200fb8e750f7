/* SPDX-License-Identifier: Apache-2.0 */
/* buf — a growing byte buffer with a ceiling. Past the ceiling bytes are dropped and `truncated` is
 * set: check it where the content matters. Always NUL-terminated for buf_str(). */
#ifndef MILLRACE_LIB_BASE_BUF_H
#define MILLRACE_LIB_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* owned; NULL while empty */
    size_t len, cap;
    size_t max; /* ceiling for len, bytes */
    bool truncated;
};

#define BUF_INIT(ceiling)            \
    {                                \
        NULL, 0, 0, (ceiling), false \
    }

int buf_add(struct buf *b, const void *data, size_t len); /* -1 when something was dropped */
int buf_adds(struct buf *b, const char *s);
int buf_addc(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* quoted and escaped; invalid UTF-8 bytes become U+FFFD */
int buf_add_json_string(struct buf *b, const char *s);
char *buf_str(struct buf *b);           /* never NULL; valid until the next change */
char *buf_take(struct buf *b);          /* caller owns the string; the buffer is empty afterwards */
void buf_drop(struct buf *b, size_t n); /* removes the first n bytes */
void buf_clear(struct buf *b);
void buf_free(struct buf *b);
#define cleanup_buf __attribute__((cleanup(buf_free)))

#endif
