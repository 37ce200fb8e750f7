/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of one mount: it listens to the client (handoff_client.c), and does what is due when
 * there is none, or when that one serves nobody. It holds mu but while it waits, so all of this
 * runs with mu held. */
#include "csi/handoff_priv.h"
#include "csi/mount.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK_NS (10 * NS_PER_S) /* how often a mount's connection is looked at */
/* for a file system to answer, where a dead one says so at once */
#define PROBE_NS  (2 * NS_PER_S)
#define RETURN_NS ((HANDOFF_RETURN_MS + 1000) * NS_PER_MS)
/* a mount that no pod has goes without a client for so long: one that restarts is back by then */
#define UNUSED_NS (5 * NS_PER_S)
#define HELLO_NS  (5 * NS_PER_S) /* from connecting to hello: others wait behind */
#define PING_NS   (5 * NS_PER_S)
/* a client that serves and has not answered for so long is said to be silent */
#define SILENT_NS (30 * NS_PER_S)
/* nor does one of which its client says that no client will ever serve it again */
#define HOPELESS_NS (10 * NS_PER_S)

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
    v->served = v->welcomed = v->serving = v->failed_stage = v->silent = v->given_up = false;
    v->init_len = 0;
    v->checked_ns = v->attended_ns = clock_mono_ns();
    handoff_wake(v);
    return 0;
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
    client_close(v, "its mount has ended");
    close_fuse(v);
    backing_reset(v->files);
    unlink(v->init_path);
    v->init_len = 0;
    free(v->staging);
    v->staging = NULL;
    v->served = v->published = v->end_mount = v->given_up = false;
    v->lost = (struct handoff_lost){0};
    pthread_cond_broadcast(&v->changed);
}

static void note_lost(struct handoff_mount *v, const char *why)
{
    v->lost.at_s = clock_real_ns() / NS_PER_S;
    snprintf(v->lost.why, sizeof v->lost.why, "%s", why);
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
    if (!v->lost.why[0])
        note_lost(v, "its client and this plugin were gone at once");
    client_tell_lost(v);
}

static void check_connection(struct handoff_mount *v)
{
    struct pollfd p = {.fd = v->fuse_fd};
    v->checked_ns = clock_mono_ns();
    if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR))
        return;
    log_kv(LOG_WARN, "the FUSE connection was aborted by somebody else", "at", v->staging, NULL);
    close_fuse(v);
    client_close(v, "its connection was aborted");
    note_lost(v, "its FUSE connection was aborted by somebody else");
}

/* Why readers wait, in words. */
static const char *why_unattended(const struct handoff_mount *v)
{
    if (v->conn < 0 || !v->hello)
        return "no client came back";
    if (v->serving)
        return "its client is connected and does not answer";
    return v->failed[0] ? v->failed : "its client is connected and does not serve";
}

/* Whoever waits for this mount gets an error; a client that comes gets a new one. The client may
 * hold the fd, and live: closing ours is not enough. */
static void abort_unattended(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    struct err e = ERR_INIT;
    note_lost(v, why_unattended(v));
    log_kv(v->published ? LOG_ERROR : LOG_INFO,
        v->published
            ? "nobody serves a mount: aborting it, its readers get an error; pods that use it must be restarted"
            : "no pod has the volume and nobody serves it: aborting the mount, so that nobody waits for it",
        "reason", "MountAborted", "namespace", v->ns, "dataset", v->uid, "at", v->staging, "why",
        v->lost.why, NULL);
    if (v->published)
        metric_add(v->handoff->abandoned, 1);
    if (mount_abort(v->staging, v->dev, &e))
        log_kv(LOG_ERROR, "a mount cannot be aborted", "at", v->staging, "error", e.msg, NULL);
    close_fuse(v);
    client_close(v, "its mount was aborted");
    v->given_up = true;
    pthread_cond_broadcast(&v->changed);
}

/* How long nobody may serve the mount; 0: for ever. */
static int64_t patience_of(const struct handoff_mount *v)
{
    if (v->published && v->cannot_resume)
        return MIN(v->handoff->conf.abandon_ns, HOPELESS_NS);
    if (v->published)
        return v->handoff->conf.abandon_ns;
    return v->conn < 0 ? UNUSED_NS : SILENT_NS;
}

