/* SPDX-License-Identifier: Apache-2.0 */
/* informers — those that the dataset, attach and dataload controllers share. Each call gives the
 * same informer again. */
#ifndef MILLRACE_OPERATOR_DATASET_INFORMERS_H
#define MILLRACE_OPERATOR_DATASET_INFORMERS_H

#include "operator/dataset/cache_pod.h"
#include "operator/dataset/poll.h"
#include "operator/render/pod.h"

struct informer *informers_datasets(struct manager *mgr); /* index "uid" */
/* All pods of ours; indexes "dataset" (uid) and "dataload" ("ns/name") */
struct informer *informers_cache_pods(struct manager *mgr);
/* VolumeAttachments of every driver (those of others trimmed); index "pv" */
struct informer *informers_attachments(struct manager *mgr);
struct informer *informers_pvs(struct manager *mgr); /* PersistentVolumes of ours */
/* Nodes, of which is kept: status.allocatable of vendors' resources, the condition Ready,
 * spec.unschedulable, taints, the label LABEL_HOSTNAME. */
struct informer *informers_nodes(struct manager *mgr);
/* an administrator's word that the node is dead */
#define TAINT_OUT_OF_SERVICE "node.kubernetes.io/out-of-service"

struct render_env dataset_render_env(const struct manager *mgr); /* borrows */

bool attachment_is_ours(const json_t *attachment); /* of our driver */

#endif
