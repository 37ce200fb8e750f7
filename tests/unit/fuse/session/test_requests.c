/* SPDX-License-Identifier: Apache-2.0 */
/* What is watched of requests, whether or not anybody waits for their answer. */
#include "tests/lib/unit.h"

#include "fuse/session/requests.h"
#include "lib/base/clock.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AFTER_NS         (400 * NS_PER_MS)
#define STOPPED_AFTER_NS (3 * NS_PER_S)
#define INO              5

static _Atomic unsigned stuck;

static void on_stuck(void *user)
{
    (void)user;
    stuck++;
}

static void begin(uint32_t opcode, uint64_t unique)
{
    const struct {
        struct fuse_in_header h;
        char body[64];
    } request = {.h = {.opcode = opcode, .unique = unique, .nodeid = INO}};
    requests_begin(&request, sizeof request);
}

static void wait_marking(int64_t ns, bool gets_on)
{
    for (int64_t until = clock_mono_ns() + ns; clock_mono_ns() < until;) {
        if (gets_on)
            progress_mark();
        clock_sleep_ns(NS_PER_MS);
    }
}

/* A release that nobody waits for, and a pin: they may take long, as long as they get on. */
static void test_long(void **state)
{
    (void)state;
    static const uint32_t opcodes[] = {FUSE_RELEASE, FUSE_IOCTL};
    struct err e = ERR_INIT;
    int kernel[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, kernel), 0);
    struct requests *r = requests_start(kernel[0], AFTER_NS, on_stuck, NULL, &e);
    assert_non_null(r);
    requests_join(r);
    for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        struct fuse_out_header h;
        begin(opcodes[i], 70 + i);
        wait_marking(2 * AFTER_NS, true);
        assert_int_equal(stuck, i);
        wait_marking(3 * AFTER_NS, false);
        assert_int_equal(stuck, i + 1);
        assert_int_equal(recv(kernel[1], &h, sizeof h, MSG_DONTWAIT), sizeof h);
        assert_true(h.unique == 70 + i && h.error == -EIO);
        assert_false(requests_end(70 + i));
        begin(opcodes[i], 80 + i);
        assert_true(requests_end(80 + i));
    }
    requests_leave();
    requests_stop(r);
    close(kernel[0]);
    close(kernel[1]);
}

/* A process with a request under way is stopped for longer than a request may take, as by a frozen
 * control group: that time is nobody's. */
static void test_stopped(void **state)
{
    (void)state;
    int tell[2], status = -1;
    char c = 'r';
    assert_int_equal(pipe(tell), 0);
    pid_t child = fork();
    if (child == 0) {
        struct err e = ERR_INIT;
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        struct requests *r = requests_start(null, STOPPED_AFTER_NS, on_stuck, NULL, &e);
        requests_join(r);
        begin(FUSE_READ, 1);
        if (write(tell[1], &c, 1) != 1)
            _exit(2);
        for (int i = 0; i < 20; i++) /* it is stopped in here, and looked at after that */
            clock_sleep_ns(50 * NS_PER_MS);
        _exit(requests_end(1) ? 0 : 1);
    }
    assert_int_equal(read(tell[0], &c, 1), 1);
    kill(child, SIGSTOP);
    clock_sleep_ns(STOPPED_AFTER_NS + NS_PER_S);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(tell[0]);
    close(tell[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long), cmocka_unit_test(test_stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
