/* SPDX-License-Identifier: Apache-2.0 */
/* observe — collects what the plan of one TFJob looks at from the informers. Threads: any. */
#ifndef MILLRACE_OPERATOR_TFJOB_OBSERVE_H
#define MILLRACE_OPERATOR_TFJOB_OBSERVE_H

#include "operator/ctl/informer.h"
#include "operator/ctl/manager.h"
#include "operator/dataset/informers.h"
#include "operator/tfjob/observed.h"

struct tfjob_informers {
    struct informer *jobs, *pods, *services, *deployments; /* owned by main, as all of these */
    struct informer *pod_groups;                           /* NULL without a gang scheduler */
    /* shared with the rooms of datasets; cache_pods: pods that hold caches */
    struct informer *nodes, *datasets, *claims, *cache_pods;
    struct poll *poll;         /* what those pods say; borrowed */
    const char *gang, *domain; /* borrowed */
};
#define TFJOB_INDEX_CLAIM   "claim"   /* jobs that go on: "ns/claim" of what they mount */
#define TFJOB_INDEX_LEAVING "leaving" /* pods: the node, if it is being deleted */

int tfjob_informers_make(struct manager *mgr, struct tfjob_informers *out, struct err *e);

/* Keeps the fields of a pod that plans read; the rest, most of it the user's template, would fill
 * memory. */
void tfjob_trim_pod(json_t *pod);

/* The references that keep what was observed alive. */
struct tfjob_refs {
    struct tfjob_observed observed; /* borrows from the references below */
    struct obj *job, *pod_group, *tensorboard, *tensorboard_service;
    struct objs pods, services, nodes, datasets;
    json_t *cached, *claims;
};

void tfjob_observe(
    const struct tfjob_informers *c, const char *key, int64_t now_ns, struct tfjob_refs *out);
void tfjob_refs_free(struct tfjob_refs *r);

#endif
