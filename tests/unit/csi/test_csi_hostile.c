/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that send the handoff what they may not: messages out of turn, files and descriptors that
 * are not theirs, questions about processes that they must not know. */
#include "tests/unit/csi/csi_fixture.h"

#include "csi/mount.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/handoff/fuse_kernel.h"
#include "lib/handoff/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t ask(int sock, int fd)
{
    struct err e = ERR_INIT;
    struct handoff_msg m;
    int got;
    assert_int_equal(handoff_send(sock, HANDOFF_BACKING_OPEN, NULL, 0, fd, &e), 0);
    assert_int_equal(handoff_recv(sock, NULL, &m, &got, &e), 1);
    assert_int_equal(m.type, HANDOFF_BACKING);
    int64_t id;
    memcpy(&id, m.payload, sizeof id);
    return id;
}

static bool dropped(int sock) /* the plugin has closed it */
{
    struct err e = ERR_INIT;
    struct handoff_msg m;
    int fd, rc;
    while ((rc = handoff_recv(sock, NULL, &m, &fd, &e)) == 1)
        if (fd >= 0)
            close(fd);
    close(sock);
    return rc == 0;
}

static void test_hostile_messages(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    int sock = handoff_connect(w->sock, &e); /* no hello first */
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_true(dropped(sock));
    uint32_t version = 99;
    sock = handoff_connect(w->sock, &e);
    handoff_send(sock, HANDOFF_HELLO, &version, sizeof version, -1, &e);
    assert_true(dropped(sock));
    sock = csi_fixture_hello(w);
    assert_int_equal(send(sock, "short", 5, 0), 5);
    assert_true(dropped(sock));
    sock = csi_fixture_hello(w);
    handoff_send(sock, HANDOFF_WELCOME, "x", 1, -1, &e);
    assert_true(dropped(sock));
    /* serving, before there is a mount; an fd that nobody wants; ids that were never given */
    sock = csi_fixture_hello(w);
    int64_t id = 1;
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, null, &e);
    handoff_send(sock, HANDOFF_BACKING_CLOSE, &id, sizeof id, -1, &e);
    assert_int_equal(ask(sock, null), -EINVAL);
    assert_false(state_of(w).usable);
    close(sock);
    eventually(!state_of(w).connected);
    csi_fixture_close(w);
}

static int new_file(const char *dir, const char *name, int flags)
{
    cleanup_free char *path = path_join(dir, name);
    close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    return open(path, flags | O_CLOEXEC);
}

