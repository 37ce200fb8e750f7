/* SPDX-License-Identifier: Apache-2.0 */
/* gs_lend — tokens for a time, for Google's buckets: from the metadata server of a machine or a
 * cluster, or from a token server that is shown what an identity has. Each request takes LEND_NS
 * (lend.h) at most. */
#ifndef MILLRACE_FUSE_STORE_GS_LEND_H
#define MILLRACE_FUSE_STORE_GS_LEND_H

#include "fuse/store/gs.h"
#include "fuse/store/s3_lend.h"

struct gs_lender; /* opaque */
/* Borrows p and http (for token servers). INVALID, DENIED (InvalidOption: sts-endpoint). */
struct gs_lender *gs_lender_new(const struct store_params *p, struct http *http, struct err *e);
void gs_lender_free(struct gs_lender *l);
/* As s3_lend(); out->token is the token, and the others only say that there is one. */
int gs_lend(struct gs_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e);

#endif
