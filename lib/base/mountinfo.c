/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/mountinfo.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOUNTINFO_MAX ((size_t)64 << 20)

/* The kernel writes blank, tab, newline, backslash and # as \ooo. */
static char *unescape(const char *s, size_t n)
{
    char *out = xmalloc(n + 1), *q = out;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\' && i + 3 < n && s[i + 1] >= '0' && s[i + 1] <= '3' && s[i + 2] >= '0'
            && s[i + 2] <= '7' && s[i + 3] >= '0' && s[i + 3] <= '7') {
            *q++ = (char)((s[i + 1] - '0') << 6 | (s[i + 2] - '0') << 3 | (s[i + 3] - '0'));
            i += 3;
        } else {
            *q++ = s[i];
        }
    }
    *q = '\0';
    return out;
}

struct field {
    const char *at;
    size_t len;
};

static bool next_field(const char **p, const char *end, struct field *f)
{
    while (*p < end && **p == ' ')
        ++*p;
    f->at = *p;
    while (*p < end && **p != ' ')
        ++*p;
    f->len = (size_t)(*p - f->at);
    return f->len > 0;
}

static bool has_option(const struct field *f, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = f->at, *end = f->at + f->len; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t len = (size_t)((comma ? comma : end) - p);
        if (len == n && memcmp(p, name, n) == 0)
            return true;
        p += len + 1;
    }
    return false;
}

static int parse_line(const char *p, const char *end, struct mount_entry *out)
{
    struct field id, parent, device, root, point, options, f, type, source;
    if (!next_field(&p, end, &id) || !next_field(&p, end, &parent) || !next_field(&p, end, &device)
        || !next_field(&p, end, &root) || !next_field(&p, end, &point)
        || !next_field(&p, end, &options))
        return -1;
    do /* optional fields up to a lone "-" */
        if (!next_field(&p, end, &f))
            return -1;
    while (!(f.len == 1 && f.at[0] == '-'));
    if (!next_field(&p, end, &type))
        return -1;
    if (!next_field(&p, end, &source)) /* a source may be empty */
        source = (struct field){end, 0};
    cleanup_free char *numbers = xasprintf("%.*s %.*s %.*s", (int)id.len, id.at, (int)parent.len,
        parent.at, (int)device.len, device.at);
    *out = (struct mount_entry){.read_only = has_option(&options, "ro")};
    char rest;
    if (sscanf(numbers, "%u %u %u:%u%c", &out->id, &out->parent, &out->major, &out->minor, &rest)
        != 4)
        return -1;
    out->root = unescape(root.at, root.len);
    out->point = unescape(point.at, point.len);
    out->type = unescape(type.at, type.len);
    out->source = unescape(source.at, source.len);
    return 0;
}

int mountinfo_parse(const char *text, struct mountinfo *out, struct err *e)
{
    size_t cap = 0;
    *out = (struct mountinfo){NULL, 0};
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (out->n == cap)
            out->entries = xrealloc(
                out->entries, (cap = cap ? cap * 2 : 64) * sizeof *out->entries);
        if (len && parse_line(text, text + len, &out->entries[out->n])) {
            mountinfo_free(out);
            return err_set(e, ERR_INVALID, "mountinfo: cannot make sense of '%.*s'",
                (int)MIN(len, 200u), text);
        }
        out->n += len > 0;
        text += len + (text[len] == '\n');
    }
    return 0;
}

static int read_path(const char *path, struct mountinfo *out, struct err *e)
{
    *out = (struct mountinfo){NULL, 0};
    cleanup_free char *text = file_read(path, MOUNTINFO_MAX, NULL, e);
    return text ? mountinfo_parse(text, out, e) : -1;
}

int mountinfo_read(struct mountinfo *out, struct err *e)
{
    return read_path("/proc/self/mountinfo", out, e);
}

int mountinfo_read_of(pid_t pid, struct mountinfo *out, struct err *e)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)pid);
    return read_path(path, out, e);
}

const struct mount_entry *mountinfo_find(const struct mountinfo *m, const char *point)
{
    for (size_t i = m->n; i-- > 0;)
        if (strcmp(m->entries[i].point, point) == 0)
            return &m->entries[i];
    return NULL;
}

const struct mount_entry *mountinfo_above(const struct mountinfo *m, const char *path)
{
    const struct mount_entry *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < m->n; i++) {
        const char *point = m->entries[i].point;
        size_t n = strcmp(point, "/") == 0 ? 0 : strlen(point);
        if (n < longest || strncmp(path, point, n) != 0 || (path[n] && path[n] != '/'))
            continue;
        best = &m->entries[i];
        longest = n;
    }
    return best;
}

void mountinfo_free(struct mountinfo *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->entries[i].root);
        free(m->entries[i].point);
        free(m->entries[i].type);
        free(m->entries[i].source);
    }
    free(m->entries);
    *m = (struct mountinfo){NULL, 0};
}
