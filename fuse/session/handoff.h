/* SPDX-License-Identifier: Apache-2.0 */
/* handoff — the client's end of the socket to the node plugin, which owns the mount
 * (lib/handoff/wire.h). A thread of its own receives; when the plugin goes away while a mount is
 * served, it connects again and hands the fd back. Threads: any. Locks: handoff.mu, a leaf;
 * handoff.ask is held across one question. */
#ifndef MILLRACE_FUSE_SESSION_HANDOFF_H
#define MILLRACE_FUSE_SESSION_HANDOFF_H

#include "lib/base/err.h"
#include "lib/handoff/wire.h"

struct handoff_client; /* opaque */
/* fuse_fd: of the mount that a process before served, whose *w it had, duplicated here; -1: the
 * plugin gives one. Returns once it has connected to a plugin that is there. */
struct handoff_client *handoff_client_start(
    const char *path, int fuse_fd, const struct handoff_welcome *w, struct err *e);
/* Waits for a mount. Returns a copy of its fd, the caller's, and fills *welcome; -1
 * if timeout_ns passed or handoff_client_stop() was called. */
int handoff_client_wait(
    struct handoff_client *h, struct handoff_welcome *welcome, int64_t timeout_ns);
/* Is there a mount, and was its INIT answered by a process before this one? Waits up to
 * timeout_ns for the node plugin's word. */
bool handoff_client_peek(
    struct handoff_client *h, struct handoff_welcome *welcome, int64_t timeout_ns);
/* now, and to every mount that comes, until it is "" again */
void handoff_client_failed(struct handoff_client *h, const char *text);
/* Nor can a later process go on with the mount of now; handoff_client_failed() says why. */
void handoff_client_cannot_resume(struct handoff_client *h);
void handoff_client_init(struct handoff_client *h, const void *init, size_t len);
void handoff_client_serving(struct handoff_client *h);
/* The plugin's pings are answered while serves() says so; NULL: always. Called with handoff.mu. */
void handoff_client_watch(struct handoff_client *h, bool (*serves)(void *user), void *user);
/* Waits for the answer for two seconds at most, and not at all while the plugin does not answer. */
int handoff_client_backing_open(
    void *handoff, int fd, int32_t *id, struct err *e); /* backing_ops */
/* Never waits; while there is no plugin, the next one is told. */
void handoff_client_backing_close(void *handoff, int32_t id);
/* These are all ids that clients of this mount got and have not given back, as often as they got
 * them: a plugin that comes back, and the one of now, close all others. Before any is opened. */
void handoff_client_holds(struct handoff_client *h, const int32_t *ids, size_t n);
/* fn is told, with handoff.mu, when the plugin says that the mount was made again in place of a
 * dead one; at once if it has. */
void handoff_client_on_lost(
    struct handoff_client *h, void (*fn)(void *user, const struct handoff_lost *lost), void *user);
/* Has the mount that handoff_client_wait() gave ended, unmounted or aborted? Then the plugin is not
 * connected to any more: the process shall end, and the next one gets another mount. */
bool handoff_client_ended(struct handoff_client *h);
/* fn is told, once and with handoff.mu, if handoff_client_watch() watches a session after_ns after
 * its mount has ended: its threads hang. */
void handoff_client_on_hung(
    struct handoff_client *h, void (*fn)(void *user), void *user, int64_t after_ns);
/* Asks who that process is (lib/handoff/caller.h); CALLER_UNKNOWN if there is no answer at once. A
 * stall_who. */
void handoff_client_caller(void *handoff, pid_t pid, char out[CALLER_MAX]);
/* Before this process ends while the mount does not: waits until the node plugin surely has the
 * fuse fd, as one that has just started may not have asked for it yet. False: it was not heard of
 * for timeout_ns. Without a mount, or when it has ended, true. */
bool handoff_client_settle(struct handoff_client *h, int64_t timeout_ns);
void handoff_client_stop(struct handoff_client *h);

#endif
