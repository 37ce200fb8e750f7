/* SPDX-License-Identifier: Apache-2.0 */
/* pass — one reconcile pass over one TFJob: what it knows, which is only read, and what comes of
 * it: a status, and a plan. plan.c says which parts run, and in which order. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_PASS_H
#define MILLRACE_OPERATOR_TFJOB_PASS_H

#include "operator/api/tfjob.h"
#include "operator/ctl/plan.h"
#include "operator/tfjob/observed.h"
#include "operator/tfjob/replicas.h"

struct tfjob_pass {
    const struct tfjob_observed *o;
    const struct tfjob *job;
    const struct tfjob_replicas *replicas;

    struct tfjob_status status; /* as it shall be; owned */
    struct plan *plan;          /* writes, and the events that tell of single ones */
    struct plan events;         /* owned; events and requeues that go behind the writes */
};

/* ---- pass.c: what the parts write with ---- */

/* Sets a condition with reason "TFJob<suffix>". */
bool pass_set_cond(
    struct tfjob_pass *p, const char *type, bool is_true, const char *suffix, const char *message);
void pass_event(struct tfjob_pass *p, bool warning, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A condition that is there while message is not NULL, with reason "TFJob<type>" and that very
 * message. */
void pass_set_waiting(struct tfjob_pass *p, const char *type, const char *message);
/* Writes the status, if it differs from what is there. */
void pass_write_status(struct tfjob_pass *p);
void pass_delete_pod(struct tfjob_pass *p, const json_t *pod);
void pass_delete_service(struct tfjob_pass *p, const json_t *service);

/* ---- decide.c: indexes, counts and conditions of a job that has not ended ---- */

void pass_record(struct tfjob_pass *p);
bool pass_evaluate(struct tfjob_pass *p); /* true: it has ended just now */

/* ---- children.c ---- */

/* True: a pod was lost, and the job asks that all its pods start again then. Those that are deleted
 * for that no longer count as active. */
bool pass_evaluate_restart_all(struct tfjob_pass *p);
/* restart_all: delete the pods that are left; pause_pods: create none in this pass. */
void pass_children(struct tfjob_pass *p, bool restart_all, bool pause_pods);
bool pass_lacks_pods(const struct tfjob_pass *p);     /* some index has neither a pod nor an end */
bool pass_lacks_children(const struct tfjob_pass *p); /* the same, or a service */
/* Pods that are being deleted, on nodes that do not answer. */
void pass_abandon_dead_pods(struct tfjob_pass *p);
void pass_stop_sidecars(struct tfjob_pass *p); /* those that outlive `tensorflow` */

/* ---- what pods wait for; true: none is made until that is over ---- */

bool pass_wait_datasets(struct tfjob_pass *p); /* datasets.c: status.datasets, too */
bool pass_wait_gang(struct tfjob_pass *p);     /* gang.c */

void pass_apply_gang(struct tfjob_pass *p); /* gang.c: the PodGroup */
void pass_delete_gang(struct tfjob_pass *p);
void pass_tensorboard(struct tfjob_pass *p); /* tensorboard.c */
void pass_pod_events(struct tfjob_pass *p);  /* pod_events.c: why pods do not start */

/* ---- finish.c ---- */

bool pass_has_ended(const struct tfjob_pass *p);
/* conditions, counts, completionTime */
void pass_finish(struct tfjob_pass *p, bool succeeded, const char *message, bool warning);
void pass_clean_up(struct tfjob_pass *p); /* cleanPodPolicy and ttlSecondsAfterFinished */
/* The same for a job whose spec was refused: nobody looks after its pods any more. */
void pass_clean_up_refused(struct tfjob_pass *p);
void pass_suspend(struct tfjob_pass *p); /* deletes everything; the status says so */

#endif
