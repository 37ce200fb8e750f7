/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are no success: whatever they hold, an error with a class and a text comes out. */
#include "lib/base/mem.h"
#include "lib/kube/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {300, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503};
    if (size < 1)
        return 0;
    struct err e = ERR_INIT;
    char *body = xmalloc(size); /* not terminated: the length is what counts */
    memcpy(body, data + 1, size - 1);
    int rc = wire_fail(statuses[data[0] % ARRAY_LEN(statuses)], body, size - 1, &e);
    if (rc != -1 || e.cls == ERR_NONE || !*e.msg || memchr(e.msg, '\0', sizeof e.msg) == NULL)
        abort();
    free(body);
    return 0;
}
