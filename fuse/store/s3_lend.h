/* SPDX-License-Identifier: Apache-2.0 */
/* s3_lend — credentials for a time: from a token service (STS: AssumeRole,
 * AssumeRoleWithWebIdentity), from the service that a container was told of, from a machine's
 * metadata service. Each of its requests takes LEND_NS (lend.h) at most; a chain of roles takes one
 * a role.
 */
#ifndef MILLRACE_FUSE_STORE_S3_LEND_H
#define MILLRACE_FUSE_STORE_S3_LEND_H

#include "fuse/store/s3_identity.h"

#include "lib/http/http.h"

struct s3_lender; /* opaque */
/* Borrows p and http (for the token service). INVALID, DENIED (InvalidOption: sts-endpoint). */
struct s3_lender *s3_lender_new(const struct store_params *p, struct http *http, struct err *e);
void s3_lender_free(struct s3_lender *l);
/* id lends. *out and *lifetime_ns (from now on) are as the caller set them where nobody says; 0 or
 * less: over already. After an error *out may hold a part: the caller clears it. DENIED
 * (AccessDenied, ExpiredCredentials: the token; SecretMissing: it is not there), RETRY
 * (NameNotResolved, Unreachable, StoreError). */
int s3_lend(struct s3_lender *l, const struct s3_identity *id, struct s3_keys *out,
    int64_t *lifetime_ns, struct err *e);

#endif
