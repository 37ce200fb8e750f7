/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor, above a serving process that does what the test says: it is linked in the place
 * of client.c. */
#include "tests/lib/unit.h"

#include "fuse/process/supervise.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNS 16

enum act {
    EXIT,          /* with .arg */
    DIE,           /* of signal .arg */
    LINGER,        /* and die of SIGKILL after .arg ms */
    SERVE,         /* until a signal comes, then exit with .arg */
    SERVE_AND_DIE, /* … then die of SIGKILL */
    BEAT,          /* the same as SERVE, with a heartbeat */
    STOP,          /* with a heartbeat, until it is stopped */
    HANG,          /* alive, deaf, and with no heartbeat any more */
};

/* Shared by the test, the supervisor and the serving processes. */
static struct script {
    struct {
        enum act act;
        int arg;
    } runs[RUNS]; /* the last one again and again */
    unsigned nruns;
    bool says_ready;
    int64_t hung_ns;
    bool hold;               /* it has a fuse fd */
    _Atomic ino_t held;      /* … this */
    _Atomic ino_t inherited; /* what it was started with; 0: none */
    _Atomic uint32_t init_len;
    _Atomic unsigned begun;
    _Atomic int64_t began_ns[RUNS];
    _Atomic int signal; /* that a serving process got */
    _Atomic pid_t supervisor, serving;
    _Atomic unsigned ended; /* of SERVE */
    int oom_score_adj;
    char name[16];
    bool mask_is_empty;
    _Atomic bool logs_to_file;
} * script;

static volatile sig_atomic_t got;

static void on_signal(int sig) { got = sig; }

bool client_is_read_only(const struct client_options *o)
{
    (void)o;
    return false;
}

void client_log_to_file(const struct client_options *o)
{
    (void)o;
    script->logs_to_file = true;
}

static void look_around(void)
{
    sigset_t mask;
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        script->oom_score_adj = atoi(text);
    prctl(PR_GET_NAME, script->name);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    script->mask_is_empty = true;
    for (int sig = 1; sig < 32; sig++)
        if (sigismember(&mask, sig))
            script->mask_is_empty = false;
}

enum client_exit client_run(
    const struct client_options *o, struct client_shared *shared, int fuse_fd, int ready_fd)
{
    if (!o->socket)
        abort(); /* cmocka is another process's here */
    struct stat st;
    script->inherited = fuse_fd >= 0 && fstat(fuse_fd, &st) == 0 ? st.st_ino : 0;
    script->init_len = shared->init_len;
    unsigned run = script->begun;
    if (run < RUNS)
        script->began_ns[run] = clock_mono_ns();
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    look_around();
    script->supervisor = getppid();
    script->serving = getpid();
    script->begun++;
    run = MIN(run, script->nruns - 1);
    if (script->says_ready && ready_fd >= 0) {
        if (write(ready_fd, "+", 1) != 1)
            abort();
        shared->init_len = 40;
    }
    if (script->hold) {
        struct err e = ERR_INIT;
        int fd = memfd_create("fuse", MFD_CLOEXEC);
        if (fstat(fd, &st) || handoff_send(shared->hold_sock, HANDOFF_RETURN_FD, NULL, 0, fd, &e))
            abort();
        script->held = st.st_ino;
        shared->init_len = 40;
    }
    switch (script->runs[run].act) {
    case EXIT:
        break;
    case DIE:
        signal(script->runs[run].arg, SIG_DFL);
        raise(script->runs[run].arg);
        break;
    case LINGER:
        clock_sleep_ns(script->runs[run].arg * NS_PER_MS);
        raise(SIGKILL);
        break;
    case STOP:
        atomic_fetch_add(&shared->beats.serving, 1);
        raise(SIGSTOP);
        break;
    case HANG:
        atomic_fetch_add(&shared->beats.serving, 1);
        for (;;)
            poll(NULL, 0, 1000);
    case BEAT:
        while (!got) {
            atomic_fetch_add(&shared->beats.serving, 1);
            poll(NULL, 0, 100);
        }
        break;
    case SERVE:
    case SERVE_AND_DIE:
        while (!got)
            poll(NULL, 0, 2); /* ThreadSanitizer holds signals back until a call that it knows */
        script->signal = got;
        script->ended++;
        if (script->runs[run].act == SERVE_AND_DIE)
            raise(SIGKILL);
        break;
    }
    _exit(script->runs[run].arg);
}

