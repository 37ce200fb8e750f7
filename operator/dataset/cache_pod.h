/* SPDX-License-Identifier: Apache-2.0 */
/* member — one client, worker or loader pod as it stands: ready, or why not in words. Made of the
 * pod and of what it last said of itself at /status. Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_CACHE_POD_H
#define MILLRACE_OPERATOR_DATASET_CACHE_POD_H

#include "operator/api/dataset.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* As it was observed: both borrowed. */
struct member {
    const json_t *pod;
    /* what /status answered; {"unreachable": "why"} may be in it; NULL: nothing yet */
    const json_t *report;
};

enum member_state {
    MEMBER_STARTING, /* nothing is wrong so far */
    MEMBER_READY,
    MEMBER_TROUBLED, /* not ready, and reason and message say why */
    MEMBER_FINISHED, /* the pod has ended and will not start again: a new one is needed */
    MEMBER_LEAVING,  /* being deleted */
};

struct member_view {
    enum member_state state;
    bool store_trouble; /* troubled, and it is the store's (or the options'), not the pod's */
    const char *node;   /* "" before it is scheduled */
    char reason[48];    /* CamelCase; "" unless troubled */
    char message[448];  /* "" unless troubled or starting */
};

/* d may be NULL (not valid any more); it lends the names that the user gave to mounts. now_ns:
 * since the epoch. */
void member_look(
    const struct member *m, const struct dataset *d, int64_t now_ns, struct member_view *out);

/* A pod that has been starting for this long is asked about: the message then names what to look
 * at. */
#define MEMBER_SLOW_NS (30 * INT64_C(1000000000))

/* The last line of text that is not empty, cut to cap: the end of a log, or of a termination
 * message. */
const char *member_last_line(const char *text, char *out, size_t cap);
/* Adds a counter of a report to *sum. A report is what a pod says: negative numbers count nothing,
 * and the sum never overflows. */
void member_count(const json_t *report, const char *path, int64_t *sum);
/* its cache directory has no room */
bool member_disk_full(const struct member *m, const char **message);
bool member_is(const json_t *pod, const char *component);

#endif
