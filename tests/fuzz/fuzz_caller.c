/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/cgroup, whatever it may hold: a name that fits. */
#include "lib/handoff/caller.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), out[CALLER_MAX];
    memcpy(text, data, size);
    text[size] = '\0';
    memset(out, 'x', sizeof out);
    caller_of_cgroup(text, out);
    if (!memchr(out, '\0', sizeof out) || !*out || strchr(out, '\n'))
        abort();
    free(text);
    return 0;
}
