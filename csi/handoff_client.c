/* SPDX-License-Identifier: Apache-2.0 */
/* What the thread of a mount does with its client: it accepts one, reads what it says
 * (lib/handoff/wire.h), and answers. The client is a stranger: nothing here waits for it, what it
 * sends is closed by the closer, and how often it may speak, ask and be told of in the log is
 * limited. */
#include "csi/handoff_priv.h"
#include "csi/listen.h"
#include "csi/mount.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/handoff/fuse_kernel.h"

#include <errno.h>
#include <fcntl.h>
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

#define FUSE_MAJOR 10
#define FUSE_MINOR 229
#define EARLY_NS   (5 * NS_PER_S)
#define INIT_MIN   48 /* fuse_in_header and the oldest fuse_init_in */

/* A job that opens files that are not registered yet makes two messages a file. */
static const struct bucket_rate messages = {.interval_ns = NS_PER_MS / 10, .burst = 20000};
static const struct bucket_rate questions = {.interval_ns = 20 * NS_PER_MS, .burst = 50};
static const struct bucket_rate lines = {.interval_ns = NS_PER_S, .burst = 20};

/* May a line be logged that the client brings about? */
static bool may_log(struct handoff_mount *v)
{
    if (bucket_take(&v->lines, lines, clock_mono_ns()))
        return true;
    v->unlogged++;
    return false;
}

/* A line that the client brings about, if it may. */
static void client_log(struct handoff_mount *v, enum log_level level, const char *what,
    const char *key, const char *value)
{
    if (!may_log(v))
        return;
    cleanup_free char *unlogged = v->unlogged ? xasprintf("%zu", v->unlogged) : NULL;
    v->unlogged = 0;
    log_kv(level, what, "namespace", v->ns, "dataset", v->uid, "at", v->staging, "linesLeftOut",
        unlogged, key, value, NULL);
}

int64_t client_wait_ns(const struct handoff_mount *v, int64_t now)
{
    mutex_assert_held(&v->mu);
    if (closer_pending(v->closer) >= CLOSER_MAX)
        return CLOSER_LOOK_NS;
    /* what follows a returned fd is for a mount that is about to be adopted */
    if (v->early_fd >= 0 && !v->staging && now < v->hello_ns + EARLY_NS)
        return CLOSER_LOOK_NS;
    return v->conn < 0 ? MAX(v->accept_ns - now, 0) : bucket_wait(&v->messages, messages, now);
}

/* Puts the requests that a client has read and not answered back into the kernel's queue when it
 * has ended. The next client asks for that itself before it reads any, but there may be none, and a
 * process can be killed only while its request is in the queue. Not while one that may read them
 * lives: it would get requests twice, and what it does for the second time fails. That is this
 * client, or the next one, which connects before it reads (with the fd of its supervisor). */
static void requeue(const struct handoff_mount *v)
{
    struct pollfd p[] = {{.fd = v->conn}, {.fd = v->listen_fd, .events = POLLIN}};
    if (poll(p, 2, 0) <= 0 || !(p[0].revents & POLLHUP) || p[1].revents & POLLIN)
        return;
    struct fuse_out_header h = {.len = sizeof h, .error = FUSE_KERNEL_NOTIFY_RESEND, .unique = 0};
    /* an older kernel, or nothing is mounted any more */
    if (v->fuse_fd >= 0 && v->served && write(v->fuse_fd, &h, sizeof h) < 0)
        log_kv(LOG_DEBUG, "the kernel does not queue requests again", "dataset", v->uid, "error",
            strerror(errno), NULL);
}

void client_close(struct handoff_mount *v, const char *why)
{
    mutex_assert_held(&v->mu);
    if (v->conn < 0)
        return;
    shutdown(v->conn, SHUT_RDWR);
    closer_take(v->closer, v->conn); /* with what it sent and nobody has read */
    closer_take(v->closer, v->early_fd);
    v->conn = v->early_fd = -1;
    if (v->hello)
        metric_add(v->handoff->clients, -1);
    if (v->serving && !v->silent)
        v->attended_ns = clock_mono_ns();
    v->hello = v->welcomed = v->serving = v->can_pong = v->silent = false;
    client_log(v, LOG_INFO, "client gone", "why", why);
    pthread_cond_broadcast(&v->changed);
}

