/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/head.h"

#include "lib/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

size_t http_head_length(const char *data, size_t len)
{
    size_t line = 0; /* where the current line begins */
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n')
            continue;
        size_t n = i - line;
        if (line && (n == 0 || (n == 1 && data[line] == '\r')))
            return i + 1;
        line = i + 1;
    }
    return 0;
}

static bool is_token(unsigned char c) { return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c)); }

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int http_head_unescape(char *text, bool plus_is_space)
{
    char *out = text;
    for (const char *p = text; *p; p++) {
        if (*p == '+' && plus_is_space) {
            *out++ = ' ';
        } else if (*p != '%') {
            *out++ = *p;
        } else {
            int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);
            if (low < 0 || (high == 0 && low == 0))
                return -1;
            *out++ = (char)(high << 4 | low);
            p += 2;
        }
    }
    *out = '\0';
    return 0;
}

const char *http_head_value(const char *headers, const char *lower_name, char *out, size_t cap)
{
    size_t n = strlen(lower_name);
    for (const char *line = headers; *line;) {
        const char *end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) : strlen(line);
        if (len >= n + 2 && memcmp(line, lower_name, n) == 0 && line[n] == ':') {
            size_t vlen = len - n - 2;
            if (vlen >= cap)
                return NULL;
            memcpy(out, line + n + 2, vlen);
            out[vlen] = '\0';
            return out;
        }
        line += len + (end != NULL);
    }
    return NULL;
}

/* One line out of the head, without its end; NULL at the blank line. A lone CR, a NUL or another
 * control byte: *bad. */
static const char *next_line(const char **at, const char *end, size_t *len, bool *bad)
{
    const char *line = *at, *nl = memchr(line, '\n', (size_t)(end - line));
    if (!nl)
        return NULL;
    *at = nl + 1;
    *len = (size_t)(nl - line);
    if (*len && line[*len - 1] == '\r')
        (*len)--;
    for (size_t i = 0; i < *len; i++)
        if (((unsigned char)line[i] < 0x20 && line[i] != '\t') || line[i] == 0x7f)
            *bad = true;
    return *len ? line : NULL;
}

static char *put(char **at, const char *from, size_t len)
{
    char *start = *at;
    memcpy(start, from, len);
    start[len] = '\0';
    *at += len + 1;
    return start;
}

static int parse_request_line(
    struct http_head *h, char **out, const char *line, size_t len, int *minor)
{
    const char *sp = memchr(line, ' ', len);
    const char *last = memrchr(line, ' ', len);
    if (!sp || sp == line || sp == last || sp - line > 31)
        return 400;
    for (const char *p = line; p < sp; p++)
        if (!is_token((unsigned char)*p))
            return 400;
    const char *version = last + 1;
    size_t vlen = (size_t)(line + len - version);
    if (vlen != 8 || memcmp(version, "HTTP/", 5) != 0 || !isdigit((unsigned char)version[5])
        || version[6] != '.' || !isdigit((unsigned char)version[7]))
        return 400;
    if (version[5] != '1')
        return 505;
    *minor = version[7] - '0';
    const char *target = sp + 1;
    /* absolute form, as for a proxy */
    if (last - target > 7 && strncasecmp(target, "http://", 7) == 0) {
        const char *slash = memchr(target + 7, '/', (size_t)(last - target - 7));
        target = slash ? slash : last;
    }
    if (target >= last || *target != '/' || memchr(target, ' ', (size_t)(last - target))
        || memchr(target, '\t', (size_t)(last - target)))
        return 400;
    const char *mark = memchr(target, '?', (size_t)(last - target));
    h->method = put(out, line, (size_t)(sp - line));
    h->path = put(out, target, (size_t)((mark ? mark : last) - target));
    h->query = put(out, mark ? mark + 1 : last, mark ? (size_t)(last - mark - 1) : 0);
    return http_head_unescape(h->path, false) ? 400 : 0;
}

