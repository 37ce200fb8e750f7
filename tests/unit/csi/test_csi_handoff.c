/* SPDX-License-Identifier: Apache-2.0 */
/* The handoff against real FUSE mounts and real client processes (tests/fake/handoff_client.c),
 * which are killed, stopped and hostile. */
#include "tests/unit/csi/csi_fixture.h"

#include "csi/mount.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_no_client(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    int64_t began = clock_mono_ns();
    assert_int_equal(stage(w, 300, &e), -1);
    assert_true(clock_mono_ns() - began < 20 * NS_PER_S); /* not for ever */
    assert_int_equal(e.cls, ERR_RETRY);
    assert_string_equal(e.msg,
        "the client pod of dataset default/mnist has not connected on node node-1 yet: "
        "kubectl -n default get pod -l millrace.dev/dataset=mnist -o wide");
    assert_false(mounted(w));
    world_close(w);
    assert_int_equal(access(w->sock, F_OK), -1);
}

static bool always(const void *arg)
{
    (void)arg;
    return true;
}

static void test_cancelled(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    struct handoff_want want = {.staging = w->staging,
        .context = &w->context,
        .deadline_ns = clock_mono_ns() + 60 * NS_PER_S,
        .cancelled = always};
    int64_t began = clock_mono_ns();
    assert_int_equal(handoff_stage(w->mount, &want, &e), -1);
    assert_true(clock_mono_ns() - began < 30 * NS_PER_S); /* of the 60 s that it had */
    assert_int_equal(e.sys, ECANCELED);
    world_close(w);
}

static void test_serves(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    must_stage(w); /* again: the same */
    assert_int_equal(check_file(w), 0);
    struct handoff_state s = state_of(w);
    assert_true(s.mounted && s.connected && s.usable);
    assert_int_equal(s.pid, pid);
    assert_int_equal(s.backing_files, 1);
    long long id = 0;
    assert_int_equal(traced(w, "backing", &id), 1);
    assert_true(id > 0);
    /* passthrough: the kernel did not ask the client */
    assert_int_equal(traced(w, "read", NULL), 0);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    char path[128];
    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(dev), minor(dev));
    cleanup_free char *kb = file_read(path, 64, NULL, &e);
    assert_non_null(kb);
    assert_int_equal(atoi(kb), 4096);

    struct handoff_want elsewhere = {
        .staging = w->dir, .context = &w->context, .deadline_ns = clock_mono_ns()};
    assert_int_equal(handoff_stage(w->mount, &elsewhere, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);

    must_unstage(w);
    assert_false(mounted(w));
    assert_false(state_of(w).mounted);
    assert_int_equal(state_of(w).backing_files, 0);
    must_unstage(w);
    must_stage(w); /* the same client gets the next mount */
    assert_int_equal(check_file(w), 0);
    must_unstage(w);
    world_close(w);
    end_client(pid);
}

static void test_client_killed(void **state)
{
    struct world *w = *state;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    cleanup_fd int held = open(w->file, O_RDONLY | O_CLOEXEC);
    assert_true(held >= 0);
    assert_int_equal(check_fd(held), 0);
    for (int i = 0; i < 5; i++) {
        pid_t next = client(w);
        end_client(pid);
        pid = next;
        assert_int_equal(check_fd(held), 0);
        assert_int_equal(check_file(w), 0); /* waits for the new one */
        eventually(state_of(w).pid == pid);
    }
    close(held);
    held = -1;
    end_client(pid);
    eventually(!state_of(w).connected);
    assert_true(state_of(w).usable);
    pid = client(w);
    assert_int_equal(check_file(w), 0);
    long long first = 0, last = 0;
    traced(w, "backing", &first);
    assert_int_equal(traced(w, "backing", &last), 7);
    assert_int_equal(first, last); /* the id outlives its client */
    must_unstage(w);
    world_close(w);
    end_client(pid);
}