/* What may be registered as a backing file, by a client that has the fuse fd. */
static void test_hostile_files(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    int sock = csi_fixture_hello(w); /* waits behind the client … */
    end_client(pid);
    struct handoff_msg m;
    cleanup_fd int fuse = -1;
    assert_int_equal(
        handoff_recv(sock, NULL, &m, &fuse, &e), 1); /* … and is welcomed once it has gone */
    assert_int_equal(m.type, HANDOFF_WELCOME);
    assert_true(fuse >= 0);

    cleanup_fd int dir = open(w->cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                   null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cleanup_fd int other = open("/proc/self/status", O_RDONLY | O_CLOEXEC),
                   path = new_file(w->cache, "p", O_PATH);
    cleanup_fd int writer = new_file(w->cache, "w", O_WRONLY),
                   foreign = new_file(w->cache, "x", O_RDONLY);
    assert_int_equal(fchown(foreign, 54321, -1), 0);
    assert_int_equal(ask(sock, dir), -EPERM);
    assert_int_equal(ask(sock, null), -EPERM);
    assert_int_equal(ask(sock, other), -EPERM);
    assert_int_equal(ask(sock, path), -EPERM);
    assert_int_equal(ask(sock, writer), -EPERM);
    assert_int_equal(ask(sock, foreign), -EPERM);
    assert_int_equal(ask(sock, -1), -EINVAL);

    cleanup_fd int a = new_file(w->cache, "a", O_RDONLY), a2 = new_file(w->cache, "a", O_RDWR),
                   b = new_file(w->cache, "b", O_RDONLY), c = new_file(w->cache, "c", O_RDONLY),
                   d = new_file(w->cache, "d", O_RDONLY);
    int64_t id = ask(sock, a);
    assert_true(id > 0);
    assert_int_equal(ask(sock, a2), id); /* the file counts, not the fd */
    /* given back once of twice: the kernel has it still */
    assert_int_equal(handoff_send(sock, HANDOFF_BACKING_CLOSE, &id, sizeof id, -1, &e), 0);
    assert_int_equal(ask(sock, dir), -EPERM); /* it has been handled */
    assert_int_equal(state_of(w).backing_files, 1);
    assert_int_equal(ioctl(fuse, FUSE_KERNEL_BACKING_CLOSE, &(uint32_t){(uint32_t)id}), 0);
    assert_int_equal(handoff_send(sock, HANDOFF_BACKING_CLOSE, &id, sizeof id, -1, &e), 0);
    id = ask(sock, a);
    assert_true(id > 0);
    int64_t id_b = ask(sock, b);
    assert_true(id_b > 0 && id_b != id);
    assert_true(ask(sock, c) > 0);
    assert_int_equal(ask(sock, d), -ENFILE); /* backing_max is 3 */
    assert_int_equal(handoff_send(sock, HANDOFF_BACKING_CLOSE, &id_b, sizeof id_b, -1, &e), 0);
    assert_int_equal(
        handoff_send(sock, HANDOFF_BACKING_CLOSE, &(int64_t){987654}, sizeof id_b, -1, &e), 0);
    assert_true(ask(sock, d) > 0);
    assert_int_equal(state_of(w).backing_files, 3);
    close(sock);
    /* nobody answers: it is aborted then */
    assert_int_equal(handoff_unstage(w->mount, clock_mono_ns() + 3 * NS_PER_S, &e), 0);
    csi_fixture_close(w);
}

/* A socket whose close() waits: bytes that its peer does not read, and a long linger. */
static int lingering_socket(int *peer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    static const char zeros[65536];
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(l, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(c, (struct sockaddr *)&a, sizeof a), 0);
    *peer = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    close(l);
    while (send(c, zeros, sizeof zeros, MSG_DONTWAIT) > 0)
        continue;
    const struct linger g = {.l_onoff = 1, .l_linger = 1000};
    assert_int_equal(setsockopt(c, SOL_SOCKET, SO_LINGER, &g, sizeof g), 0);
    return c;
}

/* A FUSE mount whose server answers no FLUSH: close() of its file waits for ever. */
static void serve_without_flush(int fd)
{
    static char buffer[1 << 20];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0 || errno == EINTR;) {
        const struct fuse_in_header *in = (const void *)buffer;
        struct {
            struct fuse_out_header h;
            union {
                struct fuse_init_out init;
                struct fuse_attr_out attr;
                struct fuse_entry_out entry;
                struct fuse_open_out open;
            } u;
        } r = {.h.unique = in->unique};
        size_t len = 0;
        switch (in->opcode) {
        case FUSE_INIT:
            r.u.init = (struct fuse_init_out){.major = 7, .minor = 31, .max_write = 65536};
            len = sizeof r.u.init;
            break;
        case FUSE_GETATTR:
            r.u.attr = (struct fuse_attr_out){
                .attr_valid = 99, .attr = {.ino = in->nodeid, .mode = S_IFDIR | 0755, .nlink = 1}};
            len = sizeof r.u.attr;
            break;
        case FUSE_LOOKUP:
            r.u.entry = (struct fuse_entry_out){.nodeid = 2,
                .entry_valid = 99,
                .attr_valid = 99,
                .attr = {.ino = 2, .mode = S_IFREG | 0644, .nlink = 1}};
            len = sizeof r.u.entry;
            break;
        case FUSE_OPEN:
            len = sizeof r.u.open;
            break;
        default:
            continue;
        }
        r.h.len = (uint32_t)(sizeof r.h + len);
        if (write(fd, &r, r.h.len) < 0)
            break;
    }
    _exit(0);
}

/* Whatever a client sends, on any message: what is asked about its volume is answered at once, and
 * the volume can be given up. */
