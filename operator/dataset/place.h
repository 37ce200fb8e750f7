/* SPDX-License-Identifier: Apache-2.0 */
/* place — where cache workers should be: on nodes with GPUs, first on those where pods that use the
 * Dataset are, then on those where pods that wait to use it may come to be. Which node it is, in
 * the end, is for the scheduler. Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_PLACE_H
#define MILLRACE_OPERATOR_DATASET_PLACE_H

#include "operator/dataset/observed.h"

enum place_use {
    PLACE_IDLE,
    PLACE_AWAITED, /* it has what pods ask for that will use the Dataset */
    PLACE_USED,    /* pods there use it */
};
/* A node with GPUs and the node plugin, whose taints the workers tolerate. Borrowed. */
struct place {
    const char *node;
    enum place_use use;
    int workers;  /* of the Dataset, that are there or will be */
    size_t order; /* among equals */
};
struct places {
    struct place *v;
    size_t n;
};
/* None where the Dataset does not ask for GPUs, or no node is known to have any. */
void places_take(const struct dataset_observed *o, const struct dataset_eval *v, struct places *s);
void places_free(struct places *s);
#define cleanup_places __attribute__((cleanup(places_free)))

/* What worker `index` is offered: the best one for it, and the others behind it. The workers that
 * have a node count as being there, those before it that have none as being where they should. Its
 * pod is told in ANNOTATION_OFFERED: names, with a '!' behind those that are used, a '?' behind the
 * awaited. */
struct place_offer {
    struct render_place v[RENDER_PLACES_MAX];
    char *text; /* owned */
    struct render_places places;
};
void place_offer_take(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct places *s, int index, struct place_offer *to);
void place_offer_free(struct place_offer *x);
#define cleanup_place_offer __attribute__((cleanup(place_offer_free)))

/* A better node than the worker's own, without a worker, which it was not offered when it was made:
 * so a node that it did not get does not move it again and again. NULL: none. */
const struct place *place_better(const struct places *s, const json_t *worker);

#endif
