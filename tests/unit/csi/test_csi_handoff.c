/* SPDX-License-Identifier: Apache-2.0 */
/* The handoff against real FUSE mounts and real client processes (tests/fake/handoff_client.c),
 * which are killed and stopped. */
#include "tests/unit/csi/csi_fixture.h"

#include "csi/mount.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_no_client(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    int64_t began = clock_mono_ns();
    assert_int_equal(stage(w, 300, &e), -1);
    assert_true(clock_mono_ns() - began < 20 * NS_PER_S); /* not for ever */
    assert_int_equal(e.cls, ERR_RETRY);
    assert_string_equal(e.msg,
        "the client pod of dataset default/mnist has not connected on node node-1 yet: "
        "kubectl -n default get pod -l millrace.dev/dataset=mnist -o wide");
    assert_false(mounted(w));
    csi_fixture_close(w);
    assert_int_equal(access(w->sock, F_OK), -1);
}

static bool always(const void *arg)
{
    (void)arg;
    return true;
}

static void test_cancelled(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    struct handoff_want want = {.staging = w->staging,
        .context = &w->context,
        .deadline_ns = clock_mono_ns() + 60 * NS_PER_S,
        .cancelled = always};
    int64_t began = clock_mono_ns();
    assert_int_equal(handoff_stage(w->mount, &want, &e), -1);
    assert_true(clock_mono_ns() - began < 30 * NS_PER_S); /* of the 60 s that it had */
    assert_int_equal(e.sys, ECANCELED);
    csi_fixture_close(w);
}

static void test_serves(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
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
    csi_fixture_close(w);
    end_client(pid);
}

static void test_client_killed(void **state)
{
    struct csi_fixture *w = *state;
    csi_fixture_open(w, 0);
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
    assert_true(handoff_survives(w->mount));
    end_client(pid);
    eventually(!state_of(w).connected);
    assert_true(state_of(w).usable);
    assert_false(handoff_survives(w->mount)); /* nobody else has its fd */
    pid = client(w);
    assert_int_equal(check_file(w), 0);
    long long first = 0, last = 0;
    traced(w, "backing", &first);
    assert_int_equal(traced(w, "backing", &last), 7);
    assert_int_equal(first, last); /* the id outlives its client */
    assert_true(handoff_survives(w->mount));
    must_unstage(w);
    assert_true(handoff_survives(w->mount));
    csi_fixture_close(w);
    end_client(pid);
}

static void test_plugin_restarted(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    cleanup_fd int held = open(w->file, O_RDONLY | O_CLOEXEC);
    assert_int_equal(check_fd(held), 0);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    for (int i = 0; i < 3; i++) {
        csi_fixture_close(w);
        assert_true(mounted(w));
        assert_int_equal(check_file(w), 0); /* no plugin runs, the client serves */
        csi_fixture_open(w, 0);
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
    csi_fixture_close(w);
    end_client(pid);
}

/* Plugin and client both dead: the mount is lost, but not for ever. */
static void test_both_dead(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    csi_fixture_close(w);
    end_client(pid);
    assert_int_equal(check_file(w), ENOTCONN);
    csi_fixture_open(w, 0);
    handoff_adopt(w->mount, w->staging, dev, false);
    pid = client(w);
    must_stage(w);
    assert_int_equal(check_file(w), 0);
    long long at = 0;
    assert_int_equal(traced(w, "lost", &at), 1); /* it is told, for people */
    assert_true(at > 0 && at <= clock_real_ns() / NS_PER_S);
    must_unstage(w);
    assert_false(mounted(w)); /* nor the dead one below */
    csi_fixture_close(w);
    end_client(pid);
}

static void test_client_says_no(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
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
    csi_fixture_close(w);
    end_client(pid);
}

static int count_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* A client that is alive and does not answer: unstage ends in time, and so do its readers. */
static void test_stuck_client(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    kill(pid, SIGSTOP);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, slow_reader, w), 0);
    clock_sleep_ns(200 * NS_PER_MS);
    struct statfs fs;
    int threads = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mount_statfs(w->staging, clock_mono_ns() + 300 * NS_PER_MS, &fs, &e), -1);
        assert_int_equal(e.sys, ETIMEDOUT);
        threads = i == 0 ? count_threads() : threads;
    }
    assert_int_equal(count_threads(), threads); /* one question at a time */
    int64_t began = clock_mono_ns();
    assert_int_equal(handoff_unstage(w->mount, began + 2 * NS_PER_S, &e), 0);
    assert_true(clock_mono_ns() - began < 30 * NS_PER_S); /* nobody answers before it is aborted */
    void *result = NULL;
    pthread_join(reader, &result);
    assert_true((intptr_t)result != 0);
    assert_false(mounted(w));
    csi_fixture_close(w);
    end_client(pid);
}

