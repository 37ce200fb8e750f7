/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/listen.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG     4096 /* a node that starts many pods connects in a burst */
#define CHECK_MS    5000 /* how often the socket files are looked at */
#define SOCKETS_MAX 4

struct listen_socket {
    char *path;
    int fd;
    struct stat file; /* the socket file as we made it */
};

struct listener {
    struct listen_socket socks[SOCKETS_MAX];
    size_t n;
    int wake_fd;
    struct task task;
    void (*accepted)(void *user, int fd);
    void *user;
};

static int open_socket(struct listen_socket *s, struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(s->path) >= sizeof a.sun_path)
        return err_set(
            e, ERR_INVALID, "socket %s: a path may have %zu bytes", s->path, sizeof a.sun_path - 1);
    memcpy(a.sun_path, s->path, strlen(s->path) + 1);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, errno, "make a socket for %s", s->path);
    if (unlink(s->path) && errno != ENOENT)
        return err_sys(e, errno, "remove the old socket %s", s->path);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || chmod(s->path, 0600)
        || lstat(s->path, &s->file) || listen(fd, BACKLOG))
        return err_sys(e, errno, "listen on %s", s->path);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = fd;
    fd = -1;
    return 0;
}

static bool still_ours(const struct listen_socket *s)
{
    struct stat now;
    return lstat(s->path, &now) == 0 && now.st_dev == s->file.st_dev
        && now.st_ino == s->file.st_ino;
}

static void accept_one(struct listener *l, struct listen_socket *s)
{
    cleanup_fd int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) { /* no descriptors left, mostly: those in use will come back */
        clock_sleep_ns(LISTEN_AGAIN_NS);
        return;
    }
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)
        || (peer.uid != 0 && peer.uid != geteuid())) {
        log_warn("%s: turned away process %d of user %d: only root may connect", s->path,
            (int)peer.pid, (int)peer.uid);
        return;
    }
    l->accepted(l->user, fd);
    fd = -1;
}

static void check_files(struct listener *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct err e = ERR_INIT;
        if (still_ours(&l->socks[i]))
            continue;
        if (open_socket(&l->socks[i], &e))
            log_kv(LOG_ERROR, "the socket file is gone and cannot be made again", "error", e.msg,
                NULL);
        else
            log_kv(LOG_WARN, "the socket file was gone: made it again", "path", l->socks[i].path,
                NULL);
    }
}

static void listener_thread(void *arg)
{
    struct listener *l = arg;
    for (;;) {
        struct pollfd p[SOCKETS_MAX + 1] = {{.fd = l->wake_fd, .events = POLLIN}};
        for (size_t i = 0; i < l->n; i++)
            p[i + 1] = (struct pollfd){.fd = l->socks[i].fd, .events = POLLIN};
        int ready = poll(p, l->n + 1, CHECK_MS);
        if (p[0].revents)
            return;
        for (size_t i = 0; ready > 0 && i < l->n; i++)
            if (p[i + 1].revents & POLLIN)
                accept_one(l, &l->socks[i]);
        if (ready == 0)
            check_files(l);
    }
}

struct listener *listener_new(const char *const *paths, size_t n, struct err *e)
{
    struct listener *l = xcalloc(1, sizeof *l);
    l->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (l->wake_fd < 0 || n > SOCKETS_MAX) {
        err_sys(e, n > SOCKETS_MAX ? E2BIG : errno, "prepare to listen");
        listener_free(l);
        return NULL;
    }
    for (; l->n < n; l->n++) {
        l->socks[l->n] = (struct listen_socket){.path = xstrdup(paths[l->n]), .fd = -1};
        if (open_socket(&l->socks[l->n], e)) {
            free(l->socks[l->n].path);
            listener_free(l);
            return NULL;
        }
    }
    return l;
}

void listener_start(struct listener *l, void (*accepted)(void *user, int fd), void *user)
{
    l->accepted = accepted;
    l->user = user;
    if (task_start(&l->task, "listener", listener_thread, l, NULL))
        abort();
}

void listener_stop(struct listener *l)
{
    if (!l->task.started)
        return;
    if (write(l->wake_fd, &(uint64_t){1}, 8) != 8)
        abort();
    task_stop(&l->task);
    for (size_t i = 0; i < l->n; i++)
        if (still_ours(&l->socks[i]))
            unlink(l->socks[i].path);
}

void listener_free(struct listener *l)
{
    if (!l)
        return;
    listener_stop(l);
    for (size_t i = 0; i < l->n; i++) {
        close(l->socks[i].fd);
        free(l->socks[i].path);
    }
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    free(l);
}
