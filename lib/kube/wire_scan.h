/* SPDX-License-Identifier: Apache-2.0 */
/* wire_scan — inside lib/kube: finds strings in a text that begins as JSON and cannot be parsed, or
 * is only the beginning of one: whose object it is that cannot be read. Pure: fuzzed as it
 * stands. */
#ifndef MILLRACE_LIB_KUBE_WIRE_SCAN_H
#define MILLRACE_LIB_KUBE_WIRE_SCAN_H

#include <jansson.h>
#include <stddef.h>

struct wire_found {
    const char *path; /* "object.metadata.name", "items.0.metadata.name"; up to 6 steps */
    char *value;      /* the first one there, the caller frees; NULL: none, or one with escapes */
};
/* Each value starts as NULL; the last path is NULL. */
void wire_scan(const char *text, size_t len, struct wire_found *wanted);

/* What is known of the object whose metadata is at the path: {"metadata":{name, namespace, uid,
 * resourceVersion}, "message": why}, without what was not found. */
json_t *wire_scan_object(const char *text, size_t len, const char *path, const char *why);

#endif
