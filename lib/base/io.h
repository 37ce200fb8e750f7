/* SPDX-License-Identifier: Apache-2.0 */
/* io — reads and writes of all that was asked for, whatever the kernel does at a time. EINTR is
 * tried again; other errors: -1 and errno. */
#ifndef MILLRACE_LIB_BASE_IO_H
#define MILLRACE_LIB_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int io_write(int fd, const void *data, size_t len); /* at the file's position */
int io_pwrite(int fd, const void *data, size_t len, uint64_t off);
/* Bytes read: fewer than len only where the file ends. */
ssize_t io_pread(int fd, void *buf, size_t len, uint64_t off);
/* 0, or -1: EIO where the file ends before len. */
int io_pread_exact(int fd, void *buf, size_t len, uint64_t off);

#endif