static void test_plugin_restarted(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    cleanup_fd int held = open(w->file, O_RDONLY | O_CLOEXEC);
    assert_int_equal(check_fd(held), 0);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    for (int i = 0; i < 3; i++) {
        world_close(w);
        assert_true(mounted(w));
        assert_int_equal(check_file(w), 0); /* no plugin runs, the client serves */
        world_open(w, 0);
        handoff_adopt(w->mount, w->staging, dev, false);
        must_stage(w); /* as NodePublish does: waits for the fd */
        assert_int_equal(check_file(w), 0);
    }
    assert_int_equal(traced(w, "returned", NULL), 3);
    assert_int_equal(state_of(w).backing_files, 1); /* known again from the log */
    pid_t next = client(w);
    end_client(pid); /* the fd came back for good: the next client goes on */
    pid = next;
    assert_int_equal(check_fd(held), 0);
    assert_int_equal(check_file(w), 0);
    long long init = 0, id[2] = {0, 0};
    traced(w, "welcome", &init);
    assert_true(init >= 48); /* INIT was known from the state directory */
    assert_int_equal(traced(w, "backing", &id[1]), 2);
    assert_int_equal(state_of(w).backing_files, 1);
    must_unstage(w);
    world_close(w);
    end_client(pid);
}

/* Plugin and client both dead: the mount is lost, but not for ever. */
static void test_both_dead(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    world_close(w);
    end_client(pid);
    assert_int_equal(check_file(w), ENOTCONN);
    world_open(w, 0);
    handoff_adopt(w->mount, w->staging, dev, false);
    pid = client(w);
    must_stage(w);
    assert_int_equal(check_file(w), 0);
    must_unstage(w);
    assert_false(mounted(w)); /* nor the dead one below */
    world_close(w);
    end_client(pid);
}

static void test_client_says_no(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    setenv("FAKE_FAIL", "s3://bucket: 403 AccessDenied\nsecond line", 1);
    pid_t pid = client(w);
    assert_int_equal(stage(w, 60000, &e), -1);
    assert_string_equal(e.msg,
        "dataset default/mnist cannot be served on node node-1: s3://bucket: 403 AccessDenied second line");
    assert_false(mounted(w));
    assert_false(state_of(w).mounted);
    eventually(state_of(w).connected); /* it comes back for the next attempt */
    end_client(pid);
    unsetenv("FAKE_FAIL");
    pid = client(w);
    must_stage(w);
    assert_int_equal(check_file(w), 0);
    assert_string_equal(state_of(w).failed, "");
    must_unstage(w);
    world_close(w);
    end_client(pid);
}

/* A client that is alive and does not answer: unstage ends in time, and so do its readers. */
static void test_stuck_client(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    kill(pid, SIGSTOP);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, slow_reader, w), 0);
    clock_sleep_ns(200 * NS_PER_MS);
    struct statfs fs;
    assert_int_equal(mount_statfs(w->staging, clock_mono_ns() + 300 * NS_PER_MS, &fs, &e), -1);
    assert_int_equal(e.sys, ETIMEDOUT);
    int64_t began = clock_mono_ns();
    assert_int_equal(handoff_unstage(w->mount, began + 2 * NS_PER_S, &e), 0);
    assert_true(clock_mono_ns() - began < 30 * NS_PER_S); /* nobody answers before it is aborted */
    void *result = NULL;
    pthread_join(reader, &result);
    assert_true((intptr_t)result != 0);
    assert_false(mounted(w));
    world_close(w);
    end_client(pid);
}

static void test_abandoned(void **state)
{
    struct world *w = *state;
    world_open(w, NS_PER_S);
    pid_t pid;
    int rc = ENOTCONN;
    /* a machine that stops for longer than that begins to read too late */
    for (int tries = 0; tries < 10 && rc == ENOTCONN; tries++) {
        pid = client(w);
        must_stage(w);
        end_client(pid);
        rc = check_file(w); /* waits, until the plugin gives up */
    }
    assert_int_equal(rc, ECONNABORTED);
    assert_int_equal(check_file(w), ENOTCONN);
    pid = client(w);
    must_stage(w); /* made again for the next one */
    assert_int_equal(check_file(w), 0);
    must_unstage(w);
    world_close(w);
    end_client(pid);
}

/* Without a client, and without a pod that has the volume: whoever looks at the mount must not wait
 * for ever. */
