/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/session/loop.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket plays the kernel: packets are requests, each is sent back as its answer. Their letters:
 * q and r are answered at once (one thread may answer 8 and 1 of them in a row), s is slow and says
 * so, h does not say so, p is known to be slow: those three take until the test lets them go. */

struct world {
    int kernel, server;
    struct loop *loop;
    pthread_t runner;
    int rc;
    _Atomic unsigned busy, most; /* requests being worked on, and at most at a time */
    _Atomic unsigned threads;
    atomic_bool hold; /* the slow ones */
};

static unsigned in_a_row(const void *request, size_t len)
{
    const char *c = request;
    return len == 0 || *c == 'p' ? 0 : *c == 'r' ? 1 : 8;
}

static void answer(struct world *w, const char *request, size_t len)
{
    unsigned now = atomic_fetch_add(&w->busy, 1) + 1;
    for (unsigned most = atomic_load(&w->most);
         now > most && !atomic_compare_exchange_weak(&w->most, &most, now);)
        continue;
    if (*request == 's')
        loop_will_block();
    while (strchr("shp", *request) && atomic_load(&w->hold))
        clock_sleep_ns(NS_PER_MS);
    atomic_fetch_sub(&w->busy, 1);
    assert_int_equal(send(w->server, request, len, 0), (ssize_t)len);
}

static void work(void *user)
{
    struct world *w = user;
    char request[16];
    atomic_fetch_add(&w->threads, 1);
    for (;;) {
        ssize_t n = loop_read(w->loop, request, sizeof request);
        if (n > 0) {
            answer(w, request, (size_t)n);
        } else if (n == 0 || errno != EINTR) {
            loop_end(w->loop); /* the socket is closed */
            return;
        } else if (loop_dismissed()) {
            return;
        }
    }
}

static void *run(void *user)
{
    struct world *w = user;
    struct err e = ERR_INIT;
    w->rc = loop_run(w->loop, &e);
    return NULL;
}

static void begin(struct world *w, unsigned threads)
{
    int fds[2];
    struct err e = ERR_INIT;
    memset(w, 0, sizeof *w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    w->hold = true;
    w->kernel = fds[0];
    w->server = fds[1];
    assert_int_equal(setsockopt(w->kernel, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 60},
                         sizeof(struct timeval)),
        0);
    assert_int_equal(fcntl(w->server, F_SETFL, O_NONBLOCK), 0);
    w->loop = loop_new(&(struct loop_conf){w->server, threads, work, in_a_row, w}, &e);
    assert_non_null(w->loop);
    assert_int_equal(pthread_create(&w->runner, NULL, run, w), 0);
}

static void finish(struct world *w)
{
    loop_end(w->loop);
    pthread_join(w->runner, NULL);
    assert_int_equal(w->rc, 0);
    loop_free(w->loop);
    close(w->kernel);
    close(w->server);
}

static void ask(struct world *w, const char *request)
{
    assert_int_equal(send(w->kernel, request, strlen(request), 0), (ssize_t)strlen(request));
}

static char hear(struct world *w)
{
    char c = 0;
    assert_true(recv(w->kernel, &c, 1, 0) == 1);
    return c;
}

static void test_answers(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 16);
    for (int i = 0; i < 5000; i++) {
        ask(&w, i % 3 ? "q" : "r");
        assert_int_equal(hear(&w), i % 3 ? 'q' : 'r');
    }
    assert_int_equal(w.most, 1);
    /* not one for each; one more now and then, where a busy machine keeps them waiting */
    assert_true(w.threads < 500);
    finish(&w);
}

/* Slow ones run side by side, and others are not held up by them: whether they say it, are known
 * for it, or neither. */
static void slow_ones(const char *kind)
{
    struct world w;
    begin(&w, 16);
    for (int i = 0; i < 100; i++) {
        ask(&w, "q");
        hear(&w);
    }
    for (int i = 0; i < 4; i++)
        ask(&w, kind);
    ask(&w, "q");
    assert_int_equal(hear(&w), 'q');
    eventually(w.busy == 4);
    w.hold = false;
    for (int i = 0; i < 4; i++)
        assert_int_equal(hear(&w), *kind);
    finish(&w);
}

static void test_slow(void **state)
{
    (void)state;
    slow_ones("s");
    slow_ones("p");
    slow_ones("h"); /* the watching thread finds out */
}

static void test_limits(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 3);
    for (int i = 0; i < 6; i++)
        ask(&w, "p");
    eventually(w.busy == 3);
    clock_sleep_ns(50 * NS_PER_MS); /* for one too many */
    uint64_t seen = 0;
    loop_serves(w.loop, &seen);
    assert_false(loop_serves(w.loop, &seen)); /* they did not say it */
    w.hold = false;
    for (int i = 0; i < 6; i++)
        assert_int_equal(hear(&w), 'p');
    assert_int_equal(w.most, 3);
    assert_int_equal(w.threads, 3);
    finish(&w);

    begin(&w, 64); /* of many idle ones some end */
    for (int i = 0; i < 30; i++)
        ask(&w, "p");
    eventually(w.busy > 12);
    w.hold = false;
    for (int i = 0; i < 30; i++)
        assert_int_equal(hear(&w), 'p');
    ask(&w, "q");
    assert_int_equal(hear(&w), 'q');
    finish(&w);
}

/* Those that wait for a store leave a thread for who does not. */
static void test_many_wait(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 3);
    for (int i = 0; i < 100; i++)
        ask(&w, "s");
    eventually(w.busy == 100);
    uint64_t seen = 0;
    loop_serves(w.loop, &seen);
    assert_true(loop_serves(w.loop, &seen)); /* whoever watches is told so, too */
    for (int i = 0; i < 50; i++) {
        ask(&w, "q");
        assert_int_equal(hear(&w), 'q');
    }
    w.hold = false;
    for (int i = 0; i < 100; i++)
        assert_int_equal(hear(&w), 's');
    finish(&w);
}

static void test_ends(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 4);
    finish(&w); /* before anything came */
    begin(&w, 4);
    ask(&w, "s");
    eventually(w.busy == 1);
    loop_end(w.loop);
    w.hold = false;
    assert_int_equal(hear(&w), 's'); /* what is under way is answered */
    finish(&w);
    begin(&w, 4);
    ask(&w, "q");
    hear(&w);
    shutdown(w.kernel, SHUT_RDWR); /* unmounted */
    pthread_join(w.runner, NULL);
    assert_int_equal(pthread_create(&w.runner, NULL, run, &w), 0); /* over is over */
    finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_slow),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_many_wait),
        cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
