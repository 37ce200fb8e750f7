/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical requests from any names and values: input is lines, name=value for the query, then
 * (after a blank line) headers. */
#include "fuse/store/sigv4.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_free char *text = xstrndup((const char *)data, size);
    struct sigv4_pair query[16], headers[16];
    size_t nquery = 0, nheaders = 0;
    bool in_headers = false;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '=');
        if (value)
            *value++ = '\0';
        struct sigv4_pair pair = {line, value ? value : ""};
        if (!*line)
            in_headers = true;
        else if (in_headers && nheaders < ARRAY_LEN(headers))
            headers[nheaders++] = pair;
        else if (!in_headers && nquery < ARRAY_LEN(query))
            query[nquery++] = pair;
    }
    cleanup_free char *encoded = sigv4_query(query, nquery);
    for (const char *p = encoded; *p; p++)
        check((unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f && *p != '/' && *p != '+');
    struct sigv4_req req = {"GET", "/", encoded, headers, nheaders, SIGV4_EMPTY};
    struct sigv4_scope scope = {"us-east-1", "s3", "20130524T000000Z"};
    unsigned char key[32];
    sigv4_key(text, &scope, key);
    cleanup_free char *one = sigv4_authorization(&req, &scope, "id", key),
                      *two = sigv4_authorization(&req, &scope, "id", key);
    check(strcmp(one, two) == 0 && strlen(strrchr(one, '=')) == 65);
    return 0;
}
