/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC layer, from outside: a client of gRPC core against a server with methods of ours. */
#include "tests/lib/unit.h"

#include "csi/rpc.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/fake/grpc_client.h"
#include "tests/lib/eventually.h"
#include "tests/unit/csi/csi_env.h"

#include "csi/proto/csi.pb-c.h"

#include <errno.h>
#include <grpc/status.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN         csi__node_unpublish_volume_request__descriptor
#define OUT        csi__node_get_info_response__descriptor
#define WORKERS    2
#define PATIENT_MS 60000 /* a machine that stops for seconds is no fault of the server */

struct csi_fixture {
    struct csi_env *env;
    char *sock;
    struct rpc_server *server;
    struct grpc_client *client;
    pthread_t runner;
    atomic_int waiting, cancelled, finished;
    int wait_ms; /* deadline of who waits */
    enum err_class cls;
    int sys;
};

static int echo(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)e;
    ((Csi__NodeGetInfoResponse *)resp)->node_id = rpc_strdup(
        call, ((const Csi__NodeUnpublishVolumeRequest *)req)->volume_id);
    return 0;
}

static int refuse(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)resp;
    const struct csi_fixture *w = rpc_user(call);
    err_set(e, w->cls, "volume x: no");
    e->sys = w->sys;
    return -1;
}

/* Waits until it is cancelled. */
static int wait_cancelled(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)resp;
    struct csi_fixture *w = rpc_user(call);
    atomic_fetch_add(&w->waiting, 1);
    while (!rpc_cancelled(call))
        clock_sleep_ns(5 * NS_PER_MS);
    atomic_fetch_add(&w->cancelled, 1);
    atomic_fetch_sub(&w->waiting, 1);
    return err_set(e, ERR_RETRY, "cancelled");
}

static int deadline_left(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    ((Csi__NodeGetInfoResponse *)resp)->max_volumes_per_node = (rpc_deadline_ns(call)
                                                                   - clock_mono_ns())
        / NS_PER_MS;
    return 0;
}

static int slow(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)resp, (void)e;
    struct csi_fixture *w = rpc_user(call);
    atomic_fetch_add(&w->waiting, 1);
    clock_sleep_ns(500 * NS_PER_MS);
    atomic_fetch_add(&w->finished, 1);
    return 0;
}

/* Sends three messages, then others until its caller has gone or the server stops; or fails. */
static int stream(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct csi_fixture *w = rpc_user(call);
    const char *how = ((const Csi__NodeUnpublishVolumeRequest *)req)->volume_id;
    Csi__NodeGetInfoResponse m = CSI__NODE_GET_INFO_RESPONSE__INIT;
    bool endless = strcmp(how, "endless") == 0;
    atomic_fetch_add(&w->waiting, 1);
    for (m.max_volumes_per_node = 1; m.max_volumes_per_node <= 3 || endless;
         m.max_volumes_per_node++)
        if (rpc_stopping(call) || rpc_send(call, &m.base, e))
            break;
    atomic_fetch_add(&w->finished, 1);
    return strcmp(how, "fails") == 0 ? err_set(e, ERR_EXISTS, "no more") : 0;
}

static void *run(void *arg)
{
    rpc_run(((struct csi_fixture *)arg)->server);
    return NULL;
}