/* Does the comma-separated list hold the token? */
static bool lists(const char *value, size_t len, const char *token)
{
    size_t n = strlen(token);
    for (size_t i = 0; i < len;) {
        while (i < len && (value[i] == ' ' || value[i] == ',' || value[i] == '\t'))
            i++;
        size_t start = i;
        while (i < len && value[i] != ',')
            i++;
        size_t end = i;
        while (end > start && (value[end - 1] == ' ' || value[end - 1] == '\t'))
            end--;
        if (end - start == n && strncasecmp(value + start, token, n) == 0)
            return true;
    }
    return false;
}

static int parse_length(const char *value, size_t len, uint64_t *out)
{
    if (!len || len > 18)
        return -1;
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)value[i]))
            return -1;
        n = n * 10 + (uint64_t)(value[i] - '0');
    }
    *out = n;
    return 0;
}

struct seen {
    bool host, length;
};

static int apply_header(
    struct http_head *h, struct seen *seen, const char *name, const char *value, size_t vlen)
{
    if (strcmp(name, "host") == 0) {
        if (seen->host)
            return 400;
        seen->host = true;
    } else if (strcmp(name, "content-length") == 0) {
        uint64_t n;
        if (parse_length(value, vlen, &n) || (seen->length && n != h->content_length))
            return 400;
        h->content_length = n;
        seen->length = true;
    } else if (strcmp(name, "transfer-encoding") == 0) {
        /* a length said beforehand is all we take, so that no two parsers can disagree about where
         * a body ends */
        return 411;
    } else if (strcmp(name, "connection") == 0) {
        if (lists(value, vlen, "close"))
            h->keep_alive = false;
        else if (lists(value, vlen, "keep-alive"))
            h->keep_alive = true;
    } else if (strcmp(name, "expect") == 0) {
        if (!lists(value, vlen, "100-continue"))
            return 417;
        h->expect_continue = true;
    }
    return 0;
}

static int parse_header(
    struct http_head *h, struct seen *seen, char **out, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    if (!colon || colon == line)
        return 400;
    char *name = *out;
    for (const char *p = line; p < colon; p++) {
        if (!is_token((unsigned char)*p))
            return 400; /* also a folded line, which begins with a space */
        *(*out)++ = (char)tolower((unsigned char)*p);
    }
    const char *value = colon + 1, *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t vlen = (size_t)(end - value);
    **out = '\0';
    int status = apply_header(h, seen, name, value, vlen);
    if (status)
        return status;
    memcpy(*out, ": ", 2);
    memcpy(*out + 2, value, vlen);
    *out += 2 + vlen;
    *(*out)++ = '\n';
    return 0;
}

int http_head_parse(struct http_head *h, const char *data, size_t len)
{
    memset(h, 0, sizeof *h);
    /* a header "a:b\n" grows by a blank; the request line keeps its size but for two NULs */
    h->text = xmalloc(2 * len + 8);
    char *out = h->text;
    *out = '\0';
    h->method = h->path = h->query = h->headers = out;
    const char *at = data, *end = data + len;
    size_t n = 0;
    bool bad = false;
    int minor = 0;
    const char *line = http_head_length(data, len) == len ? next_line(&at, end, &n, &bad) : NULL;
    if (!line || bad)
        return 400;
    int status = parse_request_line(h, &out, line, n, &minor);
    if (status)
        return status;
    h->keep_alive = minor >= 1;
    h->headers = out;
    struct seen seen = {0};
    while ((line = next_line(&at, end, &n, &bad))) {
        status = bad ? 400 : parse_header(h, &seen, &out, line, n);
        if (status) {
            *h->headers = '\0';
            return status;
        }
    }
    *out = '\0';
    return minor >= 1 && !seen.host ? 400 : 0;
}

void http_head_free(struct http_head *h)
{
    free(h->text);
    memset(h, 0, sizeof *h);
}