void client_accept(struct handoff_mount *v)
{
    int fd = accept4(v->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) { /* those in use will come back; whoever connects stays ready to be accepted */
        v->accept_ns = clock_mono_ns() + LISTEN_AGAIN_NS;
        return;
    }
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    v->conn = fd;
    v->pid = peer.pid;
    v->hello_ns = clock_mono_ns();
    backing_claim_none(v->files);
    v->failed[0] = '\0';
    v->failed_stage = v->cannot_resume = false;
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
    client_log(v, LOG_WARN, "the client cannot serve", "error", v->failed);
    v->failed_stage = v->welcomed && !v->serving && !v->served;
}

static void client_serves(struct handoff_mount *v)
{
    struct err e = ERR_INIT;
    if (v->fuse_fd < 0 || !v->welcomed || v->serving)
        return;
    if (!v->init_len)
        client_log(v, LOG_WARN,
            "the client serves but has not sent INIT: its successor cannot go on", NULL, NULL);
    if (v->served)
        metric_add(v->handoff->handovers, 1);
    v->serving = v->served = true;
    v->failed_stage = v->cannot_resume = false;
    v->failed[0] = '\0';
    v->attended_ns = clock_mono_ns();
    /* INIT has been answered: the kernel lowers it there */
    if (mount_read_ahead(v->dev, v->handoff->conf.read_ahead_kib, &e))
        client_log(v, LOG_WARN, "read-ahead stays at the kernel's 128 KiB", "error", e.msg);
    client_log(v, LOG_INFO, "client serves", NULL, NULL);
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

/* Is fd a FUSE device? Asks nobody who might not answer. */
static bool is_fuse_device(int fd)
{
    struct statx st;
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0
        && S_ISCHR(st.stx_mode) && st.stx_rdev_major == FUSE_MAJOR
        && st.stx_rdev_minor == FUSE_MINOR;
}

/* Is that FUSE device the one of our mount? Not one whose connection has ended: the number of a
 * mount that is over is soon that of the next. Newer kernels tell which connection it is of. */
static bool is_ours(const struct handoff_mount *v, int fd)
{
    struct pollfd p = {.fd = fd};
    if (poll(&p, 1, 0) != 0)
        return false;
    cleanup_free char *path = xasprintf("/proc/self/fdinfo/%d", fd);
    struct err e = ERR_INIT;
    cleanup_free char *text = file_read(path, 4096, NULL, &e);
    const char *line = text ? strstr(text, "fuse_connection:") : NULL;
    unsigned connection;
    return !line || sscanf(line, "fuse_connection: %u", &connection) != 1
        || connection == minor(v->dev);
}

void client_take_back(struct handoff_mount *v, int fd)
{
    mutex_assert_held(&v->mu);
    /* a plugin that has just started: handoff_adopt() is about to be called */
    if (!v->staging && v->early_fd < 0) {
        v->early_fd = fd;
        return;
    }
    bool device = is_fuse_device(fd), ours = device && v->staging && is_ours(v, fd);
    if (!ours || v->fuse_fd >= 0) {
        closer_take(v->closer, fd);
        /* it serves a mount that is over, or none: it shall not answer for this one */
        if (!ours)
            client_close(v,
                device ? "it returned the fuse fd of another mount"
                       : "it returned a fuse fd that is none");
        return;
    }
    v->fuse_fd = fd;
    v->welcomed = true;
    v->checked_ns = clock_mono_ns();
    client_log(v, LOG_INFO, "the living client returned the fuse fd", NULL, NULL);
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
        client_close(v, e.msg);
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

static void settle_backings(struct handoff_mount *v, const struct handoff_msg *m)
{
    int64_t before = (int64_t)backing_count(v->files);
    if (v->fuse_fd < 0 || !v->welcomed)
        return;
    for (size_t at = 0; at + sizeof(int32_t) <= m->len; at += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, m->payload + at, sizeof id);
        backing_claim(v->files, id);
    }
    if (!m->len)
        backing_claimed(v->files, v->fuse_fd);
    metric_add(v->handoff->backing, (int64_t)backing_count(v->files) - before);
}

static void answer_who(struct handoff_mount *v, const struct handoff_msg *m)
{
    struct handoff_caller answer = {.name = CALLER_UNKNOWN};
    struct err e = ERR_INIT;
    if (m->len == sizeof answer.pid)
        memcpy(&answer.pid, m->payload, sizeof answer.pid);
    if (v->handoff->conf.caller && v->staging && answer.pid > 0 && answer.pid <= INT_MAX
        && bucket_take(&v->questions, questions, clock_mono_ns())
        && mount_seen_by((pid_t)answer.pid, v->dev))
        v->handoff->conf.caller((pid_t)answer.pid, answer.name);
    if (handoff_send(v->conn, HANDOFF_CALLER, &answer, sizeof answer, -1, &e))
        client_close(v, e.msg);
}

void client_tell_lost(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct err e = ERR_INIT;
    /* people are told, that is all: a client that does not take it serves as well */
    if (v->staging && v->hello && v->lost.why[0]
        && handoff_send(v->conn, HANDOFF_LOST, &v->lost, sizeof v->lost, -1, &e))
        client_log(v, LOG_DEBUG, "the client was not told of the lost mount", "error", e.msg);
}

static void on_hello(struct handoff_mount *v, const struct handoff_msg *m)
{
    struct handoff_hello hello = {0};
    memcpy(&hello, m->payload, MIN(m->len, sizeof hello));
    if (m->len < sizeof hello.version || v->hello) {
        client_close(v, "it did not begin with one hello");
        return;
    }
    if (hello.version != HANDOFF_VERSION) {
        client_close(v, "it speaks another version: client and node plugin must be of one release");
        return;
    }
    v->hello = true;
    v->can_pong = hello.can & HANDOFF_CAN_PONG;
    v->hello_ns = clock_mono_ns();
    v->pinged_ns = 0;
    metric_add(v->handoff->clients, 1);
    cleanup_free char *pid = xasprintf("%d", (int)v->pid);
    client_log(v, LOG_INFO, "client connected", "pid", pid);
    if (v->fuse_fd >= 0)
        client_tell_lost(v);
}

/* Its client is there and takes requests. */
static void on_pong(struct handoff_mount *v)
{
    if (!v->serving)
        return;
    v->attended_ns = clock_mono_ns();
    if (v->silent)
        client_log(v, LOG_INFO, "the client answers again", NULL, NULL);
    v->silent = false;
}

void client_ping(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct err e = ERR_INIT;
    v->pinged_ns = clock_mono_ns();
    /* one that reads nothing gives no answer either */
    if (handoff_send(v->conn, HANDOFF_PING, NULL, 0, -1, &e) && e.sys != EAGAIN)
        client_close(v, e.msg);
}

void client_receive(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct handoff_msg m;
    struct err e = ERR_INIT;
    int fd = -1;
    bucket_take(&v->messages, messages, clock_mono_ns());
    int rc = handoff_recv(v->conn, v->closer, &m, &fd, &e);
    if (rc <= 0) {
        requeue(v);
        client_close(v, rc ? e.msg : "it has closed the connection");
        return;
    }
    if (!v->hello && m.type != HANDOFF_HELLO) {
        closer_take(v->closer, fd);
        client_close(v, "it did not begin with hello");
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
    case HANDOFF_CANNOT_RESUME:
        v->cannot_resume = v->welcomed && v->served && !v->serving;
        break;
    case HANDOFF_BACKING_OPEN:
        answer_backing(v, fd);
        break;
    case HANDOFF_BACKING_CLOSE:
        close_backing(v, &m);
        break;
    case HANDOFF_HOLDS:
        settle_backings(v, &m);
        break;
    case HANDOFF_WHO:
        answer_who(v, &m);
        break;
    case HANDOFF_RETURN_FD:
        if (fd >= 0)
            client_take_back(v, fd);
        fd = -1;
        break;
    case HANDOFF_PONG:
        on_pong(v);
        break;
    case HANDOFF_PING:
    case HANDOFF_WELCOME:
    case HANDOFF_CALLER:
    case HANDOFF_BACKING:
    case HANDOFF_LOST:
        client_close(v, "it sent what only the plugin sends");
        break;
    }
    closer_take(v->closer, fd);
    pthread_cond_broadcast(&v->changed);
}

void client_welcome(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct err e = ERR_INIT;
    struct handoff_welcome w = {
        .version = HANDOFF_VERSION, .read_only = v->read_only, .init_len = v->init_len};
    memcpy(w.init, v->init, v->init_len);
    if (handoff_send(v->conn, HANDOFF_WELCOME, &w, sizeof w, v->fuse_fd, &e))
        client_close(v, e.msg);
    else
        v->welcomed = true;
}
