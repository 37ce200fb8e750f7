/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/kube/wire.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXCERPT   160  /* bytes of an answer that is no Status, in the error's text */
#define DEPTH_MAX 1000 /* of nested values; jansson refuses the whole document at 2048 */

/* ---- what an API server sends and jansson refuses ---- */

/* at is its opening quote. NUL, which annotations may hold, becomes U+FFFD. Returns what is behind
 * the string. */
static size_t clean_string(char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++) {
        if (text[at] != '\\')
            continue;
        if (len - at >= 6 && memcmp(text + at, "\\u0000", 6) == 0)
            memcpy(text + at + 2, "fffd", 4);
        at++;
    }
    return MIN(at + 1, len);
}

/* A whole number past 64 bits becomes a real one: its last two digits an exponent. */
static size_t clean_number(char *text, size_t len, size_t at)
{
    size_t end = at;
    while (end < len && text[end] >= '0' && text[end] <= '9')
        end++;
    bool whole = (at == 0 || text[at - 1] != '.') && (end == len || !strchr(".eE", text[end]));
    errno = 0;
    if (whole && end - at > 18 && (strtoll(text + at, NULL, 10), errno == ERANGE))
        memcpy(text + end - 2, "e2", 2);
    return end;
}

/* at is the bracket of a value that lies too deep: it becomes 0. */
static size_t clean_deep(char *text, size_t len, size_t at)
{
    size_t level = 0, from = at;
    do {
        level += text[at] == '[' || text[at] == '{';
        level -= text[at] == ']' || text[at] == '}';
        at = text[at] == '"' ? clean_string(text, len, at) : at + 1;
    } while (at < len && level);
    memset(text + from, ' ', at - from);
    text[from] = '0';
    return at;
}

/* text[len] is NUL, and no byte before it. */
static void wire_clean(char *text, size_t len)
{
    size_t depth = 0;
    for (size_t at = 0; at < len;) {
        char c = text[at];
        bool opens = c == '[' || c == '{', closes = c == ']' || c == '}';
        if (opens && depth == DEPTH_MAX) {
            at = clean_deep(text, len, at);
            continue;
        }
        depth += opens;
        depth -= closes && depth;
        if (c == '"')
            at = clean_string(text, len, at);
        else if (c >= '0' && c <= '9')
            at = clean_number(text, len, at);
        else
            at++;
    }
}

json_t *wire_json(const char *text, size_t len, struct err *e)
{
    struct err strict = ERR_INIT;
    json_t *j = json_parse(text, len, &strict);
    if (j || memchr(text, '\0', len)) {
        if (!j && e)
            *e = strict;
        return j;
    }
    cleanup_free char *copy = xstrndup(text, len);
    wire_clean(copy, len);
    j = json_loadb(copy, len, 0, NULL);
    if (!j && e)
        *e = strict;
    return j;
}

/* ---- errors, lines, events ---- */

static enum err_class kube_class_of(int code, const char *reason)
{
    if (code == 409)
        return strcmp(reason, "AlreadyExists") == 0 ? ERR_EXISTS : ERR_CONFLICT;
    if (code == 410)
        return ERR_CONFLICT;
    return http_class_of_status(code);
}

/* The error of a Status object: of an answer, or inside a 2xx stream. */
static int fail_of_status(const json_t *status, struct err *e)
{
    const char *reason = jget_str(status, "reason", ""), *message = jget_str(status, "message", "");
    int64_t code = jget_int(status, "code", 0);
    if (code < 400 || code > 599)
        code = 500;
    err_set(e, kube_class_of((int)code, reason), "%s%s%s (%d)", message,
        *message && *reason ? ": " : "", reason, (int)code);
    if (e && code == 410)
        e->sys = ESTALE;
    return -1;
}

int wire_fail(int status, const char *body, size_t len, struct err *e)
{
    cleanup_json json_t *j = wire_json(body, len, NULL);
    if (strcmp(jget_str(j, "kind", ""), "Status") == 0 && *jget_str(j, "message", ""))
        return fail_of_status(j, e);
    char excerpt[EXCERPT + 1];
    size_t n = 0;
    for (; n < len && n < EXCERPT && body[n]; n++)
        excerpt[n] = (unsigned char)body[n] < ' ' || (unsigned char)body[n] >= 0x7f ? ' ' : body[n];
    excerpt[n] = '\0';
    err_set(e, kube_class_of(status, ""), "HTTP status %d%s%s", status, n ? ": " : "", excerpt);
    if (e && status == 410)
        e->sys = ESTALE;
    return -1;
}

int wire_lines_feed(struct wire_lines *l, const void *data, size_t len,
    int (*line)(void *, const char *, size_t), void *user, struct err *e)
{
    for (const char *p = data, *end = p + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        const char *text = p;
        size_t whole = n;
        bool joined = l->rest.len || !nl; /* a line that lies wholly in data is not copied */
        if (joined) {
            if (buf_add(&l->rest, p, n))
                return err_set(e, ERR_EXHAUSTED, "a line is longer than %zu bytes", l->rest.max);
            text = buf_str(&l->rest);
            whole = l->rest.len;
        }
        if (!nl)
            return 0;
        int rc = whole ? line(user, text, whole) : 0;
        if (joined)
            buf_clear(&l->rest);
        if (rc)
            return rc;
        p = nl + 1;
    }
    return 0;
}

void wire_lines_free(struct wire_lines *l) { buf_free(&l->rest); }

int wire_event(
    const char *text, size_t len, enum kube_event_type *type, json_t **object, struct err *e)
{
    static const char *const names[] = {[KUBE_ADDED] = "ADDED",
        [KUBE_MODIFIED] = "MODIFIED",
        [KUBE_DELETED] = "DELETED",
        [KUBE_BOOKMARK] = "BOOKMARK"};
    cleanup_json json_t *j = wire_json(text, len, e);
    if (!j)
        return err_wrap(e, "event");
    const char *name = jget_str(j, "type", "");
    json_t *o = json_object_get(j, "object");
    if (!json_is_object(o))
        return err_set(e, ERR_FATAL, "an event without an object");
    if (strcmp(name, "ERROR") == 0)
        return fail_of_status(o, e);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0) {
            if (!*jget_str(o, "metadata.resourceVersion", ""))
                return err_set(e, ERR_FATAL, "an event whose object has no resourceVersion");
            *type = (enum kube_event_type)i;
            *object = json_incref(o);
            return 0;
        }
    return err_set(e, ERR_FATAL, "an event of unknown type \"%.32s\"", name);
}

int64_t wire_retry_after_ns(const char *value, int64_t real_now_ns)
{
    char *end;
    long s = strtol(value, &end, 10);
    if (end != value && !*end && s >= 0)
        return MIN(s, 86400) * NS_PER_S;
    int64_t at;
    if (clock_parse_http_date(value, &at))
        return -1;
    return MAX(at - real_now_ns, 0);
}
