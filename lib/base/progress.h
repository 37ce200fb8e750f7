/* SPDX-License-Identifier: Apache-2.0 */
/* progress — that a call which may rightly take long gets on, told to who watches it. A thread says
 * which things (inodes) it works on or waits for; who works on one marks each step: bytes that were
 * moved, an attempt that begins. What waits for a thing gets on while anybody works on it, and who
 * waits behind it for a lock (progress_lock) as well. Things share 1024 counters: a hang may be
 * seen late for that, never where there is none. Threads: any. */
#ifndef MILLRACE_LIB_BASE_PROGRESS_H
#define MILLRACE_LIB_BASE_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* What a thread works on; 0: nothing that anybody waits for. PROGRESS_ANY: it waits for whoever
 * works, and everybody may be waiting for it. */
struct progress_things {
    _Atomic uint64_t a, b, also;
};
#define PROGRESS_ANY UINT64_MAX

/* This thread's things are in *p from here on, which outlives it or its next call. NULL: in one of
 * its own, which nobody looks at. */
void progress_here(struct progress_things *p);
/* One that works on a single thing says it twice. */
void progress_of(uint64_t a, uint64_t b);
/* Works on one more thing, until it says 0 or progress_of() is called. */
void progress_also(uint64_t thing);
/* What the thread works on, for another one that helps it; and that one's taking it. */
struct progress_things progress_mine(void);
void progress_as(const struct progress_things *other);
/* A step. */
void progress_mark(void);
/* Locks. While that thing gets on, in the hands of who has the lock, so do those of the thread that
 * waits: who waits for them waits for the lock, too. PROGRESS_ANY: he may wait for anybody. */
void progress_lock(pthread_mutex_t *mu, uint64_t thing);
void progress_rdlock(pthread_rwlock_t *lock, uint64_t thing);
/* Grows with each step of the things of *p. */
uint64_t progress_count(const struct progress_things *p);

#endif
