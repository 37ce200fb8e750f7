/* SPDX-License-Identifier: Apache-2.0 */
/* cond — arrays of conditions in a status, in the two styles that exist:
 * - metav1.Condition (Dataset, DataLoad): one per type, in a stable order, with
 * observedGeneration; lastTransitionTime moves when the status does.
 * - kubeflow's JobCondition (TFJob): lastUpdateTime and lastTransitionTime; a changed condition
 * moves to the end of the list, so that the last one is the job's state.
 * The setters change the array in place (it must be the caller's own copy, never part of a
 * shared object) and return whether they changed anything. */
#ifndef MILLRACE_OPERATOR_API_COND_H
#define MILLRACE_OPERATOR_API_COND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum cond_status { COND_FALSE, COND_TRUE, COND_UNKNOWN };
const char *cond_status_name(enum cond_status s); /* "False", "True", "Unknown" */

/* Readers: conditions may be NULL (absent). Results borrow. */
/* NULL if there is none of that type */
const json_t *cond_find(const json_t *conditions, const char *type);
bool cond_is_true(const json_t *conditions, const char *type);
const char *cond_reason(const json_t *conditions, const char *type);  /* "" if there is none */
const char *cond_message(const json_t *conditions, const char *type); /* "" if there is none */

/* What a new object has before an operator looks at it: the default of its kind, of one condition.
 * True: it has that, or none at all. */
#define COND_UNSEEN "WaitingForOperator"
bool cond_unseen(const json_t *conditions);

/* The conditions of status ("conditions") as an array of the caller's own; empty if there is none.
 * Caller owns it. */
json_t *cond_copy(const json_t *status);
bool cond_remove(json_t *conditions, const char *type);

struct cond {
    const char *type;
    enum cond_status status;
    const char *reason;  /* CamelCase */
    const char *message; /* for people: object, field, remedy */
};

/* metav1 style: replaced where it stands, appended if new. No change if status, reason, message and
 * generation are the same. */
bool cond_set(json_t *conditions, const struct cond *c, int64_t generation, int64_t now_ns);

/* What kstatus (Flux, Helm, kubectl's libraries) reads beside Ready: Stalled, only a person can
 * mend it; Reconciling, it goes on by itself. At most one of both stands there, and only while it
 * is True. */
enum cond_progress { COND_SETTLED, COND_RECONCILING, COND_STALLED };
bool cond_set_progress(json_t *conditions, enum cond_progress progress, const char *reason,
    const char *message, int64_t generation, int64_t now_ns);

/* Job style, the rules of training-operator 1.9: nothing changes any more once Failed is True; the
 * same type, status and reason is no change (the message stays); a changed one moves to the end;
 * Running and Restarting replace each other; Succeeded and Failed turn a Running (and a Restarting)
 * that is True to False. */
bool cond_set_job(json_t *conditions, const struct cond *c, int64_t now_ns);
/* The same, but another message is a change as well. */
bool cond_set_job_message(json_t *conditions, const struct cond *c, int64_t now_ns);

#endif
