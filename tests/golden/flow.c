/* SPDX-License-Identifier: Apache-2.0 */
/* Json as text for people: on one line, over several, and as a list of differences. */
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/golden/golden.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX  ((size_t)8 << 20)
#define LINE_COLS 108

/* ---- one line ---- */

static bool reads_as_other(const char *s)
{
    static const char *const words[] = {"true", "false", "null", "now"};
    char *end;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!strcmp(s, words[i]))
            return true;
    strtod(s, &end);
    return !*end;
}

static bool is_plain(const char *s)
{
    if (!*s || reads_as_other(s))
        return false;
    for (const char *p = s; *p; p++) {
        bool colon = *p == ':' && p != s && p[1] && p[1] != ' ';
        bool word = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z')
            || (*p >= 'A' && *p <= 'Z');
        if (!word && !colon && !strchr("_./", *p) && !(p != s && strchr("+%=-", *p)))
            return false;
    }
    return true;
}

static bool fits_single_quotes(const char *s)
{
    if (!strchr(s, '"') || strchr(s, '\'') || strchr(s, '\\'))
        return false;
    for (; *s; s++)
        if ((unsigned char)*s < ' ')
            return false;
    return true;
}

static void add_string(struct buf *b, const char *s, const char *now)
{
    if (now && !strcmp(s, now))
        buf_adds(b, "now");
    else if (is_plain(s))
        buf_adds(b, s);
    else if (fits_single_quotes(s))
        buf_addf(b, "'%s'", s);
    else
        buf_add_json_string(b, s);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **golden_keys(const json_t *object, size_t *n)
{
    const char **keys = xcalloc(json_object_size(object) + 1, sizeof *keys), *key;
    json_t *v;
    *n = 0;
    json_object_foreach ((json_t *)(uintptr_t)object, key, v)
        keys[(*n)++] = key;
    qsort(keys, *n, sizeof *keys, by_text);
    return keys;
}

static void flow_object(struct buf *b, const json_t *j, const char *now)
{
    size_t n;
    cleanup_free const char **keys = golden_keys(j, &n);
    buf_addc(b, '{');
    for (size_t i = 0; i < n; i++) {
        buf_adds(b, i ? ", " : "");
        add_string(b, keys[i], NULL);
        buf_adds(b, ": ");
        golden_flow(b, json_object_get(j, keys[i]), now);
    }
    buf_addc(b, '}');
}

static void flow_array(struct buf *b, const json_t *j, const char *now)
{
    size_t i;
    json_t *v;
    buf_addc(b, '[');
    json_array_foreach (j, i, v) {
        buf_adds(b, i ? ", " : "");
        golden_flow(b, v, now);
    }
    buf_addc(b, ']');
}

void golden_flow(struct buf *b, const json_t *j, const char *now)
{
    if (json_is_object(j)) {
        flow_object(b, j, now);
    } else if (json_is_array(j)) {
        flow_array(b, j, now);
    } else if (json_is_string(j)) {
        add_string(b, json_string_value(j), now);
    } else {
        cleanup_free char *text = json_dumps(j, JSON_ENCODE_ANY);
        buf_adds(b, text);
    }
}

/* ---- several lines ---- */

static bool on_one_line(struct buf *b, const json_t *j, int used, const char *now)
{
    cleanup_buf struct buf line = BUF_INIT(TEXT_MAX);
    golden_flow(&line, j, now);
    bool container = json_object_size(j) || json_array_size(j);
    if (container && (size_t)used + line.len > LINE_COLS)
        return false;
    buf_addf(b, " %s\n", buf_str(&line));
    return true;
}

static void spaces(struct buf *b, int n) { buf_addf(b, "%*s", n, ""); }

/* at: how far the cursor is in its line already; the first key stands there. */
static void block_object(struct buf *b, const json_t *j, int indent, int at, const char *now)
{
    size_t n;
    cleanup_free const char **keys = golden_keys(j, &n);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(j, keys[i]);
        spaces(b, indent - (i ? 0 : at));
        buf_addf(b, "%s:", keys[i]);
        if (!on_one_line(b, v, indent + (int)strlen(keys[i]) + 2, now)) {
            buf_addc(b, '\n');
            golden_block(b, v, indent + 2, now);
        }
    }
}

void golden_block(struct buf *b, const json_t *j, int indent, const char *now)
{
    if (json_is_object(j)) {
        block_object(b, j, indent, 0, now);
        return;
    }
    size_t i;
    json_t *v;
    json_array_foreach (j, i, v) {
        spaces(b, indent);
        buf_addc(b, '-');
        if (on_one_line(b, v, indent + 2, now))
            continue;
        buf_addc(b, json_is_object(v) ? ' ' : '\n');
        if (json_is_object(v))
            block_object(b, v, indent + 2, indent + 2, now);
        else
            golden_block(b, v, indent + 2, now);
    }
}

/* ---- differences ---- */

static const char *name_of(const json_t *item) { return jget_str(item, "name", ""); }

