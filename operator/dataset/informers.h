/* SPDX-License-Identifier: Apache-2.0 */
/* caches — the caches that the dataset, attach and dataload controllers share. Each call gives the
 * same cache again. */
#ifndef MILLRACE_OPERATOR_DATASET_INFORMERS_H
#define MILLRACE_OPERATOR_DATASET_INFORMERS_H

#include "operator/dataset/cache_pod.h"
#include "operator/dataset/poll.h"
#include "operator/render/pod.h"

struct cache *caches_datasets(struct operator_env *env); /* index "uid" */
/* VolumeAttachments of every driver (those of others trimmed); index "pv" */
struct cache *caches_attachments(struct operator_env *env);
struct cache *caches_pvs(struct operator_env *env); /* PersistentVolumes of ours */
/* Nodes, of which is kept: status.allocatable of GPUs, the condition Ready, spec.unschedulable, and
 * the taint below. */
struct cache *caches_nodes(struct operator_env *env);
/* an administrator's word that the node is dead */
#define CACHES_OUT_OF_SERVICE "node.kubernetes.io/out-of-service"

struct render_env caches_render_env(const struct operator_env *env); /* borrows */

/* Pods with their reports, as plans want them. */
struct cache_pods {
    struct objs objs;
    struct obj **reports; /* owned, one a pod, or NULL */
    struct cache_pod *v;  /* owned, objs.n */
};
void cache_pods_take(struct cache_pods *m, struct objs pods_take, struct poll *poll);
void cache_pods_free(struct cache_pods *m);
#define cleanup_cache_pods __attribute__((cleanup(cache_pods_free)))

bool caches_is_ours(const json_t *attachment); /* of our driver */

#endif
