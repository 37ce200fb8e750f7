/* SPDX-License-Identifier: Apache-2.0 */
/* rpc — a gRPC server on unix sockets; it, rpc_ask and rpc_status alone know gRPC. Methods in a
 * table; a handler gets an unpacked request and fills a response, or fails with a struct err, which
 * one table maps to a gRPC status; one that streams sends its messages and returns at the end.
 * Threads: rpc_run() is the poller and runs `fast` methods itself; all others run on a pool.
 * rpc_stop() from any thread. */
#ifndef MILLRACE_CSI_RPC_H
#define MILLRACE_CSI_RPC_H

#include "lib/base/err.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call; /* opaque; lives as long as its handler runs */

/* resp is initialised; what it points to comes from rpc_alloc() or is static. Returns 0, or -1 with
 * *e filled. */
typedef int (*rpc_handler)(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e);

struct rpc_method {
    const char *path; /* "/csi.v1.Node/NodeGetInfo" */
    const ProtobufCMessageDescriptor *in, *out;
    rpc_handler handler;
    bool fast; /* never blocks: runs on the poller */
};

void *rpc_user(struct rpc_call *call);
void *rpc_alloc(struct rpc_call *call, size_t n); /* zeroed; freed after the answer has been sent */
char *rpc_strdup(struct rpc_call *call, const char *s);
/* Of a method that streams, in its handler, which is not fast: sends one message and waits until it
 * has left. -1, RETRY: the caller is gone, or the server stops. What the handler fills in at its
 * end is not sent then. */
int rpc_send(struct rpc_call *call, const ProtobufCMessage *m, struct err *e);
/* caller gone, deadline passed, or the server stops */
bool rpc_cancelled(const struct rpc_call *call);
bool rpc_stopping(const struct rpc_call *call); /* the server is to end: so should a stream */
/* CLOCK_MONOTONIC; INT64_MAX if there is none */
int64_t rpc_deadline_ns(const struct rpc_call *call);

struct rpc_conf {
    const char *const *sockets; /* paths; an old socket there is replaced; mode 0600 */
    size_t nsockets;
    const struct rpc_method *methods; /* copied */
    size_t nmethods;
    unsigned workers;
    void *user;
};

struct rpc_server; /* opaque */
/* sockets listen; nothing is answered before rpc_run */
struct rpc_server *rpc_new(const struct rpc_conf *conf, struct err *e);
/* returns when rpc_stop() has drained everything */
void rpc_run(struct rpc_server *s);
/* No new calls; those that run have grace_ns, then are cancelled, and after hard_ns more the
 * process exits with status 3. */
void rpc_stop(struct rpc_server *s, int64_t grace_ns, int64_t hard_ns);
/* For how long requests have waited while no worker took one; 0: none waits. Any thread. */
int64_t rpc_stuck_ns(const struct rpc_server *s);
void rpc_free(struct rpc_server *s); /* removes the sockets if they are still ours */

#endif
