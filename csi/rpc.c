/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/rpc.h"

#include "csi/listen.h"
#include "csi/pbcheck.h"
#include "csi/rpc_status.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"

#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Completion tags: pointers to one of these, embedded in the call or the server. */
enum tag_kind { TAG_NEW, TAG_RECEIVED, TAG_CLOSED, TAG_STREAMED, TAG_SENT, TAG_SHUTDOWN };
struct tag {
    enum tag_kind kind;
    void *owner;
};

struct chunk {
    struct chunk *next;
    max_align_t bytes[];
};

struct rpc_call {
    struct rpc_server *server;
    struct tag t_new, t_received, t_closed, t_streamed, t_sent;
    atomic_int refs; /* completions to come, and the handler */
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *in, *out;
    int closed_by_peer; /* written by core before TAG_CLOSED */
    atomic_bool cancelled;
    const struct rpc_method *method;
    int64_t started_ns, deadline_ns;
    bool streams;              /* of the handler: a message has left before the end */
    bool streaming, stream_ok; /* server->mu: a message is on its way; how that ended */
    grpc_slice status_text;    /* must live until TAG_SENT */
    struct chunk *memory;
};

struct rpc_server {
    grpc_server *server;
    grpc_completion_queue *cq;
    grpc_server_credentials *credentials;
    struct listener *listener;
    struct rpc_method *methods; /* sorted by path */
    size_t nmethods;
    void *user;
    struct tag t_shutdown;
    atomic_bool stopping;
    atomic_uint live;   /* calls not yet freed */
    pthread_mutex_t mu; /* a leaf */
    pthread_cond_t changed;
    bool drained;             /* mu: nothing runs */
    struct pool *workers;     /* NULL: ended */
    atomic_uint waiting;      /* requests that no worker has taken */
    _Atomic int64_t taken_ns; /* when the last one was, or the first of those that wait came */
};

void *rpc_user(struct rpc_call *call) { return call->server->user; }

void *rpc_alloc(struct rpc_call *call, size_t n)
{
    struct chunk *c = xcalloc(1, sizeof *c + n + 1);
    c->next = call->memory;
    call->memory = c;
    return c->bytes;
}

char *rpc_strdup(struct rpc_call *call, const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(rpc_alloc(call, n), s, n);
}

bool rpc_cancelled(const struct rpc_call *call) { return atomic_load(&call->cancelled); }

bool rpc_stopping(const struct rpc_call *c) { return atomic_load(&c->server->stopping); }

int64_t rpc_deadline_ns(const struct rpc_call *call) { return call->deadline_ns; }

static void *arena_alloc(void *call, size_t n) { return rpc_alloc(call, n); }

static void arena_free(void *call, void *p) { (void)call, (void)p; }

