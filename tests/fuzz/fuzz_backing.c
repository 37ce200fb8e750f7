/* SPDX-License-Identifier: Apache-2.0 */
/* The log of backing files, cut or scribbled over: what is left is a table, and every id in it can
 * be given back. */
#include "csi/backing.h"
#include "lib/base/log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool quiet;
    if (!quiet)
        log_init("fuzz", LOG_ERROR);
    quiet = true;
    char *text = malloc(size + 1), *again = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    memcpy(again, text, size + 1);
    size_t lines = 0, count;
    for (const char *p = text; (p = strchr(p, '+')); p++)
        lines++;
    struct backing *b = backing_new("/nonexistent/log", 10);
    backing_replay(b, text);
    count = backing_count(b);
    if (count > lines)
        abort();
    for (int64_t id = 1; id < 32; id++)
        backing_close(b, -1, id);
    if (backing_count(b) > count)
        abort();
    backing_replay(b, again); /* begins anew */
    if (backing_count(b) != count)
        abort();
    backing_free(b);
    free(text);
    free(again);
    return 0;
}
