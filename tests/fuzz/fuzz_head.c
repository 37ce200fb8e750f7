/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads from a stranger: whatever is accepted must be well-formed. */
#include "lib/http/head.h"

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
    char *copy = malloc(size + 1); /* its own block, so that a read past the end is seen */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    size_t len = http_head_length(copy, size);
    check(len <= size);
    struct http_head h;
    int status = http_head_parse(&h, copy, len ? len : size);
    if (status == 0) {
        check(len != 0 && copy[len - 1] == '\n');
        check(*h.method && h.path[0] && !strchr(h.method, ' ') && !strchr(h.query, ' '));
        char value[64];
        for (const char *p = h.headers; *p; p = strchr(p, '\n') + 1)
            check(strchr(p, '\n') && strstr(p, ": "));
        http_head_value(h.headers, "host", value, sizeof value);
    } else {
        check(status >= 400 && status <= 505);
    }
    http_head_free(&h);
    free(copy);
    return 0;
}
