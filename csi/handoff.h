/* SPDX-License-Identifier: Apache-2.0 */
/* handoff — owns the fuse fd and the mount of every dataset on this node, and lends the fd to the
 * client that serves it (lib/handoff/wire.h). A client may die, and the next one goes on where it
 * was; this process may die, and gets the fd back from the living client; a mount is lost only when
 * both are gone, and then the next client gets a fresh one at the same place.
 *
 * One thread a mount: a client that does not read, or makes a system call of ours wait, harms its
 * own volume only. What a hostile client can do: serve wrong bytes of its own dataset; hang its
 * readers until the mount is aborted, whether it holds the fuse fd or not; have up to `backing_max`
 * of its own files held open. What it cannot do: register another user's file (backing.h), close
 * ids of another volume, hand in an fd that is no FUSE device, name a path, learn of processes that
 * do not have its dataset mounted. Its texts are shown to people, cleaned of control characters. */
#ifndef MILLRACE_CSI_HANDOFF_H
#define MILLRACE_CSI_HANDOFF_H

#include "csi/volume_context.h"
#include "lib/base/err.h"
#include "lib/handoff/caller.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct handoff;       /* opaque: all mounts */
struct handoff_mount; /* opaque: that of one volume */

struct handoff_conf {
    const char *state_dir;  /* saved INITs and logs of backing files; exists */
    const char *node;       /* for messages */
    int64_t read_ahead_kib; /* of every mount */
    /* a published mount that no client serves for so long is aborted: its readers get an error; 0:
     * never */
    int64_t abandon_ns;
    size_t backing_max; /* backing files a volume */
    /* says who a process is, for example caller_of_pid(); NULL: a client is told of nobody */
    void (*caller)(pid_t pid, char out[CALLER_MAX]);
};

struct handoff *handoff_new(const struct handoff_conf *conf); /* strings are copied */
void handoff_free(struct handoff *h);                         /* every mount has been put */

/* Below, no call waits longer than its deadline, whatever a client does: CONFLICT then. */

/* The volume whose directory is dir (VOLUME_SOCKET is made in it; VOLUME_CACHE exists there).
 * Counted: the socket lives until the last handoff_put(). Neither get nor put touches a mount. put
 * waits some seconds for the mount's thread at most. */
struct handoff_mount *handoff_get(
    struct handoff *h, const char *ns, const char *uid, const char *dir, struct err *e);
void handoff_put(struct handoff_mount *v);

/* After a restart, once all mounts are adopted: removes what is noted of others, and what was being
 * written when the plugin was killed. */
void handoff_remove_orphans(struct handoff *h);

struct handoff_want {
    const char *staging;
    bool read_only;
    const struct volume_context *context; /* for messages */
    int64_t deadline_ns;                  /* CLOCK_MONOTONIC */
    bool (*cancelled)(const void *arg);
    const void *arg;
};
/* Mounts at staging and waits until a client serves; at once if one already does. On failure
 * nothing is mounted, unless it was before. Errors: RETRY with what is missing or what the client
 * said; CONFLICT/EBUSY when mounted elsewhere. */
int handoff_stage(struct handoff_mount *v, const struct handoff_want *want, struct err *e);
/* Do pods have it? One that none has is aborted a few seconds after its client has gone: kubelet
 * looks at a mount before it asks to unstage it, and would hang where no client can come any more
 * (its namespace is being deleted). At first: no. */
int handoff_published(struct handoff_mount *v, bool published, int64_t deadline_ns, struct err *e);
/* Unmounts; not mounted: fine. What is dirty is written back while a client serves; without one,
 * and after the deadline, the mount is aborted. */
int handoff_unstage(struct handoff_mount *v, int64_t deadline_ns, struct err *e);
/* After a restart: the mount is there, its fd is with the client or lost. */
void handoff_adopt(struct handoff_mount *v, const char *staging, dev_t dev, bool read_only);

/* Would the mount, if there is one, outlive this process? With its fuse fd in a client that is
 * connected. */
bool handoff_survives(struct handoff_mount *v);

struct handoff_state {
    bool mounted;
    bool connected; /* a client is */
    bool silent;    /* … and it does not answer */
    bool usable;    /* mounted, and a client has served it; it may be restarting now */
    size_t backing_files;
    pid_t pid;        /* of the client, 0 if not connected */
    char failed[256]; /* the last reason why the client cannot serve; "" when it does */
    char lost[256];   /* why the mount, or the one before it, was aborted; "": none was */
};
int handoff_state(
    struct handoff_mount *v, int64_t deadline_ns, struct handoff_state *out, struct err *e);

#endif
