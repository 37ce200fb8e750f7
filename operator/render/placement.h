/* SPDX-License-Identifier: Apache-2.0 */
/* placement — node affinity: of pods that read datasets, beside the bytes that they will read, and
 * of our own. What the user wrote stays, and is narrowed in ways that Kubernetes allows for a pod
 * with scheduling gates, too. Pure. */
#ifndef MILLRACE_OPERATOR_RENDER_PLACEMENT_H
#define MILLRACE_OPERATOR_RENDER_PLACEMENT_H

#include <jansson.h>
#include <stdbool.h>

/* cached: array of {dataset, node, host, bytes}, of which those count whose claims the pod mounts;
 * host: the node's label kubernetes.io/hostname. Changes pod_spec.affinity in place. */
void placement_prefer(json_t *pod_spec, const json_t *cached);
/* Only nodes that hold at least half of what the best one holds. false: no node holds anything. */
bool placement_require(json_t *pod_spec, const json_t *cached);

/* Adds requirements of a node's labels to a node selector. Its terms are alternatives: each gets
 * them, but one that is empty and so matches nothing; without any there will be one. */
void placement_narrow(json_t *node_selector, const json_t *expressions);

bool placement_mounts(const json_t *pod_spec, const char *claim);

#endif
