/* SPDX-License-Identifier: Apache-2.0 */
/* users — which pods use the claim of a Dataset that is being deleted, for people to read. Pods of
 * users are not watched: the server is asked, and what it said counts for a minute. What happens to
 * the Dataset depends on its claim, which is watched and stays as long as a pod uses it. Threads:
 * any. Locks: users.mu, a leaf: not held while the server is asked. */
#ifndef MILLRACE_OPERATOR_DATASET_USERS_H
#define MILLRACE_OPERATOR_DATASET_USERS_H

#include "lib/kube/kube.h"

#include <jansson.h>
#include <stdint.h>

#define USERS_NS (60 * INT64_C(1000000000))

struct users; /* opaque */

struct users *users_new(void);
void users_free(struct users *u);
/* Array of names, the caller's; NULL: e says why not. mono_ns: now. */
json_t *users_of(
    struct users *u, struct kube *k, const json_t *dataset, int64_t mono_ns, struct err *e);
void users_forget(struct users *u, const char *dataset_uid);

#endif
