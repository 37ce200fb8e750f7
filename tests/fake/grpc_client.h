/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_client — unary calls from a test, on gRPC core. */
#ifndef MILLRACE_TESTS_FAKE_GRPC_CLIENT_H
#define MILLRACE_TESTS_FAKE_GRPC_CLIENT_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct grpc_client; /* opaque: one connection; not for two threads at once */
struct grpc_client *grpc_client_new(const char *socket_path);
void grpc_client_free(struct grpc_client *c);

/* The gRPC status; text (512 bytes) gets its message. On 0 *answer is unpacked:
 * protobuf_c_message_free_unpacked(). */
int grpc_client_call(struct grpc_client *c, const char *path, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out, ProtobufCMessage **answer, int timeout_ms, char *text);
int grpc_client_raw(struct grpc_client *c, const char *path, const void *data, size_t len,
    const ProtobufCMessageDescriptor *out, ProtobufCMessage **answer, int timeout_ms, char *text);

#endif
