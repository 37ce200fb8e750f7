/* SPDX-License-Identifier: Apache-2.0 */
/* A header of a server: refused, or a range that is one, and is written the same again but for
 * zeros in front. */
#include "fuse/store/s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), again[96];
    uint64_t first, last, total, f, l, t;
    memcpy(text, data, size);
    text[size] = '\0';
    if (s3_content_range(text, &first, &last, &total)) {
        snprintf(again, sizeof again, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, last, total);
        if (first > last || last >= total || strlen(again) > strlen(text)
            || !s3_content_range(again, &f, &l, &t) || f != first || l != last || t != total)
            abort();
    }
    free(text);
    return 0;
}
