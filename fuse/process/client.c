/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/process/client.h"

#include "fuse/cache/cache.h"
#include "fuse/process/mounted_fs.h"
#include "fuse/process/store_watch.h"
#include "fuse/session/handoff.h"
#include "fuse/session/init.h"
#include "fuse/session/session.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/metric.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define CONFIG_MAX      (1 << 20)
#define CHECK_FIRST_NS  (2 * NS_PER_S)
#define CHECK_LAST_NS   (30 * NS_PER_S)
#define READ_AHEAD_KB   1024
#define SETTLE_NS       (10 * NS_PER_S)
#define HUNG_NS         (10 * NS_PER_S)  /* threads of a mount that is over end sooner */
#define SAVE_MAX_NS     (600 * NS_PER_S) /* for the mount before to save what was written there */
#define ENDING          "ending\n"       /* in the lock: its mount is over */
#define OVERLAYFS_MAGIC 0x794c7630

METRIC_COUNTER(stuck_requests, "millrace_stuck_requests_total", "",
    "Requests that did not end, and were answered with an I/O error.");

struct client {
    const struct client_options *o;
    struct client_shared *shared;
    int ready_fd, lock_fd; /* -1: none */
    struct conf *conf;
    struct sign_key key; /* with o->key_file */
    struct status *status;
    struct handoff_client *handoff; /* NULL without a socket */
    struct heartbeat *heartbeat;    /* NULL: no thread could be made */
    struct store_watch *watch;      /* without a socket, of several stores */
    struct store **stores;          /* conf->nmounts */
    char *stage_dir;
    struct mounted_fs m;
    bool is_unmounted; /* there is nothing to go on with */
    /* requests that were taken: as the heartbeat and the plugin's ping last saw */
    uint64_t seen_beat, seen_ping;
};

static volatile sig_atomic_t stopping;
static struct session *volatile running; /* for the signal handler */

static void on_signal(int sig)
{
    (void)sig;
    stopping = 1;
    if (running)
        session_exit(running);
}

/* The main thread takes them, where it waits; it starts all others while they are blocked, and
 * those inherit the mask. */
static void handle_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void mask_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(how, &set, NULL);
}

/* Sleeps, but not through a signal. */
static void nap(int64_t ns)
{
    for (int64_t until = clock_mono_ns() + ns; !stopping && clock_mono_ns() < until;)
        clock_sleep_ns(MIN(until - clock_mono_ns(), 200 * NS_PER_MS));
}

/* It cannot work as it is, and says so. In a pod the process stays: a crash loop would hide the
 * reason. Once the mount that it could not take over was aborted, the next one may serve another.
 */
static enum client_exit client_fail(
    struct client *c, const char *reason, const struct err *e, enum client_exit code)
{
    mask_signals(SIG_UNBLOCK);
    log_kv(LOG_ERROR, "cannot serve", "reason", reason, "error", e->msg, NULL);
    status_fail(c->status, reason, e->msg);
    if (!c->handoff)
        return code;
    handoff_client_failed(c->handoff, e->msg);
    while (!stopping && !handoff_client_ended(c->handoff))
        nap(NS_PER_S);
    if (!stopping)
        log_info("the mount that could not be served has ended");
    return stopping ? CLIENT_DONE : code;
}

static struct conf *load_conf(const char *file, struct err *e)
{
    cleanup_free char *text = NULL;
    const char *env = getenv(ENV_CONFIG);
    if (file)
        text = file_read(file, CONFIG_MAX, NULL, e);
    else if (env)
        text = xstrdup(env);
    else
        err_set(e, ERR_INVALID, "no configuration: set " ENV_CONFIG " or use --config FILE");
    return text ? conf_parse(text, strlen(text), e) : NULL;
}

/* Has the mount of whoever has the lock ended, so that it will end itself once all is saved? */
static bool lock_is_ending(const char *lock)
{
    cleanup_free char *text = file_read(lock, sizeof ENDING, NULL, NULL);
    return text && strcmp(text, ENDING) == 0;
}

