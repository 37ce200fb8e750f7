/* SPDX-License-Identifier: Apache-2.0 */
/* gpu — the nodes with GPUs that take pods, looked up once for all Datasets and again when one has
 * changed. Threads: any. Locks: gpu_nodes.mu, held while the informer is read. */
#ifndef MILLRACE_OPERATOR_DATASET_GPU_H
#define MILLRACE_OPERATOR_DATASET_GPU_H

#include "operator/ctl/informer.h"

#include <jansson.h>

struct gpu_nodes; /* opaque */

/* nodes: informers_nodes(), not started yet. patterns: as of demand_is_gpu(), borrowed. */
struct gpu_nodes *gpu_nodes_new(struct informer *nodes, const json_t *patterns);
void gpu_nodes_free(struct gpu_nodes *g);
/* An array of {name, taints, resources, labels}; the caller unrefs it. */
struct obj *gpu_nodes_of(struct gpu_nodes *g);

/* Has the node any? */
bool gpu_node_has(const json_t *node, const json_t *patterns);
/* Could that change of a node be of use to a worker? */
bool gpu_node_is_news(const json_t *was, const json_t *now);

#endif
