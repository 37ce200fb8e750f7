/* SPDX-License-Identifier: Apache-2.0 */
/* replicas — every replica of a TFJob, classified once: its pod and service, what the pod says, and
 * what follows from that. Made before anything is decided, and only read from then on. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_REPLICAS_H
#define MILLRACE_OPERATOR_TFJOB_REPLICAS_H

#include "lib/base/clock.h"
#include "operator/api/tfjob.h"
#include "operator/tfjob/observed.h"
#include "operator/tfjob/pod.h"

#define LONG_RUN_NS           (600 * NS_PER_S) /* what happens after that is not in a row */
#define TFJOB_DISRUPTIONS_MAX 20               /* in a row, then it has failed */

/* What becomes of a replica whose pod has ended. */
enum tfjob_outcome {
    TFJOB_OUTCOME_NONE,     /* it has not ended, or has completed */
    TFJOB_OUTCOME_REPLACE,  /* a new pod takes its place, and the job goes on */
    TFJOB_OUTCOME_FAIL,     /* so does the job */
    TFJOB_OUTCOME_TOLERATE, /* it stays as it is, and the job goes on */
};

struct tfjob_replica {
    enum tfjob_type type;
    int index;
    const json_t *pod, *service; /* of any owner; NULL: none */
    bool service_foreign;
    struct tfjob_pod is; /* what the pod says */
    bool completed;      /* this pod or an earlier one has succeeded: no pod is made again */
    int restarts;        /* so far, those of this pod included */
    int disruptions;     /* in a row; likewise */
    int rule;            /* of the job's failure policy, that fits it; -1: none */
    bool ignored;        /* its end is no failure: replaced and not counted */
    bool newly_failed;   /* the pod failed and is replaced, and the stored status does not know */
    enum tfjob_outcome outcome;
};

struct tfjob_replicas {
    struct tfjob_replica *v; /* owned; by type, then index */
    size_t n, first[TFJOB_TYPES + 1];
    /* ours, but of no index that is wanted: scaled in */
    const json_t **extra_pods, **extra_services;
    size_t nextra_pods, nextra_services;
};

/* status: as it was stored. Borrows from o. */
void tfjob_replicas_make(const struct tfjob_observed *o, const struct tfjob *j,
    const struct tfjob_status *status, struct tfjob_replicas *out);
void tfjob_replicas_free(struct tfjob_replicas *rs);

/* for (const struct tfjob_replica *r = each of them, or each of a type) */
#define tfjob_each(r, rs) for (const struct tfjob_replica *r = (rs)->v; r < (rs)->v + (rs)->n; r++)
#define tfjob_each_of(r, rs, type)                                    \
    for (const struct tfjob_replica *r = (rs)->v + (rs)->first[type]; \
         r < (rs)->v + (rs)->first[(type) + 1]; r++)

#endif
