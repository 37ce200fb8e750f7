/* SPDX-License-Identifier: Apache-2.0 */
/* pace — how many requests a server gets at a time. Not more than some: their answers are in memory
 * while they come. Where it asks for fewer, half of what it had, and one more for each full round
 * of answers that do not ask, as TCP does. All threads share it, so that what one is told holds for
 * the others. Threads: any. Locks: pace.mu, a leaf. */
#ifndef MILLRACE_FUSE_STORE_PACE_H
#define MILLRACE_FUSE_STORE_PACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pace {
    pthread_mutex_t mu;
    pthread_cond_t left;
    unsigned most;
    unsigned inside, window, grown; /* mu; window: of now; grown: answers since it last grew */
    int64_t cut_ns;                 /* mu; monotonic; when it was last cut */
};
void pace_init(struct pace *p, unsigned most);
void pace_fini(struct pace *p);
/* Waits for its turn, until then (monotonic) or *cancel (may be NULL) at most; then pace_leave().
 * Returns when it began. */
int64_t pace_enter(struct pace *p, int64_t until_ns, const atomic_bool *cancel);
void pace_leave(struct pace *p, int64_t began_ns, bool is_throttled);

#endif
