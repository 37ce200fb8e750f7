/* SPDX-License-Identifier: Apache-2.0 */
/* wire — inside lib/kube: what comes from the API server as bytes, made into errors and events.
 * Pure: fuzzed as it stands. */
#ifndef MILLRACE_LIB_KUBE_WIRE_H
#define MILLRACE_LIB_KUBE_WIRE_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/kube/kube.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Parses an answer. Whoever may make an object can put into it what is JSON and jansson refuses,
 * and would so keep all others from being listed: NUL in a string (becomes U+FFFD), a whole number
 * past 64 bits (becomes a real one), a thousand levels (what is deeper becomes 0). */
json_t *wire_json(const char *text, size_t len, struct err *e);

/* The error of an answer that is not 2xx: from its Status if the body is one, else from the HTTP
 * status and the body's beginning. */
int wire_fail(int status, const char *body, size_t len, struct err *e);

/* Cuts a stream into lines. Of a line longer than KUBE_OBJECT_MAX the rest is passed over. */
struct wire_lines {
    struct buf rest; /* the line that has begun */
};
#define WIRE_LINES_INIT           \
    {                             \
        BUF_INIT(KUBE_OBJECT_MAX) \
    }
/* cut: that is only the line's beginning */
typedef int (*wire_line)(void *user, const char *text, size_t len, bool cut);
/* Calls line() for every line that is complete, without its end, empty ones not; stops at its first
 * non-zero and returns it. */
int wire_lines_feed(struct wire_lines *l, const void *data, size_t len, wire_line line, void *user);
void wire_lines_free(struct wire_lines *l);

/* One line of a watch: {"type":…,"object":…}. An ERROR event is returned as the error that its
 * Status means. A line that is cut or cannot be read, but tells which object it is about:
 * KUBE_SKIPPED or KUBE_DELETED, *object as wire_scan_object gives it. Else the error has sys
 * EBADMSG. */
int wire_event(const char *text, size_t len, bool cut, enum kube_event_type *type, json_t **object,
    struct err *e);

/* Adds the texts of all Warning headers ("299 - \"text\"") among "name: value\n" lines. */
void wire_warnings(const char *headers, struct kube_warnings *out);

/* Seconds of a Retry-After header (number or date) from now; -1 if it is neither. */
int64_t wire_retry_after_ns(const char *value, int64_t real_now_ns);

#endif
