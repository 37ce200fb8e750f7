/* SPDX-License-Identifier: Apache-2.0 */
/* How many cache workers there are: it changes while programs run. */
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/conf/conf.h"

#include <stdlib.h>

int conf_workers(const struct conf *c, int last)
{
    if (!c->worker_count_file)
        return c->worker_count;
    cleanup_free char *text = file_read(c->worker_count_file, 64, NULL, NULL);
    char *end = text;
    long n = text ? strtol(text, &end, 10) : -1;
    return end == text || *end || n < 0 || n > CONF_WORKERS_MAX ? last : (int)n;
}
