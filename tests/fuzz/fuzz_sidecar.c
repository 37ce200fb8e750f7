/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes beside a staged file: refused with a message, or a file of a mount, which is noted
 * again the same. */
#include "fuse/file/sidecar.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sidecar a, b;
    struct err e = ERR_INIT;
    char *exact = malloc(size ? size : 1); /* the sanitizer sees the end of it */
    memcpy(exact, data, size);
    if (sidecar_parse(exact, size, "x", &a, &e) == 0) {
        char *text = sidecar_format(&a);
        if (!*a.path || !store_path_ok(a.path) || strlen(text) > SIDECAR_MAX
            || sidecar_parse(text, strlen(text), "x", &b, &e) || memcmp(&a, &b, sizeof a) != 0)
            abort();
        free(text);
    } else if (e.cls != ERR_INVALID || !*e.msg) {
        abort();
    }
    free(exact);
    return 0;
}
