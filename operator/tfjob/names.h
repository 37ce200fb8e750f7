/* SPDX-License-Identifier: Apache-2.0 */
/* names — what the children of a TFJob are called, who owns them, and which of a pod's containers
 * is the one that trains. Pure. */
#ifndef MILLRACE_OPERATOR_TFJOB_NAMES_H
#define MILLRACE_OPERATOR_TFJOB_NAMES_H

#include "operator/api/tfjob.h"

/* labels, as training-operator spells them */
#define TFJOB_LABEL_OPERATOR "training.kubeflow.org/operator-name"
#define TFJOB_LABEL_JOB      "training.kubeflow.org/job-name"
#define TFJOB_LABEL_TYPE     "training.kubeflow.org/replica-type"
#define TFJOB_LABEL_INDEX    "training.kubeflow.org/replica-index"
#define TFJOB_LABEL_ROLE     "training.kubeflow.org/job-role"
#define TFJOB_OPERATOR_NAME  "tfjob-controller"

#define TFJOB_CHILD_NAME_LEN 128 /* with NUL; valid jobs need at most TFJOB_NAME_MAX */
void tfjob_child_name(
    const struct tfjob *j, enum tfjob_type t, int index, char out[TFJOB_CHILD_NAME_LEN]);
/* an ownerReference; caller owns */
json_t *tfjob_owner(const struct tfjob *j);
/* `tensorflow`; without one of that name the first, as upstream; borrowed */
json_t *tfjob_main_container(const json_t *pod_spec);

#endif
