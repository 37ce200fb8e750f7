/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_ask — one unary call at a gRPC server on a unix socket. Blocks; threads: any. */
#ifndef MILLRACE_CSI_RPC_ASK_H
#define MILLRACE_CSI_RPC_ASK_H

#include "lib/base/err.h"

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

/* *answer: protobuf_c_message_free_unpacked(). RETRY: nobody answers there, or not in time; INVALID
 * has the words of the refusal, or what is wrong with the answer, of which 16 MiB are read at most.
 */
int rpc_ask(const char *socket, const char *path, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out, int64_t timeout_ns, ProtobufCMessage **answer,
    struct err *e);

#endif
