/* SPDX-License-Identifier: Apache-2.0 */
/* session — the FUSE connection: libfuse's low-level session over an fd that another process
 * opened and mounted, so that it can be taken over from a process that died. What libfuse 3.14 does
 * not know is added to its replies on their way to the kernel: parallel lookups, passthrough,
 * resending; each only if the kernel offered it. */
#ifndef MILLRACE_FUSE_SESSION_SESSION_H
#define MILLRACE_FUSE_SESSION_SESSION_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuse_lowlevel_ops;
struct session_offer;
struct session; /* opaque */

struct session_conf {
    int fd; /* /dev/fuse; borrowed */
    /* the kernel's INIT request, if an earlier process answered it already */
    const void *init;
    size_t init_len; /* 0: it is still to come */
    /* for passthrough: 1, or 2 if the cache is on an overlay; 0: no passthrough */
    unsigned stack_depth;
    unsigned threads;          /* at most; 0: 64 */
    bool writes;               /* files may be written to: there is memory for it beforehand */
    int64_t stuck_ns;          /* requests.h; 0: never */
    void (*stuck)(void *user); /* a request was ended after it */
    /* called once, before it is answered */
    void (*save_init)(void *user, const void *init, size_t len);
    /* INIT is answered, or was before; what the kernel offered in it */
    void (*serving)(void *user, const struct session_offer *offer);
    /* no caller waits for an answer any more; perhaps called again */
    void (*unmounted)(void *user);
    void *user;
};
/* One a process. fs: what the operations get as fuse_req_userdata(). */
struct session *session_new(
    const struct session_conf *conf, const struct fuse_lowlevel_ops *ops, void *fs, struct err *e);
int session_run(struct session *s, struct err *e); /* 0: unmounted, or told to end */
/* ends session_run(); async-signal-safe when the signal interrupts the main thread */
void session_exit(struct session *s);
bool session_unmounted(const struct session *s);
/* Is there a thread for the next request, or has one taken a request since the last call with the
 * same *seen? That is one caller's, 0 at first. */
bool session_serves(struct session *s, uint64_t *seen);
void session_free(struct session *s);

/* The OPEN that this thread answers next is passed through to the backing file with this id. */
void session_pass_through(int32_t backing_id);
/* the request this thread works on may have been done already by a process that was killed */
bool session_resent(void);
uint64_t session_request(void); /* its number, the same when it is sent again */
/* Tells the kernel that it must read that directory again; waits for nothing. */
void session_invalidate_dir(struct session *s, uint64_t dir);
/* By our own right (CAP_SYS_ADMIN). */
int session_backing_open(struct session *s, int fd, int32_t *id, struct err *e);
void session_backing_close(struct session *s, int32_t id);

#endif
