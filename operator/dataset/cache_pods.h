/* SPDX-License-Identifier: Apache-2.0 */
/* cache_pods — the pods of a dataset as they were last seen, each with what it last said. */
#ifndef MILLRACE_OPERATOR_DATASET_CACHE_PODS_H
#define MILLRACE_OPERATOR_DATASET_CACHE_PODS_H

#include "operator/dataset/cache_pod.h"
#include "operator/dataset/poll.h"

/* Pods with their reports, as plans want them. Of those that are given, the ones of namespace ns
 * alone count (NULL: all), and which this owner controls (NULL: any): anybody may give a pod of his
 * own the labels of another's Dataset. */
struct cache_pods {
    struct objs objs;
    struct obj **reports; /* owned, one a pod, or NULL */
    struct cache_pod *v;  /* owned, objs.n */
    struct objs node_objs;
    const json_t **nodes; /* owned, as node_objs; NULL, or of one that is gone */
};
void cache_pods_take(struct cache_pods *m, struct objs pods_take, const char *ns,
    const char *owner_uid, struct poll *poll);
/* Looks up the node of each. nodes: informers_nodes(). Once. */
void cache_pods_take_nodes(struct cache_pods *m, struct informer *nodes);
void cache_pods_free(struct cache_pods *m);
#define cleanup_cache_pods __attribute__((cleanup(cache_pods_free)))

/* Adds to the array `to` what the pods that cache this dataset hold, as {dataset, node, host,
 * bytes}. pods: informers_cache_pods(). */
void cache_pods_held(struct informer *pods, struct poll *poll, struct informer *nodes,
    const json_t *dataset, json_t *to);

#endif