static void test_hostile_close(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *dir = path_join(w->env->dir, "own"), *name = path_join(dir, "f");
    int fuse = -1, peer;
    dev_t dev;
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(mount_fuse(dir, false, &fuse, &dev, &e), 0);
    pid_t server = fork();
    if (server == 0)
        serve_without_flush(fuse);
    close(fuse);
    csi_fixture_open(w, 0);
    pid_t sender = fork(); /* its own copies go without a flush of ours */
    if (sender == 0) {
        int hung = open(name, O_RDONLY | O_CLOEXEC);
        int tcp = lingering_socket(&peer);
        const enum handoff_type types[] = {
            HANDOFF_HELLO, HANDOFF_BACKING_OPEN, HANDOFF_RETURN_FD, HANDOFF_WHO};
        for (size_t i = 0; hung >= 0 && i < ARRAY_LEN(types); i++)
            for (int k = 0; k < 3; k++) {
                int sock = csi_fixture_hello(w);
                handoff_send(sock, types[i], &(int64_t){1}, 8, k == 1 ? tcp : hung, &e);
                shutdown(sock, SHUT_WR);
            }
        close(open(w->trace, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        for (;;)
            pause();
    }
    eventually(access(w->trace, F_OK) == 0);
    int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    clock_sleep_ns(NS_PER_S); /* the thread has come to a close that waits */
    struct handoff_state s;
    assert_int_equal(handoff_state(w->mount, until, &s, &e), 0);
    assert_int_equal(handoff_published(w->mount, false, until, &e), 0);
    csi_fixture_close(w);
    assert_int_equal(access(w->sock, F_OK), -1);
    assert_true(clock_mono_ns() < until);
    assert_int_equal(mount_abort(dir, dev, &e), 0); /* what still hangs ends */
    end_client(sender);
    end_client(server);
    assert_int_equal(mount_detach(dir, &e), 0);
}

/* A fuse fd of another mount is not taken for ours, where the kernel tells. */
static void test_hostile_return(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    csi_fixture_close(w);
    kill(pid, SIGSTOP); /* it would come back at once */
    csi_fixture_open(w, 0);
    handoff_adopt(w->mount, w->staging, dev, false);
    cleanup_free char *elsewhere = path_join(w->env->dir, "elsewhere");
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int other = -1;
    dev_t other_dev;
    assert_int_equal(mkdir(elsewhere, 0755), 0);
    assert_int_equal(mount_fuse(elsewhere, false, &other, &other_dev, &e), 0);
    int sock = csi_fixture_hello(w);
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, null, &e);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_true(dropped(sock)); /* it serves none */
    assert_false(state_of(w).usable);
    sock = csi_fixture_hello(w);
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, other, &e);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_true(dropped(sock)); /* it serves another mount */
    assert_false(state_of(w).usable);
    close(other);
    assert_int_equal(mount_end_fuse(elsewhere, false, 0, &e), 0);
    kill(pid, SIGCONT);
    must_stage(w);
    assert_int_equal(check_file(w), 0);
    must_unstage(w);
    csi_fixture_close(w);
    end_client(pid);
}

static void *stager(void *fixture)
{
    must_stage(fixture);
    return NULL;
}

/* Nor is one of a mount that is over: the next mount may have its number. What its client says of
 * it, its INIT above all, is not about the next mount. */
static void test_return_of_an_ended_mount(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    struct handoff_msg m;
    cleanup_free char *before = path_join(w->env->dir, "before");
    static const unsigned char old_init[80] = {80, 0, 0, 0, FUSE_INIT};
    cleanup_fd int ended = -1, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fuse = -1;
    dev_t dev;
    long long init_len = -1;
    csi_fixture_open(w, 0);
    assert_int_equal(mkdir(before, 0755), 0);
    assert_int_equal(mount_fuse(before, false, &ended, &dev, &e), 0);
    assert_int_equal(mount_end_fuse(before, false, 0, &e), 0);
    int sock = csi_fixture_hello(w);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stager, w), 0);
    assert_int_equal(handoff_recv(sock, NULL, &m, &fuse, &e), 1);
    assert_int_equal(m.type, HANDOFF_WELCOME);
    close(fuse);
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, ended, &e);
    handoff_send(sock, HANDOFF_INIT, old_init, sizeof old_init, -1, &e);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_true(dropped(sock));
    sock = csi_fixture_hello(w); /* and comes back with what has that number by now */
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, null, &e);
    handoff_send(sock, HANDOFF_INIT, old_init, sizeof old_init, -1, &e);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_true(dropped(sock));
    pid_t pid = client(w);
    pthread_join(thread, NULL);
    assert_int_equal(check_file(w), 0);
    assert_int_equal(traced(w, "welcome", &init_len), 1);
    assert_int_equal(init_len, 0);
    must_unstage(w);
    csi_fixture_close(w);
    end_client(pid);
}