/* For the next mount of the same place. */
static void mark_ending(struct client *c)
{
    if (pwrite(c->lock_fd, ENDING, strlen(ENDING), 0) < 0)
        log_debug("the next mount is not told that this one is over: %s", strerror(errno));
}

/* One process at a time may use a cache directory; it is locked until the process ends. In a pod
 * the one before may still be ending, and may be of another version: waits for it. */
static int lock_dir(struct client *c, struct err *e)
{
    cleanup_free char *lock = path_join(c->o->cache_dir, "lock");
    if (file_mkdirs(c->o->cache_dir, 0700, e))
        return -1;
    int64_t began = clock_mono_ns(), patience = 2 * NS_PER_S;
    do {
        c->lock_fd = file_lock(lock, clock_mono_ns() + 200 * NS_PER_MS, e);
        if (c->lock_fd < 0 && patience < SAVE_MAX_NS && !c->handoff && lock_is_ending(lock)) {
            patience = SAVE_MAX_NS;
            log_warn(
                "the mount before this one still saves what was written there: waiting for its end");
        }
    } while (c->lock_fd < 0 && e->cls == ERR_CONFLICT && !stopping
        && (c->handoff || clock_mono_ns() < began + patience));
    if (c->lock_fd >= 0 && ftruncate(c->lock_fd, 0))
        log_debug("truncate %s: %s", lock, strerror(errno));
    if (c->lock_fd >= 0)
        return file_mkdirs(c->stage_dir, 0700, e);
    return e->cls != ERR_CONFLICT
        ? -1
        : err_set(e, ERR_CONFLICT,
            "the cache directory %s is used by another mount; unmount that, or use --cache-dir",
            c->o->cache_dir);
}

/* Each text once in a row: to the log, and to whoever waits for the mount. */
static void tell_problem(
    struct client *c, char last[sizeof((struct err *)0)->msg], const struct err *e)
{
    if (strcmp(last, e->msg) != 0)
        log_kv(LOG_ERROR, "a store cannot be used; it is looked at again", "reason",
            store_reason(e), "error", e->msg, NULL);
    snprintf(last, sizeof e->msg, "%s", e->msg);
    handoff_client_failed(c->handoff, e->msg);
}

/* In a cluster, waits for objects that are promised: a Secret, a ConfigMap. */
static struct store *make_store(struct client *c, size_t i, struct err *e)
{
    char last[sizeof e->msg] = "";
    struct store_conf sc = {.mount = &c->conf->mounts[i],
        .secrets_dir = c->handoff || conf_mount_has_secrets(c->conf, i) ? c->o->secrets_dir : NULL,
        .deadline_ns = c->o->deadline_ns};
    for (int64_t wait = CHECK_FIRST_NS;; wait = MIN(wait * 2, CHECK_LAST_NS)) {
        struct store *s = store_new(&sc, e);
        status_mount(c->status, i, s ? "" : store_reason(e), s ? "" : e->msg);
        if (s)
            return s;
        if (!c->handoff || e->cls != ERR_DENIED || stopping)
            return NULL;
        tell_problem(c, last, e);
        nap(wait);
    }
}

static int make_stores(struct client *c, struct err *e)
{
    c->stores = xcalloc(c->conf->nmounts, sizeof *c->stores);
    for (size_t i = 0; i < c->conf->nmounts; i++)
        if (!(c->stores[i] = make_store(c, i, e)))
            return -1;
    return 0;
}

/* Looks at every store. Returns 0 when all answer, else -1 and the first problem in e. */
static int check_stores(struct client *c, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < c->conf->nmounts; i++) {
        struct err one = ERR_INIT;
        int bad = store_check(c->stores[i], &one);
        status_mount(c->status, i, bad ? store_reason(&one) : "", bad ? one.msg : "");
        if (bad && rc == 0)
            *e = one;
        rc |= bad;
    }
    return rc;
}

