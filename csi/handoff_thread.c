/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of one mount: it accepts the client, speaks lib/handoff/wire.h with it, and does what
 * is due when there is none. It holds mu but while it waits, so all of this runs with mu held. */
#include "csi/handoff_priv.h"
#include "csi/mount.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/handoff/fuse_kernel.h"

#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CHECK_NS (10 * NS_PER_S) /* how often a mount's connection is looked at */
/* for a file system to answer, where a dead one says so at once */
#define PROBE_NS  (2 * NS_PER_S)
#define RETURN_NS ((HANDOFF_RETURN_MS + 1000) * NS_PER_MS)
/* a mount that no pod has goes without a client for so long: one that restarts is back by then */
#define UNUSED_NS (5 * NS_PER_S)
#define HELLO_NS  (5 * NS_PER_S) /* from connecting to hello: others wait behind */
/* a client that does not read our messages for so long is dropped */
#define SEND_SECONDS 1
#define FUSE_RDEV    makedev(10, 229)
#define INIT_MIN     48 /* fuse_in_header and the oldest fuse_init_in */

void handoff_wake(struct handoff_mount *v)
{
    if (write(v->wake_fd, &(uint64_t){1}, 8) != 8)
        abort();
}

int handoff_make_mount(struct handoff_mount *v, const char *staging, bool read_only, struct err *e)
{
    mutex_assert_held(&v->mu);
    int fd;
    if (mount_fuse(staging, read_only, &fd, &v->dev, e))
        return -1;
    backing_reset(v->files);
    unlink(v->init_path);
    char *copy = xstrdup(staging);
    if (!v->staging)
        metric_add(v->handoff->mounts, 1);
    free(v->staging);
    v->staging = copy;
    v->fuse_fd = fd;
    v->read_only = read_only;
    v->served = v->welcomed = v->serving = v->failed_stage = false;
    v->init_len = 0;
    v->checked_ns = clock_mono_ns();
    handoff_wake(v);
    return 0;
}

/* Puts the requests that a client has read and not answered back into the kernel's queue when it
 * has ended. The next client would ask for that itself, but there may be none, and a process can be
 * killed only while its request is in the queue. Not while the client may live: it would get
 * requests twice. */
static void requeue(const struct handoff_mount *v)
{
    struct pollfd p = {.fd = v->conn};
    if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLHUP))
        return;
    struct fuse_out_header h = {.len = sizeof h, .error = FUSE_KERNEL_NOTIFY_RESEND, .unique = 0};
    /* an older kernel, or nothing is mounted any more */
    if (v->fuse_fd >= 0 && v->served && write(v->fuse_fd, &h, sizeof h) < 0)
        log_kv(LOG_DEBUG, "the kernel does not queue requests again", "dataset", v->uid, "error",
            strerror(errno), NULL);
}

static void close_client(struct handoff_mount *v, const char *why)
{
    mutex_assert_held(&v->mu);
    if (v->conn < 0)
        return;
    close(v->conn);
    v->conn = -1;
    if (v->early_fd >= 0)
        close(v->early_fd);
    v->early_fd = -1;
    if (v->hello)
        metric_add(v->handoff->clients, -1);
    v->hello = v->welcomed = v->serving = false;
    v->alone_ns = clock_mono_ns();
    log_kv(LOG_INFO, "client gone", "namespace", v->ns, "dataset", v->uid, "why", why, NULL);
    pthread_cond_broadcast(&v->changed);
}

static void close_fuse(struct handoff_mount *v)
{
    if (v->fuse_fd >= 0)
        close(v->fuse_fd);
    v->fuse_fd = -1;
}

static void end_mount(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    metric_add(v->handoff->backing, -(int64_t)backing_count(v->files));
    if (v->staging)
        metric_add(v->handoff->mounts, -1);
    close_client(v, "its mount has ended");
    close_fuse(v);
    backing_reset(v->files);
    unlink(v->init_path);
    v->init_len = 0;
    free(v->staging);
    v->staging = NULL;
    v->served = v->published = v->end_mount = false;
    pthread_cond_broadcast(&v->changed);
}

