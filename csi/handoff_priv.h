/* SPDX-License-Identifier: Apache-2.0 */
/* handoff_priv — what handoff.c (the callers' side) and handoff_thread.c (a mount's thread) share.
 */
#ifndef MILLRACE_CSI_HANDOFF_PRIV_H
#define MILLRACE_CSI_HANDOFF_PRIV_H

#include "csi/backing.h"
#include "csi/handoff.h"
#include "lib/base/mutex.h"
#include "lib/base/task.h"
#include "lib/handoff/wire.h"
#include "lib/http/metric.h"

#include <pthread.h>

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
    struct task task;

    /* held by the thread except while it waits; below it only file and log calls */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    /* mu: order: forget the mount, its fd and its client; the thread resets it */
    bool end_mount;
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
    char failed[256];              /* mu */
    /* mu: when it connected, then when it said hello; postponed while its mount is not known to be
     * dead */
    int64_t hello_ns;
    int64_t alone_ns;      /* mu: since when a mount has no client */
    int64_t checked_ns;    /* mu: when the fd was last looked at */
    struct backing *files; /* mu */
};

void handoff_thread(void *mount);
void handoff_wake(struct handoff_mount *v); /* with mu or without */
/* A fresh connection. mu is held. */
int handoff_make_mount(struct handoff_mount *v, const char *staging, bool read_only, struct err *e);

#endif