/* What a person mounts is served as soon as one store answers: another is a directory that fails.
 */
static int wait_for_some_store(struct client *c, struct err *e)
{
    c->watch = store_watch_start(c->conf, c->o->secrets_dir, c->status, &stopping, e);
    if (c->watch)
        status_ready(c->status);
    return c->watch ? 0 : -1;
}

/* Until every store answers. On a laptop what time will not mend ends it at once. */
static int wait_for_stores(struct client *c, struct err *e)
{
    if (!c->handoff && c->conf->nmounts > 1)
        return wait_for_some_store(c, e);
    char last[sizeof e->msg] = "";
    for (int64_t wait = CHECK_FIRST_NS; !stopping; wait = MIN(wait * 2, CHECK_LAST_NS)) {
        if (check_stores(c, e) == 0) {
            status_ready(c->status);
            if (c->handoff)
                handoff_client_failed(c->handoff, "");
            return 0;
        }
        if (!c->handoff)
            return -1;
        tell_problem(c, last, e);
        nap(wait);
    }
    return err_set(e, ERR_RETRY, "told to end");
}

bool client_is_read_only(const struct client_options *o)
{
    struct err e = ERR_INIT;
    cleanup_conf struct conf *conf = load_conf(o->config, &e);
    return conf && mounted_fs_is_read_only(conf);
}

static void on_init(void *user, const void *init, size_t len)
{
    struct client *c = user;
    if (c->handoff)
        handoff_client_init(c->handoff, init, len);
    if (len <= HANDOFF_INIT_MAX) {
        memcpy(c->shared->init, init, len);
        atomic_store(&c->shared->init_len, (uint32_t)len);
    }
}

