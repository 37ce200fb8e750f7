/* SPDX-License-Identifier: Apache-2.0 */
/* wire — what the node plugin (owns /dev/fuse and the mount) and the client (serves the requests)
 * say to each other over a SOCK_SEQPACKET unix socket, VOLUME_SOCKET in the client's inline volume.
 * One message is one packet: struct handoff_msg, then `len` bytes of payload, and at most one fd
 * (SCM_RIGHTS). The plugin listens, the client connects and keeps the connection as long as it
 * lives; a connection that closes means that the client is gone. A newer connection waits until the
 * older one closes. Requests with an answer are answered in order. Both ends are on the same
 * machine: native byte order.
 *
 * Ids of backing files outlive the client: the plugin maps (device, inode) of a backing file to its
 * id, gives the same one again, and closes it when each client that got it has closed it. What a
 * client or a plugin that was killed did not say or hear of that is settled by HOLDS. A backing
 * file is a regular file of the client's user on the file system of its cache directory; -EPERM
 * otherwise. Pids are those of the plugin's namespace, as it made the mount. It tells only of
 * processes that have the mount in sight.
 *
 * The mount has allow_other, default_permissions, nosuid and nodev. When it goes (NodeUnstage, or a
 * stage that failed) the plugin closes the connection and the fuse fd gives ENODEV: the client
 * forgets the fd, connects anew and waits for the next WELCOME. When only the connection closes,
 * the plugin has gone: the client connects until it is back, then sends HELLO, RETURN_FD (and
 * SERVING again); no WELCOME follows. The plugin asks for RETURN_FD within HANDOFF_RETURN_MS of
 * HELLO: later it may take the mount for lost. FAILED before WELCOME is kept as the reason to show
 * if nothing better comes in time; after WELCOME it fails the stage.
 *
 * The plugin pings a client that says in HELLO that it knows pings, and gives a mount up whose
 * client serves nobody for long; the client in turn does not ask a plugin that has fallen silent.
 */
#ifndef MILLRACE_LIB_HANDOFF_WIRE_H
#define MILLRACE_LIB_HANDOFF_WIRE_H

#include "lib/base/err.h"
#include "lib/handoff/caller.h"
#include "lib/handoff/closer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDOFF_VERSION     1
#define HANDOFF_INIT_MAX    256 /* bytes of a saved FUSE_INIT request */
#define HANDOFF_PAYLOAD_MAX 2048
#define HANDOFF_RETURN_MS   2000

enum handoff_type {
    HANDOFF_HELLO = 1,     /* client: struct handoff_hello, or less; its first message */
    HANDOFF_WELCOME,       /* plugin: struct handoff_welcome + fuse fd; once there is a mount */
    HANDOFF_INIT,          /* client: the kernel's FUSE_INIT, once; saved and in later WELCOMEs */
    HANDOFF_SERVING,       /* client: INIT is answered; NodeStage may succeed */
    HANDOFF_FAILED,        /* client: text, why it cannot serve; NodeStage shows it to the user */
    HANDOFF_BACKING_OPEN,  /* client: + fd of a regular file; answered by BACKING */
    HANDOFF_BACKING,       /* plugin: int64 id, or -errno */
    HANDOFF_BACKING_CLOSE, /* client: int64 id; the last open of the inode is released; no answer */
    HANDOFF_RETURN_FD,     /* client: + the fuse fd, to a restarted plugin; may follow HELLO */
    HANDOFF_WHO,    /* client: int64 pid, a caller that a request names; answered by CALLER */
    HANDOFF_CALLER, /* plugin: struct handoff_caller */
    HANDOFF_PING,   /* plugin: are you there? To a client that said HANDOFF_CAN_PONG */
    HANDOFF_PONG,   /* client: it is, and its threads take requests */
    HANDOFF_LOST,   /* plugin: struct handoff_lost; the mount was made in place of a dead one */
    HANDOFF_HOLDS,  /* client: int32 backing ids that it holds, as often as it got them; one without
                       any ends the list: the plugin closes all others. No answer */
    HANDOFF_CANNOT_RESUME, /* client: it never will serve the mount that another client served, and
                              says why by FAILED: the plugin gives the mount up soon */
};

/* HELLO may be longer than the version: a word of what the client can do. A peer takes no notice of
 * a type that it does not know. */
#define HANDOFF_CAN_PONG 1u
struct handoff_hello {
    uint32_t version;
    uint32_t can;
};

struct handoff_msg {
    uint32_t type;
    uint32_t len; /* bytes of payload */
    unsigned char payload[HANDOFF_PAYLOAD_MAX];
};

struct handoff_welcome {
    uint32_t version;
    uint32_t read_only; /* 1: mounted with MS_RDONLY */
    uint32_t init_len;  /* 0: the kernel's INIT is still to come; else replay init[] */
    unsigned char init[HANDOFF_INIT_MAX];
};

struct handoff_lost {
    int64_t at_s;  /* since the epoch */
    char why[256]; /* ends with a 0 */
};

struct handoff_caller {
    int64_t pid;           /* as it was asked for */
    char name[CALLER_MAX]; /* lib/handoff/caller.h */
};

/* fd -1: none. Never blocks. Errors: RETRY (peer gone; sys EAGAIN: it does not read), INVALID (too
 * long). */
int handoff_send(
    int sock, enum handoff_type type, const void *payload, size_t len, int fd, struct err *e);
/* Returns 1 for a message (*fd >= 0 if one came, CLOEXEC, caller owns), 0 when the peer has closed,
 * -1 on error or malformed packet. What came and does not belong is given to the closer; NULL: is
 * closed here, for peers that are trusted. */
int handoff_recv(int sock, struct closer *closer, struct handoff_msg *msg, int *fd, struct err *e);
/* returns a socket; NOTFOUND while nobody listens */
int handoff_connect(const char *path, struct err *e);
/* replaces a stale socket; mode 0666: access is by directory */
int handoff_listen(const char *path, struct err *e);

#endif
