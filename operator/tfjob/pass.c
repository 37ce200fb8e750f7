/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool pass_set_cond(
    struct tfjob_pass *p, const char *type, bool is_true, const char *suffix, const char *message)
{
    char reason[48];
    snprintf(reason, sizeof reason, "TFJob%s", suffix);
    struct cond c = {type, is_true ? COND_TRUE : COND_FALSE, reason, message};
    return cond_set_job(p->status.conditions, &c, p->o->now_ns);
}

void pass_event(struct tfjob_pass *p, bool warning, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *message = xvasprintf(fmt, ap);
    va_end(ap);
    plan_event(&p->events, &kube_tfjobs, p->o->job, warning, reason, "%s", message);
}

void pass_set_waiting(struct tfjob_pass *p, const char *type, const char *message)
{
    cleanup_free char *reason = xasprintf("TFJob%s", type);
    if (message)
        cond_set_job_message(
            p->status.conditions, &(struct cond){type, COND_TRUE, reason, message}, p->o->now_ns);
    else
        cond_remove(p->status.conditions, type);
}

void pass_write_status(struct tfjob_pass *p)
{
    plan_status_guarded(p->plan, &kube_tfjobs, p->o->job, tfjob_status_json(&p->status));
}

void pass_delete_pod(struct tfjob_pass *p, const json_t *pod)
{
    if (kube_deleting(pod))
        return;
    plan_delete(p->plan, &kube_pods, pod, -1, NULL);
    plan_event(p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulDeletePod", "Deleted pod: %s",
        kube_name(pod));
}

void pass_delete_service(struct tfjob_pass *p, const json_t *service)
{
    if (kube_deleting(service))
        return;
    plan_delete(p->plan, &kube_services, service, -1, NULL);
    plan_event(p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulDeleteService",
        "Deleted service: %s", kube_name(service));
}
