/* SPDX-License-Identifier: Apache-2.0 */
/* sink — where bytes go that come one piece after the other, as whoever brings them has them in its
 * hands. */
#ifndef MILLRACE_LIB_BASE_SINK_H
#define MILLRACE_LIB_BASE_SINK_H

#include <stddef.h>
#include <string.h>

typedef int (*sink_fn)(void *user, const void *data, size_t len); /* non-zero: it takes no more */

struct sink_memory {
    char *at;
    size_t left; /* bytes */
};

static inline int sink_to_memory(void *memory, const void *data, size_t len)
{
    struct sink_memory *m = memory;
    if (len > m->left)
        return -1;
    memcpy(m->at, data, len);
    m->at += len;
    m->left -= len;
    return 0;
}

#endif
