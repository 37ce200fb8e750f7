/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/kube/wire_scan.h"

#include "lib/base/mem.h"
#include "lib/base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_DEPTH 6 /* values that lie deeper are passed over */

struct scan_level {
    bool array, wants_key;
    const char *key; /* of the member that is read; not terminated */
    size_t key_len, index;
};

struct scan {
    struct scan_level levels[SCAN_DEPTH + 1]; /* [1] is the outermost */
    size_t depth;
};

static bool is_step(const struct scan_level *l, const char *step, size_t len)
{
    char index[24];
    if (!l->array)
        return l->key && len == l->key_len && memcmp(step, l->key, len) == 0;
    return snprintf(index, sizeof index, "%zu", l->index) == (int)len
        && memcmp(step, index, len) == 0;
}

static bool is_at(const struct scan *s, const char *path)
{
    for (size_t i = 1; i <= s->depth; i++) {
        size_t len = strcspn(path, ".");
        if (!is_step(&s->levels[i], path, len))
            return false;
        path += len;
        if ((*path == '\0') != (i == s->depth))
            return false;
        path += *path == '.';
    }
    return s->depth > 0;
}

static void scan_string(struct scan *s, const char *text, size_t len, struct wire_found *wanted)
{
    struct scan_level *l = &s->levels[MIN(s->depth, SCAN_DEPTH)];
    if (s->depth == 0 || s->depth > SCAN_DEPTH)
        return;
    if (l->wants_key) {
        l->wants_key = false;
        l->key = text;
        l->key_len = len;
        return;
    }
    for (; wanted->path; wanted++)
        if (!wanted->value && is_at(s, wanted->path) && !memchr(text, '\\', len))
            wanted->value = text_legible(text, len, SIZE_MAX);
}

static void scan_mark(struct scan *s, char c)
{
    if (c == '{' || c == '[') {
        if (++s->depth <= SCAN_DEPTH)
            s->levels[s->depth] = (struct scan_level){.array = c == '[', .wants_key = c == '{'};
    } else if (c == '}' || c == ']') {
        s->depth -= s->depth > 0;
    } else if (c == ',' && s->depth && s->depth <= SCAN_DEPTH) {
        struct scan_level *l = &s->levels[s->depth];
        l->wants_key = !l->array;
        l->index += l->array;
    }
}

void wire_scan(const char *text, size_t len, struct wire_found *wanted)
{
    struct scan s = {.depth = 0};
    for (size_t at = 0; at < len; at++) {
        if (text[at] != '"') {
            scan_mark(&s, text[at]);
            continue;
        }
        size_t from = ++at;
        while (at < len && text[at] != '"')
            at += text[at] == '\\' ? 2 : 1;
        if (at >= len)
            return; /* the text ends within a string */
        scan_string(&s, text + from, at - from, wanted);
    }
}

json_t *wire_scan_object(const char *text, size_t len, const char *path, const char *why)
{
    static const char *const names[] = {"name", "namespace", "uid", "resourceVersion"};
    struct wire_found wanted[ARRAY_LEN(names) + 1] = {{NULL, NULL}};
    char paths[ARRAY_LEN(names)][64];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(paths[i], sizeof paths[i], "%s.%s", path, names[i]);
        wanted[i].path = paths[i];
    }
    wire_scan(text, len, wanted);
    json_t *metadata = json_object();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (wanted[i].value)
            json_object_set_new(metadata, names[i], json_string(wanted[i].value));
        free(wanted[i].value);
    }
    cleanup_free char *legible = text_legible(why, strlen(why), SIZE_MAX);
    return json_pack("{s:o,s:s}", "metadata", metadata, "message", legible);
}