static json_t *find_named(const json_t *array, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach (array, i, item)
        if (!strcmp(name_of(item), name))
            return item;
    return NULL;
}

/* Every item of it has a name of its own. */
static bool is_named(const json_t *array)
{
    size_t i;
    json_t *item;
    json_array_foreach (array, i, item)
        if (!*name_of(item) || find_named(array, name_of(item)) != item)
            return false;
    return true;
}

/* What both have stands in the same order, and what is new behind it. */
static bool same_order(const json_t *from, const json_t *to)
{
    size_t i, at = 0;
    json_t *item;
    json_array_foreach (from, i, item)
        if (find_named(to, name_of(item)))
            if (strcmp(name_of(json_array_get(to, at++)), name_of(item)) != 0)
                return false;
    return true;
}

static void delta_named(
    struct buf *b, const char *path, const json_t *from, const json_t *to, const char *now)
{
    size_t i;
    json_t *item;
    json_array_foreach (from, i, item) {
        cleanup_free char *at = xasprintf("%s[%s]", path, name_of(item));
        golden_delta(b, at, item, find_named(to, name_of(item)), now);
    }
    json_array_foreach (to, i, item) {
        cleanup_free char *at = xasprintf("%s[%s]", path, name_of(item));
        if (!find_named(from, name_of(item)))
            golden_delta(b, at, NULL, item, now);
    }
}

static void delta_objects(
    struct buf *b, const char *path, const json_t *from, const json_t *to, const char *now)
{
    cleanup_json json_t *both = json_deep_copy(from);
    size_t n;
    json_object_update_missing(both, (json_t *)(uintptr_t)to);
    cleanup_free const char **keys = golden_keys(both, &n);
    for (size_t i = 0; i < n; i++) {
        cleanup_free char *at = xasprintf("%s%s%s", path, *path ? "." : "", keys[i]);
        golden_delta(b, at, json_object_get(from, keys[i]), json_object_get(to, keys[i]), now);
    }
}

/* A string that is an object of json as json_text() writes it: its parts say all of it. NULL if it
 * is none. Caller owns. */
static json_t *object_in(const json_t *j)
{
    const char *s = json_is_string(j) ? json_string_value(j) : "";
    json_t *o = *s == '{' ? json_loads(s, 0, NULL) : NULL;
    cleanup_free char *text = o ? json_text(o) : NULL;
    if (o && !strcmp(text, s))
        return o;
    json_decref(o);
    return NULL;
}

void golden_delta(
    struct buf *b, const char *path, const json_t *from, const json_t *to, const char *now)
{
    if (from && to && json_equal(from, to))
        return;
    cleanup_json json_t *from_in = object_in(from), *to_in = object_in(to);
    if (from_in && to_in) {
        cleanup_free char *in = xasprintf("%s{}", path);
        delta_objects(b, in, from_in, to_in, now);
        return;
    }
    if (from && !to) {
        buf_addf(b, "-%s\n", path);
    } else if (from && json_is_object(from) && json_is_object(to)) {
        delta_objects(b, path, from, to, now);
    } else if (from && json_is_array(from) && json_is_array(to) && is_named(from) && is_named(to)
        && same_order(from, to)) {
        delta_named(b, path, from, to, now);
    } else {
        buf_addf(b, "%s%s: ", from ? "" : "+", path);
        golden_flow(b, to, now);
        buf_addc(b, '\n');
    }
}

/* ---- differences of texts ---- */

struct lines {
    char **at; /* owned; the strings point into text */
    size_t n;
    char *text; /* owned */
};

static struct lines split(const char *text)
{
    struct lines l = {xcalloc(strlen(text) + 1, sizeof *l.at), 0, xstrdup(text)};
    for (char *save, *line = strtok_r(l.text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        l.at[l.n++] = line;
    return l;
}

char *golden_diff(const char *from, const char *to)
{
    struct lines a = split(from), b = split(to);
    struct buf out = BUF_INIT(TEXT_MAX);
    size_t cols = b.n + 1, i = 0, k = 0;
    unsigned *common = xcalloc((a.n + 1) * cols, sizeof *common); /* of the ends from i, k on */
    for (size_t x = a.n; x-- > 0;)
        for (size_t y = b.n; y-- > 0;)
            common[x * cols + y] = !strcmp(a.at[x], b.at[y])
                ? common[(x + 1) * cols + y + 1] + 1
                : MAX(common[(x + 1) * cols + y], common[x * cols + y + 1]);
    while (i < a.n || k < b.n) {
        if (i < a.n && k < b.n && !strcmp(a.at[i], b.at[k])) {
            buf_addf(&out, "  %s\n", a.at[i++]);
            k++;
        } else if (k == b.n
            || (i < a.n && common[(i + 1) * cols + k] >= common[i * cols + k + 1])) {
            buf_addf(&out, "- %s\n", a.at[i++]);
        } else {
            buf_addf(&out, "+ %s\n", b.at[k++]);
        }
    }
    free(common);
    free(a.at);
    free(a.text);
    free(b.at);
    free(b.text);
    return buf_take(&out);
}
