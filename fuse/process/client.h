/* SPDX-License-Identifier: Apache-2.0 */
/* client — the serving process: from a configuration to an answered request. It may be killed at
 * any moment; its successor finds everything again in the cache directory and, for the connection,
 * in struct client_shared or at the node plugin. */
#ifndef MILLRACE_FUSE_PROCESS_CLIENT_H
#define MILLRACE_FUSE_PROCESS_CLIENT_H

#include "fuse/process/heartbeat.h"
#include "lib/handoff/wire.h"
#include "lib/sign/sign.h"

#include <stdbool.h>
#include <stdint.h>

struct client_options {
    const char *socket;     /* of the node plugin, or NULL … */
    const char *mountpoint; /* … then the supervisor mounts here */
    const char *cache_dir, *secrets_dir;
    const char *key_file; /* of the Dataset's cache key; NULL: workers ask for none */
    const char *config;   /* file; NULL: environment variable ENV_CONFIG */
    /* addresses; NULL: default of the mode; "": none */
    const char *http, *metrics;
    int64_t sync_ns;     /* 0: from the configuration, or the default */
    int64_t deadline_ns; /* of a call to a store; 0: the store's default */
    int64_t hung_ns;     /* a process that is silent for so long is replaced; 0: never */
    int64_t stuck_ns;    /* a request that does not end is answered after it; 0: never */
    int64_t uid, gid;    /* owner of what comes from the store; -1: default of the mode */
    bool allow_other;
    /* where the log goes once the mount is served and stderr has no reader; NULL: stays on stderr
     */
    const char *log_file;
};

/* Nothing in it can be written: the kernel may refuse by itself, and need not keep times of access.
 * False also if the configuration is bad: client_run() will say so. */
bool client_is_read_only(const struct client_options *o);
void client_log_to_file(const struct client_options *o); /* does nothing without .log_file */

/* In memory shared by the supervisor and every serving process: with hold_sock, to which the
 * serving process sends the fuse fd (HANDOFF_RETURN_FD), the supervisor can give the next one all
 * that it needs to go on, also where the node plugin died at the same time. */
struct client_shared {
    int hold_sock;             /* with a socket only; written before the first process is started */
    _Atomic uint32_t init_len; /* 0: the kernel's INIT has not been answered */
    unsigned char init[HANDOFF_INIT_MAX];
    struct heartbeats beats; /* the serving one's is 0 when it is started */
};

enum client_exit {
    CLIENT_DONE = 0,   /* unmounted, or told to end */
    CLIENT_BROKEN = 1, /* cannot serve: said on stderr */
    CLIENT_MISUSE = 2, /* of flags or configuration */
};
/* fuse_fd: /dev/fuse of a mount at the mountpoint; with a socket, of the mount that the process
 * before served when it was killed, -1 if there is none. ready_fd: a byte is written
 * once requests are answered; -1 none. */
enum client_exit client_run(
    const struct client_options *o, struct client_shared *shared, int fuse_fd, int ready_fd);

#endif
