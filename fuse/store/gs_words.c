/* SPDX-License-Identifier: Apache-2.0 */
/* Header lines of S3's in Google's words, and what Google's answers say in words of their own. */
#include "fuse/store/gs.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

/* "123" of the line behind its name: generations are numbers without quotes. */
static char *condition(const char *name, const char *value)
{
    size_t n = strlen(value);
    bool quoted = n >= 2 && value[0] == '"' && value[n - 1] == '"';
    return quoted ? xasprintf("%s: %.*s", name, (int)n - 2, value + 1)
                  : xasprintf("%s: %s", name, strcmp(value, "*") == 0 ? "0" : value);
}

static const char *behind(const char *line, const char *name)
{
    size_t n = strlen(name);
    return strncmp(line, name, n) == 0 ? line + n : NULL;
}

char *gs_line(const char *line)
{
    const char *value;
    if ((value = behind(line, "if-match: ")) || (value = behind(line, "if-none-match: ")))
        return condition("x-goog-if-generation-match", value);
    if ((value = behind(line, "x-amz-copy-source-if-match: ")))
        return condition("x-goog-copy-source-if-generation-match", value);
    if ((value = behind(line, "x-amz-checksum-crc32c: ")))
        return xasprintf("x-goog-hash: crc32c=%s", value);
    if (behind(line, "x-amz-checksum-") || behind(line, "x-amz-sdk-checksum-"))
        return NULL;
    if ((value = behind(line, "x-amz-")))
        return xasprintf("x-goog-%s", value);
    return xstrdup(line);
}

void gs_crc32c(const char *headers, char text[S3_SUM_TEXT + 1])
{
    text[0] = '\0';
    for (const char *line = headers, *end; line && *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        if (!behind(line, "x-goog-hash:"))
            continue;
        const char *value = strstr(line, "crc32c=");
        size_t n = value ? strcspn(value + 7, ", \r\n") : 0;
        if (value && value < end && n && n < S3_SUM_TEXT)
            snprintf(text, S3_SUM_TEXT + 1, "%.*s", (int)n, value + 7);
    }
}
