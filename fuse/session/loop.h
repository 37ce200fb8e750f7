/* SPDX-License-Identifier: Apache-2.0 */
/* loop — the threads that read requests from /dev/fuse: Leader/Followers. To wake a thread on
 * another processor costs more than most requests do (some 5 µs, in virtual machines 50 and more),
 * so one thread alone, the leader, waits for the next request. It spins for a while before it
 * sleeps where the last requests came quickly, and answers by itself what is answered at once: it
 * leads again before a follower would be awake. A thread whose request may take longer promotes a
 * follower first (loop_will_block); when it has answered, it spins for a moment, too, as the leader
 * may be asleep by then. The fd must be O_NONBLOCK. Threads: any. Locks: loop.mu, a leaf. */
#ifndef MILLRACE_FUSE_SESSION_LOOP_H
#define MILLRACE_FUSE_SESSION_LOOP_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct loop; /* opaque */

struct loop_conf {
    int fd;                   /* borrowed */
    unsigned threads;         /* at most, but for those that said loop_will_block() */
    void (*work)(void *user); /* a thread's work: loop_read() and the answer, until it fails */
    /* How many such requests, that were there one after the other, a leader answers before it
     * promotes a follower; 0: it does so at once. Those that take long after all say
     * loop_will_block(). */
    unsigned (*in_a_row)(const void *request, size_t len);
    void *user;
};

struct loop *loop_new(const struct loop_conf *conf, struct err *e);
int loop_run(struct loop *l, struct err *e); /* until every work() has returned */
void loop_end(struct loop *l);               /* loop_read() fails from now on; async-signal-safe */
void loop_free(struct loop *l);
/* Is there a thread for the next request, or has one been taken since *seen? Writes *seen. */
bool loop_serves(struct loop *l, uint64_t *seen);

/* The next request. -1 with errno: of read(), or EINTR, if this thread is to end. */
ssize_t loop_read(struct loop *l, void *buf, size_t len);
bool loop_dismissed(void); /* this thread is to end */
/* The request that this thread works on takes longer: another thread leads meanwhile, a new one if
 * need be. Of no effect in threads of others. */
void loop_will_block(void);

#endif
