/* SPDX-License-Identifier: Apache-2.0 */
/* breaker — does a store answer? Silent is one whose calls have all failed since its last answer,
 * one of them for a whole deadline. Then only so many calls at a time wait for it, to find out
 * whether it is back; all others fail at once, in the words of the one that failed. A refusal is an
 * answer, too. Threads: any. Locks: breaker.mu, a leaf. */
#ifndef MILLRACE_FUSE_STORE_BREAKER_H
#define MILLRACE_FUSE_STORE_BREAKER_H

#include "lib/base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BREAKER_TRYING_MAX 64 /* calls that wait for a silent store */

struct breaker {
    atomic_uint inside;              /* calls under way */
    atomic_int_fast64_t answered_ns; /* monotonic; the last answer */
    atomic_bool is_silent;           /* changed with mu held */
    pthread_mutex_t mu;
    struct err why; /* mu; of the call that found it silent */
};
void breaker_init(struct breaker *b);
void breaker_fini(struct breaker *b);
/* 0: call, then breaker_leave() with what came of it and *began_ns. -1: RETRY, it is silent. */
int breaker_enter(struct breaker *b, int64_t *began_ns, struct err *e);
/* Returns rc; e is looked at where that is not 0. */
int breaker_leave(struct breaker *b, int64_t began_ns, int rc, const struct err *e);
bool breaker_is_silent(const struct breaker *b);

#endif
