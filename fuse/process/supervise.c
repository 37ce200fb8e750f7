/* SPDX-License-Identifier: Apache-2.0 */
#define FUSE_USE_VERSION 314
#include "fuse/process/supervise.h"

#include "fuse/process/orphan.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* a serving process that died sooner is started again after a pause */
#define QUICK_DEATH_NS  (100 * NS_PER_MS)
#define BACKOFF_MIN_NS  (10 * NS_PER_MS)
#define BACKOFF_MAX_NS  (5 * NS_PER_S)
#define KILL_AFTER_NS   (20 * NS_PER_S) /* it may take so long to end */
#define STUCK_THREAD_NS (2 * NS_PER_S)  /* threads of one that has ended are waited for so long */

struct supervisor {
    const struct client_options *o;
    struct client_shared *shared;
    struct fuse_session *mount; /* only to mount and unmount; NULL with a socket */
    int fuse_fd, ready_fd;
    int life_fd;   /* orphan.h; the serving processes have it, too; -1 */
    int hold_sock; /* with a socket: the serving process sends its fuse fd; -1 without */
    pid_t child;
    bool stopping;
    int64_t kill_ns; /* monotonic; 0: not told to end */
    /* monotonic; when the serving process was first seen to have ended except for some threads; 0:
     * it has not */
    int64_t ended_ns;
    struct heartbeat_ear ear; /* for the serving process */
    bool hung;                /* it was ended because it was silent */
};

/* mount(2) for root, fusermount3 for others: libfuse knows both. */
static int mount_fs(struct supervisor *s)
{
    static const struct fuse_lowlevel_ops none;
    cleanup_free char *options = xasprintf(
        "default_permissions,fsname=millrace,subtype=millrace%s%s",
        s->o->allow_other ? ",allow_other" : "", client_is_read_only(s->o) ? ",ro" : "");
    char name[] = "millrace", flag[] = "-o";
    char *argv[] = {name, flag, options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, argv);
    cleanup_free char *point = realpath(s->o->mountpoint, NULL); /* as yet nobody has to answer */
    s->mount = fuse_session_new(&args, &none, sizeof none, NULL);
    fuse_opt_free_args(&args);
    if (!s->mount || fuse_session_mount(s->mount, s->o->mountpoint)) {
        log_error("cannot mount at %s", s->o->mountpoint);
        return -1;
    }
    s->fuse_fd = fuse_session_fd(s->mount);
    s->life_fd = point ? orphan_watch(point) : -1;
    return 0;
}

/* What the serving process sent stays there when it is killed. */
static void take_held(struct supervisor *s)
{
    struct pollfd p = {.fd = s->hold_sock, .events = POLLIN};
    struct handoff_msg m;
    struct err e = ERR_INIT;
    int fd = -1;
    while (s->hold_sock >= 0 && poll(&p, 1, 0) > 0
        && handoff_recv(s->hold_sock, NULL, &m, &fd, &e) > 0) {
        if (fd < 0)
            continue;
        if (s->fuse_fd >= 0)
            close(s->fuse_fd);
        s->fuse_fd = fd;
    }
}

/* Its mount has ended: the next process waits for another. */
static void drop_held(struct supervisor *s)
{
    if (s->hold_sock < 0)
        return;
    take_held(s);
    if (s->fuse_fd >= 0)
        close(s->fuse_fd);
    s->fuse_fd = -1;
    atomic_store(&s->shared->init_len, 0);
}

static void start_serving(struct supervisor *s)
{
    sigset_t none;
    take_held(s);
    atomic_store(&s->shared->beats.serving, 0);
    s->ear = (struct heartbeat_ear){0};
    s->hung = false;
    s->child = fork();
    if (s->child < 0) {
        log_error("cannot start the serving process: %s", strerror(errno));
        return;
    }
    if (s->child > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* without its supervisor it finishes what it does and ends */
    prctl(PR_SET_NAME, "millrace-serve");
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) { /* the kernel kills the one that can be started again */
        if (write(fd, "500", 3) < 0)
            log_debug("oom_score_adj: %s", strerror(errno));
        close(fd);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    exit(client_run(s->o, s->shared, s->fuse_fd, s->ready_fd));
}

static void begin_shutdown(struct supervisor *s)
{
    s->stopping = true;
    if (s->kill_ns)
        return;
    s->kill_ns = clock_mono_ns() + KILL_AFTER_NS;
    if (s->mount)
        /* lazily: the serving process ends when the last open file is closed */
        fuse_session_unmount(s->mount);
    if (s->child > 0 && !s->mount)
        kill(s->child, SIGTERM);
}

/* The next signal, or none for a while. */
static int next_signal(const sigset_t *set)
{
    struct timespec tick = {1, 0};
    int sig = sigtimedwait(set, NULL, &tick);
    return sig < 0 ? 0 : sig;
}

/* Returns the status of the serving process once it has ended, else -1. */
static int reap_serving(struct supervisor *s)
{
    int status, mine = -1;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == s->child)
            mine = status;
    return mine;
}

/* A thread in a call to a file system that does not answer can be such that no signal ends it, and
 * until then the process is not reaped. Returns the status of a serving process that has ended by
 * itself, or was to end, but for such threads; else -1. */
