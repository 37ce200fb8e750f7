/* SPDX-License-Identifier: Apache-2.0 */
/* tfjob — kubeflow.org/v1 TFJob: json ↔ struct, the only place that spells its fields. Defaults are
 * those of training-operator 1.9.4 and live in memory only: what the user wrote is never changed.
 * All strings of struct tfjob borrow from the document it was read from. */
#ifndef MILLRACE_OPERATOR_API_TFJOB_H
#define MILLRACE_OPERATOR_API_TFJOB_H

#include "lib/base/err.h"
#include "operator/api/data_wait.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TFJOB_PORT_NAME "tfjob-port"
#define TFJOB_PORT      2222
#define TFJOB_REPLICAS_MAX                                                                \
    10000                 /* of one type: a ceiling for tables in memory; also in the CRD \
                           */
#define TFJOB_NAME_MAX 63 /* bytes of a derived name: it is a host name and a label */

/* In the order in which conditions are decided, which is also the order of the keys in TF_CONFIG.
 */
enum tfjob_type { TFJOB_CHIEF, TFJOB_EVALUATOR, TFJOB_MASTER, TFJOB_PS, TFJOB_WORKER };
#define TFJOB_TYPES 5
/* "Chief" … "PS" …: keys of status.replicaStatuses */
const char *tfjob_type_name(enum tfjob_type t);
const char *tfjob_type_lower(enum tfjob_type t); /* "chief" … "ps" …: names, labels, TF_CONFIG */
bool tfjob_type_parse(const char *text, enum tfjob_type *out); /* any letter case */

enum tfjob_restart {
    TFJOB_RESTART_NEVER,
    TFJOB_RESTART_ON_FAILURE,
    TFJOB_RESTART_ALWAYS,
    TFJOB_RESTART_EXIT_CODE
};
enum tfjob_clean {
    /* nothing said: like None, but PS and evaluators that still run are freed */
    TFJOB_CLEAN_DEFAULT,
    TFJOB_CLEAN_NONE,
    TFJOB_CLEAN_RUNNING,
    TFJOB_CLEAN_ALL,
};

struct tfjob_replica_spec {
    bool present;
    int replicas;
    enum tfjob_restart restart;
    const json_t *template; /* metadata, spec */
};

/* runPolicy.schedulingPolicy */
struct tfjob_scheduling {
    int64_t min_available;              /* -1: all replicas */
    const char *queue, *priority_class; /* "" if not given */
    const json_t *min_resources;        /* NULL: computed */
    int64_t timeout_s;                  /* -1: not given */
};

/* runPolicy.podFailurePolicy.rules[]: what becomes of a pod that has failed, instead of what its
 * restart policy says. */
enum tfjob_action {
    TFJOB_ACTION_FAIL_JOB,
    TFJOB_ACTION_FAIL_INDEX, /* it stays as it is, the job goes on */
    TFJOB_ACTION_IGNORE,     /* replaced, not counted */
    TFJOB_ACTION_COUNT,      /* replaced, counted towards backoffLimit */
};
const char *tfjob_action_name(enum tfjob_action a); /* "FailJob" … */
struct tfjob_rule {
    enum tfjob_action action;
    unsigned types; /* bits by enum tfjob_type */
    /* what must fit, all that is not NULL; borrowed arrays */
    const json_t *exit_codes; /* numbers, of any container or that one */
    const char *container;    /* "" for any */
    bool not_in;              /* another code than those */
    const json_t *conditions; /* one of {type, status} of the pod */
    const json_t *reasons;    /* one of these of the pod or a container */
};
#define TFJOB_RULES_MAX 20

/* What annotations ask for. One that cannot be understood has no effect, and `bad` says so. */
struct tfjob_annotations {
    bool exclude_evaluator, always_tf_config, restart_all;
    enum data_until until;
    enum data_placement placement;
    char refused[160]; /* why its pods must wait until the words are mended; "" if they need not */
    int64_t dead_node_s;
    const char *tensorboard;       /* "<claim>/<directory>", NULL: no TensorBoard */
    const char *tensorboard_image; /* "": the job's own */
    char bad[320];                 /* "" if all is well */
};

struct tfjob {
    const char *ns, *name, *uid;
    bool deleting;
    bool external; /* managed by another controller: hands off */
    struct tfjob_replica_spec spec[TFJOB_TYPES];
    bool all_workers; /* successPolicy: AllWorkers */
    bool dynamic;     /* enableDynamicWorker */
    bool suspend;
    enum tfjob_clean clean;
    int64_t ttl_s, deadline_s, backoff_limit; /* -1: not set */
    struct tfjob_rule rules[TFJOB_RULES_MAX]; /* the first that fits decides */
    int nrules;
    struct tfjob_scheduling scheduling;
    struct tfjob_annotations annotations;
    /* a pre-1.2 top-level field that was read as runPolicy.<field>; NULL if none */
    const char *old_field;
};

