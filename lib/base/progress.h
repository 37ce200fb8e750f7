/* SPDX-License-Identifier: Apache-2.0 */
/* progress — that a call which may rightly take long gets on, told to who watches it. A thread says
 * which things (inodes) it works on or waits for; who works on one marks each step: bytes that were
 * moved, an attempt that begins. What waits for a thing gets on while anybody works on it. Things
 * share 1024 counters: a hang may be seen late for that, never where there is none. Threads: any;
 * no locks. */
#ifndef MILLRACE_LIB_BASE_PROGRESS_H
#define MILLRACE_LIB_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

/* What a thread works on; 0: nothing that anybody waits for. PROGRESS_ANY: it waits for whoever
 * works, and everybody may be waiting for it. */
struct progress_things {
    _Atomic uint64_t a, b;
};
#define PROGRESS_ANY UINT64_MAX

/* This thread's things are in *p from here on, which outlives it or its next call. NULL: in one of
 * its own, which nobody looks at. */
void progress_here(struct progress_things *p);
/* One that works on a single thing says it twice. */
void progress_of(uint64_t a, uint64_t b);
/* What the thread works on, for another one that helps it; and that one's taking it. */
struct progress_things progress_mine(void);
void progress_as(const struct progress_things *other);
/* A step. */
void progress_mark(void);
/* Grows with each step of the things of *p. */
uint64_t progress_count(const struct progress_things *p);

#endif