static int setup(void **state)
{
    if (csi_env_setup(state))
        return -1;
    struct csi_fixture *w = xcalloc(1, sizeof *w);
    struct err e = ERR_INIT;
    w->env = *state;
    w->sock = path_join(w->env->dir, "s");
    const char *socks[] = {w->sock};
    const struct rpc_method methods[] = {{"/t/Wait", &IN, &OUT, wait_cancelled, false},
        {"/t/Echo", &IN, &OUT, echo, true}, {"/t/Refuse", &IN, &OUT, refuse, true},
        {"/t/Deadline", &IN, &OUT, deadline_left, false}, {"/t/Slow", &IN, &OUT, slow, false},
        {"/t/Stream", &IN, &OUT, stream, false}};
    struct rpc_conf conf = {.sockets = socks,
        .nsockets = 1,
        .methods = methods,
        .nmethods = ARRAY_LEN(methods),
        .workers = WORKERS,
        .user = w};
    w->server = rpc_new(&conf, &e);
    if (!w->server || pthread_create(&w->runner, NULL, run, w))
        return -1;
    w->client = grpc_client_new(w->sock);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct csi_fixture *w = *state;
    void *env = w->env;
    grpc_client_free(w->client);
    rpc_stop(w->server, 60 * NS_PER_S, 60 * NS_PER_S);
    pthread_join(w->runner, NULL);
    rpc_free(w->server);
    int left = access(w->sock, F_OK) == 0;
    free(w->sock);
    free(w);
    return csi_env_teardown(&env) || left;
}

static int call(struct csi_fixture *w, struct grpc_client *c, const char *path, const char *text,
    int ms, char *why, Csi__NodeGetInfoResponse **out)
{
    (void)w;
    Csi__NodeUnpublishVolumeRequest r = CSI__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)text;
    ProtobufCMessage *answer = NULL;
    int status = grpc_client_call(c, path, &r.base, &OUT, &answer, ms, why);
    if (out)
        *out = (Csi__NodeGetInfoResponse *)answer;
    else if (answer)
        protobuf_c_message_free_unpacked(answer, NULL);
    return status;
}

