/* SPDX-License-Identifier: Apache-2.0 */
/* last_error — why an inode failed last, and when: the text of the extended attribute
 * user.millrace.error. Only the latest 64 inodes are remembered. Threads: any. Locks: one mutex, a
 * leaf. */
#ifndef MILLRACE_FUSE_FILE_LAST_ERROR_H
#define MILLRACE_FUSE_FILE_LAST_ERROR_H

#include "lib/base/clock.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define LAST_ERROR_MAX (sizeof((struct err *)0)->msg + CLOCK_RFC3339_LEN)

struct last_errors; /* opaque */
struct last_errors *last_errors_new(struct err *e);
void last_errors_free(struct last_errors *l); /* NULL is fine */
void last_errors_set(struct last_errors *l, uint64_t ino, uint64_t generation, const struct err *e);
/* False: none is known. */
bool last_errors_get(
    struct last_errors *l, uint64_t ino, uint64_t generation, char text[LAST_ERROR_MAX]);
/* The latest of all, without its time: how long ago it was, ns; -1: there is none. */
int64_t last_errors_latest(struct last_errors *l, char text[LAST_ERROR_MAX]);

#endif