static void accept_client(struct handoff_mount *v)
{
    int fd = accept4(v->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    struct timeval patience = {SEND_SECONDS, 0};
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    v->conn = fd;
    v->pid = peer.pid;
    v->hello_ns = clock_mono_ns();
    v->failed[0] = '\0';
    v->failed_stage = false;
}

/* The text of a client is shown to people: one line of printable characters. */
static void client_failed(struct handoff_mount *v, const struct handoff_msg *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->len && n + 1 < sizeof v->failed; i++)
        v->failed[n++] = m->payload[i] < 0x20 || m->payload[i] == 0x7f ? ' ' : (char)m->payload[i];
    while (n && (v->failed[n - 1] & 0xc0) == 0x80) /* a cut or broken sequence at the end */
        n--;
    if (n && (unsigned char)v->failed[n - 1] >= 0xc0)
        n--;
    v->failed[n] = '\0';
    if (!v->failed[0])
        snprintf(v->failed, sizeof v->failed, "the client does not say why");
    log_kv(LOG_WARN, "the client cannot serve", "namespace", v->ns, "dataset", v->uid, "error",
        v->failed, NULL);
    v->failed_stage = v->welcomed && !v->serving && !v->served;
}

static void client_serves(struct handoff_mount *v)
{
    struct err e = ERR_INIT;
    if (v->fuse_fd < 0 || !v->welcomed || v->serving)
        return;
    if (!v->init_len)
        log_kv(LOG_WARN, "the client serves but has not sent INIT: its successor cannot go on",
            "dataset", v->uid, NULL);
    if (v->served)
        metric_add(v->handoff->handovers, 1);
    v->serving = v->served = true;
    v->failed_stage = false;
    v->failed[0] = '\0';
    /* INIT has been answered: the kernel lowers it there */
    if (mount_read_ahead(v->dev, v->handoff->conf.read_ahead_kib, &e))
        log_kv(LOG_WARN, "read-ahead stays at the kernel's 128 KiB", "error", e.msg, NULL);
    log_kv(
        LOG_INFO, "client serves", "namespace", v->ns, "dataset", v->uid, "at", v->staging, NULL);
}

static void save_init(struct handoff_mount *v, const struct handoff_msg *m)
{
    struct err e = ERR_INIT;
    if (v->fuse_fd < 0 || !v->welcomed || v->init_len || m->len < INIT_MIN
        || m->len > HANDOFF_INIT_MAX)
        return;
    memcpy(v->init, m->payload, m->len);
    v->init_len = m->len;
    if (file_write_atomic(v->init_path, m->payload, m->len, 0600, &e))
        log_kv(LOG_WARN, "the INIT of a mount cannot be saved", "error", e.msg, NULL);
}

/* Is fd the FUSE device of our mount? Newer kernels tell which connection it is of. */
static bool is_ours(const struct handoff_mount *v, int fd)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISCHR(st.st_mode) || st.st_rdev != FUSE_RDEV)
        return false;
    cleanup_free char *path = xasprintf("/proc/self/fdinfo/%d", fd);
    struct err e = ERR_INIT;
    cleanup_free char *text = file_read(path, 4096, NULL, &e);
    const char *line = text ? strstr(text, "fuse_connection:") : NULL;
    unsigned connection;
    return !line || sscanf(line, "fuse_connection: %u", &connection) != 1
        || connection == minor(v->dev);
}

static void take_back(struct handoff_mount *v, int fd)
{
    /* a plugin that has just started: handoff_adopt() is about to be called */
    if (!v->staging && v->early_fd < 0) {
        v->early_fd = fd;
        return;
    }
    if (!v->staging || v->fuse_fd >= 0 || !is_ours(v, fd)) {
        log_kv(LOG_WARN, "a client returned a fuse fd that is not wanted", "dataset", v->uid, NULL);
        close(fd);
        return;
    }
    v->fuse_fd = fd;
    v->welcomed = true;
    v->checked_ns = clock_mono_ns();
    log_kv(LOG_INFO, "the living client returned the fuse fd", "namespace", v->ns, "dataset",
        v->uid, "at", v->staging, NULL);
}

static void answer_backing(struct handoff_mount *v, int fd)
{
    int64_t id = -EINVAL;
    struct err e = ERR_INIT;
    int64_t before = (int64_t)backing_count(v->files);
    if (fd >= 0 && v->fuse_fd >= 0 && v->welcomed)
        id = backing_open(v->files, v->fuse_fd, fd, v->cache_dev, v->cache_owner);
    metric_add(v->handoff->backing, (int64_t)backing_count(v->files) - before);
    if (handoff_send(v->conn, HANDOFF_BACKING, &id, sizeof id, -1, &e))
        close_client(v, e.msg);
}

static void close_backing(struct handoff_mount *v, const struct handoff_msg *m)
{
    int64_t id, before = (int64_t)backing_count(v->files);
    if (m->len != sizeof id || v->fuse_fd < 0)
        return;
    memcpy(&id, m->payload, sizeof id);
    backing_close(v->files, v->fuse_fd, id);
    metric_add(v->handoff->backing, (int64_t)backing_count(v->files) - before);
}

