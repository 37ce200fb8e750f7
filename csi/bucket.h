/* SPDX-License-Identifier: Apache-2.0 */
/* bucket — how often something may happen: every `interval`, and `burst` times at once after a
 * pause. Pure; not locked. A zeroed one is full. */
#ifndef MILLRACE_CSI_BUCKET_H
#define MILLRACE_CSI_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket_rate {
    int64_t interval_ns;
    int64_t burst;
};

struct bucket {
    int64_t free_ns; /* when it would be full again */
};

/* How long until it may happen; 0: now. */
static inline int64_t bucket_wait(const struct bucket *b, struct bucket_rate r, int64_t now_ns)
{
    int64_t wait = b->free_ns - now_ns - r.interval_ns * (r.burst - 1);
    return wait > 0 ? wait : 0;
}

/* It happens, if it may. */
static inline bool bucket_take(struct bucket *b, struct bucket_rate r, int64_t now_ns)
{
    if (bucket_wait(b, r, now_ns))
        return false;
    b->free_ns = (b->free_ns > now_ns ? b->free_ns : now_ns) + r.interval_ns;
    return true;
}

#endif
