/* SPDX-License-Identifier: Apache-2.0 */
/* pod — what a pod of a TFJob says about its replica. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_POD_H
#define MILLRACE_OPERATOR_TFJOB_POD_H

#include "operator/api/tfjob.h"

enum tfjob_pod_state {
    TFJOB_POD_NONE, /* there is none */
    /* one of that name has another owner, often an older job of the same name */
    TFJOB_POD_FOREIGN,
    /* being deleted before it had finished: not a failure, replaced once it is gone */
    TFJOB_POD_LEAVING,
    TFJOB_POD_PENDING,
    TFJOB_POD_RUNNING,
    TFJOB_POD_SUCCEEDED,
    TFJOB_POD_FAILED, /* by its own doing */
    /* phase Failed, but ended from outside (evicted, node shut down, refused by its node): not a
     * failure */
    TFJOB_POD_DISRUPTED,
};

struct tfjob_pod {
    enum tfjob_pod_state state;
    /* `tensorflow` has ended for good, which decided the state above, but the pod runs on */
    bool sidecars_run;
    bool evicted_by_itself; /* for a limit of its own, which it would pass again */
    bool has_exit_code;     /* of the container `tensorflow` */
    int exit_code;
    int container_restarts;       /* in place, by kubelet: all containers, init containers too */
    int restarts_before;          /* of earlier pods of this index */
    int disruptions_before;       /* in a row, of earlier pods of this index */
    int64_t created_ns;           /* 0: unknown, as for those below */
    int64_t started_ns, ended_ns; /* of its longest-lived container, once it has ended */
    int64_t running_ns;           /* since when `tensorflow` runs; 0: it does not, or unknown */
};

struct tfjob_pod tfjob_pod_read(const json_t *pod, const char *owner_uid);

/* How long its containers ran, once they have ended; 0: not at all, or unknown. */
int64_t tfjob_pod_ran_ns(const struct tfjob_pod *p);

/* time_ns + s seconds, or as late (early) as can be said: users choose both. */
int64_t tfjob_later(int64_t time_ns, int64_t s);

/* "Pod j-worker-1 on node n1: container tensorflow exited with code 137 (OOMKilled)": for
 * conditions and events. Caller frees. */
char *tfjob_pod_summary(const json_t *pod);

#endif
