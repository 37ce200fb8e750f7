/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of requests that are under way when a client ends or the plugin restarts, on real
 * FUSE mounts. */
#include "tests/unit/csi/csi_fixture.h"

#include "csi/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A plugin, and a client that takes so long over each READ: its files may not be registered, so
 * that every read goes to it. */
static pid_t slow_client(struct csi_fixture *w, const char *ms)
{
    assert_int_equal(chmod(w->cache, 0755), 0);
    assert_int_equal(chown(w->cache, 12345, -1), 0);
    csi_fixture_open(w, 0);
    setenv("FAKE_SLEEP_MS", ms, 1);
    pid_t pid = client(w);
    unsetenv("FAKE_SLEEP_MS");
    must_stage(w);
    return pid;
}

/* A request that the dead client had read is sent again to its successor. */
static void test_request_in_flight(void **state)
{
    struct csi_fixture *w = *state;
    pid_t pid = slow_client(w, "1500");
    pid_t next = client(w);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, slow_reader, w), 0);
    eventually(traced(w, "reading", NULL) > 0); /* it is in its first READ */
    end_client(pid);
    pid = next;
    void *result = NULL;
    pthread_join(reader, &result);
    assert_int_equal((intptr_t)result, 0);
    long long opcode = 0;
    assert_true(traced(w, "resent", &opcode) > 0);
    assert_int_equal(state_of(w).backing_files, 0);
    must_unstage(w);
    csi_fixture_close(w);
    end_client(pid);
}

/* The client lives while the plugin restarts: what it works on is not sent again. */
static void test_request_over_restart(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    pid_t pid = slow_client(w, "1500");
    dev_t dev = 0;
    assert_int_equal(mount_at(w->staging, &dev, NULL, NULL, &e), 1);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, slow_reader, w), 0);
    eventually(traced(w, "reading", NULL) > 0);
    csi_fixture_close(w);
    csi_fixture_open(w, 0);
    handoff_adopt(w->mount, w->staging, dev, false);
    must_stage(w);
    void *result = NULL;
    pthread_join(reader, &result);
    assert_int_equal((intptr_t)result, 0);
    assert_int_equal(traced(w, "resent", NULL), 0);
    must_unstage(w);
    csi_fixture_close(w);
    end_client(pid);
}

/* One request that the reader itself waits for: not by way of the page cache, where who waits can
 * be killed anyway. */
static void read_direct(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    void *block = NULL;
    if (fd < 0 || posix_memalign(&block, 4096, 4096))
        _exit(2);
    _exit(read(fd, block, 4096) != 4096);
}

/* A process whose read the client took with it can be killed. */
static void test_reader_killed(void **state)
{
    struct csi_fixture *w = *state;
    pid_t pid = slow_client(w, "600000");
    pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0)
        read_direct(w->file);
    eventually(traced(w, "reading", NULL) > 0);
    end_client(pid);
    eventually(!state_of(w).connected);
    assert_int_equal(kill(reader, SIGKILL), 0);
    int status = 0;
    eventually(waitpid(reader, &status, WNOHANG) == reader);
    assert_true(WIFSIGNALED(status));
    publish(w, false);
    assert_int_equal(check_file(w), ECONNABORTED);
    must_unstage(w);
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
        cmocka_unit_test_setup_teardown(
            test_request_in_flight, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_request_over_restart, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_reader_killed, csi_fixture_setup, csi_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
