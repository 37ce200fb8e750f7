/* SPDX-License-Identifier: Apache-2.0 */
/* pace — how many requests a server gets at a time. No limit, until it asks for fewer: then half of
 * what it had, and one more for each full round of answers that do not ask, as TCP does. All
 * threads share it, so that what one is told holds for the others. Threads: any. Locks: pace.mu, a
 * leaf. */
#ifndef MILLRACE_FUSE_STORE_PACE_H
#define MILLRACE_FUSE_STORE_PACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PACE_FREE 256 /* requests at a time that need no limit */

struct pace {
    pthread_mutex_t mu;
    pthread_cond_t left;
    unsigned inside, window, grown; /* mu; window: at most; grown: answers since it last grew */
    int64_t cut_ns;                 /* mu; monotonic; when it was last cut */
};
void pace_init(struct pace *p);
void pace_fini(struct pace *p);
/* Waits for its turn, until then (monotonic) or *cancel (may be NULL) at most; then pace_leave().
 * Returns when it began. */
int64_t pace_enter(struct pace *p, int64_t until_ns, const atomic_bool *cancel);
void pace_leave(struct pace *p, int64_t began_ns, bool is_throttled);

#endif