void client_log_to_file(const struct client_options *o)
{
    if (!o->log_file)
        return;
    cleanup_fd int out = open(o->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    cleanup_fd int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (out < 0 || in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0
        || dup2(out, STDERR_FILENO) < 0)
        log_kv(LOG_WARN, "the log stays here", "file", o->log_file, "error", strerror(errno), NULL);
}

/* Otherwise the kernel asks for 128 KiB at a time. Needs root; without it reads are only smaller.
 */
static void raise_read_ahead(const char *mountpoint)
{
    struct statx st;
    /* a question to ourselves */
    if (statx(AT_FDCWD, mountpoint, AT_STATX_DONT_SYNC, STATX_TYPE, &st))
        return;
    cleanup_free char *path = xasprintf(
        "/sys/class/bdi/%u:%u/read_ahead_kb", st.stx_dev_major, st.stx_dev_minor);
    cleanup_file FILE *f = fopen(path, "we");
    if (f)
        fprintf(f, "%d\n", READ_AHEAD_KB);
}

static void on_serving(void *user, const struct session_offer *offer)
{
    struct client *c = user;
    status_kernel(c->status, session_offer_passthrough(offer), session_offer_resend(offer));
    status_serving(c->status, true);
    if (c->handoff)
        handoff_client_serving(c->handoff); /* the plugin does the same for its mounts */
    else
        raise_read_ahead(c->o->mountpoint);
    if (c->ready_fd >= 0) {
        if (write(c->ready_fd, "+", 1) != 1)
            log_debug("no process waits for the mount");
        close(c->ready_fd);
        c->ready_fd = -1;
        client_log_to_file(c->o);
    }
    log_info("serving");
}

static void on_unmounted(void *user)
{
    struct client *c = user;
    mark_ending(c);
    cache_cancel(c->m.cache);
}

static void on_stuck(void *user)
{
    (void)user;
    metric_add(metric_of(&stuck_requests), 1);
}

static unsigned stack_depth(const char *dir)
{
    struct statfs st;
    return statfs(dir, &st) == 0 && (unsigned long)st.f_type == OVERLAYFS_MAGIC ? 2 : 1;
}

static bool serves_beat(void *user)
{
    struct client *c = user;
    return session_serves(c->m.fs.session, &c->seen_beat);
}

static bool serves_ping(void *user)
{
    struct client *c = user;
    return session_serves(c->m.fs.session, &c->seen_ping);
}

static enum client_exit run_session(struct client *c, int fd, const void *init, size_t init_len)
{
    struct err e = ERR_INIT;
    struct session_conf sc = {.fd = fd,
        .init = init,
        .init_len = init_len,
        .save_init = on_init,
        .serving = on_serving,
        .unmounted = on_unmounted,
        .user = c,
        .stuck_ns = c->o->stuck_ns,
        .stuck = on_stuck,
        .writes = !mounted_fs_is_read_only(c->conf),
        .stack_depth = c->m.backings ? stack_depth(c->o->cache_dir) : 0};
    struct session *s = c->m.fs.session = session_new(&sc, &fs_ops, &c->m.fs, &e);
    if (!s)
        return client_fail(c, "StoreError", &e, CLIENT_BROKEN);
    if (c->handoff)
        handoff_client_watch(c->handoff, serves_ping, c);
    heartbeat_watch(c->heartbeat, serves_beat, c);
    metric_of(&stuck_requests); /* 0 is a number, too */
    running = s;
    mask_signals(SIG_UNBLOCK);
    int rc = stopping ? 0 : session_run(s, &e);
    running = NULL;
    c->is_unmounted = session_unmounted(s);
    heartbeat_watch(c->heartbeat, NULL, NULL);
    if (c->handoff)
        handoff_client_watch(c->handoff, NULL, NULL);
    status_serving(c->status, false);
    if (rc)
        log_kv(LOG_ERROR, "the connection to the kernel broke", "error", e.msg, NULL);
    return rc ? CLIENT_BROKEN : CLIENT_DONE;
}

static void tear_down(struct client *c)
{
    store_watch_stop(c->watch);
    mounted_fs_tear_down(&c->m);
    if (c->handoff && stopping && !c->is_unmounted && !handoff_client_settle(c->handoff, SETTLE_NS))
        log_warn("the node plugin does not answer: if it has not the mount, the mount is lost");
    handoff_client_stop(c->handoff);
    status_free(c->status);
    for (size_t i = 0; c->stores && i < c->conf->nmounts; i++)
        store_free(c->stores[i]);
    free(c->stores);
    conf_free(c->conf);
    free(c->stage_dir);
    sign_key_wipe(&c->key);
    if (c->lock_fd >= 0) /* a thread that is stuck in a store may outlive us */
        close(c->lock_fd);
}

/* The supervisor keeps a copy of what the next process needs to go on. */
static void hold(struct client *c, int fuse_fd, const struct handoff_welcome *w)
{
    struct err e = ERR_INIT;
    memcpy(c->shared->init, w->init, w->init_len);
    atomic_store(&c->shared->init_len, w->init_len);
    if (handoff_send(c->shared->hold_sock, HANDOFF_RETURN_FD, NULL, 0, fuse_fd, &e))
        log_kv(LOG_WARN, "the supervisor has no copy of the fuse fd", "error", e.msg, NULL);
}

static void report_lost(void *user, const struct handoff_lost *lost)
{
    struct client *c = user;
    status_lost(c->status, lost->at_s, lost->why);
}

/* As a kill: what is staged stays, and the next process goes on with it. */
static void end_hung(void *user)
{
    (void)user;
    log_error("the mount has ended and threads that served it hang: leaving them behind");
    _exit(CLIENT_BROKEN);
}

static enum client_exit prepare_and_serve(struct client *c, int fuse_fd)
{
    struct err e = ERR_INIT;
    struct handoff_welcome w = {.version = HANDOFF_VERSION};
    w.init_len = atomic_load(&c->shared->init_len);
    memcpy(w.init, c->shared->init, w.init_len);
    if (c->o->socket
        && !(c->handoff = handoff_client_start(c->o->socket, w.init_len ? fuse_fd : -1, &w, &e)))
        return client_fail(c, "StoreError", &e, CLIENT_BROKEN);
    if (c->handoff) {
        handoff_client_on_lost(c->handoff, report_lost, c);
        handoff_client_on_hung(c->handoff, end_hung, NULL, HUNG_NS);
    }
    mask_signals(SIG_UNBLOCK);
    if (!(c->conf = load_conf(c->o->config, &e)))
        return client_fail(c, "InvalidOption", &e, CLIENT_MISUSE);
    status_conf(c->status, c->conf);
    if (lock_dir(c, &e))
        return client_fail(
            c, e.cls == ERR_EXHAUSTED ? "CacheDiskFull" : "CacheError", &e, CLIENT_BROKEN);
    if (!c->o->socket) /* the one before had the addresses */
        status_listen(c->status, c->o->http, c->o->metrics);
    if (c->o->key_file && sign_key_read(c->o->key_file, &c->key, &e))
        return client_fail(c, "SecretMissing", &e, CLIENT_BROKEN);
    status_key(c->status, c->o->key_file ? &c->key : NULL);
    if (make_stores(c, &e))
        return stopping ? CLIENT_DONE : client_fail(c, store_reason(&e), &e, CLIENT_MISUSE);
    /* A process that takes a mount over serves at once: what is cached needs no store. */
    if (c->handoff && handoff_client_peek(c->handoff, &w, 300 * NS_PER_MS) && w.init_len)
        log_info("taking a mount over");
    if (w.init_len)
        status_ready(c->status);
    else if (wait_for_stores(c, &e))
        return stopping ? CLIENT_DONE : client_fail(c, store_reason(&e), &e, CLIENT_BROKEN);
    while (c->handoff && !stopping && (fuse_fd = handoff_client_wait(c->handoff, &w, NS_PER_S)) < 0)
        continue;
    mask_signals(SIG_BLOCK);
    if (stopping)
        return CLIENT_DONE;
    if (c->handoff)
        hold(c, fuse_fd, &w);
    struct mounted_fs_conf mc = {c->o, c->conf, c->o->key_file ? &c->key : NULL, c->stores,
        c->status, c->handoff, c->stage_dir, fuse_fd, w.init_len > 0};
    if (mounted_fs_build(&c->m, &mc, &e)) {
        if (c->handoff && w.init_len && e.cls == ERR_FATAL)
            handoff_client_cannot_resume(c->handoff);
        return client_fail(
            c, e.cls == ERR_EXHAUSTED ? "CacheDiskFull" : "StoreError", &e, CLIENT_BROKEN);
    }
    return run_session(c, fuse_fd, w.init, w.init_len);
}

enum client_exit client_run(
    const struct client_options *o, struct client_shared *shared, int fuse_fd, int ready_fd)
{
    struct client c = {.o = o, .shared = shared, .ready_fd = ready_fd, .lock_fd = -1};
    struct err e = ERR_INIT;
    handle_signals();
    mask_signals(SIG_BLOCK);
    c.status = status_new();
    c.stage_dir = path_join(o->cache_dir, "stage");
    if (!(c.heartbeat = heartbeat_start(&shared->beats, getppid(), o->hung_ns, &e)))
        log_kv(LOG_WARN, "nobody sees whether this process hangs", "error", e.msg, NULL);
    if (o->socket)
        status_listen(c.status, o->http, o->metrics);
    enum client_exit rc = prepare_and_serve(&c, fuse_fd);
    if (c.ready_fd >= 0)
        close(c.ready_fd);
    mask_signals(SIG_BLOCK);
    tear_down(&c);
    heartbeat_stop(c.heartbeat);
    return rc;
}