/* Ends a mount that nobody has served for too long; returns when that will be. */
static int64_t look_if_unattended(struct handoff_mount *v, int64_t now)
{
    int64_t patience = patience_of(v);
    bool answers = v->serving && !v->can_pong;
    /* the first client of a mount has the time of NodeStage */
    if (v->given_up || answers || patience == 0 || (!v->served && v->hello))
        return INT64_MAX;
    if (now < v->attended_ns + patience)
        return v->attended_ns + patience;
    abort_unattended(v);
    return INT64_MAX;
}

/* A mount that is being ended waits for what is dirty to be written back; not once there is nobody
 * to write it to. Returns when to look again. */
static int64_t look_if_flushed(struct handoff_mount *v, int64_t now)
{
    struct err e = ERR_INIT;
    if (!v->flushing || (v->serving && !v->silent))
        return INT64_MAX;
    if (now < v->attended_ns + HANDOFF_BACK_NS)
        return v->attended_ns + HANDOFF_BACK_NS;
    v->flushing = false;
    log_kv(LOG_WARN, "the client went before all was written back: aborting its mount", "namespace",
        v->ns, "dataset", v->uid, "at", v->staging, NULL);
    if (mount_abort(v->staging, v->dev, &e))
        log_kv(LOG_ERROR, "a mount cannot be aborted", "at", v->staging, "error", e.msg, NULL);
    return INT64_MAX;
}

/* Asks a client whether it is there; returns when to do so again. */
static int64_t look_if_silent(struct handoff_mount *v, int64_t now)
{
    if (!v->serving || !v->can_pong)
        return INT64_MAX;
    if (!v->silent && now >= v->attended_ns + SILENT_NS) {
        v->silent = true;
        log_kv(LOG_WARN, "the client is connected and does not answer: its readers may wait",
            "namespace", v->ns, "dataset", v->uid, "at", v->staging, NULL);
    }
    if (now >= v->pinged_ns + PING_NS)
        client_ping(v);
    return v->pinged_ns + PING_NS;
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
            client_close(v, "it did not say hello");
        else
            next = v->hello_ns + HELLO_NS;
    }
    if (v->staging && v->ending) {
        next = MIN(next, look_if_silent(v, now));
        next = MIN(next, look_if_flushed(v, now));
        /* the next client can still write back */
        if (v->flushing && v->hello && !v->welcomed && v->fuse_fd >= 0)
            client_welcome(v);
    }
    if (!v->staging || v->ending)
        return wait_ms(next, now);
    if (v->early_fd >= 0) {
        int fd = v->early_fd;
        v->early_fd = -1;
        client_take_back(v, fd);
        pthread_cond_broadcast(&v->changed);
    }
    if (v->hello && !v->welcomed && v->fuse_fd >= 0)
        client_welcome(v);
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
    next = MIN(next, look_if_silent(v, now));
    next = MIN(next, look_if_unattended(v, now));
    return wait_ms(next, now);
}

/* Waits for the client, a caller or the time; mu is not held meanwhile. True: the client's turn. */
static bool wait_turn(struct handoff_mount *v, int timeout)
{
    mutex_assert_held(&v->mu);
    /* one that says too much, or sends what nobody can close, is not listened to for a while */
    int64_t pause = client_wait_ns(v, clock_mono_ns());
    struct pollfd p[] = {{.fd = v->wake_fd, .events = POLLIN},
        {.fd = pause           ? -1
                : v->conn >= 0 ? v->conn
                               : v->listen_fd,
            .events = POLLIN}};
    if (pause && (timeout < 0 || pause / NS_PER_MS < timeout))
        timeout = (int)(pause / NS_PER_MS) + 1;
    pthread_mutex_unlock(&v->mu);
    int ready = poll(p, 2, timeout);
    pthread_mutex_lock(&v->mu);
    uint64_t count;
    if (ready > 0 && p[0].revents && read(v->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        abort();
    return ready > 0 && p[1].revents;
}

void handoff_thread(void *arg)
{
    struct handoff_mount *v = arg;
    pthread_mutex_lock(&v->mu);
    v->attended_ns = clock_mono_ns();
    while (!atomic_load(&v->task.stop)) {
        int timeout = do_due(v);
        bool client = v->conn >= 0;
        if (!wait_turn(v, timeout))
            continue;
        if (!client)
            client_accept(v);
        else if (v->conn >= 0)
            client_receive(v);
    }
    client_close(v, "nobody uses its volume any more");
    v->ended = true;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->mu);
}
