/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what a plan for one TFJob looks at, and the same sorted by replica. Borrowed and
 * immutable while a plan is made. */
#ifndef MILLRACE_OPERATOR_TFJOB_OBSERVED_H
#define MILLRACE_OPERATOR_TFJOB_OBSERVED_H

#include "operator/api/tfjob.h"
#include "operator/tfjob/pod.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct tfjob_observed {
    const json_t *job; /* NULL: there is none (any more) */
    /* everything in its namespace that is labelled with the job's name, whoever owns it */
    const json_t **pods, **services;
    size_t npods, nservices;
    int64_t now_ns;     /* since the epoch */
    const char *domain; /* CUSTOM_CLUSTER_DOMAIN, "" if none */
    /* scheduler of gangs: "", "volcano", or the name of one with scheduler-plugins' coscheduling */
    const char *gang;
    const json_t *pod_group; /* of the job's name, whoever owns it; NULL: none */
    const json_t *tensorboard,
        *tensorboard_service; /* the Deployment and Service of its TensorBoard */
    /* on which pods of it are being deleted; one that is missing is gone */
    const json_t **nodes;
    /* Datasets whose claims it mounts, and DataLoads of those */
    const json_t **datasets, **loads;
    size_t nnodes, ndatasets, nloads;
    /* array of {dataset: name, node, bytes}: what the caches on nodes really hold; NULL: nothing */
    const json_t *cached;
};

struct tfjob_replica {
    const json_t *pod, *service; /* of any owner; NULL: none */
    struct tfjob_pod is;
    bool service_foreign;
};

/* Is the node of a pod that is being deleted gone, or not answering? */
bool tfjob_node_is_dead(const struct tfjob_observed *o, const json_t *pod);

struct tfjob_replicas {
    struct tfjob_replica *slot[TFJOB_TYPES]; /* owned; as many as the type has replicas */
    /* ours, but of no index that is wanted: scaled in */
    const json_t **extra_pods, **extra_services;
    size_t nextra_pods, nextra_services;
};

void tfjob_replicas_make(
    const struct tfjob_observed *o, const struct tfjob *j, struct tfjob_replicas *out);
void tfjob_replicas_free(struct tfjob_replicas *v);
#define cleanup_tfjob_replicas __attribute__((cleanup(tfjob_replicas_free)))

#endif