static void test_answers(void **state)
{
    struct csi_fixture *w = *state;
    char why[512];
    Csi__NodeGetInfoResponse *out;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(
            call(w, w->client, "/t/Echo", "h\xc3\xa4llo", PATIENT_MS, why, &out), GRPC_STATUS_OK);
        assert_string_equal(out->node_id, "h\xc3\xa4llo");
        protobuf_c_message_free_unpacked(&out->base, NULL);
    }
    /* empty message, both ways */
    assert_int_equal(call(w, w->client, "/t/Echo", "", PATIENT_MS, why, &out), GRPC_STATUS_OK);
    assert_string_equal(out->node_id, "");
    protobuf_c_message_free_unpacked(&out->base, NULL);
    assert_int_equal(call(w, w->client, "/t/Deadline", "", PATIENT_MS, why, &out), GRPC_STATUS_OK);
    assert_in_range(out->max_volumes_per_node, PATIENT_MS / 2, PATIENT_MS + 100);
    protobuf_c_message_free_unpacked(&out->base, NULL);
    struct stat st;
    assert_int_equal(stat(w->sock, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_refusals(void **state)
{
    struct csi_fixture *w = *state;
    char why[512];
    ProtobufCMessage *answer;
    assert_int_equal(
        call(w, w->client, "/t/None", "", PATIENT_MS, why, NULL), GRPC_STATUS_UNIMPLEMENTED);
    assert_string_equal(why, "this driver has no method /t/None");
    assert_int_equal(
        grpc_client_raw(w->client, "/t/Echo", "\x0a\x01\xff", 3, &OUT, &answer, PATIENT_MS, why),
        GRPC_STATUS_INVALID_ARGUMENT);
    assert_string_equal(why, "field volume_id is not valid UTF-8");
    assert_int_equal(grpc_client_raw(w->client, "/t/Echo",
                         "\x0a\x03"
                         "a\0b",
                         5, &OUT, &answer, PATIENT_MS, why),
        GRPC_STATUS_INVALID_ARGUMENT);
    assert_string_equal(why, "field volume_id holds a NUL byte");
    assert_int_equal(grpc_client_raw(w->client, "/t/Echo",
                         "\x0a\x7f"
                         "a",
                         3, &OUT, &answer, PATIENT_MS, why),
        GRPC_STATUS_INVALID_ARGUMENT);
    size_t huge = (5u << 20);
    cleanup_free char *data = xcalloc(1, huge);
    assert_int_equal(
        grpc_client_raw(w->client, "/t/Echo", data, huge, &OUT, &answer, PATIENT_MS, why),
        GRPC_STATUS_RESOURCE_EXHAUSTED);
    static const struct {
        enum err_class cls;
        int sys, status;
    } cases[] = {
        {ERR_RETRY, 0, GRPC_STATUS_UNAVAILABLE},
        {ERR_RETRY, ETIMEDOUT, GRPC_STATUS_DEADLINE_EXCEEDED},
        {ERR_RETRY, ECANCELED, GRPC_STATUS_CANCELLED},
        {ERR_CONFLICT, 0, GRPC_STATUS_ABORTED},
        {ERR_CONFLICT, EBUSY, GRPC_STATUS_FAILED_PRECONDITION},
        {ERR_NOTFOUND, ENOENT, GRPC_STATUS_NOT_FOUND},
        {ERR_EXISTS, 0, GRPC_STATUS_ALREADY_EXISTS},
        {ERR_INVALID, 0, GRPC_STATUS_INVALID_ARGUMENT},
        {ERR_DENIED, EACCES, GRPC_STATUS_PERMISSION_DENIED},
        {ERR_EXHAUSTED, ENOSPC, GRPC_STATUS_RESOURCE_EXHAUSTED},
        {ERR_FATAL, EIO, GRPC_STATUS_INTERNAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        w->cls = cases[i].cls;
        w->sys = cases[i].sys;
        assert_int_equal(
            call(w, w->client, "/t/Refuse", "", PATIENT_MS, why, NULL), cases[i].status);
        assert_string_equal(why, "volume x: no");
    }
}

static void *call_wait(void *arg)
{
    struct csi_fixture *w = arg;
    struct grpc_client *c = grpc_client_new(w->sock);
    char why[512];
    int status = call(w, c, "/t/Wait", "", w->wait_ms, why, NULL);
    grpc_client_free(c);
    return (void *)(intptr_t)status;
}

static void *call_slow(void *arg)
{
    struct csi_fixture *w = arg;
    struct grpc_client *c = grpc_client_new(w->sock);
    char why[512];
    int status = call(w, c, "/t/Slow", "", PATIENT_MS, why, NULL);
    grpc_client_free(c);
    return (void *)(intptr_t)status;
}

/* Handlers learn that their caller no longer waits; meanwhile quick methods are answered at once.
 */
static void test_deadline_and_fast(void **state)
{
    struct csi_fixture *w = *state;
    char why[512];
    pthread_t callers[WORKERS];
    w->wait_ms = 8000;
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_wait, w), 0);
    eventually(atomic_load(&w->waiting) == WORKERS);
    for (int i = 0; i < 10; i++)
        assert_int_equal(call(w, w->client, "/t/Echo", "x", PATIENT_MS, why, NULL), GRPC_STATUS_OK);
    assert_int_equal(atomic_load(&w->waiting), WORKERS); /* nobody waited for those that wait */
    assert_int_equal(rpc_stuck_ns(w->server), 0);
    pthread_t late;
    assert_int_equal(pthread_create(&late, NULL, call_slow, w), 0);
    eventually(rpc_stuck_ns(w->server) > 100 * NS_PER_MS); /* no worker takes it */
    for (size_t i = 0; i < WORKERS; i++) {
        void *status;
        pthread_join(callers[i], &status);
        assert_int_equal((intptr_t)status, GRPC_STATUS_DEADLINE_EXCEEDED);
    }
    eventually(atomic_load(&w->cancelled) == WORKERS);
    void *status;
    pthread_join(late, &status);
    assert_int_equal((intptr_t)status, GRPC_STATUS_OK);
    assert_int_equal(rpc_stuck_ns(w->server), 0);
}

/* What runs when the server is told to stop is answered. */
static void test_graceful_stop(void **state)
{
    struct csi_fixture *w = *state;
    pthread_t caller;
    void *status;
    assert_int_equal(pthread_create(&caller, NULL, call_slow, w), 0);
    while (!atomic_load(&w->waiting))
        clock_sleep_ns(5 * NS_PER_MS);
    rpc_stop(w->server, 60 * NS_PER_S, 60 * NS_PER_S);
    assert_int_equal(atomic_load(&w->finished), 1);
    pthread_join(caller, &status);
    assert_int_equal((intptr_t)status, GRPC_STATUS_OK);
}

/* What does not end by itself is cancelled after the grace period. */
static void test_forced_stop(void **state)
{
    struct csi_fixture *w = *state;
    pthread_t caller;
    void *status;
    atomic_store(&w->waiting, 0);
    w->wait_ms = PATIENT_MS;
    assert_int_equal(pthread_create(&caller, NULL, call_wait, w), 0);
    while (!atomic_load(&w->waiting))
        clock_sleep_ns(5 * NS_PER_MS);
    int64_t began = clock_mono_ns();
    rpc_stop(w->server, 200 * NS_PER_MS, 60 * NS_PER_S);
    assert_true(clock_mono_ns() - began < 30 * NS_PER_S); /* before its caller's own deadline */
    assert_int_equal(atomic_load(&w->cancelled), 1);
    pthread_join(caller, &status);
    assert_true((intptr_t)status != GRPC_STATUS_OK);
}

static struct grpc_stream *open_stream(struct csi_fixture *w, const char *how)
{
    Csi__NodeUnpublishVolumeRequest r = CSI__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)how;
    return grpc_stream_open(w->client, "/t/Stream", &r.base);
}

