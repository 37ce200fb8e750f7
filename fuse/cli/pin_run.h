/* SPDX-License-Identifier: Apache-2.0 */
/* pin_run — one request of the mount for each file that paths name, or that is below them. */
#ifndef MILLRACE_FUSE_CLI_PIN_RUN_H
#define MILLRACE_FUSE_CLI_PIN_RUN_H

#include "lib/base/ioctl.h"
#include "lib/base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PIN_NO_MOUNT "%s is not on a mount of millrace, or on one of an older version"

/* op and progress are the caller's, the rest zeroed; files, bytes and left can be read afterwards.
 */
struct pin_run {
    enum pin_op op;
    bool progress; /* on stderr */
    struct pool *pool;
    pthread_mutex_t mu;
    bool stop; /* mu; nothing more would succeed */
    /* mu; left: pinned ones that were not freed; PIN_ASK: that are not complete */
    uint64_t files, bytes, left, failed;
    int64_t shown_ns; /* mu; when progress was shown last */
};
/* Returns an exit status; errors have been printed. */
int pin_run_paths(struct pin_run *r, char **paths, int n);

#endif
