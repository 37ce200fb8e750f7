/* SPDX-License-Identifier: Apache-2.0 */
/* handoff_priv — what handoff.c (the connection, and what the plugin says) and handoff_ask.c (what
 * it is asked) share. */
#ifndef MILLRACE_FUSE_SESSION_HANDOFF_PRIV_H
#define MILLRACE_FUSE_SESSION_HANDOFF_PRIV_H

#include "fuse/session/handoff.h"
#include "lib/base/clock.h"
#include "lib/base/task.h"

#include <pthread.h>

#define HANDOFF_CONNECT_MIN_NS (20 * NS_PER_MS)

struct caller_query { /* on the stack of the thread that asks */
    struct caller_query *next;
    pid_t pid;
    bool answered;
    char *out;
};

struct handoff_client {
    char *path;
    struct task task; /* receives; waits with mu */
    pthread_mutex_t mu, ask;
    pthread_cond_t changed;
    int sock; /* mu; -1 while there is no connection */
    /* mu; -1 before the first mount; a session closes a copy of its own, and this one is returned
     * to a plugin also while the session ends */
    int fuse_fd;
    struct handoff_welcome welcome; /* mu; of fuse_fd, with the INIT as it is known now */
    /* mu; handoff_client_wait() has returned it: what comes later is another mount */
    bool taken;
    bool serving;                     /* mu */
    bool tried;                       /* mu: to connect */
    bool ended;                       /* mu: the mount that was taken is over */
    char failed[HANDOFF_PAYLOAD_MAX]; /* mu; "" nothing failed */
    bool cannot_resume;               /* mu: the mount of now */
    bool asking, answered;            /* mu */
    int64_t answer;                   /* mu */
    int64_t silent_until_ns;          /* mu; nothing is asked until then */
    struct caller_query *queries;     /* mu */
    int64_t *closes;                  /* mu: backing ids that the plugin has not been told of yet */
    size_t ncloses, closes_cap;       /* mu */
    bool holds;                       /* mu: held[] is all that this mount's clients got */
    int32_t *held;                    /* mu: backing ids, as often as they were given out */
    size_t nheld, held_cap;           /* mu */
    int wake_fd;                      /* readable: there are some */
    bool pings;                       /* mu: the plugin does, on this connection */
    int64_t heard_ns;                 /* mu: when it last said something */
    bool (*serves)(void *user);       /* mu; NULL: yes */
    void *serves_user;                /* mu */
    struct handoff_lost lost;         /* mu; at_s 0: no mount was */
    void (*on_lost)(void *user, const struct handoff_lost *lost); /* mu; or NULL */
    void *on_lost_user;                                           /* mu */
    void (*on_hung)(void *user);                                  /* mu; or NULL */
    void *on_hung_user;                                           /* mu */
    int64_t hung_after_ns;                                        /* mu */
};

/* Never waits; -1: it does not listen. mu is held. */
int handoff_tell(
    struct handoff_client *h, enum handoff_type type, const void *payload, size_t len, int fd);

#endif
