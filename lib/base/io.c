/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/io.h"

#include <errno.h>
#include <unistd.h>

/* No standard says what a write of 0 bytes means; trying again might never end. */
static int io_advance(ssize_t n, size_t *done)
{
    if (n > 0)
        *done += (size_t)n;
    if (n == 0)
        errno = EIO;
    return n > 0 || (n < 0 && errno == EINTR) ? 0 : -1;
}

int io_write(int fd, const void *data, size_t len)
{
    for (size_t done = 0; done < len;)
        if (io_advance(write(fd, (const char *)data + done, len - done), &done))
            return -1;
    return 0;
}

int io_pwrite(int fd, const void *data, size_t len, uint64_t off)
{
    for (size_t done = 0; done < len;) {
        off_t at = (off_t)(off + done);
        if (io_advance(pwrite(fd, (const char *)data + done, len - done, at), &done))
            return -1;
    }
    return 0;
}

ssize_t io_pread(int fd, void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int io_pread_exact(int fd, void *buf, size_t len, uint64_t off)
{
    ssize_t n = io_pread(fd, buf, len, off);
    if (n >= 0 && (size_t)n < len)
        errno = EIO;
    return n >= 0 && (size_t)n == len ? 0 : -1;
}
