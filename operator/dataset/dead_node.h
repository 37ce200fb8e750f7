/* SPDX-License-Identifier: Apache-2.0 */
/* dead_node — pods that are being deleted, and nobody can say that they have ended: their kubelet
 * is gone with its node. Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_DEAD_NODE_H
#define MILLRACE_OPERATOR_DATASET_DEAD_NODE_H

#include "operator/ctl/plan.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Gone (NULL), not answering, or dead by an administrator's word. Of an informers_nodes(). */
bool node_is_dead(const json_t *node);

/* For how long such a pod of ours may be overdue: it holds nothing that its successor could spoil.
 */
#define POD_OVERDUE_NS (30 * INT64_C(1000000000))

/* true: the pod is not waited for any more: the plan takes it away, and tells it of `about`. Else,
 * while it is being deleted, the plan is made again in a while: nodes wake nobody. node: the pod's;
 * not NULL where it is not known. */
bool pod_abandon(struct plan *p, const struct kube_res *res, const json_t *about, const json_t *pod,
    const json_t *node, int64_t now_ns);

#endif
