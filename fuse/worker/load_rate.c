/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/load_rate.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

bool load_rate_begin(struct load_rate *r, uint64_t bytes, int64_t now_ns)
{
    bool fits = r->pending == 0 || r->pending + bytes <= (uint64_t)r->rate;
    if (r->rate && (now_ns < r->paid_ns || !fits))
        return false;
    r->pending += bytes;
    return true;
}

void load_rate_end(struct load_rate *r, uint64_t bytes, uint64_t came, int64_t now_ns)
{
    r->pending -= bytes;
    if (r->rate && came)
        r->paid_ns = MAX(r->paid_ns, now_ns)
            + (int64_t)((double)came / (double)r->rate * (double)NS_PER_S);
}
