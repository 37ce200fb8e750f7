/* SPDX-License-Identifier: Apache-2.0 */
/* master_key — the one secret of an installation, of which the keys of its Datasets are made: the
 * Secret NAME_MASTER_KEY in the operator's namespace, made by the first operator that finds none.
 */
#ifndef MILLRACE_OPERATOR_MASTER_KEY_H
#define MILLRACE_OPERATOR_MASTER_KEY_H

#include "lib/kube/kube.h"
#include "lib/sign/sign.h"

/* DENIED: names the right that is missing; NOTFOUND; INVALID: what is in it is no key, and what to
 * do. */
int master_key_get(struct kube *kube, const char *ns, struct sign_key *out, struct err *e);

#endif
