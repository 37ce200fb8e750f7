/* SPDX-License-Identifier: Apache-2.0 */
/* inval — tells the kernel of names that mean something else now, from a process of its own. The
 * kernel takes the lock of the directory for that, which a look-up there holds until it is
 * answered, and no signal ends the wait: a thread of the serving process would keep it from ending
 * when it is killed, and nobody would ever answer. The helper needs nothing but /dev/fuse; it ends
 * when its pipe does, and is started again if it was killed. What the kernel makes of a message is
 * nobody's concern: it may not know the name, or be gone. Threads: any. Locks: inval.mu, a leaf. */
#ifndef MILLRACE_FUSE_SESSION_INVALIDATE_H
#define MILLRACE_FUSE_SESSION_INVALIDATE_H

#include "lib/base/err.h"

#include <stdint.h>

struct inval; /* opaque */

/* from here on it keeps what is added, as far as there is room */
struct inval *inval_new(struct err *e);
/* once there is whom to tell; fuse_fd is borrowed until inval_stop */
int inval_start(struct inval *v, int fuse_fd, struct err *e);
void inval_stop(struct inval *v); /* and frees it; waits for nobody; NULL is fine */
/* A tree's `changed`: that name in that directory; "" is all that was read of the directory. Never
 * blocks: what finds no room (some thousand names ahead of it) is dropped, and comes in with the
 * kernel's timeouts. */
void inval_add(void *inval, uint64_t dir, const char *name);

#endif
