/* SPDX-License-Identifier: Apache-2.0 */
/* turn — one look at one TFJob, from the inside: what plan.c (which objects), decide.c (which
 * conditions) and finish.c (what happens to a job that runs no more) share. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_PASS_H
#define MILLRACE_OPERATOR_TFJOB_PASS_H

#include "operator/api/tfjob.h"
#include "operator/ctl/plan.h"
#include "operator/tfjob/observed.h"

struct tfjob_pass {
    const struct tfjob_observed *o;
    struct plan *plan;
    struct tfjob job;
    struct tfjob_status status; /* as it shall be; owned */
    struct tfjob_replicas view; /* owned */
    struct plan events;         /* owned; go behind the writes they tell of */
    bool restart_all;           /* a pod was lost, and all go with it */
    bool pause_pods;            /* no pods are made in this turn */
    /* bit per type: one of its pods failed that had not been counted before */
    unsigned fresh_failures;
};

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

/* decide.c: memory, counts and conditions of a job that is neither finished nor suspended. True: it
 * has finished just now. */
void pass_record(struct tfjob_pass *p);
bool pass_evaluate(struct tfjob_pass *p);

/* children.c */
/* before the status: does the whole job start again? */
void pass_evaluate_restart_all(struct tfjob_pass *p);
void pass_children(struct tfjob_pass *p);
bool pass_lacks_pods(const struct tfjob_pass *p);     /* some index has neither a pod nor an end */
bool pass_lacks_children(const struct tfjob_pass *p); /* the same, or a service */
/* pods that are being deleted on dead nodes */
void pass_abandon_dead_pods(struct tfjob_pass *p);
void pass_stop_sidecars(struct tfjob_pass *p); /* those that outlive `tensorflow` */

void pass_wait_datasets(struct tfjob_pass *p); /* data.c: status.datasets, waiting for them */
void pass_wait_gang(struct tfjob_pass *p);     /* gang.c: waiting for the scheduler */
void pass_apply_gang(struct tfjob_pass *p);    /* gang.c: the PodGroup */
void pass_delete_gang(struct tfjob_pass *p);
void pass_tensorboard(struct tfjob_pass *p); /* board.c: TensorBoard */

void pass_pod_events(struct tfjob_pass *p); /* trouble.c: Events about pods that do not start */

/* finish.c */
bool pass_has_ended(const struct tfjob_pass *p);
/* conditions, counts, completionTime */
void pass_finish(struct tfjob_pass *p, bool succeeded, const char *message, bool warning);
void pass_clean_up(struct tfjob_pass *p); /* cleanPodPolicy and ttlSecondsAfterFinished */
void pass_suspend(struct tfjob_pass *p);  /* everything goes; the status says so */

#endif
