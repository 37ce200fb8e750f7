/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that has no descriptors left waits for some, and does not spin meanwhile; and clients
 * cannot bring it there. */
#include "tests/unit/csi/csi_fixture.h"

#include "csi/listen.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS (600 * NS_PER_MS)
#define MANY    200

static atomic_uint accepts;

/* Another process, with descriptors of its own. */
struct outsider {
    pid_t pid;
    int go; /* it connects when this is written to, and stays */
};

static int outsider_connect(const char *path, bool handoff)
{
    uint32_t version = HANDOFF_VERSION;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct err e = ERR_INIT;
    if (handoff) {
        int sock = handoff_connect(path, &e);
        return sock < 0 ? -1 : handoff_send(sock, HANDOFF_HELLO, &version, sizeof version, -1, &e);
    }
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return sock < 0 ? -1 : connect(sock, (struct sockaddr *)&a, sizeof a);
}

static struct outsider outsider_new(const char *path, bool handoff)
{
    int go[2];
    char c;
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    struct outsider o = {.pid = fork(), .go = go[1]};
    assert_true(o.pid >= 0);
    if (o.pid == 0) {
        close(go[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(go[0], &c, 1) != 1 || outsider_connect(path, handoff))
            _exit(1);
        for (;;)
            pause();
    }
    close(go[0]);
    return o;
}

static void outsider_end(struct outsider o)
{
    kill(o.pid, SIGKILL);
    assert_int_equal(waitpid(o.pid, NULL, 0), o.pid);
    close(o.go);
}

/* This process may open no more, and the outsider connects; returns what it might before. */
static struct rlimit use_up(struct outsider o)
{
    struct rlimit before, none;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC); /* all below are taken */
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    accepts = 0;
    assert_int_equal(write(o.go, "g", 1), 1);
    return before;
}

int __real_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
    accepts++;
    return __real_accept4(fd, a, len, flags);
}

/* It tries now and then. */
static void assert_calm(void)
{
    eventually(accepts > 0);
    accepts = 0;
    clock_sleep_ns(LOOK_NS);
    assert_in_range(accepts, 0, 20);
}

static void test_handoff(void **state)
{
    struct csi_fixture *w = *state;
    csi_fixture_open(w, 0);
    struct outsider o = outsider_new(w->sock, true);
    struct rlimit before = use_up(o);
    assert_calm();
    assert_false(state_of(w).connected);
    setrlimit(RLIMIT_NOFILE, &before);
    eventually(state_of(w).connected);
    outsider_end(o);
    eventually(!state_of(w).connected);
    csi_fixture_close(w);
}

static atomic_int taken = -1;

static void accepted(void *user, int fd)
{
    (void)user;
    taken = fd;
}

static void test_listener(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(w->env->dir, "s");
    const char *paths[] = {path};
    struct listener *l = listener_new(paths, 1, &e);
    assert_non_null(l);
    listener_start(l, accepted, NULL);
    struct outsider o = outsider_new(path, false);
    struct rlimit before = use_up(o);
    assert_calm();
    assert_int_equal(taken, -1);
    setrlimit(RLIMIT_NOFILE, &before);
    eventually(taken >= 0);
    outsider_end(o);
    close(taken);
    listener_stop(l);
    listener_free(l);
}

static size_t open_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* A message with that many descriptors. */
static void send_many(int sock, enum handoff_type type, size_t n)
{
    uint32_t head[2] = {(uint32_t)type, 0};
    struct iovec iov = {head, sizeof head};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MANY * sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    for (size_t i = 0; i < n; i++)
        memcpy(CMSG_DATA(c) + i * sizeof sock, &sock, sizeof sock);
    assert_int_equal(sendmsg(sock, &m, MSG_NOSIGNAL), sizeof head);
}

/* What a client sends that nobody wants is closed, all of it, and it is not listened to any more.
 */
static void test_unwanted(void **state)
{
    struct csi_fixture *w = *state;
    static const struct {
        enum handoff_type type;
        size_t n;
    } cases[] = {{HANDOFF_PONG, 1}, {HANDOFF_HOLDS, 1}, {HANDOFF_RETURN_FD, 2},
        {HANDOFF_BACKING_OPEN, MANY}};
    csi_fixture_open(w, 0);
    size_t before = open_descriptors();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t version = HANDOFF_VERSION;
        struct err e = ERR_INIT;
        struct handoff_msg m;
        int sock = handoff_connect(w->sock, &e), fd;
        assert_true(sock >= 0);
        assert_int_equal(handoff_send(sock, HANDOFF_HELLO, &version, sizeof version, -1, &e), 0);
        send_many(sock, cases[i].type, cases[i].n);
        struct pollfd p = {.fd = sock, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        assert_int_equal(handoff_recv(sock, NULL, &m, &fd, &e), 0);
        close(sock);
        eventually(open_descriptors() == before);
    }
    csi_fixture_close(w);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 0;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_handoff, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unwanted, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_listener, csi_fixture_setup, csi_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
