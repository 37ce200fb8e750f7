/* SPDX-License-Identifier: Apache-2.0 */
/* s3_terms — what options ask of a bucket beside its objects: headers that go with requests of
 * some kind. Fixed when a store is opened. */
#ifndef MILLRACE_FUSE_STORE_S3_TERMS_H
#define MILLRACE_FUSE_STORE_S3_TERMS_H

#include "fuse/store/impl.h"
#include "fuse/store/s3_sum.h"

/* What a request does, or'ed. */
#define S3_MAKES   1u /* an object, or begins to: its encryption, storage class, access list */
#define S3_CONTENT 2u /* its bytes pass, or their headers: the customer's key */
#define S3_COPIES  4u /* from another object of the bucket */

struct s3_term {
    unsigned when; /* 0: always, else with requests that do one of it */
    char *line;    /* owned */
};

#define S3_TERMS_MAX 16
struct s3_terms {
    struct s3_term term[S3_TERMS_MAX];
    size_t n;
    bool secret;     /* the customer's key is among them: not without TLS */
    enum s3_sum sum; /* sent with what is written, compared with what is read whole */
};

/* INVALID (InvalidOption), DENIED (SecretMissing). s3_terms_close() in either case. */
int s3_terms_open(struct s3_terms *t, const struct store_params *p, struct err *e);
void s3_terms_close(struct s3_terms *t);

#endif
