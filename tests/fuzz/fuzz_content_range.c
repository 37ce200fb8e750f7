/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of a server: refused, or a range that is one, and is written the same again but for
 * zeros in front; or the mode of a link, a number. */
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
    if (s3_mode_is_link(text) && (strspn(text, "0123456789") != strlen(text) || !*text))
        abort();
    free(text);
    return 0;
}
