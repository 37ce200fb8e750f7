/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/client_proc.h"

#include "csi/volume_context.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/task.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG_FILE    "config.json"
#define SECRETS_DIR    "secrets"
#define PID_FILE       "pid"
#define CONFIG_MAX     ((size_t)1 << 20)
#define STOP_NS        (5 * NS_PER_S)
#define BACKOFF_MIN_MS 500
#define BACKOFF_MAX_MS 30000
#define HEALTHY_NS     (60 * NS_PER_S) /* one that ran so long starts again at once */

extern char **environ;

struct client_proc {
    char *binary, *dir, *run_dir;
    struct task task;
    int wake_fd;         /* written when it shall stop: its thread waits in poll */
    atomic_bool end_too; /* the process ends with its thread */
    /* the thread's, once it runs */
    pid_t pid; /* 0 while none runs */
    /* when, clock ticks since boot: a pid alone may be another process's by now */
    int64_t start;
    bool ours; /* started by this process, so to be waited for */
};

/* Field 22 of /proc/PID/stat: clock ticks since boot; 0 if there is no such process. */
static int64_t start_time(pid_t pid)
{
    char path[64];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    cleanup_free char *text = file_read(path, 4096, NULL, &e);
    const char *p = text ? strrchr(text, ')') : NULL; /* the name may hold anything */
    long long start = 0;
    if (p
        && sscanf(p + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
               &start)
            != 1)
        return 0;
    return start;
}

static int spawn(struct client_proc *c, struct err *e)
{
    cleanup_free char *sock = path_join(c->dir, VOLUME_SOCKET),
                      *cache = path_join(c->dir, VOLUME_CACHE);
    cleanup_free char *secrets = path_join(c->run_dir, SECRETS_DIR),
                      *config_path = path_join(c->run_dir, CONFIG_FILE);
    cleanup_free char *config = file_read(config_path, CONFIG_MAX, NULL, e);
    if (!config)
        return -1;
    char *argv[] = {c->binary, (char *)"--socket", sock, (char *)"--cache-dir", cache,
        (char *)"--secrets-dir", secrets, NULL};
    cleanup_free char *variable = xasprintf("%s=%s", ENV_CONFIG, config);
    size_t n = 0;
    while (environ[n])
        n++;
    cleanup_free char **env = xcalloc(n + 2, sizeof *env);
    memcpy(env, environ, n * sizeof *env);
    env[n] = variable;
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none); /* ours blocks SIGTERM */
    posix_spawnattr_setpgroup(&attr, 0);      /* a Ctrl-C at our terminal is not for it */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    pid_t pid;
    int rc = posix_spawn(&pid, c->binary, NULL, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    if (rc)
        return err_sys(e, rc, "start %s", c->binary);
    c->pid = pid;
    c->start = start_time(pid);
    c->ours = true;
    cleanup_free char *pid_path = path_join(c->run_dir, PID_FILE),
                      *text = xasprintf("%d %" PRId64 "\n", (int)pid, c->start);
    struct err why = ERR_INIT;
    if (file_write_atomic(pid_path, text, strlen(text), 0600, &why))
        log_kv(LOG_WARN, "after a restart this plugin will not know its client process", "error",
            why.msg, NULL);
    return 0;
}

/* Waits up to ms (-1: for ever) for the process to end, or for an order. */
static bool wait_ended(struct client_proc *c, int ms)
{
    cleanup_fd int fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (fd < 0)
        return true;
    struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = c->wake_fd, .events = POLLIN}};
    poll(p, 2, ms);
    return p[0].revents != 0;
}

static void reap_client(struct client_proc *c)
{
    int status = 0;
    cleanup_free char *how = NULL;
    if (!c->ours || waitpid(c->pid, &status, 0) != c->pid)
        how = xstrdup("unknown");
    else if (WIFSIGNALED(status))
        how = xasprintf("signal %d", WTERMSIG(status));
    else
        how = xasprintf("status %d", WEXITSTATUS(status));
    log_kv(LOG_WARN, "client process ended", "dir", c->dir, "how", how, NULL);
}

static void end_process(struct client_proc *c)
{
    if (!c->pid || start_time(c->pid) != c->start)
        return;
    uint64_t drain;
    if (read(c->wake_fd, &drain, sizeof drain) < 0 && errno != EAGAIN)
        abort();
    kill(-c->pid, SIGTERM); /* with the process that its supervisor has made */
    if (!wait_ended(c, (int)(STOP_NS / NS_PER_MS))) {
        kill(-c->pid, SIGKILL);
        wait_ended(c, (int)(STOP_NS / NS_PER_MS));
    }
    reap_client(c);
    c->pid = 0;
}

