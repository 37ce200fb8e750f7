/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/dump.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/json/obj.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dump_plain(const json_t *j, bool sort_keys)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | (sort_keys ? JSON_SORT_KEYS : 0));
    if (!text)
        abort(); /* only OOM, or a document that is not one */
    return text;
}

static bool has_real(const json_t *j)
{
    const char *key;
    size_t i;
    json_t *value, *in = (json_t *)(uintptr_t)j;
    json_object_foreach (in, key, value)
        if (has_real(value))
            return true;
    json_array_foreach (in, i, value)
        if (has_real(value))
            return true;
    return json_is_real(j);
}

/* "1e+05" becomes "1e5", and "5" "5.0", so that it is read as a real again. */
static void dump_real(struct buf *b, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *e = strchr(text, 'e');
    if (!e) {
        buf_addf(b, strchr(text, '.') ? "%s" : "%s.0", text);
        return;
    }
    buf_addf(b, "%.*s%ld", (int)(e + 1 - text), text, strtol(e + 1, NULL, 10));
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void dump_value(struct buf *b, const json_t *j, bool sort_keys);

static void dump_object(struct buf *b, const json_t *j, bool sort_keys)
{
    size_t n = 0;
    const char *key;
    json_t *value, *in = (json_t *)(uintptr_t)j;
    cleanup_free const char **keys = xcalloc(json_object_size(j) + 1, sizeof *keys);
    json_object_foreach (in, key, value)
        keys[n++] = key;
    if (sort_keys)
        qsort(keys, n, sizeof *keys, compare_keys);
    buf_addc(b, '{');
    for (size_t i = 0; i < n; i++) {
        cleanup_json json_t *name = json_string(keys[i]);
        cleanup_free char *quoted = dump_plain(name, false);
        buf_addf(b, "%s%s:", i ? "," : "", quoted);
        dump_value(b, json_object_get(j, keys[i]), sort_keys);
    }
    buf_addc(b, '}');
}

static void dump_value(struct buf *b, const json_t *j, bool sort_keys)
{
    if (json_is_object(j)) {
        dump_object(b, j, sort_keys);
    } else if (json_is_array(j)) {
        buf_addc(b, '[');
        for (size_t i = 0; i < json_array_size(j); i++) {
            if (i)
                buf_addc(b, ',');
            dump_value(b, json_array_get(j, i), sort_keys);
        }
        buf_addc(b, ']');
    } else if (json_is_real(j)) {
        dump_real(b, json_real_value(j));
    } else {
        cleanup_free char *text = dump_plain(j, false);
        buf_adds(b, text);
    }
}

char *json_dump(const json_t *j, bool sort_keys)
{
    if (!has_real(j)) /* nearly all */
        return dump_plain(j, sort_keys);
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    dump_value(&b, j, sort_keys);
    return buf_take(&b);
}
