/* SPDX-License-Identifier: Apache-2.0 */
/* invalidate — tells the kernel of names that mean something else now, from a process of its own.
 * The kernel takes the lock of the directory for that, which a look-up there holds until it is
 * answered, and no signal ends the wait: a thread of the serving process would keep it from ending
 * when it is killed, and the look-up would never be answered. The helper needs nothing but
 * /dev/fuse; it ends when its pipe does, and is started again if it was killed. Errors of a message
 * are ignored: the kernel may not know the name, or be gone. Threads: any. Locks: invalidator.mu, a
 * leaf. */
#ifndef MILLRACE_FUSE_SESSION_INVALIDATE_H
#define MILLRACE_FUSE_SESSION_INVALIDATE_H

#include "lib/base/err.h"

#include <stdint.h>

struct invalidator; /* opaque */

/* from here on it keeps what is added, as long as the pipe has room */
struct invalidator *invalidator_new(struct err *e);
/* begins to tell the kernel; fuse_fd is borrowed until invalidator_stop */
int invalidator_start(struct invalidator *v, int fuse_fd, struct err *e);
void invalidator_stop(struct invalidator *v); /* and frees it; does not wait; NULL is fine */
/* A tree's `changed`: that name in that directory; "" is all that was read of the directory. Never
 * blocks: with some thousand names ahead of it, it is dropped; the kernel sees it after its
 * timeouts. */
void invalidator_add(void *invalidator, uint64_t dir, const char *name);

#endif
