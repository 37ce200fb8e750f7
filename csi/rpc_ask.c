/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/rpc_ask.h"

#include "csi/pbcheck.h"
#include "lib/base/mem.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX (16 << 20)

struct question {
    grpc_channel *channel;
    grpc_completion_queue *cq;
    grpc_byte_buffer *request, *response;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
};

static void question_open(struct question *q, const char *socket, const ProtobufCMessage *req)
{
    cleanup_free char *target = xasprintf("unix:%s", socket);
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    /* A pool of its own: a refusal of a moment ago is no reason to wait now. */
    grpc_arg args[] = {{.type = GRPC_ARG_INTEGER,
                           .key = (char *)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                           .value.integer = 1},
        {.type = GRPC_ARG_INTEGER,
            .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
            .value.integer = ANSWER_MAX}};
    q->channel = grpc_channel_create(target, creds, &(grpc_channel_args){ARRAY_LEN(args), args});
    grpc_channel_credentials_release(creds);
    q->cq = grpc_completion_queue_create_for_next(NULL);
    grpc_slice packed = grpc_slice_malloc(protobuf_c_message_get_packed_size(req));
    protobuf_c_message_pack(req, GRPC_SLICE_START_PTR(packed));
    q->request = grpc_raw_byte_buffer_create(&packed, 1);
    grpc_slice_unref(packed);
    grpc_metadata_array_init(&q->initial);
    grpc_metadata_array_init(&q->trailing);
    q->details = grpc_empty_slice();
    q->status = GRPC_STATUS_UNKNOWN;
}

static void question_close(struct question *q)
{
    grpc_byte_buffer_destroy(q->request);
    if (q->response)
        grpc_byte_buffer_destroy(q->response);
    grpc_metadata_array_destroy(&q->initial);
    grpc_metadata_array_destroy(&q->trailing);
    grpc_slice_unref(q->details);
    grpc_channel_destroy(q->channel);
    grpc_completion_queue_shutdown(q->cq);
    while (grpc_completion_queue_next(q->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type
        != GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(q->cq);
}

static void question_call(struct question *q, const char *path, int64_t timeout_ns)
{
    gpr_timespec deadline = gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(q->channel, NULL, GRPC_PROPAGATE_DEFAULTS, q->cq,
        grpc_slice_from_static_string(path), NULL, deadline, NULL);
    grpc_op op[6];
    memset(op, 0, sizeof op);
    op[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    op[1].op = GRPC_OP_SEND_MESSAGE;
    op[1].data.send_message.send_message = q->request;
    op[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    op[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    op[3].data.recv_initial_metadata.recv_initial_metadata = &q->initial;
    op[4].op = GRPC_OP_RECV_MESSAGE;
    op[4].data.recv_message.recv_message = &q->response;
    op[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op[5].data.recv_status_on_client.trailing_metadata = &q->trailing;
    op[5].data.recv_status_on_client.status = &q->status;
    op[5].data.recv_status_on_client.status_details = &q->details;
    if (grpc_call_start_batch(call, op, ARRAY_LEN(op), op, NULL) != GRPC_CALL_OK)
        abort();
    grpc_completion_queue_next(q->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_call_unref(call);
}

static int question_answer(const struct question *q, const ProtobufCMessageDescriptor *out,
    ProtobufCMessage **answer, struct err *e)
{
    grpc_byte_buffer_reader reader;
    if (!q->response || !grpc_byte_buffer_reader_init(&reader, q->response))
        return err_set(e, ERR_INVALID, "the answer holds no message");
    grpc_slice flat = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    const uint8_t *bytes = GRPC_SLICE_START_PTR(flat);
    size_t n = GRPC_SLICE_LENGTH(flat);
    int rc = pbcheck(out, bytes, n, e);
    if (rc == 0 && !(*answer = protobuf_c_message_unpack(out, NULL, n, bytes)))
        rc = err_set(e, ERR_INVALID, "the answer is not a %s", out->name);
    grpc_slice_unref(flat);
    return rc;
}

int rpc_ask(const char *socket, const char *path, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out, int64_t timeout_ns, ProtobufCMessage **answer,
    struct err *e)
{
    struct question q = {.status = GRPC_STATUS_UNKNOWN};
    int rc;
    grpc_init();
    question_open(&q, socket, req);
    question_call(&q, path, timeout_ns);
    if (q.status == GRPC_STATUS_OK) {
        rc = question_answer(&q, out, answer, e);
    } else {
        bool later = q.status == GRPC_STATUS_UNAVAILABLE || q.status == GRPC_STATUS_CANCELLED
            || q.status == GRPC_STATUS_DEADLINE_EXCEEDED;
        rc = err_set(e, later ? ERR_RETRY : ERR_INVALID, "%.*s",
            (int)MIN(GRPC_SLICE_LENGTH(q.details), 300u),
            (const char *)GRPC_SLICE_START_PTR(q.details));
    }
    question_close(&q);
    grpc_shutdown();
    return rc ? err_wrap(e, "%s at %s", path, socket) : 0;
}
