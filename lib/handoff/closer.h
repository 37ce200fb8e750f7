/* SPDX-License-Identifier: Apache-2.0 */
/* closer — closes descriptors that a stranger sent. close() may wait as long as the sender likes: a
 * socket that lingers, a file whose FUSE server does not answer. So a thread of its own does it,
 * one at a time, and nobody waits for that thread. Threads: any. */
#ifndef MILLRACE_LIB_HANDOFF_CLOSER_H
#define MILLRACE_LIB_HANDOFF_CLOSER_H

#include <stddef.h>

struct closer; /* opaque */
struct closer *closer_new(void);
void closer_take(struct closer *c, int fd); /* takes the fd, whatever happens; -1 is fine */
size_t closer_pending(struct closer *c);    /* how many are not closed yet */
/* Does not wait: what is pending is closed behind the caller's back. NULL is fine. */
void closer_leave(struct closer *c);

#endif
