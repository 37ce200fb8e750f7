/* SPDX-License-Identifier: Apache-2.0 */
/* Any text: either a list whose entries are complete, or an error and an empty list. */
#include "lib/base/mountinfo.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct mountinfo m;
    struct err e = ERR_INIT;
    if (mountinfo_parse(text, &m, &e) == 0) {
        for (size_t i = 0; i < m.n; i++)
            if (!m.entries[i].point || !m.entries[i].root || !m.entries[i].type
                || !m.entries[i].source || !mountinfo_find(&m, m.entries[i].point))
                abort();
        const struct mount_entry *above = mountinfo_above(&m, "/mnt/a b/c");
        if (above && strncmp("/mnt/a b/c", above->point, strlen(above->point)) != 0)
            abort();
    } else if (m.n || m.entries || e.cls != ERR_INVALID) {
        abort();
    }
    mountinfo_free(&m);
    free(text);
    return 0;
}
