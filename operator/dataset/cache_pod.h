/* SPDX-License-Identifier: Apache-2.0 */
/* cache_pod — the health of one client, worker or loader pod: ready, or why not. Made of the pod
 * and of its last answer at /status. Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_CACHE_POD_H
#define MILLRACE_OPERATOR_DATASET_CACHE_POD_H

#include "operator/api/dataset.h"
#include "operator/ctl/plan.h"
#include "operator/ctl/verdicts.h"
#include "operator/render/pod.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* As it was observed: both borrowed. */
struct cache_pod {
    const json_t *pod;
    /* what /status answered; {"unreachable": "why"} may be in it; NULL: nothing yet */
    const json_t *report;
};

enum cache_pod_state {
    CACHE_POD_STARTING, /* nothing is wrong so far */
    CACHE_POD_READY,
    CACHE_POD_PROBLEM,  /* not ready, and reason and message say why */
    CACHE_POD_FINISHED, /* the pod has ended and will not start again: a new one is needed */
    CACHE_POD_LEAVING,  /* being deleted */
};

struct cache_pod_health {
    enum cache_pod_state state;
    bool store_problem; /* it is the store's (or the options'), not the pod's */
    bool stalled;       /* only a person can mend it: time does not */
    bool slow;          /* nothing is wrong but that it takes long */
    bool full;          /* no node that it may run on has the room that it asks for */
    /* of FINISHED: it failed as soon as it was made, and so would the next; that is made after this
     * time. 0: at once */
    int64_t rest_ns;
    /* of LEAVING: another's finalizer keeps it; nanoseconds until reason says so, 1 if it
     * does; 0: none does */
    int64_t held_ns;
    const char *node;  /* "" before it is scheduled */
    char reason[48];   /* CamelCase; "" unless PROBLEM, at rest or held */
    char message[448]; /* "" unless PROBLEM, STARTING, at rest or held */
};

/* d may be NULL (not valid any more); it lends the names that the user gave to mounts. now_ns:
 * since the epoch. */
void cache_pod_evaluate(const struct cache_pod *m, const struct dataset *d, int64_t now_ns,
    struct cache_pod_health *out);

/* A pod that has been starting for this long has a problem; the message names what to look at. */
#define CACHE_POD_SLOW_NS (30 * INT64_C(1000000000))

#define CACHE_POD_REST_NS (30 * INT64_C(1000000000)) /* between two that fail at once */

/* The last line of text that is not empty, cut to cap: the end of a log, or of a termination
 * message. */
/* What kubelet says of our container, whichever others a webhook has put beside it; NULL: nothing
 * yet. */
const json_t *cache_pod_container(const json_t *pod);
const char *cache_pod_last_line(const char *text, char *out, size_t cap);
/* Adds a counter of a report to *sum. Reports are not trusted: negative numbers count nothing,
 * and the sum never overflows. */
void cache_pod_add_count(const json_t *report, const char *path, int64_t *sum);
/* Bytes that it caches where it is. A worker that leaves takes them along: nobody finds it any
 * more, and it answers to nobody; what a client has stays on its node. */
int64_t cache_pod_holds(const struct cache_pod *m);
/* its cache directory has no room */
bool cache_pod_disk_full(const struct cache_pod *m, const char **message);
bool cache_pod_is(const json_t *pod, const char *component);
/* How many workers readers and loaders are to ask: those that there should be, but ones that come
 * count only when they serve; from then on, until they are taken away. pods: all of the Dataset. */
int cache_pod_workers(
    const struct dataset *d, const struct cache_pod *pods, size_t npods, int64_t now_ns);
/* What is known while pods of a Dataset are made. All borrowed. */
struct cache_pod_making {
    const struct dataset *d;
    const struct render_env *env;
    int workers;        /* that a pod is told of */
    bool key_made;      /* of cache_pod_key_made() */
    const json_t *said; /* of ctl/verdicts, of the owner of the pods; may be NULL */
    int64_t now_ns;     /* since the epoch */
};
/* Is it known that the Secret of the Dataset's key as it is now was made? That of another key was
 * under another name. pods: of the Dataset. */
bool cache_pod_key_made(const struct dataset *d, const struct render_env *env,
    const struct cache_pod *pods, size_t npods, const json_t *said);
/* Creates the pod, and before it the Secret that it mounts: one that was deleted is made again with
 * the next pod. */
void cache_pod_create(struct plan *p, const struct cache_pod_making *m, json_t *pod_take);
/* The same of a pod that may be refused without harm to others: plan_create_heard(). */
const char *cache_pod_create_heard(
    struct plan *p, const struct cache_pod_making *m, json_t *pod_take);
/* plan_try(): a pod is not replaced before the Secret of its successor is there, either. */
enum verdict cache_pod_try(
    struct plan *p, const struct cache_pod_making *m, const json_t *pod, json_t *successor_take);
/* In words for people, of one that is not there, since the server refuses to make it. dataset: as
 * its spec is. said: of ctl/verdicts. The reason for a condition. */
const char *cache_pod_say_unmade(const json_t *dataset, const json_t *said, const json_t *pod,
    const char *words, char *out, size_t size);
/* In words: there is no claim of that mount's name. */
void cache_pod_say_no_claim(const struct dataset *d, size_t mount, char *out, size_t size);
/* Tells a pod that there is of them. */
void cache_pod_tell(struct plan *p, const json_t *pod, int workers);

#endif
