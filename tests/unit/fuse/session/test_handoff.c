/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of the handoff, against a node plugin that says the right things, the wrong
 * ones, or nothing. */
#include "tests/unit/fuse/session/handoff_plugin.h"

#include <poll.h>
#include <stdatomic.h>

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

static void count_lost(void *user, const struct handoff_lost *lost)
{
    snprintf(user, 300, "%lld %s", (long long)lost->at_s, lost->why);
}

/* A mount that was made again is told of, before somebody listens and after. */
static void test_lost(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_lost lost = {.at_s = 5, .why = "its client was gone"};
    char heard[300] = "";
    tell(p, HANDOFF_LOST, &lost, sizeof lost, -1);
    expect_taken_in(p);
    handoff_client_on_lost(p->client, count_lost, heard);
    assert_string_equal(heard, "5 its client was gone");
    lost.at_s = 6;
    memset(lost.why, 'x', sizeof lost.why); /* without an end */
    tell(p, HANDOFF_LOST, &lost, sizeof lost, -1);
    tell(p, HANDOFF_LOST, &lost, sizeof lost - 1, -1); /* malformed: nothing */
    expect_taken_in(p);
    assert_int_equal(strlen(heard), 2 + sizeof lost.why - 1);
    assert_int_equal(strncmp(heard, "6 xxx", 5), 0);
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

/* What no client can go on with is said to each plugin, with the reason. */
static void test_cannot_resume(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    struct handoff_msg m;
    handoff_client_cannot_resume(p->client);
    expect(p, HANDOFF_CANNOT_RESUME, &m);
    assert_int_equal(m.len, 0);
    handoff_client_failed(p->client, "a newer release made it");
    expect(p, HANDOFF_FAILED, NULL);
    reconnect(p);
    expect(p, HANDOFF_FAILED, NULL);
    expect(p, HANDOFF_CANNOT_RESUME, NULL);
    plugin_free(p);
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

/* The list of what it holds, to its end; sorted. */
static size_t expect_holds(struct plugin *p, int32_t *ids, size_t most)
{
    struct handoff_msg m = {.len = 1};
    size_t n = 0;
    while (m.len) {
        assert_int_equal(expect(p, HANDOFF_HOLDS, &m), -1);
        assert_true(m.len % sizeof *ids == 0 && n + m.len / sizeof *ids <= most);
        memcpy(ids + n, m.payload, m.len);
        n += m.len / sizeof *ids;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (ids[k] < ids[i]) {
                int32_t id = ids[i];
                ids[i] = ids[k];
                ids[k] = id;
            }
    return n;
}

/* What a plugin that was killed did not hear, or say: the next one is told what there is. */
static void test_holds(void **state)
{
    (void)state;
    static const int32_t before[] = {7, 5, 7};
    static int32_t ids[2000], many[1500];
    struct plugin *p = plugin_new();
    reconnect(p);
    expect_silence(p); /* nothing is known of the clients before this one */
    handoff_client_holds(p->client, before, ARRAY_LEN(before));
    assert_int_equal(expect_holds(p, ids, ARRAY_LEN(ids)), 3);
    assert_true(ids[0] == 5 && ids[1] == 7 && ids[2] == 7);
    struct question q = {.client = p->client, .fd = new_file()};
    int64_t answer = 9;
    assert_int_equal(pthread_create(&q.thread, NULL, ask_backing, &q), 0);
    close(expect(p, HANDOFF_BACKING_OPEN, NULL));
    tell(p, HANDOFF_BACKING, &answer, sizeof answer, -1);
    pthread_join(q.thread, NULL);
    close(q.fd);
    handoff_client_backing_close(p->client, 7);
    expect(p, HANDOFF_BACKING_CLOSE, NULL);
    reconnect(p);
    assert_int_equal(expect_holds(p, ids, ARRAY_LEN(ids)), 3);
    assert_true(ids[0] == 5 && ids[1] == 7 && ids[2] == 9);
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (int32_t)i + 100;
    handoff_client_holds(p->client, many, ARRAY_LEN(many)); /* more than a message takes */
    assert_int_equal(expect_holds(p, ids, ARRAY_LEN(ids)), 3 + ARRAY_LEN(many));
    assert_int_equal(ids[2 + ARRAY_LEN(many)], 1599);
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

static void count_call(void *user) { atomic_fetch_add((atomic_int *)user, 1); }

static bool never(void *user)
{
    (void)user;
    return false;
}

static bool is_called(struct plugin *p)
{
    struct pollfd f = {.fd = p->listener, .events = POLLIN};
    return poll(&f, 1, 300) > 0;
}

/* Once the mount that was taken is over, the plugin is left alone; threads that do not end for it
 * are told of. */
static void test_mount_ends(void **state)
{
    (void)state;
    struct handoff_welcome w = {.version = HANDOFF_VERSION}, out;
    for (int hangs = 0; hangs < 2; hangs++) {
        struct plugin *p = plugin_new();
        atomic_int hung = 0;
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        handoff_client_on_hung(p->client, count_call, &hung, 50 * NS_PER_MS);
        handoff_client_watch(p->client, hangs ? never : NULL, NULL);
        tell(p, HANDOFF_WELCOME, &w, sizeof w, ends[1]);
        int fd = handoff_client_wait(p->client, &out, SOON);
        assert_true(fd >= 0);
        reconnect(p); /* it lives: it is given back */
        close(expect(p, HANDOFF_RETURN_FD, NULL));
        assert_false(handoff_client_ended(p->client));
        close(ends[0]); /* what has no reader is what an aborted connection looks like */
        close(p->sock);
        p->sock = -1;
        eventually(handoff_client_ended(p->client));
        assert_false(is_called(p));
        assert_int_equal(atomic_load(&hung), hangs);
        close(fd);
        close(ends[1]);
        plugin_free(p);
    }
}

/* A plugin that refuses each connection is not asked without a pause. */
static void test_refused(void **state)
{
    (void)state;
    struct plugin *p = plugin_new();
    int64_t until = clock_mono_ns() + NS_PER_S;
    int n = 0;
    while (clock_mono_ns() < until) {
        reconnect(p);
        n++;
    }
    assert_in_range(n, 1, 20);
    plugin_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mount_comes),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_plugin_restarts),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_cannot_resume),
        cmocka_unit_test(test_backing),
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_caller),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_mount_ends),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