static void add(enum act act, int arg)
{
    script->runs[script->nruns].act = act;
    script->runs[script->nruns++].arg = arg;
}

static int setup(void **state)
{
    (void)state;
    script = mmap(NULL, sizeof *script, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return script == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(script, sizeof *script);
}

static pid_t supervise(bool daemonize)
{
    const struct client_options o = {.socket = "/nowhere", .hung_ns = script->hung_ns};
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(supervise_run(&o, daemonize));
    return pid;
}

/* Its exit status; -1: it was killed. */
static int wait_for(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Misuse is final; a mount that went is followed by the next one; what cannot serve is tried again.
 */
static void test_exit_codes(void **state)
{
    (void)state;
    add(EXIT, CLIENT_DONE);
    add(EXIT, CLIENT_BROKEN);
    add(EXIT, CLIENT_DONE);
    add(EXIT, CLIENT_MISUSE);
    assert_int_equal(wait_for(supervise(false)), CLIENT_MISUSE);
    assert_int_equal(script->begun, 4);
}

static void test_serving_process(void **state)
{
    (void)state;
    add(EXIT, CLIENT_MISUSE);
    wait_for(supervise(false));
    assert_int_equal(script->oom_score_adj, 500);
    assert_string_equal(script->name, "millrace-serve");
    assert_true(script->mask_is_empty);
}

/* Each kind of crash is followed by another process, after a pause that grows. */
/* A process that is killed is followed by one that has its fuse fd, whoever else has died; one
 * whose mount has ended by one that has none. */
static void test_holds_fd(void **state)
{
    (void)state;
    script->hold = true;
    add(LINGER, 200);
    add(SERVE, CLIENT_DONE);
    add(SERVE, CLIENT_DONE);
    pid_t pid = supervise(false);
    eventually(script->begun == 1 && script->held);
    ino_t first = script->held;
    assert_int_equal(script->inherited, 0);
    eventually(script->begun == 2 && script->held != first);
    assert_int_equal(script->inherited, first);
    assert_int_equal(script->init_len, 40);
    kill(script->serving, SIGTERM); /* as if its mount had ended */
    eventually(script->begun == 3);
    assert_int_equal(script->inherited, 0);
    assert_int_equal(script->init_len, 0);
    kill(pid, SIGTERM);
    wait_for(pid);
}

static void test_back_off(void **state)
{
    (void)state;
    static const int pauses_ms[] = {10, 20, 40, 80, 160};
    add(DIE, SIGKILL);
    add(DIE, SIGSEGV);
    add(DIE, SIGABRT);
    add(EXIT, CLIENT_BROKEN);
    add(DIE, SIGBUS);
    add(EXIT, CLIENT_MISUSE);
    assert_int_equal(wait_for(supervise(false)), CLIENT_MISUSE);
    assert_int_equal(script->begun, 6);
    for (size_t i = 0; i < ARRAY_LEN(pauses_ms); i++) {
        int64_t between = script->began_ns[i + 1] - script->began_ns[i];
        assert_true(between >= pauses_ms[i] * NS_PER_MS);
        assert_true(between < (pauses_ms[i] + 2000) * NS_PER_MS); /* a busy machine */
    }
}

/* One that has served for a while is followed at once, and the pauses begin anew. */
static void test_back_off_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++)
        add(DIE, SIGKILL); /* 10 … 640 ms; the next one would be 1280 */
    add(LINGER, 150);
    add(DIE, SIGKILL);
    add(EXIT, CLIENT_MISUSE);
    assert_int_equal(wait_for(supervise(false)), CLIENT_MISUSE);
    assert_int_equal(script->begun, 10);
    assert_true(script->began_ns[8] - script->began_ns[7] >= 150 * NS_PER_MS);
    assert_true(script->began_ns[8] - script->began_ns[7] < (150 + 1200) * NS_PER_MS);
    assert_true(script->began_ns[9] - script->began_ns[8] < 1200 * NS_PER_MS);
}