static void ask_who(int sock, int64_t pid, char out[CALLER_MAX])
{
    struct err e = ERR_INIT;
    struct handoff_msg m;
    struct handoff_caller c;
    int fd;
    assert_int_equal(handoff_send(sock, HANDOFF_WHO, &pid, sizeof pid, -1, &e), 0);
    do
        assert_int_equal(handoff_recv(sock, NULL, &m, &fd, &e), 1);
    while (m.type == HANDOFF_WELCOME && (fd < 0 || close(fd) == 0));
    assert_int_equal(m.type, HANDOFF_CALLER);
    assert_int_equal(m.len, sizeof c);
    memcpy(&c, m.payload, sizeof c);
    assert_int_equal(c.pid, pid);
    memcpy(out, c.name, CALLER_MAX);
}

/* A client is told of those that have its dataset mounted, and of nobody else. */
static void test_who(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    char name[CALLER_MAX], want[CALLER_MAX];
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    pid_t stranger = fork();
    if (stranger == 0) { /* where the mount is not */
        if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)
            || umount2(w->staging, MNT_DETACH) || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], name, 1), 1);
    int sock = csi_fixture_hello(w);
    end_client(pid); /* ours is the next */
    ask_who(sock, getpid(), name);
    snprintf(want, sizeof want, "pod of %d", (int)getpid());
    assert_string_equal(name, want);
    const int64_t nobody[] = {stranger, 0, -1, INT64_MAX, (int64_t)getpid() + (INT64_C(1) << 32)};
    for (size_t i = 0; i < ARRAY_LEN(nobody); i++) {
        ask_who(sock, nobody[i], name);
        assert_string_equal(name, CALLER_UNKNOWN);
    }
    close(sock);
    end_client(stranger);
    assert_int_equal(handoff_unstage(w->mount, clock_mono_ns() + 5 * NS_PER_S, &e), 0);
    csi_fixture_close(w);
    close(ready[0]);
    close(ready[1]);
}

struct exchange {
    int dir;
    atomic_bool stop;
};

/* Puts a link to somebody else's file in the place of the socket, and back. */
static void *exchange_thread(void *user)
{
    struct exchange *x = user;
    while (!atomic_load(&x->stop))
        renameat2(x->dir, VOLUME_SOCKET, x->dir, "link", RENAME_EXCHANGE);
    return NULL;
}

/* The socket is made everybody's, not what a pod that owns the directory puts there meanwhile. */
static void test_link_for_socket(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    struct stat st;
    cleanup_free char *parent = xstrndup(w->cache, (size_t)(strrchr(w->cache, '/') - w->cache)),
                      *place = path_join(parent, "race"), *path = path_join(place, VOLUME_SOCKET),
                      *secret = path_join(parent, "secret");
    assert_int_equal(file_write_atomic(secret, "x", 1, 0600, &e), 0);
    assert_int_equal(mkdir(place, 0700), 0);
    cleanup_fd int dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat(secret, dir, "link"), 0);
    struct exchange x = {.dir = dir};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, exchange_thread, &x), 0);
    for (int i = 0; i < 500; i++) {
        int fd = handoff_listen(path, &e); /* it may fail: the link was there */
        if (fd >= 0)
            close(fd);
        assert_int_equal(stat(secret, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        unlinkat(dir, "link", 0); /* which may be the socket by now */
        assert_int_equal(symlinkat(secret, dir, "link"), 0);
    }
    atomic_store(&x.stop, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 0;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_hostile_messages, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_hostile_files, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_hostile_close, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_who, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_link_for_socket, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_hostile_return, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_return_of_an_ended_mount, csi_fixture_setup, csi_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
