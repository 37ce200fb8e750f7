/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/kube/wire.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/http/http.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/wire_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXCERPT   160               /* bytes of an answer that is no Status, in the error's text */
#define LINE_KEPT ((size_t)1 << 20) /* a longer line gives its memory back */
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

int wire_lines_feed(struct wire_lines *l, const void *data, size_t len, wire_line line, void *user)
{
    for (const char *p = data, *end = p + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        bool joined = l->rest.len || !nl; /* a line that lies wholly in data is not copied */
        if (joined)
            buf_add(&l->rest, p, n); /* past its ceiling: passed over */
        if (!nl)
            return 0;
        size_t whole = joined ? l->rest.len : n;
        int rc = whole ? line(user, joined ? buf_str(&l->rest) : p, whole, l->rest.truncated) : 0;
        if (l->rest.cap > LINE_KEPT)
            buf_free(&l->rest);
        else if (joined)
            buf_clear(&l->rest);
        l->rest.truncated = false;
        if (rc)
            return rc;
        p = nl + 1;
    }
    return 0;
}

void wire_lines_free(struct wire_lines *l) { buf_free(&l->rest); }

/* The type of an event as the server spells it. */
static bool event_type(const char *name, enum kube_event_type *type)
{
    static const char *const names[] = {[KUBE_ADDED] = "ADDED",
        [KUBE_MODIFIED] = "MODIFIED",
        [KUBE_DELETED] = "DELETED",
        [KUBE_BOOKMARK] = "BOOKMARK"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *type = (enum kube_event_type)i;
            return true;
        }
    return false;
}

/* A line that cannot be read: what can be found in it. */
static int salvage(const char *text, size_t len, enum kube_event_type *type, json_t **object,
    const struct err *why, struct err *e)
{
    struct wire_found wanted[] = {{"type", NULL}, {NULL, NULL}};
    enum kube_event_type t = KUBE_BOOKMARK;
    wire_scan(text, len, wanted);
    cleanup_free char *name = wanted[0].value;
    cleanup_json json_t *o = wire_scan_object(text, len, "object.metadata", why->msg);
    bool found = name && event_type(name, &t) && t != KUBE_BOOKMARK && kube_rv(o) && *kube_name(o);
    if (found) {
        *type = t == KUBE_DELETED ? t : KUBE_SKIPPED;
        *object = json_incref(o);
        return 0;
    }
    if (e) {
        *e = *why;
        err_wrap(e, "event");
        e->sys = EBADMSG;
    }
    return -1;
}

static int unreadable(struct err *e, const char *why)
{
    err_set(e, ERR_FATAL, "%s", why);
    if (e)
        e->sys = EBADMSG;
    return -1;
}

int wire_event(const char *text, size_t len, bool cut, enum kube_event_type *type, json_t **object,
    struct err *e)
{
    struct err why = ERR_INIT;
    if (cut)
        err_set(&why, ERR_EXHAUSTED, "it is longer than %zu bytes", KUBE_OBJECT_MAX);
    cleanup_json json_t *j = cut ? NULL : wire_json(text, len, &why);
    if (!j)
        return salvage(text, len, type, object, &why, e);
    json_t *o = json_object_get(j, "object");
    if (!json_is_object(o))
        return unreadable(e, "an event without an object");
    const char *name = jget_str(j, "type", "");
    if (strcmp(name, "ERROR") == 0)
        return fail_of_status(o, e);
    if (!event_type(name, type))
        return unreadable(e, "an event of unknown type");
    if (!*jget_str(o, "metadata.resourceVersion", ""))
        return unreadable(e, "an event whose object has no resourceVersion");
    *object = json_incref(o);
    return 0;
}

/* One value: code, agent, text in quotes. */
static void add_warning(const char *value, size_t len, struct kube_warnings *out)
{
    const char *at = memchr(value, '"', len), *end = value + len;
    char text[KUBE_WARNING_MAX * 2];
    size_t n = 0;
    for (at = at ? at + 1 : end; at < end && *at != '"' && n < sizeof text; at++) {
        at += *at == '\\' && at + 1 < end;
        text[n++] = *at;
    }
    cleanup_free char *legible = text_legible(text, n, KUBE_WARNING_MAX);
    for (unsigned i = 0; i < out->n; i++)
        if (strcmp(out->text[i], legible) == 0)
            return;
    if (*legible && out->n < KUBE_WARNINGS)
        snprintf(out->text[out->n++], sizeof out->text[0], "%s", legible);
}

void wire_warnings(const char *headers, struct kube_warnings *out)
{
    static const char name[] = "warning: ";
    for (const char *line = headers; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, name, sizeof name - 1) == 0)
            add_warning(line, strcspn(line, "\n"), out);
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
