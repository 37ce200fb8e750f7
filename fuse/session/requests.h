/* SPDX-License-Identifier: Apache-2.0 */
/* requests — ends those that take for ever: a thread that hangs, in a call that never returns or
 * for a lock, keeps its caller in the kernel, and with him whoever needs what he holds there, as
 * all who look names up in a directory where a file is being created. Such a request is answered
 * with EIO; its thread is left alone, and what it answers later is not told. Those that end soon by
 * themselves, with an error if the store is dead, get a time; those that may wait for a file's
 * upload, for a copy, or for all of a file to be fetched, get it again with each step that is
 * marked of the inode they are about (lib/base/progress.h). Not watched: what does nothing but to
 * answer. Threads: any; no locks. */
#ifndef MILLRACE_FUSE_SESSION_REQUESTS_H
#define MILLRACE_FUSE_SESSION_REQUESTS_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUESTS_STUCK_S 600 /* default */

struct requests; /* opaque */
/* fd: /dev/fuse, borrowed. One that is under way, or still, for after_ns is ended; 0: none ever is.
 * stuck is told of each, by a thread of ours. The time that this process was stopped does not
 * count. */
struct requests *requests_start(
    int fd, int64_t after_ns, void (*stuck)(void *user), void *user, struct err *e);
void requests_stop(struct requests *r); /* no thread is in one any more; NULL is fine */

/* This thread takes requests, and does not any more. */
void requests_join(struct requests *r);
void requests_leave(void);
/* This thread has read a request: what the kernel sent. */
void requests_begin(const void *request, size_t len);
/* … and is about to answer. False: it must not, the caller has had his error. */
bool requests_end(uint64_t unique);

#endif