static void call_unref(struct rpc_call *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    struct rpc_server *s = c->server;
    if (c->in)
        grpc_byte_buffer_destroy(c->in);
    if (c->out)
        grpc_byte_buffer_destroy(c->out);
    grpc_slice_unref(c->status_text);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_call_details_destroy(&c->details);
    if (c->call)
        grpc_call_unref(c->call);
    for (struct chunk *m = c->memory, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(c);
    atomic_fetch_sub(&s->live, 1);
}

static void request_next(struct rpc_server *s)
{
    struct rpc_call *c = xcalloc(1, sizeof *c);
    c->server = s;
    c->t_new = (struct tag){TAG_NEW, c};
    c->t_received = (struct tag){TAG_RECEIVED, c};
    c->t_closed = (struct tag){TAG_CLOSED, c};
    c->t_streamed = (struct tag){TAG_STREAMED, c};
    c->t_sent = (struct tag){TAG_SENT, c};
    atomic_init(&c->refs, 1);
    atomic_init(&c->cancelled, false);
    c->status_text = grpc_empty_slice();
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    atomic_fetch_add(&s->live, 1);
    if (grpc_server_request_call(
            s->server, &c->call, &c->details, &c->metadata, s->cq, s->cq, &c->t_new)
        != GRPC_CALL_OK)
        call_unref(c); /* shut down: no tag will come */
}

static void answer(struct rpc_call *c, grpc_status_code code, const char *text)
{
    grpc_op op[3];
    memset(op, 0, sizeof op);
    size_t n = 0;
    if (!c->streams)
        op[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (code == GRPC_STATUS_OK && !c->streams) {
        op[n].op = GRPC_OP_SEND_MESSAGE;
        op[n++].data.send_message.send_message = c->out;
    }
    op[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op[n].data.send_status_from_server.status = code;
    if (text && *text) {
        c->status_text = grpc_slice_from_copied_string(text);
        op[n].data.send_status_from_server.status_details = &c->status_text;
    }
    n++;
    atomic_fetch_add(&c->refs, 1);
    grpc_call_error e = grpc_call_start_batch(c->call, op, n, &c->t_sent, NULL);
    if (e != GRPC_CALL_OK) {
        log_error("answer to an RPC refused by gRPC: %s", grpc_call_error_to_string(e));
        call_unref(c);
    }
}

static grpc_byte_buffer *pack_message(const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    grpc_slice packed = grpc_slice_malloc(n);
    if (protobuf_c_message_pack(m, GRPC_SLICE_START_PTR(packed)) != n)
        abort();
    grpc_byte_buffer *out = grpc_raw_byte_buffer_create(&packed, 1);
    grpc_slice_unref(packed);
    return out;
}

int rpc_send(struct rpc_call *c, const ProtobufCMessage *m, struct err *e)
{
    struct rpc_server *s = c->server;
    grpc_op op[2];
    memset(op, 0, sizeof op);
    size_t n = 0;
    if (!c->streams)
        op[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    grpc_byte_buffer *packed = pack_message(m);
    op[n].op = GRPC_OP_SEND_MESSAGE;
    op[n++].data.send_message.send_message = packed;
    c->streams = true;
    atomic_fetch_add(&c->refs, 1);
    pthread_mutex_lock(&s->mu);
    c->streaming = true;
    c->stream_ok = false;
    pthread_mutex_unlock(&s->mu);
    grpc_call_error refused = grpc_call_start_batch(c->call, op, n, &c->t_streamed, NULL);
    if (refused != GRPC_CALL_OK)
        call_unref(c);
    pthread_mutex_lock(&s->mu);
    while (c->streaming && refused == GRPC_CALL_OK)
        pthread_cond_wait(&s->changed, &s->mu);
    bool ok = c->stream_ok;
    pthread_mutex_unlock(&s->mu);
    grpc_byte_buffer_destroy(packed);
    return ok ? 0 : err_set(e, ERR_RETRY, "the caller does not listen any more");
}

static void on_streamed(struct rpc_call *c, bool ok)
{
    struct rpc_server *s = c->server;
    pthread_mutex_lock(&s->mu);
    c->streaming = false;
    c->stream_ok = ok;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
    call_unref(c);
}

/* Runs the handler and leaves the packed response in c->out. */
static int handle(struct rpc_call *c, struct err *e)
{
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, c->in))
        return err_set(e, ERR_FATAL, "the request cannot be read");
    grpc_slice flat = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    ProtobufCAllocator arena = {arena_alloc, arena_free, c};
    ProtobufCMessage *req = NULL;
    int rc = pbcheck(c->method->in, GRPC_SLICE_START_PTR(flat), GRPC_SLICE_LENGTH(flat), e);
    if (rc == 0) {
        req = protobuf_c_message_unpack(
            c->method->in, &arena, GRPC_SLICE_LENGTH(flat), GRPC_SLICE_START_PTR(flat));
        if (!req)
            rc = err_set(e, ERR_INVALID, "the request is not a %s", c->method->in->name);
    }
    grpc_slice_unref(flat);
    if (rc)
        return rc;
    ProtobufCMessage *resp = rpc_alloc(c, c->method->out->sizeof_message);
    protobuf_c_message_init(c->method->out, resp);
    if (c->method->handler(c, req, resp, e))
        return -1;
    c->out = pack_message(resp);
    return 0;
}

/* Takes the handler's reference. */
static void serve_call(struct rpc_call *c)
{
    struct err e = ERR_INIT;
    grpc_status_code code = handle(c, &e) == 0 ? GRPC_STATUS_OK : rpc_status_of(&e);
    log_redact_text(e.msg);
    rpc_account(c->method->path, c->started_ns, c->method->fast, code, &e);
    answer(c, code, e.msg);
    call_unref(c);
}

static void work(void *call)
{
    struct rpc_call *c = call;
    atomic_store(&c->server->taken_ns, clock_mono_ns());
    atomic_fetch_sub(&c->server->waiting, 1);
    serve_call(c);
}

int64_t rpc_stuck_ns(const struct rpc_server *s)
{
    int64_t taken = atomic_load(&s->taken_ns);
    return atomic_load(&s->waiting) ? clock_mono_ns() - taken : 0;
}

static int compare_slice(const void *key, const void *element)
{
    const grpc_slice *slice = key;
    const struct rpc_method *m = element;
    size_t len = strlen(m->path), slice_len = GRPC_SLICE_LENGTH(*slice);
    int r = memcmp(GRPC_SLICE_START_PTR(*slice), m->path, MIN(len, slice_len));
    return r ? r : (slice_len > len) - (slice_len < len);
}

static int compare_methods(const void *a, const void *b)
{
    return strcmp(((const struct rpc_method *)a)->path, ((const struct rpc_method *)b)->path);
}

static void on_new(struct rpc_call *c, bool ok)
{
    struct rpc_server *s = c->server;
    if (!ok) { /* shutting down */
        call_unref(c);
        return;
    }
    request_next(s);
    c->started_ns = clock_mono_ns();
    gpr_timespec left = gpr_time_sub(c->details.deadline, gpr_now(c->details.deadline.clock_type));
    bool endless = gpr_time_cmp(c->details.deadline, gpr_inf_future(c->details.deadline.clock_type))
        == 0;
    c->deadline_ns = endless ? INT64_MAX : c->started_ns + left.tv_sec * NS_PER_S + left.tv_nsec;
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
        .data.recv_close_on_server.cancelled = &c->closed_by_peer};
    atomic_fetch_add(&c->refs, 1);
    if (grpc_call_start_batch(c->call, &close, 1, &c->t_closed, NULL) != GRPC_CALL_OK)
        abort();
    c->method = bsearch(
        &c->details.method, s->methods, s->nmethods, sizeof *s->methods, compare_slice);
    if (!c->method) {
        cleanup_free char *text = xasprintf("this driver has no method %.*s",
            (int)MIN(GRPC_SLICE_LENGTH(c->details.method), 200u),
            (const char *)GRPC_SLICE_START_PTR(c->details.method));
        answer(c, GRPC_STATUS_UNIMPLEMENTED, text);
        call_unref(c);
        return;
    }
    grpc_op receive = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->in};
    if (grpc_call_start_batch(c->call, &receive, 1, &c->t_received, NULL) != GRPC_CALL_OK)
        abort();
}

