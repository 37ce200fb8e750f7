/* SPDX-License-Identifier: Apache-2.0 */
/* plan — the startup taint of one node. Pure. */
#ifndef MILLRACE_OPERATOR_NODE_PLAN_H
#define MILLRACE_OPERATOR_NODE_PLAN_H

#include "operator/ctl/plan.h"

#include <jansson.h>

/* Takes TAINT_NOT_READY away once the driver is registered on the node: before, a pod that mounts a
 * dataset would be sent to a node that cannot mount it yet. node, csinode: NULL where there is
 * none. */
void node_plan(const json_t *node, const json_t *csinode, struct plan *p);

#endif
