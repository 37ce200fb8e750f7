/* SPDX-License-Identifier: Apache-2.0 */
/* sock — bytes through a connected socket, by a deadline, whether it blocks or not. For serve.c. */
#ifndef MILLRACE_LIB_HTTP_SOCK_H
#define MILLRACE_LIB_HTTP_SOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* poll events; 1: ready, 0: the deadline passed, -1: broken */
int sock_wait(int fd, short events, int64_t deadline_ns);
/* All of it, or -1 when the other end is gone or has taken nothing for 30 s. flags: of send(2). */
int sock_send(int fd, const void *data, size_t len, int flags);
int sock_sendfile(int out, int fd, off_t off, uint64_t len); /* -1 too if the file is shorter */

#endif