static int abandon_stuck(struct supervisor *s)
{
    cleanup_free char *file = xasprintf("/proc/%d/stat", s->child),
                      *text = file_read(file, 4096, NULL, NULL);
    /* the last field of proc_pid_stat(5) */
    const char *state = text ? strrchr(text, ')') : NULL, *code = text ? strrchr(text, ' ') : NULL;
    if (!state || !code || strncmp(state, ") Z", 3) != 0) {
        s->ended_ns = 0;
        return -1;
    }
    int status = (int)strtol(code, NULL, 10);
    if (!s->ended_ns)
        s->ended_ns = clock_mono_ns();
    if (clock_mono_ns() - s->ended_ns < STUCK_THREAD_NS || (WIFSIGNALED(status) && !s->stopping))
        return -1;
    log_warn(
        "a thread of the serving process is left behind: it waits for a file system that does not answer");
    return status;
}

/* One that is stopped, or whose threads all hang. What it has read and not answered, the next one
 * gets again. */
static void end_if_hung(struct supervisor *s)
{
    uint64_t beats = atomic_load(&s->shared->beats.serving);
    if (!heartbeat_missed(&s->ear, beats, clock_mono_ns(), s->o->hung_ns) || s->hung)
        return;
    cleanup_free char *seconds = xasprintf("%lld", (long long)(s->o->hung_ns / NS_PER_S));
    log_kv(LOG_ERROR,
        "the serving process is stopped, or its threads hang: ending it, so that another one takes over",
        "silentSeconds", seconds, "flag", "--hung-after", NULL);
    s->hung = true;
    kill(s->child, SIGKILL);
}

static int keep_serving(struct supervisor *s, const sigset_t *set)
{
    int64_t backoff = BACKOFF_MIN_NS;
    for (;;) {
        int64_t began = clock_mono_ns();
        int status = -1;
        start_serving(s);
        while (status < 0 && s->child > 0) {
            int sig = next_signal(set);
            /* served: stderr has no reader any more */
            if (s->ready_fd >= 0 && atomic_load(&s->shared->init_len)) {
                close(s->ready_fd);
                s->ready_fd = -1;
                client_log_to_file(s->o);
            }
            if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP)
                begin_shutdown(s);
            if (s->kill_ns && clock_mono_ns() > s->kill_ns)
                kill(s->child, clock_mono_ns() > s->kill_ns + KILL_AFTER_NS ? SIGKILL : SIGTERM);
            atomic_fetch_add(&s->shared->beats.supervisor, 1);
            end_if_hung(s);
            status = reap_serving(s);
            if (status < 0)
                status = abandon_stuck(s);
        }
        bool crashed = s->child < 0 || WIFSIGNALED(status);
        if (!crashed && (s->stopping || s->mount || WEXITSTATUS(status) == CLIENT_MISUSE))
            return WEXITSTATUS(status);
        if (s->stopping)
            return CLIENT_BROKEN;
        if (!crashed)
            drop_held(s);
        if (crashed)
            log_kv(LOG_ERROR, "the serving process was killed; another one takes over", "signal",
                s->child < 0 ? "none" : strsignal(WTERMSIG(status)), NULL);
        if (clock_mono_ns() - began > QUICK_DEATH_NS)
            backoff = BACKOFF_MIN_NS;
        else if (crashed || WEXITSTATUS(status) != CLIENT_DONE) {
            clock_sleep_ns(backoff);
            backoff = MIN(backoff * 2, BACKOFF_MAX_NS);
        }
    }
}

/* The caller's process waits for a byte and ends; the supervisor goes on in the background. */
static void go_background(struct supervisor *s)
{
    int p[2];
    if (pipe(p) || fcntl(p[0], F_SETFD, FD_CLOEXEC)) {
        log_error("pipe: %s", strerror(errno));
        exit(CLIENT_BROKEN);
    }
    pid_t pid = fork();
    if (pid < 0) {
        log_error("fork: %s", strerror(errno));
        exit(CLIENT_BROKEN);
    }
    if (pid > 0) {
        char c = 0;
        close(p[1]);
        ssize_t n = read(p[0], &c, 1);
        int status = 0;
        if (n == 1)
            _exit(0);
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : CLIENT_BROKEN);
    }
    close(p[0]);
    setsid();
    s->ready_fd = p[1];
}

int supervise_run(const struct client_options *o, bool daemonize)
{
    struct supervisor s = {.o = o, .fuse_fd = -1, .ready_fd = -1, .life_fd = -1, .hold_sock = -1};
    int pair[2] = {-1, -1};
    sigset_t set;
    s.shared = mmap(
        NULL, sizeof *s.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.shared == MAP_FAILED) {
        log_error("no memory");
        return CLIENT_BROKEN;
    }
    if (o->socket && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        log_error("socketpair: %s", strerror(errno));
        return CLIENT_BROKEN;
    }
    s.hold_sock = pair[0];
    s.shared->hold_sock = pair[1];
    if (daemonize)
        go_background(&s);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!o->socket && mount_fs(&s))
        return CLIENT_BROKEN;
    int rc = keep_serving(&s, &set);
    if (s.mount) {
        fuse_session_unmount(s.mount); /* does nothing if it is unmounted already */
        fuse_session_destroy(s.mount);
    }
    drop_held(&s);
    if (s.life_fd >= 0)
        close(s.life_fd);
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    munmap(s.shared, sizeof *s.shared);
    return rc;
}
