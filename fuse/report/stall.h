/* SPDX-License-Identifier: Apache-2.0 */
/* stall — for how long readers waited for data, which ones, and for what. Of each caller
 * (lib/handoff/caller.h): the waiting of all its reads summed up, by what they waited for, and the
 * time in which at least one of them waited, which is at most the time that passed: "that pod
 * waited 7 % of the time for data". What the kernel reads by itself (its page cache, passthrough)
 * never gets here. Threads: any. Locks: stalls.mu, a leaf. */
#ifndef MILLRACE_FUSE_REPORT_STALL_H
#define MILLRACE_FUSE_REPORT_STALL_H

#include "fuse/cache/cache.h"
#include "lib/handoff/caller.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stalls; /* opaque */
struct stall_caller;

/* Tells who pid is. Called without a lock. */
typedef void (*stall_who)(void *user, pid_t pid, char out[CALLER_MAX]);
struct stalls *stalls_new(stall_who who, void *user);
void stalls_free(struct stalls *s);

struct stall_caller *stalls_begin(struct stalls *s, pid_t pid); /* a read begins */
void stalls_end(struct stalls *s, struct stall_caller *caller); /* … and ends, on the same thread */

struct stall_times {
    char caller[CALLER_MAX];
    uint64_t reads, waiting_ns;            /* at least one read was waiting */
    uint64_t store_ns, worker_ns, disk_ns; /* all reads together */
};
/* Calls fn for each caller, without a lock. */
void stalls_each(
    struct stalls *s, void (*fn)(void *user, const struct stall_times *times), void *user);

/* What a caller waited for lately, minute by minute. */
#define STALL_MINUTES 10
struct stall_window {
    struct stall_minute {
        int64_t minute; /* of the monotonic clock */
        uint64_t reads, waiting_ns, store_ns, worker_ns, disk_ns;
    } minutes[STALL_MINUTES];
};
/* The minute of now, emptied if it was of longer ago. */
struct stall_minute *stall_window_at(struct stall_window *w, int64_t now_ns);
/* Adds the minutes up to now; returns how long that is, ns. */
int64_t stall_window_sum(const struct stall_window *w, int64_t now_ns, struct stall_times *out);

/* Of the caller that pid is, or, if it read nothing lately, of the one that waited longest; returns
 * how much time that is of. *own: it is pid's. */
int64_t stalls_recent(struct stalls *s, pid_t pid, struct stall_times *out, bool *own);

#endif
