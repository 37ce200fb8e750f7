/* build — the objects of a TFJob, and TF_CONFIG. Pure. The user's template is kept as it is, but for what training-operator 1.9.4
 * sets: name, labels, owner, restartPolicy, the port named tfjob-port, and TF_CONFIG in the container `tensorflow`. */
#ifndef MILLRACE_TFJOB_BUILD_H
#define MILLRACE_TFJOB_BUILD_H

#include "operator/api/tfjob.h"

/* labels, as training-operator spells them */
#define TFJOB_LABEL_OPERATOR "training.kubeflow.org/operator-name"
#define TFJOB_LABEL_JOB "training.kubeflow.org/job-name"
#define TFJOB_LABEL_TYPE "training.kubeflow.org/replica-type"
#define TFJOB_LABEL_INDEX "training.kubeflow.org/replica-index"
#define TFJOB_LABEL_ROLE "training.kubeflow.org/job-role"
#define TFJOB_OPERATOR_NAME "tfjob-controller"

#define TFJOB_CHILD_NAME_LEN 128 /* with NUL; valid jobs need at most TFJOB_NAME_MAX */
void tfjob_child_name(const struct tfjob *j, enum tfjob_type t, int index, char out[TFJOB_CHILD_NAME_LEN]);

/* The value of TF_CONFIG, byte for byte; domain: CUSTOM_CLUSTER_DOMAIN or "". NULL for a job of one replica: upstream sets none.
 * Caller frees. */
char *tfjob_tf_config(const struct tfjob *j, enum tfjob_type t, int index, const char *domain);

json_t *tfjob_build_pod(const struct tfjob *j, enum tfjob_type t, int index, int restarts, const char *domain); /* caller owns */
json_t *tfjob_build_service(const struct tfjob *j, enum tfjob_type t, int index);                               /* caller owns */

#endif
