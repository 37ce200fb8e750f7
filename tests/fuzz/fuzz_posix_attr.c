/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a file, as a directory keeps them: refused, or written and read again the same.
 */
#include "fuse/store/posix.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_attr a, b;
    char again[POSIX_ATTR_MAX];
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (posix_attr_parse(text, &a)) {
        posix_attr_format(&a, again);
        if (a.mode > STORE_MODE_BITS || !posix_attr_parse(again, &b) || a.has != b.has
            || a.mode != b.mode || a.uid != b.uid || a.gid != b.gid)
            abort();
    }
    free(text);
    return 0;
}
