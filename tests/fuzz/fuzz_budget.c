/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's files about memory, as somebody may have mounted them: always a limit. Input: the
 * files one after the other, each up to a byte 0; paths are taken in turn, so that a group's
 * parents have other limits. */
#include "fuse/cache/budget.h"

#include <stdlib.h>
#include <string.h>

struct files {
    const char *data;
    size_t size;
};

static char *next_file(void *user, const char *path)
{
    struct files *f = user;
    if (!f->size || !*path)
        return NULL;
    size_t n = strnlen(f->data, f->size);
    char *text = malloc(n + 1);
    memcpy(text, f->data, n);
    text[n] = '\0';
    n += n < f->size;
    f->data += n;
    f->size -= n;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct files f = {(const char *)data, size};
    int64_t limit = budget_limit_of(next_file, &f);
    if (limit < 0 || limit == INT64_MAX)
        abort();
    return 0;
}
