/* SPDX-License-Identifier: Apache-2.0 */
/* listen — unix stream sockets that accept for another module, in one thread. Only root and our own
 * user are let in. A socket file that disappears (a person or a script cleaned up) is made again
 * within seconds: kubelet then finds the plugin again. */
#ifndef MILLRACE_CSI_LISTEN_H
#define MILLRACE_CSI_LISTEN_H

#include "lib/base/clock.h"
#include "lib/base/err.h"

#include <stddef.h>

/* How long whoever accepts waits after a failure, of which most are that no descriptor is left. */
#define LISTEN_AGAIN_NS (50 * NS_PER_MS)

struct listener; /* opaque */
/* accepted() owns the fd (non-blocking, CLOEXEC) and is called on the listener's thread, which
 * starts with listener_start(). */
struct listener *listener_new(const char *const *paths, size_t n, struct err *e);
void listener_start(struct listener *l, void (*accepted)(void *user, int fd), void *user);
/* no call of accepted() after it; removes the socket files if they are still ours */
void listener_stop(struct listener *l);
/* after listener_stop(), or if it never started; NULL is fine */
void listener_free(struct listener *l);

#endif
