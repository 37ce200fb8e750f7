/* SPDX-License-Identifier: Apache-2.0 */
/* informer_priv — what informer.c (the objects, for readers and writers) and informer_follow.c (the
 * thread that lists and watches) share. */
#ifndef MILLRACE_OPERATOR_CTL_INFORMER_PRIV_H
#define MILLRACE_OPERATOR_CTL_INFORMER_PRIV_H

#include "lib/base/map.h"
#include "lib/base/task.h"
#include "operator/ctl/informer.h"
#include "operator/ctl/recent.h"

#include <pthread.h>
#include <stdatomic.h>

struct informer_listener {
    informer_handler fn;
    void *user;
};

struct informer {
    struct kube *kube;
    struct informer_conf conf;
    struct informer_listener *handlers; /* fixed once started, as the next two */
    size_t nhandlers;
    informer_unreadable unreadable; /* or NULL */
    void *unreadable_user;
    struct task task; /* lists and watches */
    atomic_bool synced;
    pthread_mutex_t order;   /* across a change and the handlers that are told of it; before mu */
    pthread_mutex_t mu;      /* a leaf */
    struct indexer *indexer; /* mu */
    struct recent *recent;   /* fixed; NULL: none */
    uint64_t passed;         /* mu: the version up to which the watch has delivered */
    uint64_t mark;           /* of the running list; used by the thread only, but under mu */
    struct err error;        /* mu: why there is no list or watch; ERR_NONE if there is one */
    int64_t failing_since;   /* mu: mono ns; 0: error is none */
    /* of the thread only */
    char *version;       /* where the next watch starts */
    bool watched;        /* once, at least */
    bool failing;        /* error is set */
    bool nameless;       /* the running list skipped an object of which nothing is known */
    int64_t listed_ns;   /* mono, of the last list */
    struct map *skipped; /* key → version of an object that cannot be read, owned */
};

/* Where an object comes from: a page of a list, the watch (in order of versions), or the answer to
 * a write of ours. */
enum informer_source { FROM_LIST, FROM_WATCH, FROM_WRITE };

/* Keeps the object, unless the one that is there is as new. An answer to a write that the watch
 * has passed is dropped, too: that object was deleted meanwhile. */
void informer_put(struct informer *inf, json_t *object_take, enum informer_source from);
/* uid NULL: whatever is there. rv 0: whatever version. An object made after rv under the same name
 * stays. */
void informer_del(struct informer *inf, const char *key, const char *uid, uint64_t rv);
/* the thread's function */
void informer_follow(void *inf);

#endif
