/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/shown.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shown_begin(struct shown *s, bool json, const char *key)
{
    *s = (struct shown){.json = json};
    if (json)
        printf("{\"%s\": [", key);
}

void shown_add(struct shown *s, json_t *object)
{
    cleanup_free char *text = json_dumps(object, JSON_COMPACT);
    printf("%s\n  %s", s->n++ ? "," : "", text ? text : "null");
    json_decref(object);
}

void shown_end(struct shown *s)
{
    if (s->json)
        puts(s->n ? "\n]}" : "]}");
}

void shown_object(json_t *object)
{
    cleanup_free char *text = json_dumps(object, JSON_INDENT(2));
    puts(text ? text : "null");
    json_decref(object);
}

json_t *shown_text(const char *text)
{
    size_t len = strlen(text);
    cleanup_free char *legible = text_legible(text, len, 4 * len + 4);
    return json_string(legible);
}

json_t *shown_time(int64_t real_ns)
{
    char when[CLOCK_RFC3339_LEN];
    if (!real_ns)
        return json_null();
    clock_rfc3339(real_ns, when);
    return json_string(when);
}
