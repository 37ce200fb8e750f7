/* SPDX-License-Identifier: Apache-2.0 */
/* A packet on the handoff's socket, with any number of file descriptors: a message of the length
 * that it says and at most one descriptor, or nothing, and then none is left open. Input: how many
 * descriptors (4 bits), then the packet. */
#include "lib/handoff/wire.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 15

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void send_packet(int sock, const uint8_t *data, size_t size, size_t nfds)
{
    int fds[FDS_MAX];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)data, size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    for (size_t i = 0; i < nfds; i++)
        fds[i] = sock;
    if (nfds) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(nfds * sizeof *fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof *fds);
        memcpy(CMSG_DATA(c), fds, nfds * sizeof *fds);
    }
    if (sendmsg(sock, &m, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
}

static int lowest_free_fd(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2], fd;
    struct handoff_msg *msg = malloc(sizeof *msg);
    struct err e = ERR_INIT;
    size_t nfds = size ? data[0] & 15 : 0, len = size ? size - 1 : 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        abort();
    send_packet(pair[0], data + !!size, len, nfds);
    int before = lowest_free_fd(), rc = handoff_recv(pair[1], NULL, msg, &fd, &e);
    if (rc == 1) {
        uint32_t said;
        memcpy(&said, data + 1 + offsetof(struct handoff_msg, len), sizeof said);
        if (len != offsetof(struct handoff_msg, payload) + said || msg->len != said
            || said > HANDOFF_PAYLOAD_MAX || nfds > 1 || (fd >= 0) != (nfds == 1)
            || memcmp(msg, data + 1, len) != 0 || (fd >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC)))
            abort();
    } else if (fd >= 0 || (rc == 0 ? len + nfds > 0 : e.cls == ERR_NONE)) {
        abort();
    }
    if (fd >= 0)
        close(fd);
    if (lowest_free_fd() != before)
        abort();
    close(pair[0]);
    close(pair[1]);
    free(msg);
    return 0;
}
