/* SPDX-License-Identifier: Apache-2.0 */
/* handoff_priv — what handoff.c (the callers' side), handoff_thread.c (a mount's thread) and
 * handoff_client.c (what that one does with the client) share. */
#ifndef MILLRACE_CSI_HANDOFF_PRIV_H
#define MILLRACE_CSI_HANDOFF_PRIV_H

#include "csi/backing.h"
#include "csi/bucket.h"
#include "csi/handoff.h"
#include "lib/base/mutex.h"
#include "lib/base/task.h"
#include "lib/handoff/closer.h"
#include "lib/handoff/wire.h"
#include "lib/http/metric.h"

#include <pthread.h>

/* a client that has sent so many descriptors that close() is not done with is not listened to */
#define CLOSER_MAX     8
#define CLOSER_LOOK_NS (100 * NS_PER_MS)

/* for a client that has gone to be back: its supervisor starts another in milliseconds */
#define HANDOFF_BACK_NS (5 * NS_PER_S)

struct handoff {
    struct handoff_conf conf;  /* strings owned */
    pthread_mutex_t mu;        /* a leaf; held while a handoff_mount is made */
    struct handoff_mount *all; /* mu */
    struct metric *mounts, *clients, *backing, *handovers, *abandoned, *remounts;
};

struct handoff_mount {
    struct handoff *handoff;
    struct handoff_mount *next; /* handoff.mu */
    unsigned refs;              /* handoff.mu */
    char *ns, *uid, *dir;
    char *init_path;   /* the saved INIT */
    dev_t cache_dev;   /* backing files are on it … */
    uid_t cache_owner; /* … and belong to it */
    int listen_fd, wake_fd;
    struct closer *closer; /* of what the client sends */
    struct task task;

    /* held by the thread except while it waits; below it only file and log calls */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    /* mu: order: forget the mount, its fd and its client; the thread resets it */
    bool end_mount;
    bool flushing;  /* mu: … and waits until what is dirty is written back */
    bool ending;    /* mu: a caller is unmounting: the thread leaves the mount alone */
    char *staging;  /* mu: NULL: not mounted */
    dev_t dev;      /* mu */
    bool read_only; /* mu */
    bool published; /* mu */
    /* mu: -1 while mounted: with the living client, or lost. Closed by the thread only */
    int fuse_fd;
    /* mu: returned before the mount was adopted; -1 none. Of this client; the thread's */
    int early_fd;
    bool served;       /* mu: a client has answered INIT on this connection */
    unsigned init_len; /* mu */
    unsigned char init[HANDOFF_INIT_MAX];
    int conn;                      /* mu: the client, -1 if none. Closed by the thread only */
    pid_t pid;                     /* mu: of the client */
    bool hello, welcomed, serving; /* mu: of this client */
    bool failed_stage;             /* mu: it got the fd and said that it cannot serve */
    bool cannot_resume;            /* mu: of this client: neither it nor the next one will serve */
    char failed[256];              /* mu */
    /* mu: when it connected, then when it said hello; postponed while its mount is not known to be
     * dead */
    int64_t hello_ns;
    int64_t accept_ns;     /* mu: none is accepted before, as there was no descriptor for it */
    int64_t attended_ns;   /* mu: when a client was last known to serve the mount, or it began */
    int64_t pinged_ns;     /* mu: when its client was last asked */
    bool can_pong, silent; /* mu: of this client: it answers pings; it has not for long */
    bool given_up;         /* mu: the mount was aborted, for it was not served */
    /* mu: why the mount, or the one before, was aborted, and when; "": none was */
    struct handoff_lost lost;
    struct bucket messages, questions, lines; /* mu: of all clients of this mount */
    size_t unlogged;                          /* mu: lines left out */
    bool ended;                               /* mu: the thread has */
    int64_t checked_ns;                       /* mu: when the fd was last looked at */
    struct backing *files;                    /* mu */
};

void handoff_thread(void *mount);
void handoff_wake(struct handoff_mount *v); /* with mu or without */
/* The client: mu is held. */
void client_accept(struct handoff_mount *v);
void client_receive(struct handoff_mount *v); /* one message */
void client_welcome(struct handoff_mount *v);
void client_ping(struct handoff_mount *v);
void client_tell_lost(struct handoff_mount *v);         /* if the mount was made again */
void client_take_back(struct handoff_mount *v, int fd); /* takes the fd */
void client_close(struct handoff_mount *v, const char *why);
/* how long not to listen to it; 0: listen */
int64_t client_wait_ns(const struct handoff_mount *v, int64_t now);
/* A fresh connection. mu is held. */
int handoff_make_mount(struct handoff_mount *v, const char *staging, bool read_only, struct err *e);

#endif
