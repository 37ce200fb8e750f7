/* SPDX-License-Identifier: Apache-2.0 */
/* What the second client of a mount may say: nothing that another one after it would believe. */
#include "tests/unit/csi/csi_fixture.h"

#include "lib/handoff/wire.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOPELESS_MS 10000 /* csi/handoff_thread.c */

static struct handoff_welcome welcomed(int sock)
{
    struct handoff_msg m;
    struct handoff_welcome out = {0};
    struct err e = ERR_INIT;
    int fuse = -1;
    assert_int_equal(handoff_recv(sock, NULL, &m, &fuse, &e), 1);
    assert_int_equal(m.type, HANDOFF_WELCOME);
    assert_true(fuse >= 0);
    close(fuse);
    memcpy(&out, m.payload, m.len);
    return out;
}

/* A mount whose first client has served it, and the one that comes after it. */
static int succeed(struct csi_fixture *w, struct handoff_welcome *welcome)
{
    pid_t pid = client(w);
    must_stage(w);
    int sock = csi_fixture_hello(w);
    end_client(pid);
    *welcome = welcomed(sock);
    return sock;
}

static void end_staged(struct csi_fixture *w)
{
    struct err e = ERR_INIT;
    assert_int_equal(handoff_unstage(w->mount, clock_mono_ns() + 3 * NS_PER_S, &e), 0);
    csi_fixture_close(w);
}

/* There is one INIT of a connection: that which the kernel sent to the first client. */
static void test_another_init(void **state)
{
    struct csi_fixture *w = *state;
    struct handoff_welcome first, second;
    struct err e = ERR_INIT;
    unsigned char other[104];
    csi_fixture_open(w, 0);
    int sock = succeed(w, &first);
    assert_true(first.init_len > 0);
    memset(other, 0x55, sizeof other);
    assert_int_equal(handoff_send(sock, HANDOFF_INIT, other, sizeof other, -1, &e), 0);
    close(sock);
    sock = csi_fixture_hello(w);
    second = welcomed(sock);
    assert_int_equal(second.init_len, first.init_len);
    assert_memory_equal(second.init, first.init, first.init_len);
    close(sock);
    end_staged(w);
}

/* It says that no client will ever serve the mount: readers do not wait for all the time that one
 * has to come back. */
static void test_hopeless(void **state)
{
    struct csi_fixture *w = *state;
    struct handoff_welcome welcome;
    struct err e = ERR_INIT;
    struct handoff_msg m;
    int fd;
    csi_fixture_open(w, 600 * NS_PER_S);
    int sock = succeed(w, &welcome);
    assert_int_equal(handoff_send(sock, HANDOFF_CANNOT_RESUME, NULL, 0, -1, &e), 0);
    struct pollfd p = {.fd = sock, .events = POLLIN};
    assert_int_equal(poll(&p, 1, HOPELESS_MS / 2), 0);
    assert_int_equal(poll(&p, 1, HOPELESS_MS), 1);
    assert_int_equal(handoff_recv(sock, NULL, &m, &fd, &e), 0); /* its mount was aborted */
    close(sock);
    end_staged(w);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 0;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_another_init, csi_fixture_setup, csi_fixture_teardown),
        cmocka_unit_test_setup_teardown(test_hopeless, csi_fixture_setup, csi_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