/* Requests that a dead client had read are queued again by the next one, which may read already
 * when the plugin hears of the death; the plugin does it only where nobody comes. A reader can be
 * killed when it was done. */
static void test_queued_once(void **state)
{
    struct csi_fixture *w = *state;
    csi_fixture_open(w, 0);
    setenv("FAKE_SLEEP_OPEN_MS", "100000", 1);
    pid_t pid = client(w);
    unsetenv("FAKE_SLEEP_OPEN_MS");
    must_stage(w);
    pid_t reader = fork();
    if (reader == 0)
        _exit(check_file(w));
    eventually(traced(w, "opening", NULL) == 1);
    int next = handoff_connect(w->sock, &(struct err){0});
    assert_true(next >= 0);
    end_client(pid);
    eventually(!state_of(w).usable || state_of(w).pid != pid);
    kill(reader, SIGKILL);
    clock_sleep_ns(500 * NS_PER_MS);
    assert_int_equal(waitpid(reader, NULL, WNOHANG), 0);
    close(next);
    pid = client(w);
    eventually(waitpid(reader, NULL, WNOHANG) == reader);
    must_unstage(w);
    csi_fixture_close(w);
    end_client(pid);
}

static void test_abandoned(void **state)
{
    struct csi_fixture *w = *state;
    csi_fixture_open(w, NS_PER_S);
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
    csi_fixture_close(w);
    end_client(pid);
}

/* A client that keeps the fd and answers nobody, stopped or with threads that hang: its readers get
 * an error after the deadline, and the next client a mount of its own. */
static void test_unattended(void **state)
{
    struct csi_fixture *w = *state;
    static const char *const ways[] = {"stopped", "deaf", "stopped, and the plugin anew"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct err e = ERR_INIT;
        dev_t dev = 0;
        csi_fixture_open(w, 8 * NS_PER_S);
        if (i == 1)
            setenv("FAKE_DEAF", "1", 1);
        pid_t pid = client(w);
        unsetenv("FAKE_DEAF");
        must_stage(w);
        assert_int_equal(check_file(w), 0);
        assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
        cleanup_free char *absent = path_join(w->staging, "absent");
        if (i != 1)
            kill(pid, SIGSTOP);
        if (i == 2) {
            csi_fixture_close(w);
            csi_fixture_open(w, 8 * NS_PER_S);
            handoff_adopt(w->mount, w->staging, dev, false);
            publish(w, true);
        }
        struct stat st;
        eventually(stat(absent, &st) == -1 && errno != ENOENT); /* waits, until it is given up */
        assert_true(errno == ECONNABORTED || errno == ENOTCONN);
        assert_string_not_equal(state_of(w).lost, "");
        end_client(pid);
        pid = client(w);
        must_stage(w);
        assert_int_equal(check_file(w), 0);
        must_unstage(w);
        csi_fixture_close(w);
        end_client(pid);
    }
}

/* One that knows no pings is served as ever. */
static void test_old_client(void **state)
{
    struct csi_fixture *w = *state;
    csi_fixture_open(w, NS_PER_S);
    setenv("FAKE_OLD", "1", 1);
    pid_t pid = client(w);
    unsetenv("FAKE_OLD");
    must_stage(w);
    clock_sleep_ns(3 * NS_PER_S); /* longer than one without a client would be kept */
    assert_int_equal(check_file(w), 0);
    assert_true(state_of(w).connected && !state_of(w).silent);
    must_unstage(w);
    csi_fixture_close(w);
    end_client(pid);
}

/* Nobody is there to write anything back to: unstaging a writable volume does not wait for it. */
static void test_unstage_without_client(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    csi_fixture_open(w, 0);
    pid_t pid = client(w);
    must_stage(w);
    end_client(pid);
    int64_t deadline = clock_mono_ns() + 100 * NS_PER_S;
    assert_int_equal(handoff_unstage(w->mount, deadline, &e), 0);
    assert_true(clock_mono_ns() < deadline - 50 * NS_PER_S);
    assert_false(mounted(w));
    csi_fixture_close(w);
}

/* Without a client, and without a pod that has the volume: whoever looks at the mount must not wait
 * for ever. */
static void test_unused(void **state)
{
    struct csi_fixture *w = *state;
    csi_fixture_open(w, 0);
    pid_t pid;
    int rc = ENOTCONN;
    for (int tries = 0; tries < 10 && rc == ENOTCONN; tries++) {
        pid = client(w);
        must_stage(w);
        publish(w, false);
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
    csi_fixture_close(w);
    end_client(pid);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 0;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_client, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_serves, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_client_killed, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_plugin_restarted, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_both_dead, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_client_says_no, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_queued_once, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_stuck_client, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_abandoned, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unattended, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_old_client, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_unstage_without_client, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unused, csi_fixture_setup, csi_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
