/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/web_index.h"

#include "fuse/store/impl.h"
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINK_MAX 8192u /* bytes of a link */

/* -- links of a page -----------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    char is;
} entities[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#34;", '"'},
    {"&#39;", '\''}, {"&#x27;", '\''}, {"&apos;", '\''}, {"&#38;", '&'}};

static char *without_entities(const char *text, size_t len)
{
    char *out = xmalloc(len + 1), *to = out;
    while (len) {
        size_t i = 0, n = 1;
        for (; i < ARRAY_LEN(entities); i++) {
            n = strlen(entities[i].name);
            if (n <= len && strncasecmp(text, entities[i].name, n) == 0)
                break;
        }
        bool found = i < ARRAY_LEN(entities);
        *to++ = found ? entities[i].is : *text;
        n = found ? n : 1;
        text += n;
        len -= n;
    }
    *to = '\0';
    return out;
}

/* What a link has behind the directory of its page; NULL: it leads elsewhere. */
static const char *below(const char *link, const char *directory)
{
    const char *host = strstr(directory, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    if (!path)
        return NULL;
    size_t whole = strlen(directory), n = strlen(path);
    if (strncmp(link, directory, whole) == 0)
        return link + whole;
    if (link[0] == '/')
        return link[1] != '/' && strncmp(link, path, n) == 0 ? link + n : NULL;
    while (strncmp(link, "./", 2) == 0)
        link += 2;
    /* "mailto:", "https://…": a scheme; a name with a colon is written "./a:b" or encoded */
    size_t first = strcspn(link, ":/");
    return link[first] == ':' ? NULL : link;
}

/* "", "/", "..", "a/b": where else a page leads. */
static bool leads_elsewhere(const char *rest)
{
    size_t n = strcspn(rest, "/");
    bool up = n <= 2 && strspn(rest, ".") == n;
    return up || (rest[n] && rest[n + 1]);
}

static int take_link(
    const char *text, size_t len, const char *directory, const struct web_index_fns *fns)
{
    if (!len || len > LINK_MAX)
        return 0;
    cleanup_free char *link = without_entities(text, len);
    const char *rest = below(link, directory);
    if (!rest || strpbrk(rest, "?#") || leads_elsewhere(rest))
        return 0;
    cleanup_free char *name = xstrdup(rest);
    size_t n = http_head_unescape(name, false) ? 0 : strlen(name);
    bool is_dir = n && name[n - 1] == '/';
    if (n && leads_elsewhere(name) && !strchr(name, '/'))
        return 0; /* "%2e%2e" */
    if (!store_name_ok(name, n - is_dir) || strchr(name, '\n'))
        return fns->refused ? fns->refused(fns->user, link) : 0;
    return fns->name(fns->user, name);
}

/* The value of attribute href in a tag that begins at p; *len 0: it has none. */
static const char *href_of(const char *p, const char *end, size_t *len)
{
    *len = 0;
    for (; p + 5 < end && *p != '>'; p++) {
        if (!isspace((unsigned char)*p) || strncasecmp(p + 1, "href", 4) != 0)
            continue;
        const char *at = p + 5;
        while (at < end && isspace((unsigned char)*at))
            at++;
        if (at == end || *at++ != '=')
            continue;
        while (at < end && isspace((unsigned char)*at))
            at++;
        char quote = at < end && (*at == '"' || *at == '\'') ? *at++ : '\0';
        const char *to = at;
        while (to < end && (quote ? *to != quote : *to != '>' && !isspace((unsigned char)*to)))
            to++;
        if (to == end)
            return NULL;
        *len = (size_t)(to - at);
        return at;
    }
    return NULL;
}

int web_index_names(
    const char *text, size_t len, const char *directory, const struct web_index_fns *fns)
{
    const char *end = text + len;
    for (const char *p = text; p + 2 < end; p++) {
        if (*p != '<' || (p[1] != 'a' && p[1] != 'A') || !isspace((unsigned char)p[2]))
            continue;
        size_t n;
        const char *link = href_of(p + 2, end, &n);
        int rc = link ? take_link(link, n, directory, fns) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* -- lists ---------------------------------------------------------------------------------------
 */

static size_t line_end(const char *text, size_t len)
{
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return len;
}

bool web_manifest_line(const char **line, const char *end, char **path, uint64_t *size, bool *bad)
{
    *path = NULL;
    *size = UINT64_MAX;
    *bad = false;
    if (*line >= end)
        return false;
    const char *text = *line, *eol = memchr(text, '\n', (size_t)(end - text));
    size_t len = (size_t)((eol ? eol : end) - text);
    *line = eol ? eol + 1 : end;
    len = line_end(text, len);
    if (!len || *text == '#')
        return true;
    size_t digits = 0;
    while (digits < len && isdigit((unsigned char)text[len - 1 - digits]))
        digits++;
    if (digits && digits < 19 && digits < len && isspace((unsigned char)text[len - 1 - digits])) {
        *size = strtoull(text + len - digits, NULL, 10);
        len = line_end(text, len - digits);
    }
    *path = xstrndup(text, len);
    *bad = strlen(*path) != len || !**path || !store_path_ok(*path);
    return true;
}
