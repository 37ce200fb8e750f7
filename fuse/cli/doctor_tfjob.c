/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of TFJobs: whose kind it is, and whether any operator runs them. */
#include "fuse/cli/doctor.h"

#include "fuse/cli/why.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"

#include <string.h>

#define CRD_TFJOBS "tfjobs.kubeflow.org"

/* Made by us, whoever runs its jobs now. */
static bool tfjob_kind_is_ours(const json_t *crd)
{
    const json_t *category;
    size_t i;
    json_array_foreach (jget_arr(crd, "spec.names.categories"), i, category)
        if (strcmp(json_string_value(category), "millrace") == 0)
            return true;
    return false;
}

void doctor_check_tfjob_kind(const struct doctor_facts *f, struct doctor_lines *r)
{
    const json_t *crd = doctor_crd(f, CRD_TFJOBS);
    bool off = runs_no_tfjobs(f->pods);
    if (!f->may_list_crds)
        return;
    if (!crd && (off || !doctor_first_of(f, COMPONENT_OPERATOR, true)))
        doctor_line(
            r, DOCTOR_OK, "kind " CRD_TFJOBS " is not there: no TFJobs (tfjob.enabled: false)");
    else if (!crd)
        doctor_line(r, DOCTOR_FAILED,
            "kind " CRD_TFJOBS " is not there, and the operator waits for it: " DOCTOR_CRDS_REMEDY
            ", or tfjob.enabled=false of the chart, where there shall be no TFJobs");
    else if (off)
        doctor_line(r, DOCTOR_NOTE,
            "kind " CRD_TFJOBS
            " is there, and Millrace does not run TFJobs (tfjob.enabled: false): "
            "another operator must, see docs/migrate/training-operator.md");
    else if (tfjob_kind_is_ours(crd))
        doctor_line(r, DOCTOR_OK, "kind " CRD_TFJOBS " is Millrace's");
    else
        doctor_line(r, DOCTOR_NOTE,
            "kind " CRD_TFJOBS
            " is another operator's, as of Kubeflow: let one of them run TFJobs, "
            "see docs/migrate/training-operator.md");
}

/* Why nobody runs it; caller frees. NULL: an operator does, or it is not ours to say. */
static char *standstill(const struct doctor_facts *f, const json_t *job)
{
    const json_t *conditions = jget_arr(job, "status.conditions");
    if (cond_is_true(conditions, TFJOB_STALLED))
        return xasprintf("%s: %s", cond_reason(conditions, TFJOB_STALLED),
            cond_message(conditions, TFJOB_STALLED));
    if (!cond_unseen(conditions) || kube_deleting(job) || tfjob_is_external(job))
        return NULL;
    if (runs_no_tfjobs(f->pods))
        return xstrdup(TFJOBS_NOT_OURS);
    return doctor_unseen(f, kube_namespace(job));
}

void doctor_check_tfjobs(const struct doctor_facts *f, struct doctor_lines *r)
{
    const json_t *job, *first = NULL;
    cleanup_free char *why = NULL;
    size_t i, n = 0;
    json_array_foreach (f->tfjobs, i, job) {
        cleanup_free char *one = standstill(f, job);
        if (!one)
            continue;
        if (n++ == 0) {
            first = job;
            why = steal(&one);
        }
    }
    const char *where = f->all_tfjobs ? "the cluster" : f->ns;
    if (n)
        doctor_line(r, DOCTOR_FAILED, "TFJobs: %zu of %zu in %s stand still, as %s/%s: %s", n,
            json_array_size(f->tfjobs), where, kube_namespace(first), kube_name(first), why);
    else if (json_array_size(f->tfjobs))
        doctor_line(r, DOCTOR_OK, "TFJobs: an operator has looked at all %zu in %s",
            json_array_size(f->tfjobs), where);
}