static void test_unused(void **state)
{
    struct world *w = *state;
    world_open(w, 0);
    pid_t pid;
    int rc = ENOTCONN;
    for (int tries = 0; tries < 10 && rc == ENOTCONN; tries++) {
        pid = client(w);
        must_stage(w);
        handoff_published(w->mount, false);
        assert_int_equal(check_file(w), 0); /* it has a client */
        end_client(pid);
        rc = check_file(w);
    }
    assert_int_equal(rc, ECONNABORTED);
    assert_int_equal(check_file(w), ENOTCONN);
    pid = client(w);
    must_stage(w);
    assert_int_equal(check_file(w), 0);
    must_unstage(w);
    world_close(w);
    end_client(pid);
}

static int hello(struct world *w)
{
    struct err e = ERR_INIT;
    uint32_t version = HANDOFF_VERSION;
    int sock = handoff_connect(w->sock, &e);
    assert_true(sock >= 0);
    assert_int_equal(handoff_send(sock, HANDOFF_HELLO, &version, sizeof version, -1, &e), 0);
    return sock;
}

static int64_t ask(int sock, int fd)
{
    struct err e = ERR_INIT;
    struct handoff_msg m;
    int got;
    assert_int_equal(handoff_send(sock, HANDOFF_BACKING_OPEN, NULL, 0, fd, &e), 0);
    assert_int_equal(handoff_recv(sock, &m, &got, &e), 1);
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
    while ((rc = handoff_recv(sock, &m, &fd, &e)) == 1)
        if (fd >= 0)
            close(fd);
    close(sock);
    return rc == 0;
}

static void test_hostile_messages(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    int sock = handoff_connect(w->sock, &e); /* no hello first */
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_true(dropped(sock));
    uint32_t version = 99;
    sock = handoff_connect(w->sock, &e);
    handoff_send(sock, HANDOFF_HELLO, &version, sizeof version, -1, &e);
    assert_true(dropped(sock));
    sock = hello(w);
    assert_int_equal(send(sock, "short", 5, 0), 5);
    assert_true(dropped(sock));
    sock = hello(w);
    handoff_send(sock, HANDOFF_WELCOME, "x", 1, -1, &e);
    assert_true(dropped(sock));
    /* serving, before there is a mount; an fd that nobody wants; ids that were never given */
    sock = hello(w);
    int64_t id = 1;
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, null, &e);
    handoff_send(sock, HANDOFF_BACKING_CLOSE, &id, sizeof id, -1, &e);
    assert_int_equal(ask(sock, null), -EINVAL);
    assert_false(state_of(w).usable);
    close(sock);
    eventually(!state_of(w).connected);
    world_close(w);
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
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    int sock = hello(w); /* waits behind the client … */
    end_client(pid);
    struct handoff_msg m;
    cleanup_fd int fuse = -1;
    assert_int_equal(handoff_recv(sock, &m, &fuse, &e), 1); /* … and is welcomed once it has gone */
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
    world_close(w);
}

/* A fuse fd of another mount is not taken for ours, where the kernel tells. */
static void test_hostile_return(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    world_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    world_close(w);
    kill(pid, SIGSTOP); /* it would come back at once */
    world_open(w, 0);
    handoff_adopt(w->mount, w->staging, dev, false);
    cleanup_free char *elsewhere = path_join(w->env->dir, "elsewhere");
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int other = -1;
    dev_t other_dev;
    assert_int_equal(mkdir(elsewhere, 0755), 0);
    assert_int_equal(mount_fuse(elsewhere, false, &other, &other_dev, &e), 0);
    int sock = hello(w);
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, null, &e);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    assert_int_equal(ask(sock, null), -EINVAL); /* answered in order: the above has been handled */
    assert_false(state_of(w).usable);
    close(sock);
    close(other);
    assert_int_equal(mount_end_fuse(elsewhere, false, 0, &e), 0);
    kill(pid, SIGCONT);
    must_stage(w);
    assert_int_equal(check_file(w), 0);
    must_unstage(w);
    world_close(w);
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
        assert_int_equal(handoff_recv(sock, &m, &fd, &e), 1);
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
    struct world *w = *state;
    struct err e = ERR_INIT;
    char name[CALLER_MAX], want[CALLER_MAX];
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    world_open(w, 0);
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
    int sock = hello(w);
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
    world_close(w);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 0;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_client, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_serves, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_client_killed, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_plugin_restarted, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_both_dead, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_client_says_no, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_stuck_client, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_abandoned, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_unused, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_messages, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_files, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_who, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_return, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
