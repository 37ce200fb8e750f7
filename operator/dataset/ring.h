/* SPDX-License-Identifier: Apache-2.0 */
/* ring — Datasets that mount each other's claims: none of their pods could ever start, and none of
 * them be deleted. */
#ifndef MILLRACE_OPERATOR_DATASET_RING_H
#define MILLRACE_OPERATOR_DATASET_RING_H

#include "operator/ctl/informer.h"

/* Of a mount's pvc://claim/directory; NULL: it is another URL. Caller frees. */
char *ring_claim_of(const json_t *mount);
/* The claim that cr mounts of a Dataset that mounts cr, itself or by others; NULL: there is none.
 * Caller frees. */
char *ring_claim(struct informer *datasets, const json_t *cr);

#endif
