/* SPDX-License-Identifier: Apache-2.0 */
/* The log of backing files, cut or scribbled over: what is left is a table, and every id in it can
 * be given back. */
#include "csi/backing.h"
#include "lib/base/log.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t replay(struct backing *b, const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    FILE *log = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!log || backing_replay(b, log, &e))
        abort();
    fclose(log);
    return backing_count(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool quiet;
    if (!quiet)
        log_init("fuzz", LOG_ERROR);
    quiet = true;
    if (!size)
        return 0;
    size_t lines = 0, count;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '+';
    struct backing *b = backing_new("/nonexistent/log", 10);
    count = replay(b, data, size);
    if (count > lines || count > 10)
        abort();
    for (int64_t id = 1; id < 32; id++)
        backing_close(b, -1, id);
    if (backing_count(b) > count)
        abort();
    if (replay(b, data, size) != count) /* begins anew */
        abort();
    backing_free(b);
    return 0;
}
