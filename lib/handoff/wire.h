/* SPDX-License-Identifier: Apache-2.0 */
/* wire — what the keeper (node plugin; owns /dev/fuse and the mount) and the client (serves the
 * requests) say to each other over a SOCK_SEQPACKET unix socket, VOLUME_SOCKET in the client's
 * inline volume. One message is one packet: struct keep_msg followed by `len` bytes of payload, and
 * at most one fd (SCM_RIGHTS). The keeper listens, the client connects and keeps the connection as
 * long as it lives; a connection that closes means the client is gone. A newer connection waits
 * until the older one closes. Requests with an answer are answered in order. Both ends are of the
 * same machine: native byte order.
 *
 *   client → keeper   KEEP_HELLO {version}                     first message
 *   keeper → client   KEEP_WELCOME struct keep_welcome + fuse fd   when there is a mount (so
 * possibly much later) client → keeper   KEEP_INIT bytes of the kernel's FUSE_INIT request   once;
 * saved and replayed in later WELCOMEs client → keeper   KEEP_SERVING INIT answered: NodeStage may
 * succeed client → keeper   KEEP_FAILED text                         cannot serve: why; shown to
 * the user by NodeStage client → keeper   KEEP_BACKING_OPEN + fd of a regular file  answered by
 * KEEP_BACKING {int64 id | -errno} client → keeper   KEEP_BACKING_CLOSE {int64 id}            the
 * inode's last open is released; no answer client → keeper   KEEP_WHO {int64 pid} a caller that a
 * request names; answered by KEEP_CALLER struct keep_caller client → keeper   KEEP_RETURN_FD + fd
 * hands the fuse fd back to a restarted keeper (may follow HELLO) Ids outlive the client: the
 * keeper maps (device, inode) of a backing file to its id, gives the same one again, and closes it
 * when each of those who got it has closed it. Pids are those of the keeper's namespace, as it made
 * the mount. It tells only of processes that have the mount in sight. A backing file is a regular
 * file of the client's user on the file system of its cache directory; -EPERM otherwise.
 *
 * The mount has allow_other, default_permissions, nosuid and nodev. When it goes (NodeUnstage, or a
 * stage that failed) the keeper closes the connection and the fuse fd gives ENODEV: forget the fd,
 * connect anew and wait for the next WELCOME. When only the connection closes the keeper has gone:
 * connect until it is back, then HELLO, RETURN_FD (and SERVING again); no WELCOME follows. It asks
 * for RETURN_FD within KEEP_RETURN_MS of HELLO: later it may take the mount for lost. KEEP_FAILED
 * before WELCOME is kept as the reason to show if nothing better comes in time; after WELCOME it
 * fails the stage. */
#ifndef MILLRACE_LIB_HANDOFF_WIRE_H
#define MILLRACE_LIB_HANDOFF_WIRE_H

#include "lib/base/err.h"
#include "lib/handoff/caller.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEEP_VERSION     1
#define KEEP_INIT_MAX    256 /* bytes of a saved FUSE_INIT request */
#define KEEP_PAYLOAD_MAX 2048
#define KEEP_RETURN_MS   2000

enum keep_type {
    KEEP_HELLO = 1,
    KEEP_WELCOME,
    KEEP_INIT,
    KEEP_SERVING,
    KEEP_FAILED,
    KEEP_BACKING_OPEN,
    KEEP_BACKING,
    KEEP_BACKING_CLOSE,
    KEEP_RETURN_FD,
    KEEP_WHO,
    KEEP_CALLER,
};

struct keep_msg {
    uint32_t type;
    uint32_t len; /* bytes of payload */
    unsigned char payload[KEEP_PAYLOAD_MAX];
};

struct keep_welcome {
    uint32_t version;
    uint32_t read_only; /* 1: mounted with MS_RDONLY */
    uint32_t init_len;  /* 0: the kernel's INIT is still to come; else replay init[] */
    unsigned char init[KEEP_INIT_MAX];
};

struct keep_caller {
    int64_t pid;           /* as it was asked for */
    char name[CALLER_MAX]; /* lib/keep/caller.h */
};

/* fd -1: none. Blocks. Errors: RETRY (peer gone), INVALID (too long). */
int keep_send(
    int sock, enum keep_type type, const void *payload, size_t len, int fd, struct err *e);
/* Returns 1 for a message (*fd >= 0 if one came, CLOEXEC, caller owns), 0 when the peer has closed,
 * -1 on error or malformed packet. */
int keep_recv(int sock, struct keep_msg *msg, int *fd, struct err *e);
/* returns a socket; NOTFOUND while nobody listens */
int keep_connect(const char *path, struct err *e);
/* replaces a stale socket; mode 0666: access is by directory */
int keep_listen(const char *path, struct err *e);

#endif