/* What ends the supervisor is passed on as SIGTERM, and the serving process's status is its own. */
static void test_signals(void **state)
{
    (void)state;
    static const struct {
        int sig, code;
    } cases[] = {{SIGTERM, CLIENT_DONE}, {SIGINT, CLIENT_BROKEN}, {SIGHUP, 7}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        memset(script, 0, sizeof *script);
        add(SERVE, cases[i].code);
        pid_t pid = supervise(false);
        eventually(script->begun == 1);
        kill(pid, cases[i].sig);
        assert_int_equal(wait_for(pid), cases[i].code);
        assert_int_equal(script->signal, SIGTERM);
        assert_int_equal(script->begun, 1); /* it is not started again */
    }
}

/* Killed while it ends: no other one is started. */
static void test_killed_at_the_end(void **state)
{
    (void)state;
    add(SERVE_AND_DIE, 0);
    pid_t pid = supervise(false);
    eventually(script->begun == 1);
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), CLIENT_BROKEN);
    assert_int_equal(script->begun, 1);
}

/* Without its supervisor it finishes what it does and ends. */
static void test_supervisor_is_killed(void **state)
{
    (void)state;
    add(SERVE, 0);
    pid_t pid = supervise(false);
    eventually(script->begun == 1);
    kill(pid, SIGKILL);
    assert_int_equal(wait_for(pid), -1);
    eventually(script->ended == 1);
    assert_int_equal(script->signal, SIGTERM);
}

/* One that is stopped, or that hangs and heeds no signal, is ended and followed by another, which
 * has its fuse fd. */
static void test_silent(void **state)
{
    (void)state;
    script->hung_ns = 3 * NS_PER_S;
    script->hold = true;
    add(STOP, 0);
    add(HANG, 0);
    add(BEAT, CLIENT_DONE);
    pid_t pid = supervise(false);
    eventually(script->begun == 1 && script->held);
    ino_t first = script->held;
    eventually(script->begun == 2 && script->held != first);
    assert_int_equal(script->inherited, first);
    eventually(script->begun == 3);
    for (int i = 0; i < 2; i++) {
        assert_true(script->began_ns[i + 1] - script->began_ns[i] >= 3 * NS_PER_S);
        assert_true(
            script->began_ns[i + 1] - script->began_ns[i] < 20 * NS_PER_S); /* a busy machine */
    }
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), CLIENT_DONE);
}

/* Who beats is left alone, and so is who was never heard, or where nobody asked for it. */
static void test_not_silent(void **state)
{
    (void)state;
    static const struct {
        enum act act;
        int64_t hung_ns;
    } cases[] = {{BEAT, NS_PER_S}, {SERVE, NS_PER_S}, {HANG, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        memset(script, 0, sizeof *script);
        script->hung_ns = cases[i].hung_ns;
        add(cases[i].act, CLIENT_DONE);
        pid_t pid = supervise(false);
        eventually(script->begun == 1);
        clock_sleep_ns(4 * NS_PER_S);
        assert_int_equal(script->begun, 1);
        kill(cases[i].act == HANG ? script->serving : pid, SIGKILL);
        kill(pid, SIGKILL);
        wait_for(pid);
    }
}

/* The caller's process ends once the mount is served, or with the status of what could not serve.
 */
static void test_daemonize(void **state)
{
    (void)state;
    add(SERVE, 0);
    script->says_ready = true;
    pid_t pid = supervise(true);
    assert_int_equal(wait_for(pid), 0);
    pid_t daemon = script->supervisor;
    assert_true(daemon > 0 && daemon != pid && getsid(daemon) == daemon);
    eventually(script->logs_to_file);
    kill(daemon, SIGTERM);
    eventually(script->ended == 1);
    eventually(kill(daemon, 0) != 0 || waitpid(daemon, NULL, WNOHANG) == daemon);

    memset(script, 0, sizeof *script);
    add(EXIT, CLIENT_MISUSE);
    assert_int_equal(wait_for(supervise(true)), CLIENT_MISUSE);
    assert_false(script->logs_to_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exit_codes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_serving_process, setup, teardown),
        cmocka_unit_test_setup_teardown(test_holds_fd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_off_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_supervisor_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_daemonize, setup, teardown),
    };
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* of the daemon */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