/* Is it managed by another controller (spec.runPolicy.managedBy)? */
bool tfjob_is_external(const json_t *cr);
/* INVALID names the field and the remedy. With a CRD of ours most of it was refused at admission;
 * an older CRD lets it through. */
int tfjob_parse(const json_t *cr, struct tfjob *out, struct err *e);
bool tfjob_has_chief(const struct tfjob *j); /* a Chief or Master with at least one replica */
int tfjob_total(const struct tfjob *j);      /* replicas of all types */

/* Some rule is for pods of that type: kubelet must not restart their containers in place. */
bool tfjob_policy_covers(const struct tfjob *j, enum tfjob_type t);

/* Parts of tfjob_parse(), in tfjob_policy.c and tfjob_options.c. */
int tfjob_parse_failure_policy(const json_t *spec, struct tfjob *out, struct err *e);
int tfjob_parse_scheduling(const json_t *spec, struct tfjob_scheduling *out, struct err *e);
void tfjob_parse_annotations(const json_t *cr, struct tfjob_annotations *out);
/* names of the PersistentVolumeClaims that its pods mount, each once; caller owns */
json_t *tfjob_claims(const json_t *cr);
/* Name of the claim that its TensorBoard is to mount, whether that may be or not; NULL: it has
 * none. Caller frees. */
char *tfjob_tensorboard_claim(const json_t *cr);
bool tfjob_has_ended(const json_t *cr);         /* by its stored status */
bool tfjob_runs(const json_t *cr);              /* the same: some of its pods do */
#define TFJOB_TENSORBOARD_SUFFIX "-tensorboard" /* of the job's name: Deployment and Service */

/* ---- status ---- */

struct tfjob_counts {
    bool present;
    int active, succeeded, failed;
};

/* What must outlive pods and operators, per index of a type: whether it has completed (it never
 * runs again), how often it was restarted (containers in place and pods recreated), and how often
 * in a row its pod was ended from outside. */
struct tfjob_indexes {
    struct tfjob_index {
        bool completed;
        int restarts, disruptions;
    } * index; /* owned */
    size_t n;
};

struct tfjob_status {
    int64_t generation; /* of the spec that it is about: that of the job it was read from */
    json_t *conditions; /* owned array, cond.h */
    struct tfjob_counts counts[TFJOB_TYPES];
    struct tfjob_indexes indexes[TFJOB_TYPES];
    int64_t start_ns, completion_ns; /* since the epoch; 0: not set */
    const char *last_reconcile;      /* kept as it was; NULL if absent */
    /* owned array of {name, ready, cached, cachedPercent}; NULL: none */
    json_t *datasets;
};

/* What was to be remembered of its indexes; a resumed job begins anew. */
void tfjob_status_forget(struct tfjob_status *s);
/* Never fails: fields that do not parse count as absent. */
void tfjob_status_read(const json_t *cr, struct tfjob_status *out);
json_t *tfjob_status_json(const struct tfjob_status *s); /* caller owns */
void tfjob_status_free(struct tfjob_status *s);
#define cleanup_tfjob_status __attribute__((cleanup(tfjob_status_free)))
/* grows; never NULL; index < TFJOB_REPLICAS_MAX */
struct tfjob_index *tfjob_index_at(struct tfjob_indexes *m, size_t index);
/* Without growing: false and 0 for an index that is not recorded. */
struct tfjob_index tfjob_index_of(const struct tfjob_indexes *m, size_t index);
bool tfjob_completed(const struct tfjob_indexes *m, size_t index);
int tfjob_restarts(const struct tfjob_indexes *m, size_t index);

/* condition types; reasons are "TFJob" + one of the suffixes of the plan */
#define TFJOB_CREATED    "Created"
#define TFJOB_RUNNING    "Running"
#define TFJOB_RESTARTING "Restarting"
#define TFJOB_SUSPENDED  "Suspended"
#define TFJOB_SUCCEEDED  "Succeeded"
#define TFJOB_FAILED     "Failed"
/* ours; each is removed once it is no longer true */
/* the API server refuses something of this job, or would not keep its status */
#define TFJOB_STALLED         "Stalled"
#define TFJOB_WAITING_DATASET "WaitingForDataset"
#define TFJOB_WAITING_GANG    "WaitingForGang"

#endif