static void on_received(struct rpc_call *c, bool ok)
{
    struct rpc_server *s = c->server;
    if (!ok || !c->in) {
        answer(c, GRPC_STATUS_INVALID_ARGUMENT, "the call brought no request message");
        call_unref(c);
        return;
    }
    if (c->method->fast) {
        serve_call(c);
        return;
    }
    if (atomic_fetch_add(&s->waiting, 1) == 0)
        atomic_store(&s->taken_ns, clock_mono_ns());
    if (pool_add(s->workers, 0, work, c)) { /* no memory, or no thread */
        atomic_fetch_sub(&s->waiting, 1);
        answer(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "no thread could be started for the request");
        call_unref(c);
    }
}

static void end_workers(struct rpc_server *s)
{
    pool_free(s->workers);
    s->workers = NULL;
}

static void accepted(void *user, int fd)
{
    struct rpc_server *s = user;
    grpc_server_add_channel_from_fd(s->server, fd, s->credentials);
}

struct rpc_server *rpc_new(const struct rpc_conf *conf, struct err *e)
{
    struct listener *listener = listener_new(conf->sockets, conf->nsockets, e);
    if (!listener)
        return NULL;
    struct rpc_server *s = xcalloc(1, sizeof *s);
    s->listener = listener;
    s->methods = xcalloc(conf->nmethods, sizeof *s->methods);
    memcpy(s->methods, conf->methods, conf->nmethods * sizeof *s->methods);
    s->nmethods = conf->nmethods;
    qsort(s->methods, s->nmethods, sizeof *s->methods, compare_methods);
    s->user = conf->user;
    s->t_shutdown = (struct tag){TAG_SHUTDOWN, s};
    pthread_mutex_init(&s->mu, NULL);
    clock_cond_init(&s->changed);
    grpc_init();
    s->cq = grpc_completion_queue_create_for_next(NULL);
    /* With the defaults a Go client that pings every 10 s is sent away for too many pings. */
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER,
            .key = (char *)GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
            .value.integer = 1000},
        {.type = GRPC_ARG_INTEGER,
            .key = (char *)GRPC_ARG_HTTP2_MAX_PING_STRIKES,
            .value.integer = 0},
        {.type = GRPC_ARG_INTEGER,
            .key = (char *)GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS,
            .value.integer = 1},
    };
    grpc_channel_args channel_args = {ARRAY_LEN(args), args};
    s->server = grpc_server_create(&channel_args, NULL);
    s->credentials = grpc_insecure_server_credentials_create();
    grpc_server_register_completion_queue(s->server, s->cq, NULL);
    grpc_server_start(s->server);
    s->workers = pool_new(&(struct pool_conf){.name = "rpc", .threads = conf->workers});
    if (!s->workers)
        abort();
    return s;
}

