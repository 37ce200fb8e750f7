/* SPDX-License-Identifier: Apache-2.0 */
/* clients — the clients that the nodes of a Dataset should have, one a VolumeAttachment, and how
 * far they are with a new spec or image: they are replaced one at a time. Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_CLIENTS_H
#define MILLRACE_OPERATOR_DATASET_CLIENTS_H

#include "operator/dataset/cache_pod.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All borrowed. */
struct clients_observed {
    const struct dataset *d;          /* NULL: it is not valid; no client is current then */
    const char *dataset;              /* its name */
    const json_t *const *attachments; /* VolumeAttachments of ours for its volume */
    size_t nattachments;
    const json_t *const *nodes;   /* that of each attachment, NULL: it is gone; or not looked up */
    const struct cache_pod *pods; /* of the Dataset; only clients count */
    size_t npods;
    int64_t now_ns; /* since the epoch */
    const struct render_env *env;
    const json_t *said; /* of ctl/verdicts, of the Dataset's pods; may be NULL */
};

struct node_client {
    const json_t *attachment;
    const char *node;
    const struct cache_pod *pod;    /* NULL: there is none */
    struct cache_pod_health health; /* if there is one */
    bool current;                   /* made of the spec as it is */
    bool leaves;                    /* the node has no use for it any more */
    bool node_down;                 /* the node is gone, or does not answer */
    const char *refused; /* outdated, and why the server would not take its successor; or NULL */
};

struct clients {
    struct node_client *v; /* one an attachment, in their order */
    size_t n;
    const json_t **extra; /* pods of nodes that have no attachment */
    size_t nextra;
    size_t current, outdated; /* of pods, without those of nodes that are down, and extra ones */
    /* One that does not serve, though its node may: no other is taken away meanwhile. NULL: none.
     */
    const struct node_client *missing;
    /* The same, if it is made of the spec as it is, and others are not: it stops the update, and
     * its health says why. NULL: the update is not stopped. */
    const struct node_client *paused;
    const struct node_client *refused; /* the first of which the successor is refused; or NULL */
};

void clients_take(const struct clients_observed *o, struct clients *c);
void clients_free(struct clients *c);
#define cleanup_clients __attribute__((cleanup(clients_free)))

bool node_client_attached(const struct node_client *c);

#endif
