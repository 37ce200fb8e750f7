/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what the plan of one Dataset looks at. Borrowed and immutable while the plan is made;
 * the controller fills it from informers, tests from files. */
#ifndef MILLRACE_OPERATOR_DATASET_OBSERVED_H
#define MILLRACE_OPERATOR_DATASET_OBSERVED_H

#include "operator/ctl/plan.h"
#include "operator/dataset/cache_pod.h"
#include "operator/dataset/poll.h"
#include "operator/render/pod.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct dataset_observed {
    const json_t *cr;                 /* NULL: there is none (any more) */
    const json_t *pv, *pvc, *service; /* under our names, whoever made them; NULL: none */
    /* our pods with the Dataset's uid: workers, clients (and loaders, passed over) */
    const struct cache_pod *pods;
    size_t npods;
    const json_t *const *attachments; /* VolumeAttachments of the PV */
    size_t nattachments;
    const json_t *gpu_nodes; /* array of names, our own copy; NULL: not looked up */
    /* array of names of the pods that use the claim; only looked up when deleting */
    const json_t *users;
    struct poll_reads retired;
    int64_t now_ns; /* since the epoch */
    struct render_env env;
};

void dataset_plan(const struct dataset_observed *o, struct plan *p);
/* Says why the server refused a child, in the Dataset's condition and an event. */
void dataset_plan_refused(const json_t *cr, const struct plan_action *failed, const struct err *why,
    int64_t now_ns, struct plan *then);

/* internal to operator/dataset/, one file each */
struct dataset_eval {
    const struct dataset *d;         /* NULL: the spec is not valid */
    struct cache_pod_health *health; /* one a pod */
    bool *current;                   /* one a pod: made of the spec as it is */
};
/* Of the status only phase and the condition Ready: it is False, and an Event (if asked for) says
 * so once. */
void dataset_plan_not_ready(const json_t *cr, int64_t now_ns, const char *phase, const char *reason,
    const char *message, bool event, struct plan *p);
void dataset_plan_delete(const struct dataset_observed *o, struct plan *p);
/* status and events. problem: why there are no children ({reason, message}), reason NULL: none */
struct dataset_problem {
    const char *reason;
    char message[512];
};
void dataset_plan_status(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct dataset_problem *problem, struct plan *p);

#endif
