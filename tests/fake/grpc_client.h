/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_client — calls from a test, on gRPC core. */
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

/* A call that is answered by many messages. One of a client's at a time, and no other call with it.
 */
struct grpc_stream; /* opaque */
struct grpc_stream *grpc_stream_open(
    struct grpc_client *c, const char *path, const ProtobufCMessage *req);
/* The next message, or NULL at the stream's end: protobuf_c_message_free_unpacked(). Waits for it.
 */
ProtobufCMessage *grpc_stream_next(struct grpc_stream *s, const ProtobufCMessageDescriptor *out);
int grpc_stream_close(struct grpc_stream *s); /* hangs up, if it goes on; its gRPC status */

#endif
