/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat — the supervisor and the serving process hear of each other each second, in memory that
 * they share: a serving process that is stopped, or whose threads all hang, is ended so that
 * another one takes over, and a supervisor that is stopped is told to go on. */
#ifndef MILLRACE_FUSE_PROCESS_HEARTBEAT_H
#define MILLRACE_FUSE_PROCESS_HEARTBEAT_H

#include "lib/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HEARTBEAT_HUNG_S 20 /* the default; less than the node plugin's patience of 30 s */

/* In shared memory. Each counts up while its process is well; 0: it has not begun. */
struct heartbeats {
    _Atomic uint64_t serving, supervisor;
};

/* Of one end, for the other one; zeroed. */
struct heartbeat_ear {
    uint64_t heard;
    int64_t looked_ns, silent_ns;
};
/* Call it each second or so. true: beats have begun and none has come for patience_ns. Time in
 * which the caller did not run itself, for the machine slept or all of it was stopped, counts for
 * moments only. patience_ns 0: never. */
bool heartbeat_missed(
    struct heartbeat_ear *ear, uint64_t beats, int64_t now_ns, int64_t patience_ns);

/* The serving process's end: a thread that beats, and listens to the supervisor. */
struct heartbeat *heartbeat_start(
    struct heartbeats *shared, pid_t supervisor, int64_t patience_ns, struct err *e);
/* From now on it beats only while serves() says so; NULL: as long as it runs. Waits for a call that
 * is under way. */
void heartbeat_watch(struct heartbeat *h, bool (*serves)(void *user), void *user);
void heartbeat_stop(struct heartbeat *h); /* NULL is fine */

#endif
