/* SPDX-License-Identifier: Apache-2.0 */
/* build — the objects of a TFJob, and TF_CONFIG. Pure. The user's template is kept as it is, but
 * for what training-operator 1.9.4 sets: name, labels, owner, restartPolicy, the port named
 * tfjob-port, and TF_CONFIG in the container `tensorflow`. */
#ifndef MILLRACE_OPERATOR_TFJOB_BUILD_H
#define MILLRACE_OPERATOR_TFJOB_BUILD_H

#include "operator/api/tfjob.h"
#include "operator/tfjob/names.h"
#include "operator/tfjob/observed.h"

/* The value of TF_CONFIG, byte for byte; domain: CUSTOM_CLUSTER_DOMAIN or "". NULL for a job of one
 * replica: upstream sets none, unless the job asks for it. Caller frees. */
char *tfjob_tf_config(const struct tfjob *j, enum tfjob_type t, int index, const char *domain);

/* lived: what its index has been through so far. What was observed says in which domain, for which
 * gang scheduler, and where its data is cached. Caller owns. */
json_t *tfjob_build_pod(const struct tfjob_observed *o, const struct tfjob *j, enum tfjob_type t,
    int index, const struct tfjob_index *lived);
/* caller owns */
json_t *tfjob_build_service(const struct tfjob *j, enum tfjob_type t, int index);

/* gang_pod.c */
bool tfjob_gang_is_volcano(const struct tfjob_observed *o);
/* some template names a scheduler of its own */
bool tfjob_gang_has_scheduler(const struct tfjob *j);
void tfjob_gang_mark_pod(
    const struct tfjob_observed *o, const struct tfjob *j, enum tfjob_type t, json_t *pod);

#endif