static void answer_who(struct handoff_mount *v, const struct handoff_msg *m)
{
    struct handoff_caller answer = {.name = CALLER_UNKNOWN};
    struct err e = ERR_INIT;
    if (m->len == sizeof answer.pid)
        memcpy(&answer.pid, m->payload, sizeof answer.pid);
    if (v->staging && answer.pid > 0 && answer.pid <= INT_MAX
        && mount_seen_by((pid_t)answer.pid, v->dev))
        v->handoff->conf.caller((pid_t)answer.pid, answer.name);
    if (handoff_send(v->conn, HANDOFF_CALLER, &answer, sizeof answer, -1, &e))
        close_client(v, e.msg);
}

static void on_hello(struct handoff_mount *v, const struct handoff_msg *m)
{
    uint32_t version;
    if (m->len < sizeof version || v->hello) {
        close_client(v, "it did not begin with one hello");
        return;
    }
    memcpy(&version, m->payload, sizeof version);
    if (version != HANDOFF_VERSION) {
        close_client(v, "it speaks another version: client and node plugin must be of one release");
        return;
    }
    v->hello = true;
    v->hello_ns = clock_mono_ns();
    metric_add(v->handoff->clients, 1);
    cleanup_free char *pid = xasprintf("%d", (int)v->pid);
    log_kv(LOG_INFO, "client connected", "namespace", v->ns, "dataset", v->uid, "pid", pid, NULL);
}

static void receive_message(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct handoff_msg m;
    struct err e = ERR_INIT;
    cleanup_fd int fd = -1;
    int rc = handoff_recv(v->conn, &m, &fd, &e);
    if (rc <= 0) {
        requeue(v);
        close_client(v, rc ? e.msg : "it has closed the connection");
        return;
    }
    if (!v->hello && m.type != HANDOFF_HELLO) {
        close_client(v, "it did not begin with hello");
        return;
    }
    switch ((enum handoff_type)m.type) {
    case HANDOFF_HELLO:
        on_hello(v, &m);
        break;
    case HANDOFF_INIT:
        save_init(v, &m);
        break;
    case HANDOFF_SERVING:
        client_serves(v);
        break;
    case HANDOFF_FAILED:
        client_failed(v, &m);
        break;
    case HANDOFF_BACKING_OPEN:
        answer_backing(v, fd);
        break;
    case HANDOFF_BACKING_CLOSE:
        close_backing(v, &m);
        break;
    case HANDOFF_WHO:
        answer_who(v, &m);
        break;
    case HANDOFF_RETURN_FD:
        if (fd >= 0)
            take_back(v, fd);
        fd = -1;
        break;
    case HANDOFF_WELCOME:
    case HANDOFF_CALLER:
    case HANDOFF_BACKING:
        close_client(v, "it sent what only the plugin sends");
        break;
    }
    pthread_cond_broadcast(&v->changed);
}

static void welcome(struct handoff_mount *v)
{
    struct err e = ERR_INIT;
    struct handoff_welcome w = {
        .version = HANDOFF_VERSION, .read_only = v->read_only, .init_len = v->init_len};
    memcpy(w.init, v->init, v->init_len);
    if (handoff_send(v->conn, HANDOFF_WELCOME, &w, sizeof w, v->fuse_fd, &e))
        close_client(v, e.msg);
    else
        v->welcomed = true;
}

/* The fd of our mount is missing and the client does not have it either. If the mount is dead, it
 * is made again. */
static void remount(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct err e = ERR_INIT;
    struct statfs fs;
    cleanup_free char *staging = xstrdup(v->staging);
    pthread_mutex_unlock(&v->mu);
    int there = mount_at(staging, NULL, NULL, NULL, &e);
    bool alive = there == 1
        && (mount_statfs(staging, clock_mono_ns() + PROBE_NS, &fs, &e) == 0 || e.sys == ETIMEDOUT);
    pthread_mutex_lock(&v->mu);
    if (v->ending || !v->staging || v->fuse_fd >= 0 || !v->hello)
        return;
    if (there < 0 || alive) { /* another client holds the fd and may come yet */
        log_kv(LOG_WARN,
            "a mount is alive but this client does not serve it; waiting for the one that does",
            "at", staging, NULL);
        v->hello_ns = clock_mono_ns();
        return;
    }
    log_kv(LOG_WARN,
        "the mount was lost with its client: making it again; pods that use it must be restarted",
        "at", staging, NULL);
    metric_add(v->handoff->backing, -(int64_t)backing_count(v->files));
    if (mount_detach(staging, &e) || handoff_make_mount(v, staging, v->read_only, &e)) {
        log_kv(LOG_ERROR, "the mount cannot be made again", "error", e.msg, NULL);
        v->hello_ns = clock_mono_ns();
        return;
    }
    metric_add(v->handoff->remounts, 1);
}

