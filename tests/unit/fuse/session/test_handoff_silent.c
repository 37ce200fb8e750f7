/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of the handoff where the node plugin hangs, is stopped, or is away: nobody waits
 * for it, and nothing is forgotten. */
#include "tests/unit/fuse/session/handoff_plugin.h"

/* It must not make those who open files wait, one after the other. */
static void test_plugin_hangs(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct question q = {.client = p->client, .fd = new_file()};
    int64_t began = clock_mono_ns();
    ask_backing(&q);
    int64_t took = clock_mono_ns() - began;
    assert_int_equal(q.rc, -1);
    assert_int_equal(q.e.cls, ERR_RETRY);
    assert_true(took > NS_PER_S && took < SOON);
    close(expect(p, HANDOFF_BACKING_OPEN, NULL));
    struct handoff_msg m;
    struct err e = ERR_INIT;
    int fd = -1;
    assert_int_equal(
        handoff_recv(p->sock, NULL, &m, &fd, &e), 0); /* a late answer would have no question */
    close(p->sock);
    accept_client(p);
    expect_hello(p);
    began = clock_mono_ns();
    ask_backing(&q);
    assert_int_equal(q.rc, -1);
    assert_true(clock_mono_ns() - began < NS_PER_S); /* it was not asked */
    expect_silence(p);
    close(q.fd);
    plugin_free(p);
}

/* A plugin that is stopped reads nothing: whoever gives backing files back goes on, and none of
 * them is forgotten. */
static void test_plugin_is_stopped(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct plugin *p = plugin_new();
    for (int32_t id = 1; id <= MANY; id++)
        handoff_client_backing_close(p->client, id);
    struct question q = {.client = p->client, .fd = new_file()};
    ask_backing(&q); /* nor does it wait behind them */
    assert_int_equal(q.rc, -1);
    struct handoff_msg m;
    int64_t id, next = 1;
    while (next <= MANY) {
        struct err e = ERR_INIT;
        int fd;
        int rc = handoff_recv(p->sock, NULL, &m, &fd, &e);
        if (rc == 0) { /* as the question had no answer */
            close(p->sock);
            accept_client(p);
            expect_hello(p);
            continue;
        }
        assert_int_equal(rc, 1);
        if (fd >= 0)
            close(fd);
        if (m.type != HANDOFF_BACKING_CLOSE)
            continue;
        memcpy(&id, m.payload, sizeof id);
        assert_int_equal(id, next++);
    }
    close(q.fd);
    plugin_free(p);
}

/* What is closed while there is no plugin, the next one is told. */
static void test_closed_without_plugin(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_welcome w = {.version = HANDOFF_VERSION}, out;
    struct handoff_msg m;
    int fd = new_file();
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    assert_true(handoff_client_wait(p->client, &out, SOON) >= 0);
    close(p->listener); /* nobody to connect to */
    unlink(p->path);
    close(p->sock);
    struct question q = {.client = p->client, .fd = fd};
    ask_backing(&q); /* returns when the connection has gone */
    assert_int_equal(q.rc, -1);
    handoff_client_backing_close(p->client, 17);
    struct err e = ERR_INIT;
    p->listener = handoff_listen(p->path, &e);
    accept_client(p);
    expect_hello(p);
    close(expect(p, HANDOFF_RETURN_FD, NULL));
    int64_t id;
    assert_int_equal(expect(p, HANDOFF_BACKING_CLOSE, &m), -1);
    memcpy(&id, m.payload, sizeof id);
    assert_int_equal(id, 17);
    expect_silence(p);
    close(fd);
    plugin_free(p);
}

static bool as_told(void *user) { return *(bool *)user; }

/* A ping is answered while the threads serve. */
static void test_ping(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    bool serves = true;
    tell(p, HANDOFF_PING, NULL, 0, -1);
    expect(p, HANDOFF_PONG, NULL);
    handoff_client_watch(p->client, as_told, &serves);
    tell(p, HANDOFF_PING, NULL, 0, -1);
    expect(p, HANDOFF_PONG, NULL);
    expect_taken_in(p);
    serves = false;
    tell(p, HANDOFF_PING, NULL, 0, -1);
    expect_taken_in(p); /* the next word is not a pong */
    plugin_free(p);
}

static void *settle(void *arg)
{
    struct question *q = arg;
    q->rc = handoff_client_settle(q->client, 60 * NS_PER_S);
    return NULL;
}

/* Before it ends it waits until a plugin that was away has the fd, and has said so. */
static void test_settles(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_welcome w = {.version = HANDOFF_VERSION}, out;
    struct handoff_caller nobody = {.pid = 0, .name = CALLER_UNKNOWN};
    struct question q = {.client = p->client};
    struct err e = ERR_INIT;
    int fd = new_file();
    assert_true(handoff_client_settle(p->client, 0)); /* there is no mount */
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    assert_true(handoff_client_wait(p->client, &out, SOON) >= 0);
    assert_false(handoff_client_settle(p->client, 20 * NS_PER_MS)); /* it says nothing */
    expect(p, HANDOFF_WHO, NULL);
    close(p->listener);
    unlink(p->path);
    close(p->sock);
    assert_int_equal(pthread_create(&q.thread, NULL, settle, &q), 0);
    clock_sleep_ns(50 * NS_PER_MS);
    p->listener = handoff_listen(p->path, &e);
    accept_client(p);
    expect_hello(p);
    int back = expect(p, HANDOFF_RETURN_FD, NULL);
    assert_true(same_file(back, fd));
    close(back);
    expect(p, HANDOFF_WHO, NULL);
    reconnect(p); /* it ends before its answer: the next one is asked */
    close(expect(p, HANDOFF_RETURN_FD, NULL));
    expect(p, HANDOFF_WHO, NULL);
    tell(p, HANDOFF_CALLER, &nobody, sizeof nobody, -1);
    pthread_join(q.thread, NULL);
    assert_true(q.rc);
    close(fd);
    plugin_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plugin_hangs),
        cmocka_unit_test(test_plugin_is_stopped), cmocka_unit_test(test_closed_without_plugin),
        cmocka_unit_test(test_ping), cmocka_unit_test(test_settles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
