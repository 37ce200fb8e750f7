/* SPDX-License-Identifier: Apache-2.0 */
/* lease — leader election over a coordination.k8s.io/v1 Lease, as client-go does it: whoever holds
 * it renews it; others take it when it was not renewed for its duration *as seen by their own
 * clock*. A holder that could not renew before the deadline has lost: `lost` is called once and
 * must end the process, because another one may be leading by now. */
#ifndef MILLRACE_OPERATOR_CTL_LEASE_H
#define MILLRACE_OPERATOR_CTL_LEASE_H

#include "lib/base/err.h"
#include "lib/kube/kube.h"

#include <stdbool.h>
#include <stdint.h>

struct lease; /* opaque */

struct lease_conf {
    const char *ns, *name;
    const char *identity; /* unique to this process: pod name + "_" + random */
    int64_t duration_ns;  /* 0: 15 s */
    int64_t deadline_ns;  /* 0: 10 s; less than duration */
    int64_t retry_ns;     /* 0: 2 s */
    void (*lost)(void *user, const char *why);
    void *user;
};

/* copies; begins trying, on a thread of its own */
struct lease *lease_start(struct kube *k, const struct lease_conf *conf, struct err *e);
bool lease_held(const struct lease *l);
/* gives it up at once if held, so that the next one need not wait; frees */
void lease_stop(struct lease *l);

#endif
