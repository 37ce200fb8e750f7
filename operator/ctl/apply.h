/* SPDX-License-Identifier: Apache-2.0 */
/* apply — runs a plan against the API server: the only writer of the operator. Answers go to the
 * informers at once. */
#ifndef MILLRACE_OPERATOR_CTL_APPLY_H
#define MILLRACE_OPERATOR_CTL_APPLY_H

#include "operator/ctl/events.h"
#include "operator/ctl/informer.h"
#include "operator/ctl/plan.h"
#include "operator/ctl/verdicts.h"

struct apply {
    struct kube *kube;
    struct events *events;     /* NULL: events are only logged */
    struct verdicts *verdicts; /* of what is tried; NULL: nothing is */
    /* all of the process: those of an action's resource get the answer */
    struct informer **informers;
    size_t ninformers;
};

struct apply_result {
    size_t done;                   /* actions that ran; actions[done] failed, if one did */
    unsigned writes;               /* requests that changed something */
    struct kube_warnings warnings; /* the server's, about what was created or applied */
    int64_t requeue_ns;            /* the earliest PLAN_REQUEUE, -1 if none */
    bool without_extra;            /* actions[extra], the first of its kind, failed: extra_why */
    size_t extra;
    struct err extra_why;
};

/* In order, stops at the first error (-1; the message names the action) of what is no extra. Events
 * and requeues never fail, and those behind the failing action are not run. */
int apply_plan(struct apply *a, const struct plan *p, struct apply_result *r, struct err *e);

/* What an error of it says: a ResourceQuota is used up, or counts what a pod does not say; the
 * namespace is being deleted, all that is in it goes, too, and nobody waits for words. */
bool apply_by_quota(const struct err *e);
bool apply_namespace_gone(const struct err *e);

#endif
