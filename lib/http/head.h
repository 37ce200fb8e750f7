/* SPDX-License-Identifier: Apache-2.0 */
/* head — the request line and headers of an HTTP/1.x request, as bytes from a stranger. Pure: no
 * I/O. */
#ifndef MILLRACE_LIB_HTTP_HEAD_H
#define MILLRACE_LIB_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX (16u << 10) /* bytes of a request head, blank line included */

struct http_head {
    char *method, *path, *query; /* as in struct serve_req; all point into text */
    char *headers;
    uint64_t content_length; /* 0 if none was given */
    bool keep_alive;         /* the client wants the connection to stay */
    bool expect_continue;
    char *text; /* owns what the others point at */
};

/* Bytes of the head at the start of data, its blank line included; 0 while it is not complete. */
size_t http_head_length(const char *data, size_t len);
/* data[0..len) is a complete head. 0, or the status to refuse it with (400, 411, 417, 505). h is
 * always initialised. */
int http_head_parse(struct http_head *h, const char *data, size_t len);
void http_head_free(struct http_head *h);

/* Value of the header in "name: value\n" lines, copied to out; NULL if absent or longer than cap.
 */
const char *http_head_value(const char *headers, const char *lower_name, char *out, size_t cap);
/* Undoes percent-encoding in place; -1 for a malformed escape or one of NUL. */
int http_head_unescape(char *text, bool plus_is_space);

#endif