static void client_proc_thread(void *arg)
{
    struct client_proc *c = arg;
    int backoff = BACKOFF_MIN_MS;
    int64_t since = clock_mono_ns();
    while (!atomic_load(&c->task.stop)) {
        if (c->pid && !wait_ended(c, -1))
            continue;
        if (c->pid) {
            reap_client(c);
            c->pid = 0;
            backoff = clock_mono_ns() - since > HEALTHY_NS ? BACKOFF_MIN_MS : backoff;
        }
        struct pollfd p = {.fd = c->wake_fd, .events = POLLIN};
        if (poll(&p, 1, backoff) > 0)
            continue;
        backoff = MIN(backoff * 2, BACKOFF_MAX_MS);
        since = clock_mono_ns();
        struct err e = ERR_INIT;
        if (spawn(c, &e))
            log_kv(LOG_ERROR, "the client process cannot be started", "error", e.msg, NULL);
    }
    if (atomic_load(&c->end_too))
        end_process(c);
}

static int write_secrets(
    const char *run_dir, const struct client_proc_secret *secrets, size_t n, struct err *e)
{
    cleanup_free char *dir = xasprintf("%s/%s/0", run_dir, SECRETS_DIR);
    if (file_mkdirs(dir, 0700, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!volume_is_id(secrets[i].name)) /* the same alphabet: no slash, no leading dot */
            return err_set(e, ERR_INVALID,
                "secret '%.64s': a name has letters, digits, '.', '_' and '-'", secrets[i].name);
        log_redact(secrets[i].value);
        cleanup_free char *path = path_join(dir, secrets[i].name);
        if (file_write_atomic(path, secrets[i].value, strlen(secrets[i].value), 0600, e))
            return -1;
    }
    return 0;
}

int client_proc_write(const char *run_dir, const char *config,
    const struct client_proc_secret *secrets, size_t n, struct err *e)
{
    cleanup_free char *path = path_join(run_dir, CONFIG_FILE);
    return file_remove_tree(run_dir, e) || file_mkdirs(run_dir, 0700, e)
            || write_secrets(run_dir, secrets, n, e)
            || file_write_atomic(path, config, strlen(config), 0600, e)
        ? -1
        : 0;
}

/* A process that an earlier life of this plugin has started and that still runs. */
static bool find_running(struct client_proc *c)
{
    cleanup_free char *path = path_join(c->run_dir, PID_FILE);
    struct err e = ERR_INIT;
    cleanup_free char *text = file_read(path, 64, NULL, &e);
    int pid;
    int64_t start;
    if (!text || sscanf(text, "%d %" SCNd64, &pid, &start) != 2 || pid <= 0 || start == 0
        || start_time(pid) != start)
        return false;
    c->pid = pid;
    c->start = start;
    return true;
}

static void client_proc_free(struct client_proc *c)
{
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    free(c->binary);
    free(c->dir);
    free(c->run_dir);
    free(c);
}

struct client_proc *client_proc_start(const struct client_proc_conf *conf, struct err *e)
{
    struct client_proc *c = xcalloc(1, sizeof *c);
    c->binary = xstrdup(conf->binary);
    c->dir = xstrdup(conf->dir);
    c->run_dir = xstrdup(conf->run_dir);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = c->wake_fd < 0 ? err_sys(e, errno, "make an eventfd") : 0;
    if (rc == 0 && !find_running(c))
        rc = spawn(c, e);
    if (rc == 0 && task_start(&c->task, "client-proc", client_proc_thread, c, e) == 0)
        return c;
    if (rc == 0)
        end_process(c);
    client_proc_free(c);
    return NULL;
}

/* Ends the thread, and with it the process if it shall. */
static void stop_watching(struct client_proc *c, bool end_too)
{
    atomic_store(&c->end_too, end_too);
    task_cancel(&c->task);
    if (write(c->wake_fd, &(uint64_t){1}, 8) != 8)
        abort();
    task_stop(&c->task);
}

void client_proc_leave(struct client_proc *c)
{
    stop_watching(c, false);
    client_proc_free(c);
}

void client_proc_stop(struct client_proc *c)
{
    if (!c)
        return;
    stop_watching(c, true);
    struct err e = ERR_INIT;
    if (file_remove_tree(c->run_dir, &e))
        log_kv(LOG_WARN, "the configuration of a client process cannot be removed", "error", e.msg,
            NULL);
    client_proc_free(c);
}