static void check_connection(struct handoff_mount *v)
{
    struct pollfd p = {.fd = v->fuse_fd};
    v->checked_ns = clock_mono_ns();
    if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR))
        return;
    log_kv(LOG_WARN, "the FUSE connection was aborted by somebody else", "at", v->staging, NULL);
    close_fuse(v);
    close_client(v, "its connection was aborted");
}

static void abandon(struct handoff_mount *v)
{
    log_kv(LOG_ERROR, "no client came back: aborting the mount, its readers get an error",
        "namespace", v->ns, "dataset", v->uid, "at", v->staging, NULL);
    metric_add(v->handoff->abandoned, 1);
    close_fuse(v); /* the last fd: the kernel aborts the connection */
}

static void abort_unused(struct handoff_mount *v)
{
    log_kv(LOG_INFO,
        "no pod has the volume and no client serves it: aborting the mount, so that nobody waits for it",
        "namespace", v->ns, "dataset", v->uid, "at", v->staging, NULL);
    close_fuse(v);
}

/* Ends a mount that has had no client for too long; returns when that will be. */
static int64_t look_if_alone(struct handoff_mount *v, int64_t now)
{
    int64_t patience = v->published ? v->handoff->conf.abandon_ns : UNUSED_NS;
    if (v->fuse_fd < 0 || v->conn >= 0 || patience == 0)
        return INT64_MAX;
    if (now < v->alone_ns + patience)
        return v->alone_ns + patience;
    if (v->published)
        abandon(v);
    else
        abort_unused(v);
    return INT64_MAX;
}

static int wait_ms(int64_t next, int64_t now)
{
    return next == INT64_MAX ? -1 : (int)MIN(MAX(next - now, 0) / NS_PER_MS + 1, INT_MAX);
}

/* Does everything that is due now; returns how long to wait at most, in ms, or -1. */
static int do_due(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    if (v->end_mount)
        end_mount(v);
    int64_t now = clock_mono_ns(), next = INT64_MAX;
    if (v->conn >= 0 && !v->hello) {
        if (now >= v->hello_ns + HELLO_NS)
            close_client(v, "it did not say hello");
        else
            next = v->hello_ns + HELLO_NS;
    }
    if (!v->staging || v->ending)
        return wait_ms(next, now);
    if (v->early_fd >= 0) {
        int fd = v->early_fd;
        v->early_fd = -1;
        take_back(v, fd);
        pthread_cond_broadcast(&v->changed);
    }
    if (v->hello && !v->welcomed && v->fuse_fd >= 0)
        welcome(v);
    if (v->hello && v->fuse_fd < 0) {
        if (now >= v->hello_ns + RETURN_NS) {
            remount(v);
            return 0;
        }
        next = v->hello_ns + RETURN_NS;
    }
    if (v->fuse_fd >= 0) {
        if (now >= v->checked_ns + CHECK_NS)
            check_connection(v);
        next = MIN(next, v->checked_ns + CHECK_NS);
    }
    next = MIN(next, look_if_alone(v, now));
    return wait_ms(next, now);
}

void handoff_thread(void *arg)
{
    struct handoff_mount *v = arg;
    pthread_mutex_lock(&v->mu);
    v->alone_ns = clock_mono_ns();
    while (!atomic_load(&v->task.stop)) {
        int timeout = do_due(v);
        struct pollfd p[] = {{.fd = v->wake_fd, .events = POLLIN},
            {.fd = v->conn >= 0 ? v->conn : v->listen_fd, .events = POLLIN}};
        bool client = v->conn >= 0;
        pthread_mutex_unlock(&v->mu);
        int ready = poll(p, 2, timeout);
        pthread_mutex_lock(&v->mu);
        uint64_t count;
        if (ready > 0 && p[0].revents && read(v->wake_fd, &count, sizeof count) < 0
            && errno != EAGAIN)
            abort();
        if (ready <= 0 || !p[1].revents)
            continue;
        if (!client)
            accept_client(v);
        else if (v->conn >= 0)
            receive_message(v);
    }
    close_client(v, "nobody uses its volume any more");
    pthread_mutex_unlock(&v->mu);
}
