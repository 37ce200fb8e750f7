/* SPDX-License-Identifier: Apache-2.0 */
/* keeper — the client's end of the socket to whoever owns the mount (lib/keep/wire.h). A thread of
 * its own receives; when the keeper goes away while a mount is served, it connects again and hands
 * the fd back. Threads: any. Locks: keeper.mu, a leaf; keeper.ask held across one question. */
#ifndef MILLRACE_FUSE_SESSION_HANDOFF_H
#define MILLRACE_FUSE_SESSION_HANDOFF_H

#include "lib/base/err.h"
#include "lib/handoff/wire.h"

struct keeper; /* opaque */
struct keeper *keeper_start(const char *path, struct err *e);
/* Waits for a mount. Returns its fd (the keeper's, borrowed) and fills *welcome; -1 if timeout_ns
 * passed or keeper_stop() was called. */
int keeper_wait(struct keeper *k, struct keep_welcome *welcome, int64_t timeout_ns);
/* Is there a mount, and was its INIT answered by a process before this one? Waits a little for the
 * keeper's word. */
bool keeper_peek(struct keeper *k, struct keep_welcome *welcome, int64_t timeout_ns);
/* now, and to every mount that comes, until it is "" again */
void keeper_failed(struct keeper *k, const char *text);
void keeper_init(struct keeper *k, const void *init, size_t len);
void keeper_serving(struct keeper *k);
int keeper_backing_open(void *keeper, int fd, int32_t *id, struct err *e); /* backing_ops */
void keeper_backing_close(void *keeper, int32_t id);
/* Asks who that process is (lib/keep/caller.h); CALLER_UNKNOWN if there is no answer at once. A
 * stall_who. */
void keeper_caller(void *keeper, pid_t pid, char out[CALLER_MAX]);
void keeper_stop(struct keeper *k);

#endif