void rpc_run(struct rpc_server *s)
{
    request_next(s);
    listener_start(s->listener, accepted, s);
    for (;;) {
        grpc_event event = grpc_completion_queue_next(
            s->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            break;
        if (event.type != GRPC_OP_COMPLETE)
            continue;
        struct tag *t = event.tag;
        struct rpc_call *c = t->owner;
        switch (t->kind) {
        case TAG_NEW:
            on_new(c, event.success);
            break;
        case TAG_RECEIVED:
            on_received(c, event.success);
            break;
        case TAG_CLOSED:
            if (c->closed_by_peer)
                atomic_store(&c->cancelled, true);
            call_unref(c);
            break;
        case TAG_STREAMED:
            on_streamed(c, event.success);
            break;
        case TAG_SENT:
            call_unref(c);
            break;
        case TAG_SHUTDOWN: /* every call has ended */
            end_workers(s);
            grpc_completion_queue_shutdown(s->cq);
            break;
        }
    }
    pthread_mutex_lock(&s->mu);
    s->drained = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
}

static bool wait_drained(struct rpc_server *s, int64_t ns)
{
    int64_t until = clock_mono_ns() + ns;
    int rc = 0;
    pthread_mutex_lock(&s->mu);
    while (!s->drained && rc == 0)
        rc = clock_cond_wait(&s->changed, &s->mu, until);
    bool done = s->drained;
    pthread_mutex_unlock(&s->mu);
    return done;
}

void rpc_stop(struct rpc_server *s, int64_t grace_ns, int64_t hard_ns)
{
    if (atomic_exchange(&s->stopping, true))
        return;
    listener_stop(s->listener);
    grpc_server_shutdown_and_notify(s->server, s->cq, &s->t_shutdown);
    if (wait_drained(s, grace_ns))
        return;
    log_warn("RPCs still run after the grace period: cancelling them");
    grpc_server_cancel_all_calls(s->server);
    if (wait_drained(s, hard_ns))
        return;
    log_error("an RPC does not end although it was cancelled: exiting without it");
    _exit(3);
}

void rpc_free(struct rpc_server *s)
{
    if (!s)
        return;
    if (!atomic_load(&s->stopping)) { /* never ran */
        end_workers(s);
        grpc_server_shutdown_and_notify(s->server, s->cq, &s->t_shutdown);
        grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        grpc_completion_queue_shutdown(s->cq);
        while (grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type
            != GRPC_QUEUE_SHUTDOWN) {
        }
    }
    grpc_server_destroy(s->server);
    grpc_server_credentials_release(s->credentials);
    grpc_completion_queue_destroy(s->cq);
    listener_free(s->listener);
    grpc_shutdown_blocking();
    if (atomic_load(&s->live))
        log_error("%u RPCs were never freed", atomic_load(&s->live));
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->changed);
    free(s->methods);
    free(s);
}
