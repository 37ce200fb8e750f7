/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what a plan for one TFJob looks at. Borrowed and immutable while a plan is made. */
#ifndef MILLRACE_OPERATOR_TFJOB_OBSERVED_H
#define MILLRACE_OPERATOR_TFJOB_OBSERVED_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct tfjob_observed {
    const json_t *job; /* NULL: there is none (any more) */
    /* everything in its namespace that is labelled with the job's name, whoever owns it */
    const json_t **pods, **services;
    size_t npods, nservices;
    /* why the API server does not keep the status of jobs (their CRD is another's), and the remedy;
     * NULL: all is well */
    const char *crd_problem;
    int64_t now_ns;     /* since the epoch */
    const char *domain; /* CUSTOM_CLUSTER_DOMAIN, "" if none */
    /* scheduler of gangs: "", "volcano", or the name of one with scheduler-plugins' coscheduling */
    const char *gang;
    const json_t *pod_group; /* of the job's name, whoever owns it; NULL: none */
    const json_t *tensorboard, *tensorboard_service; /* its Deployment and Service */
    bool logs_missing; /* the claim that it is to mount is neither there nor a Dataset's */
    /* on which pods of it are being deleted; one that is missing is gone */
    const json_t **nodes;
    const json_t **datasets; /* whose claims it mounts */
    size_t nnodes, ndatasets;
    const json_t *claims; /* object, a key each: what else it mounts and is there */
    /* array of {dataset: name, node, host, bytes}: what the caches on nodes really hold; NULL:
     * nothing */
    const json_t *cached;
};

#endif
