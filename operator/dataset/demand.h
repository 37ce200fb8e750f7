/* SPDX-License-Identifier: Apache-2.0 */
/* demand — what a pod that is to come asks of its node, as far as that says which nodes with GPUs
 * it may get: {resources: {of GPUs: how many}, selector, required, tolerations}, as in its spec.
 * Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_DEMAND_H
#define MILLRACE_OPERATOR_DATASET_DEMAND_H

#include <jansson.h>
#include <stdbool.h>

/* patterns: names of resources that are GPUs, with '*'; NULL: those that are known */
bool demand_is_gpu(const char *resource, const json_t *patterns);
/* Of a pod's spec; the caller owns it. NULL: it asks for no GPU. */
json_t *demand_of(const json_t *spec, const json_t *patterns);
/* matchExpressions; NULL: every node has them */
bool demand_is_selected(const json_t *node, const json_t *expressions);
bool demand_is_tolerated(const json_t *taints, const json_t *tolerations);
/* node: as of gpu_nodes_of(). Its GPUs may be taken by others: that is not known. */
bool demand_fits(const json_t *demand, const json_t *node);

/* Labels as one string, which is what is kept of those of nodes. The caller owns it. */
json_t *demand_pack_labels(const json_t *labels);

#endif
