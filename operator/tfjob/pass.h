/* SPDX-License-Identifier: Apache-2.0 */
/* turn — one look at one TFJob, from the inside: what plan.c (which objects), decide.c (which
 * conditions) and finish.c (what happens to a job that runs no more) share. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_PASS_H
#define MILLRACE_OPERATOR_TFJOB_PASS_H

#include "operator/api/tfjob.h"
#include "operator/ctl/plan.h"
#include "operator/tfjob/observed.h"

struct tfjob_turn {
    const struct tfjob_observed *o;
    struct plan *plan;
    struct tfjob job;
    struct tfjob_status status; /* as it shall be; owned */
    struct tfjob_view view;     /* owned */
    struct plan events;         /* owned; go behind the writes they tell of */
    bool together;              /* a pod was lost, and all go with it */
    bool hold;                  /* no pods are made in this turn */
    /* bit per type: one of its pods failed that had not been counted before */
    unsigned fresh_failures;
};

/* Sets a condition with reason "TFJob<suffix>". */
bool turn_cond(
    struct tfjob_turn *t, const char *type, bool is_true, const char *suffix, const char *message);
void turn_event(struct tfjob_turn *t, bool warning, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A condition that is there while message is not NULL, with reason "TFJob<type>" and that very
 * message. */
void turn_waiting(struct tfjob_turn *t, const char *type, const char *message);
/* Writes the status, if it differs from what is there. */
void turn_status(struct tfjob_turn *t);
void turn_delete_pod(struct tfjob_turn *t, const json_t *pod);
void turn_delete_service(struct tfjob_turn *t, const json_t *service);

/* decide.c: memory, counts and conditions of a job that is neither finished nor suspended. True: it
 * has finished just now. */
void turn_remember(struct tfjob_turn *t);
bool turn_decide(struct tfjob_turn *t);

/* children.c */
/* before the status: does the whole job start again? */
void turn_judge_together(struct tfjob_turn *t);
void turn_children(struct tfjob_turn *t);
bool turn_wants_pods(const struct tfjob_turn *t);     /* some index has neither a pod nor an end */
bool turn_lacks_children(const struct tfjob_turn *t); /* the same, or a service */
/* pods that are being deleted on dead nodes */
void turn_give_up_dead(struct tfjob_turn *t);
void turn_stop_sidecars(struct tfjob_turn *t); /* those that outlive `tensorflow` */

void turn_datasets(struct tfjob_turn *t);   /* data.c: status.datasets, waiting for them */
void turn_gang_wait(struct tfjob_turn *t);  /* gang.c: waiting for the scheduler */
void turn_gang_apply(struct tfjob_turn *t); /* gang.c: the PodGroup */
void turn_gang_end(struct tfjob_turn *t);
void turn_board(struct tfjob_turn *t); /* board.c: TensorBoard */

void turn_tell_trouble(struct tfjob_turn *t); /* trouble.c: Events about pods that do not start */

/* finish.c */
bool turn_finished(const struct tfjob_turn *t);
/* conditions, counts, completionTime */
void turn_finish(struct tfjob_turn *t, bool succeeded, const char *message, bool warning);
void turn_cleanup(struct tfjob_turn *t); /* cleanPodPolicy and ttlSecondsAfterFinished */
void turn_suspend(struct tfjob_turn *t); /* everything goes; the status says so */

#endif
