/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/handoff/wire.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 16
#define FDS_MAX 253 /* SCM_MAX_FD: what does not fit is closed by the kernel, in our thread */

int handoff_send(
    int sock, enum handoff_type type, const void *payload, size_t len, int fd, struct err *e)
{
    if (len > HANDOFF_PAYLOAD_MAX)
        return err_set(
            e, ERR_INVALID, "message of %zu bytes is longer than %d", len, HANDOFF_PAYLOAD_MAX);
    uint32_t head[2] = {(uint32_t)type, (uint32_t)len};
    struct iovec iov[2] = {{head, sizeof head}, {(void *)(uintptr_t)payload, len}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0;
    int why = errno == EWOULDBLOCK ? EAGAIN : errno;
    err_set(e, ERR_RETRY, "send to the peer of the handoff socket: %s",
        why == EAGAIN ? "it does not read what it got before" : strerror(why));
    if (e)
        e->sys = why;
    return -1;
}

static void dispose(struct closer *closer, int fd)
{
    if (closer)
        closer_take(closer, fd);
    else if (fd >= 0)
        close(fd);
}

/* Keeps the first fd in *fd, gives away all others; returns how many there were. */
static size_t take_fds(struct msghdr *m, struct closer *closer, int *fd)
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
            if (count++ == 0)
                *fd = got;
            else
                dispose(closer, got);
        }
    }
    return count;
}

static bool brings_fd(uint32_t type)
{
    return type == HANDOFF_WELCOME || type == HANDOFF_BACKING_OPEN || type == HANDOFF_RETURN_FD;
}

/* What is wrong with a message of n bytes and so many fds; NULL: nothing. */
static const char *malformed(
    const struct msghdr *m, const struct handoff_msg *msg, size_t n, size_t fds, bool trusted)
{
    if (fds > 1)
        return "more than one file descriptor";
    if (m->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return "too long";
    if (n < offsetof(struct handoff_msg, payload)
        || n != offsetof(struct handoff_msg, payload) + msg->len)
        return "its length is not what it says";
    return fds && !trusted && !brings_fd(msg->type) ? "a file descriptor where none belongs" : NULL;
}

int handoff_recv(int sock, struct closer *closer, struct handoff_msg *msg, int *fd, struct err *e)
{
    struct iovec iov = {msg, sizeof *msg};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control};
    *fd = -1;
    ssize_t n;
    do
        n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ECONNRESET)
        return 0;
    if (n < 0)
        return err_sys(e, errno, "receive from the handoff socket");
    size_t fds = take_fds(&m, closer, fd);
    if (n == 0 && fds == 0)
        return 0;
    const char *what = malformed(&m, msg, (size_t)n, fds, !closer);
    if (!what)
        return 1;
    dispose(closer, *fd);
    *fd = -1;
    return err_set(e, ERR_INVALID, "malformed message on the handoff socket: %s", what);
}

/* A unix address has room for 107 bytes and a volume's directory may be longer: go by way of an fd
 * of the directory. *dir_fd must stay open until the address has been used. */
static int address_of(const char *path, struct sockaddr_un *a, int *dir_fd, struct err *e)
{
    cleanup_free char *copy = xstrdup(path), *copy2 = xstrdup(path);
    *dir_fd = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir_fd < 0)
        return err_sys(e, errno, "open the directory of %s", path);
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(
        a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/%s", *dir_fd, basename(copy2));
    if (n < 0 || (size_t)n >= sizeof a->sun_path)
        return err_set(e, ERR_INVALID, "socket %s: its name is too long", path);
    return 0;
}

int handoff_connect(const char *path, struct err *e)
{
    cleanup_fd int dir = -1;
    struct sockaddr_un a;
    if (address_of(path, &a, &dir, e))
        return -1;
    /* not blocking: a plugin that is stopped accepts nobody */
    cleanup_fd int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return err_sys(e, errno, "make a socket for %s", path);
    if (connect(sock, (struct sockaddr *)&a, sizeof a) == 0) {
        fcntl(sock, F_SETFL, fcntl(sock, F_GETFL) & ~O_NONBLOCK);
        int out = sock;
        sock = -1;
        return out;
    }
    if (errno == ENOENT || errno == ECONNREFUSED)
        return err_set(e, ERR_NOTFOUND,
            "nobody listens on %s: is the node plugin of Millrace running on this node?", path);
    if (errno == EAGAIN)
        return err_set(e, ERR_RETRY, "the node plugin that listens on %s accepts nobody", path);
    return err_sys(e, errno, "connect to %s", path);
}

/* Everybody may connect to the socket of that name. Whoever may write in the directory may have put
 * something else in its place: nothing but a socket is touched, and no link is followed. */
static int let_connect(int dir, const char *name)
{
    struct stat st;
    char self[32];
    cleanup_fd int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return -1;
    errno = ENOTSOCK;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return S_ISSOCK(st.st_mode) ? chmod(self, 0666) : -1;
}

int handoff_listen(const char *path, struct err *e)
{
    cleanup_fd int dir = -1;
    struct sockaddr_un a;
    if (address_of(path, &a, &dir, e))
        return -1;
    cleanup_fd int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return err_sys(e, errno, "make a socket for %s", path);
    const char *name = strrchr(a.sun_path, '/') + 1;
    if (unlinkat(dir, name, 0) && errno != ENOENT)
        return err_sys(e, errno, "remove the old socket %s", path);
    if (bind(sock, (struct sockaddr *)&a, sizeof a) || let_connect(dir, name)
        || listen(sock, BACKLOG))
        return err_sys(e, errno, "listen on %s", path);
    int out = sock;
    sock = -1;
    return out;
}
