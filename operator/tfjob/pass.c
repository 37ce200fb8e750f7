/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool turn_cond(
    struct tfjob_turn *t, const char *type, bool is_true, const char *suffix, const char *message)
{
    char reason[48];
    snprintf(reason, sizeof reason, "TFJob%s", suffix);
    struct cond c = {type, is_true ? COND_TRUE : COND_FALSE, reason, message};
    return cond_set_job(t->status.conditions, &c, t->o->now_ns);
}

void turn_event(struct tfjob_turn *t, bool warning, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *message = xvasprintf(fmt, ap);
    va_end(ap);
    plan_event(&t->events, &kube_tfjobs, t->o->job, warning, reason, "%s", message);
}

void turn_waiting(struct tfjob_turn *t, const char *type, const char *message)
{
    if (!message || strcmp(cond_message(t->status.conditions, type), message))
        cond_remove(t->status.conditions, type); /* a new message alone would not be taken */
    if (message)
        turn_cond(t, type, true, type, message);
}

void turn_status(struct tfjob_turn *t)
{
    plan_status(t->plan, &kube_tfjobs, t->o->job, tfjob_status_json(&t->status));
}

void turn_delete_pod(struct tfjob_turn *t, const json_t *pod)
{
    if (kube_deleting(pod))
        return;
    plan_delete(t->plan, &kube_pods, pod, -1, NULL);
    plan_event(t->plan, &kube_tfjobs, t->o->job, false, "SuccessfulDeletePod", "Deleted pod: %s",
        kube_name(pod));
}

void turn_delete_service(struct tfjob_turn *t, const json_t *service)
{
    if (kube_deleting(service))
        return;
    plan_delete(t->plan, &kube_services, service, -1, NULL);
    plan_event(t->plan, &kube_tfjobs, t->o->job, false, "SuccessfulDeleteService",
        "Deleted service: %s", kube_name(service));
}
