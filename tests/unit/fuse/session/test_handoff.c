/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of the handoff, against a node plugin that says the right things, the wrong
 * ones, or nothing. */
#include "tests/lib/unit.h"

#include "fuse/session/handoff.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON (10 * NS_PER_S) /* what a working program needs much less than */

struct plugin {
    char dir[64], path[96];
    int listener, sock;
    struct handoff_client *client;
};

static void accept_client(struct plugin *p)
{
    p->sock = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(p->sock >= 0);
    struct timeval limit = {10, 0};
    assert_int_equal(setsockopt(p->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
}

/* The next message, of that type; its descriptor or -1. */
static int expect(struct plugin *p, enum handoff_type type, struct handoff_msg *m)
{
    static struct handoff_msg own;
    struct err e = ERR_INIT;
    int fd = -1;
    m = m ? m : &own;
    if (handoff_recv(p->sock, m, &fd, &e) != 1)
        fail_msg("no message: %s", e.msg);
    assert_int_equal(m->type, type);
    return fd;
}

static void expect_hello(struct plugin *p)
{
    struct handoff_msg m;
    uint32_t version;
    assert_int_equal(expect(p, HANDOFF_HELLO, &m), -1);
    assert_int_equal(m.len, sizeof version);
    memcpy(&version, m.payload, sizeof version);
    assert_int_equal(version, HANDOFF_VERSION);
}

/* Nothing else is there: the next message is the one that this brings about. */
static void expect_silence(struct plugin *p)
{
    struct handoff_msg m;
    handoff_client_backing_close(p->client, 4711);
    int64_t id;
    assert_int_equal(expect(p, HANDOFF_BACKING_CLOSE, &m), -1);
    memcpy(&id, m.payload, sizeof id);
    assert_true(m.len == sizeof id && id == 4711);
}

struct question {
    struct handoff_client *client;
    int fd, rc;
    int32_t id;
    pid_t pid;
    char caller[CALLER_MAX];
    struct err e;
    pthread_t thread;
};

static void *ask_caller(void *arg)
{
    struct question *q = arg;
    handoff_client_caller(q->client, q->pid, q->caller);
    return NULL;
}

static void tell(struct plugin *p, enum handoff_type type, const void *payload, size_t len, int fd)
{
    struct err e = ERR_INIT;
    if (handoff_send(p->sock, type, payload, len, fd, &e))
        fail_msg("%s", e.msg);
}

/* The client has taken in all that it was told so far: a question is answered after it. */
static void expect_taken_in(struct plugin *p)
{
    struct handoff_caller c = {.pid = 9999, .name = "taken in"};
    struct question q = {.client = p->client, .pid = 9999};
    do { /* on a busy machine the answer may be late */
        assert_int_equal(pthread_create(&q.thread, NULL, ask_caller, &q), 0);
        expect(p, HANDOFF_WHO, NULL);
        tell(p, HANDOFF_CALLER, &c, sizeof c, -1);
        pthread_join(q.thread, NULL);
    } while (strcmp(q.caller, c.name) != 0);
}

static void reconnect(struct plugin *p)
{
    close(p->sock);
    accept_client(p);
    expect_hello(p);
}

static struct plugin *plugin_new(void)
{
    struct plugin *p = xcalloc(1, sizeof *p);
    struct err e = ERR_INIT;
    snprintf(p->dir, sizeof p->dir, "/tmp/millrace-handoff.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof p->path, "%s/sock", p->dir);
    p->listener = handoff_listen(p->path, &e);
    assert_true(p->listener >= 0);
    p->client = handoff_client_start(p->path, &e);
    assert_non_null(p->client);
    accept_client(p);
    expect_hello(p);
    return p;
}

static void plugin_free(struct plugin *p)
{
    handoff_client_stop(p->client);
    close(p->sock);
    close(p->listener);
    unlink(p->path);
    rmdir(p->dir);
    free(p);
}

static int new_file(void)
{
    int fd = memfd_create("fuse", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static bool same_file(int a, int b)
{
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino
        && sa.st_dev == sb.st_dev;
}

static struct handoff_welcome welcome_of(const char *init)
{
    struct handoff_welcome w = {.version = HANDOFF_VERSION, .init_len = (uint32_t)strlen(init)};
    memcpy(w.init, init, strlen(init));
    return w;
}

static void test_mount_comes(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_welcome w, none;
    assert_int_equal(handoff_client_wait(p->client, &none, 10 * NS_PER_MS), -1);
    assert_false(handoff_client_peek(p->client, &none, 10 * NS_PER_MS));
    /* one that is given up before it was taken, then another */
    int first = new_file(), second = new_file(), third = new_file();
    w = welcome_of("first");
    tell(p, HANDOFF_WELCOME, &w, sizeof w, first);
    assert_true(handoff_client_peek(p->client, &none, SOON));
    assert_memory_equal(none.init, "first", 5);
    w = welcome_of("second one");
    tell(p, HANDOFF_WELCOME, &w, sizeof w, second);
    eventually(handoff_client_peek(p->client, &none, 0) && none.init_len == 10);
    int fd = handoff_client_wait(p->client, &none, SOON);
    assert_true(same_file(fd, second));
    assert_memory_equal(none.init, "second one", 10);
    /* what comes once one is served is not for this process */
    w = welcome_of("third");
    tell(p, HANDOFF_WELCOME, &w, sizeof w, third);
    expect_taken_in(p);
    assert_true(same_file(handoff_client_wait(p->client, &none, 100 * NS_PER_MS), second));
    assert_int_equal(none.init_len, 10);
    close(first);
    close(second);
    close(third);
    plugin_free(p);
}

static void test_malformed(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_welcome good = welcome_of("init"), w = good, out;
    int fd = new_file();
    unsigned char junk[HANDOFF_PAYLOAD_MAX];
    memset(junk, 0xff, sizeof junk);
    tell(p, HANDOFF_WELCOME, &good, sizeof good - 1, fd);
    tell(p, HANDOFF_WELCOME, junk, sizeof junk, fd);
    tell(p, HANDOFF_WELCOME, NULL, 0, fd);
    tell(p, HANDOFF_WELCOME, &good, sizeof good, -1);
    w.version = HANDOFF_VERSION + 1;
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    w = good;
    w.init_len = HANDOFF_INIT_MAX + 1;
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    tell(p, HANDOFF_CALLER, junk, sizeof junk, fd);
    tell(p, HANDOFF_CALLER, junk, sizeof(struct handoff_caller), -1);
    tell(p, HANDOFF_BACKING, junk, 8, -1);
    tell(p, HANDOFF_BACKING, junk, 7, -1);
    tell(p, HANDOFF_HELLO, junk, 4, -1);
    tell(p, 99, junk, sizeof junk, fd);
    expect_taken_in(p);
    assert_false(handoff_client_peek(p->client, &out, 0));
    w = good;
    w.init_len = HANDOFF_INIT_MAX; /* is still good */
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    assert_true(handoff_client_peek(p->client, &out, SOON));
    assert_int_equal(out.init_len, HANDOFF_INIT_MAX);
    close(fd);
    plugin_free(p);
}

/* A plugin that comes back is given what this process has, in that order. */
static void test_plugin_restarts(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_welcome w = {.version = HANDOFF_VERSION}, out;
    struct handoff_msg m;
    int fd = new_file();
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    assert_true(handoff_client_peek(p->client, &out, SOON));
    reconnect(p);
    expect_silence(p); /* it was not taken: the plugin has it still */
    assert_true(handoff_client_wait(p->client, &out, SOON) >= 0);
    reconnect(p);
    int back = expect(p, HANDOFF_RETURN_FD, NULL);
    assert_true(same_file(back, fd));
    close(back);
    expect_silence(p);
    handoff_client_init(p->client, "the INIT", 8);
    assert_int_equal(expect(p, HANDOFF_INIT, &m), -1);
    assert_int_equal(m.len, 8);
    assert_memory_equal(m.payload, "the INIT", 8);
    handoff_client_serving(p->client);
    expect(p, HANDOFF_SERVING, NULL);
    reconnect(p);
    close(expect(p, HANDOFF_RETURN_FD, NULL));
    expect(p, HANDOFF_INIT, &m);
    assert_true(m.len == 8 && memcmp(m.payload, "the INIT", 8) == 0);
    expect(p, HANDOFF_SERVING, NULL);
    expect_silence(p);
    unsigned char large[HANDOFF_INIT_MAX + 1] = {0};
    handoff_client_init(p->client, large, sizeof large);
    expect_silence(p);
    close(fd);
    plugin_free(p);
}

static void test_failed(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_welcome w = {.version = HANDOFF_VERSION};
    struct handoff_msg m;
    char text[HANDOFF_PAYLOAD_MAX + 100];
    int fd = new_file();
    handoff_client_failed(p->client, "no such bucket");
    expect(p, HANDOFF_FAILED, &m);
    assert_true(m.len == 14 && memcmp(m.payload, "no such bucket", 14) == 0);
    reconnect(p);
    expect(p, HANDOFF_FAILED, &m); /* until it is told otherwise */
    assert_true(m.len == 14 && memcmp(m.payload, "no such bucket", 14) == 0);
    tell(p, HANDOFF_WELCOME, &w, sizeof w, fd);
    expect(p, HANDOFF_FAILED, &m);
    handoff_client_failed(p->client, "");
    expect_silence(p);
    reconnect(p);
    expect_silence(p);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    handoff_client_failed(p->client, text);
    expect(p, HANDOFF_FAILED, &m);
    assert_int_equal(m.len, HANDOFF_PAYLOAD_MAX - 1);
    handoff_client_serving(p->client); /* it does work after all */
    expect(p, HANDOFF_SERVING, NULL);
    reconnect(p);
    expect_silence(p);
    close(fd);
    plugin_free(p);
}

static void *ask_backing(void *arg)
{
    struct question *q = arg;
    q->rc = handoff_client_backing_open(q->client, q->fd, &q->id, &q->e);
    return NULL;
}

static void test_backing(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    static const struct {
        int64_t answer;
        int errnum; /* 0: it is the id */
    } cases[] = {{1, 0}, {INT32_MAX, 0}, {(int64_t)INT32_MAX + 1, EIO}, {0, EIO}, {-EPERM, EPERM},
        {-EMFILE, EMFILE}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct question q = {.client = p->client, .fd = new_file(), .id = -5};
        int64_t early = 77;
        tell(p, HANDOFF_BACKING, &early, sizeof early, -1); /* answers no question */
        expect_taken_in(p);
        assert_int_equal(pthread_create(&q.thread, NULL, ask_backing, &q), 0);
        int fd = expect(p, HANDOFF_BACKING_OPEN, NULL);
        assert_true(same_file(fd, q.fd));
        close(fd);
        tell(p, HANDOFF_BACKING, &early, sizeof early - 1, -1); /* no answer, either */
        tell(p, HANDOFF_BACKING, &cases[i].answer, sizeof cases[i].answer, -1);
        pthread_join(q.thread, NULL);
        assert_int_equal(q.rc, cases[i].errnum ? -1 : 0);
        if (cases[i].errnum)
            assert_int_equal(err_errno(&q.e), cases[i].errnum);
        else
            assert_int_equal(q.id, cases[i].answer);
        close(q.fd);
    }
    plugin_free(p);
}

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
        handoff_recv(p->sock, &m, &fd, &e), 0); /* a late answer would have no question */
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

static void test_caller(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_caller c = {.pid = 43};
    for (bool answered = false;
         !answered;) { /* on a busy machine 50 ms may pass before the answer */
        struct question q[] = {{.client = p->client, .pid = 42}, {.client = p->client, .pid = 42},
            {.client = p->client, .pid = 44}};
        for (size_t i = 0; i < ARRAY_LEN(q); i++)
            assert_int_equal(pthread_create(&q[i].thread, NULL, ask_caller, &q[i]), 0);
        for (size_t i = 0; i < ARRAY_LEN(q); i++) {
            struct handoff_msg m;
            int64_t pid;
            expect(p, HANDOFF_WHO, &m);
            memcpy(&pid, m.payload, sizeof pid);
            assert_true(m.len == sizeof pid && (pid == 42 || pid == 44));
        }
        c.pid = 43;
        snprintf(c.name, sizeof c.name, "another");
        tell(p, HANDOFF_CALLER, &c, sizeof c, -1);
        c.pid = 42;
        memset(c.name, 'n', sizeof c.name); /* without an end */
        tell(p, HANDOFF_CALLER, &c, sizeof c, -1);
        for (size_t i = 0; i < ARRAY_LEN(q); i++)
            pthread_join(q[i].thread, NULL);
        assert_string_equal(q[2].caller, CALLER_UNKNOWN); /* nobody answered that one */
        answered = strcmp(q[0].caller, CALLER_UNKNOWN) != 0
            && strcmp(q[1].caller, CALLER_UNKNOWN) != 0;
        for (size_t i = 0; answered && i < 2; i++) {
            assert_int_equal(strlen(q[i].caller), CALLER_MAX - 1);
            assert_int_equal(strspn(q[i].caller, "n"), CALLER_MAX - 1);
        }
    }
    plugin_free(p);
}

static void *wait_for_mount(void *arg)
{
    struct question *q = arg;
    struct handoff_welcome w;
    q->rc = handoff_client_wait(q->client, &w, 60 * NS_PER_S);
    return NULL;
}

/* Questions end with the connection, and waits with the client. */
static void test_ends(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct question q = {.client = p->client, .fd = new_file()};
    int64_t began = clock_mono_ns();
    assert_int_equal(pthread_create(&q.thread, NULL, ask_backing, &q), 0);
    close(expect(p, HANDOFF_BACKING_OPEN, NULL));
    reconnect(p);
    pthread_join(q.thread, NULL);
    assert_int_equal(q.rc, -1);
    assert_true(clock_mono_ns() - began < NS_PER_S);
    assert_int_equal(pthread_create(&q.thread, NULL, ask_backing, &q), 0); /* and are asked again */
    close(expect(p, HANDOFF_BACKING_OPEN, NULL));
    int64_t id = 9;
    tell(p, HANDOFF_BACKING, &id, sizeof id, -1);
    pthread_join(q.thread, NULL);
    assert_true(q.rc == 0 && q.id == 9);
    close(q.fd);

    int listener = p->listener;
    p->listener = -1;
    close(listener); /* it finds no plugin: it tries again, and can be stopped meanwhile */
    shutdown(p->sock, SHUT_RDWR);
    unlink(p->path);
    clock_sleep_ns(50 * NS_PER_MS);
    began = clock_mono_ns();
    plugin_free(p);
    assert_true(clock_mono_ns() - began < NS_PER_S);

    p = plugin_new();
    struct question w = {.client = p->client, .rc = 5};
    assert_int_equal(pthread_create(&w.thread, NULL, wait_for_mount, &w), 0);
    struct handoff_welcome good = {.version = HANDOFF_VERSION};
    int fd = new_file();
    tell(p, HANDOFF_WELCOME, &good, sizeof good, fd);
    pthread_join(w.thread, NULL);
    assert_true(w.rc >= 0);
    close(fd);
    plugin_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mount_comes),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_plugin_restarts),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_backing),
        cmocka_unit_test(test_plugin_hangs),
        cmocka_unit_test(test_caller),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
