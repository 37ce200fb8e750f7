/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/grpc_client.h"

#include "lib/base/mem.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct grpc_client {
    grpc_channel *channel;
    grpc_completion_queue *cq;
};

struct grpc_client *grpc_client_new(const char *socket_path)
{
    struct grpc_client *c = xcalloc(1, sizeof *c);
    cleanup_free char *target = xasprintf("unix:%s", socket_path);
    grpc_init();
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_arg quick = {.type = GRPC_ARG_INTEGER,
        .key = (char *)"grpc.max_reconnect_backoff_ms",
        .value.integer = 100};
    grpc_channel_args args = {1, &quick};
    c->channel = grpc_channel_create(target, creds, &args);
    c->cq = grpc_completion_queue_create_for_next(NULL);
    grpc_channel_credentials_release(creds);
    return c;
}

void grpc_client_free(struct grpc_client *c)
{
    grpc_channel_destroy(c->channel);
    grpc_completion_queue_shutdown(c->cq);
    while (grpc_completion_queue_next(c->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type
        != GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(c->cq);
    grpc_shutdown();
    free(c);
}

static ProtobufCMessage *unpack(grpc_byte_buffer *in, const ProtobufCMessageDescriptor *out)
{
    grpc_byte_buffer_reader reader;
    if (!in || !grpc_byte_buffer_reader_init(&reader, in))
        return NULL;
    grpc_slice flat = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    ProtobufCMessage *m = protobuf_c_message_unpack(
        out, NULL, GRPC_SLICE_LENGTH(flat), GRPC_SLICE_START_PTR(flat));
    grpc_slice_unref(flat);
    return m;
}

int grpc_client_raw(struct grpc_client *c, const char *path, const void *data, size_t len,
    const ProtobufCMessageDescriptor *out, ProtobufCMessage **answer, int timeout_ms, char *text)
{
    gpr_timespec deadline = gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->cq,
        grpc_slice_from_static_string(path), NULL, deadline, NULL);
    grpc_slice slice = grpc_slice_from_copied_buffer(data, len);
    grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&slice, 1), *response = NULL;
    grpc_metadata_array initial, trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_status_code status = GRPC_STATUS_UNKNOWN;
    grpc_slice details = grpc_empty_slice();
    grpc_op op[6];
    memset(op, 0, sizeof op);
    op[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    op[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    op[1].op = GRPC_OP_SEND_MESSAGE;
    op[1].data.send_message.send_message = request;
    op[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    op[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    op[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
    op[4].op = GRPC_OP_RECV_MESSAGE;
    op[4].data.recv_message.recv_message = &response;
    op[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op[5].data.recv_status_on_client.trailing_metadata = &trailing;
    op[5].data.recv_status_on_client.status = &status;
    op[5].data.recv_status_on_client.status_details = &details;
    if (grpc_call_start_batch(call, op, 6, op, NULL) != GRPC_CALL_OK)
        abort();
    grpc_completion_queue_next(c->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    snprintf(text, 512, "%.*s", (int)GRPC_SLICE_LENGTH(details),
        (const char *)GRPC_SLICE_START_PTR(details));
    *answer = status == GRPC_STATUS_OK ? unpack(response, out) : NULL;
    grpc_slice_unref(details);
    grpc_slice_unref(slice);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_byte_buffer_destroy(request);
    if (response)
        grpc_byte_buffer_destroy(response);
    grpc_call_unref(call);
    return (int)status;
}

int grpc_client_call(struct grpc_client *c, const char *path, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out, ProtobufCMessage **answer, int timeout_ms, char *text)
{
    size_t len = protobuf_c_message_get_packed_size(req);
    cleanup_free uint8_t *data = xmalloc(len + 1);
    protobuf_c_message_pack(req, data);
    return grpc_client_raw(c, path, data, len, out, answer, timeout_ms, text);
}

struct grpc_stream {
    grpc_call *call;
    grpc_completion_queue *cq;
    grpc_byte_buffer *request, *response;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    bool ended; /* the status is here */
};

/* Until the batch with this tag is through: the status may come before it. */
static void await(struct grpc_stream *s, const void *tag)
{
    for (;;) {
        grpc_event event = grpc_completion_queue_next(
            s->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.tag == &s->status)
            s->ended = true;
        if (event.tag == tag)
            return;
    }
}

struct grpc_stream *grpc_stream_open(
    struct grpc_client *c, const char *path, const ProtobufCMessage *req)
{
    struct grpc_stream *s = xcalloc(1, sizeof *s);
    s->cq = c->cq;
    s->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->cq,
        grpc_slice_from_static_string(path), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_slice packed = grpc_slice_malloc(protobuf_c_message_get_packed_size(req));
    protobuf_c_message_pack(req, GRPC_SLICE_START_PTR(packed));
    s->request = grpc_raw_byte_buffer_create(&packed, 1);
    grpc_slice_unref(packed);
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    s->details = grpc_empty_slice();
    grpc_op op[4];
    memset(op, 0, sizeof op);
    op[0].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op[0].data.recv_status_on_client.trailing_metadata = &s->trailing;
    op[0].data.recv_status_on_client.status = &s->status;
    op[0].data.recv_status_on_client.status_details = &s->details;
    if (grpc_call_start_batch(s->call, op, 1, &s->status, NULL) != GRPC_CALL_OK)
        abort();
    memset(op, 0, sizeof op);
    op[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    op[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    op[1].op = GRPC_OP_SEND_MESSAGE;
    op[1].data.send_message.send_message = s->request;
    op[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    op[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    op[3].data.recv_initial_metadata.recv_initial_metadata = &s->initial;
    if (grpc_call_start_batch(s->call, op, 4, s, NULL) != GRPC_CALL_OK)
        abort();
    await(s, s);
    return s;
}

ProtobufCMessage *grpc_stream_next(struct grpc_stream *s, const ProtobufCMessageDescriptor *out)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->response};
    if (grpc_call_start_batch(s->call, &op, 1, &s->response, NULL) != GRPC_CALL_OK)
        abort();
    await(s, &s->response);
    ProtobufCMessage *m = unpack(s->response, out);
    if (s->response)
        grpc_byte_buffer_destroy(s->response);
    s->response = NULL;
    return m;
}

int grpc_stream_close(struct grpc_stream *s)
{
    if (!s->ended) {
        grpc_call_cancel(s->call, NULL);
        await(s, &s->status);
    }
    int status = (int)s->status;
    grpc_slice_unref(s->details);
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_byte_buffer_destroy(s->request);
    grpc_call_unref(s->call);
    free(s);
    return status;
}
