/* SPDX-License-Identifier: Apache-2.0 */
/* load_rate — bytes in a second, on average: what is under way is at most a second's worth, or one
 * piece, and what came is paid for before the next piece begins. Pure; the caller's lock guards it.
 */
#ifndef MILLRACE_FUSE_WORKER_LOAD_RATE_H
#define MILLRACE_FUSE_WORKER_LOAD_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct load_rate {
    int64_t rate;     /* bytes a second; 0: no bound */
    int64_t paid_ns;  /* when all that came is paid for */
    uint64_t pending; /* bytes asked for */
};

/* false: not yet */
bool load_rate_begin(struct load_rate *r, uint64_t bytes, int64_t now_ns);
/* came: how many of the bytes that were begun were really fetched */
void load_rate_end(struct load_rate *r, uint64_t bytes, uint64_t came, int64_t now_ns);

#endif
