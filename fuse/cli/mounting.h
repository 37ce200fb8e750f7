/* SPDX-License-Identifier: Apache-2.0 */
/* mounting — the client started as a mount of this machine, and unmounted again. */
#ifndef MILLRACE_FUSE_CLI_MOUNTING_H
#define MILLRACE_FUSE_CLI_MOUNTING_H

#include "fuse/cli/cli.h"

#define MOUNTING_CLIENT "millrace-fuse"

struct mounting {
    struct conf_request conf;
    const char *dir; /* where; a directory */
    const char *cache_dir, *http, *metrics, *log_level;
    bool foreground, allow_other, check;
};
/* This process becomes the client. Returns only if it cannot: -1. check: its stores are asked
 * before, and one that cannot be mounted is told here. */
int mounting_exec(const struct args *a, const struct mounting *w, struct err *e);
/* Starts it beside this process, in a session of its own, and returns once the directory is served
 * (foreground does not count). It tells on stderr why not. */
int mounting_start(const struct args *a, const struct mounting *w, struct err *e);
/* Unmounts what was mounted by either, and waits until what was written there is saved. lazy:
 * detaches it at once and does not wait. INVALID: it is another's mount, CONFLICT: it is in use,
 * NOTFOUND: nothing is mounted there. */
int mounting_end(const char *dir, bool lazy, struct err *e);

#endif
