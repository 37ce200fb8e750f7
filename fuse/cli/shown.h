/* SPDX-License-Identifier: Apache-2.0 */
/* shown — what --json prints: one document, of which a long list is written while it is found. */
#ifndef MILLRACE_FUSE_CLI_SHOWN_H
#define MILLRACE_FUSE_CLI_SHOWN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOWN_FLAG(var)                                    \
    {                                                      \
        "json", OPT_BOOL, &(var), NULL, "print it as JSON" \
    }

struct shown {
    bool json;
    size_t n;
};
/* {"KEY": [ … on stdout, if it is JSON that is asked for; then objects, and its end */
void shown_begin(struct shown *s, bool json, const char *key);
void shown_add(struct shown *s, json_t *object_taken);
void shown_end(struct shown *s);
/* One object, with line breaks. */
void shown_object(json_t *object_taken);
/* Of a name that may be no UTF-8. */
json_t *shown_text(const char *text);
/* of mtime_ns; null where it is unknown */
json_t *shown_time(int64_t real_ns);

#endif