static void expect_messages(struct grpc_stream *s, int n)
{
    for (int i = 1; i <= n; i++) {
        ProtobufCMessage *m = grpc_stream_next(s, &OUT);
        assert_non_null(m);
        assert_int_equal(((Csi__NodeGetInfoResponse *)m)->max_volumes_per_node, i);
        protobuf_c_message_free_unpacked(m, NULL);
    }
}

static void test_streams(void **state)
{
    struct csi_fixture *w = *state;
    struct grpc_stream *s = open_stream(w, "");
    expect_messages(s, 3);
    assert_null(grpc_stream_next(s, &OUT));
    assert_int_equal(grpc_stream_close(s), GRPC_STATUS_OK);
    s = open_stream(w, "fails");
    expect_messages(s, 3);
    assert_null(grpc_stream_next(s, &OUT));
    assert_int_equal(grpc_stream_close(s), GRPC_STATUS_ALREADY_EXISTS);
    s = open_stream(w, "endless"); /* its caller hangs up while it sends what nobody reads */
    expect_messages(s, 2);
    assert_int_equal(grpc_stream_close(s), GRPC_STATUS_CANCELLED);
    eventually(atomic_load(&w->finished) == 3);
    s = open_stream(w, "endless"); /* and one of a server that stops */
    expect_messages(s, 1);
    rpc_stop(w->server, 200 * NS_PER_MS, 60 * NS_PER_S);
    assert_int_equal(atomic_load(&w->finished), 4);
    grpc_stream_close(s);
}

/* Somebody cleans up and takes the socket's file with it. */
static void test_socket_removed(void **state)
{
    struct csi_fixture *w = *state;
    char why[512];
    assert_int_equal(unlink(w->sock), 0);
    eventually(access(w->sock, F_OK) == 0);
    struct grpc_client *c = grpc_client_new(w->sock);
    assert_int_equal(call(w, c, "/t/Echo", "x", PATIENT_MS, why, NULL), GRPC_STATUS_OK);
    grpc_client_free(c);
}

static void test_bad_socket(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    const char *nowhere[] = {"/nonexistent/dir/s"};
    struct rpc_conf conf = {.sockets = nowhere, .nsockets = 1};
    assert_null(rpc_new(&conf, &e));
    assert_non_null(strstr(e.msg, "/nonexistent/dir/s"));
    char path[300] = "/tmp/";
    memset(path + 5, 'x', 200);
    nowhere[0] = path;
    assert_null(rpc_new(&conf, &e));
    assert_int_equal(e.cls, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline_and_fast, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graceful_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forced_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_socket_removed, setup, teardown),
        cmocka_unit_test(test_bad_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
