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
/* TFJobs; the ones of the jobs' own controller, too */
struct informer *informers_tfjobs(struct manager *mgr);
/* Pods of users that wait behind a gate of ours, or did: which is 0 (with LABEL_DATA) or 1 (with
 * LABEL_PLACEMENT alone), since a selector knows no "or". */
#define GATED_PODS 2
struct informer *informers_gated_pods(struct manager *mgr, size_t which);
struct informer *informers_pvs(struct manager *mgr); /* PersistentVolumes of ours */
/* Claims that are no Dataset's, of which is kept that they are there; news: they come and go. One
 * whose Dataset is being made again is no other's. */
struct informer *informers_claims(struct manager *mgr);
bool informers_claim_is_news(const json_t *was, const json_t *now);
/* Nodes, of which is kept: status.allocatable of vendors' resources, the condition Ready,
 * spec.unschedulable, taints, the label LABEL_HOSTNAME, and, where there are such resources,
 * "labels": of demand_pack_labels(). */
struct informer *informers_nodes(struct manager *mgr);
/* an administrator's word that the node is dead */
#define TAINT_OUT_OF_SERVICE "node.kubernetes.io/out-of-service"

/* borrows; nodes: informers_nodes() */
struct render_env dataset_render_env(const struct manager *mgr, struct informer *nodes);

bool attachment_is_ours(const json_t *attachment); /* of our driver */

#endif
