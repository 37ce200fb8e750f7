/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/sock.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define STALL_NS (30 * NS_PER_S) /* a reader that takes no byte for that long is gone */

int sock_wait(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left = deadline_ns - clock_mono_ns();
        if (left <= 0)
            return 0;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, (int)MIN(left / NS_PER_MS + 1, 60000));
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            return 1;
    }
}

int sock_send(int fd, const void *data, size_t len, int flags)
{
    const char *p = data;
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (sock_wait(fd, POLLOUT, clock_mono_ns() + STALL_NS) <= 0)
                return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* For files that sendfile cannot take. */
static int copy_file(int out, int fd, off_t off, uint64_t len)
{
    cleanup_free char *chunk = xmalloc(256u << 10);
    while (len) {
        ssize_t n = io_pread(fd, chunk, MIN(len, 256u << 10), (uint64_t)off);
        if (n <= 0 || sock_send(out, chunk, (size_t)n, 0))
            return -1;
        off += n;
        len -= (uint64_t)n;
    }
    return 0;
}

int sock_sendfile(int out, int fd, off_t off, uint64_t len)
{
    while (len) {
        ssize_t n = sendfile(out, fd, &off, MIN(len, 1u << 30));
        if (n > 0) {
            len -= (uint64_t)n;
        } else if (n == 0) {
            /* shorter than promised: the connection must break, so that the client notices */
            return -1;
        } else if (errno == EAGAIN) {
            if (sock_wait(out, POLLOUT, clock_mono_ns() + STALL_NS) <= 0)
                return -1;
        } else if (errno == EINVAL || errno == ENOSYS) {
            return copy_file(out, fd, off, len);
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}
