/* SPDX-License-Identifier: Apache-2.0 */
/* s3_identity — as whom an S3 store asks: keys that a person gave, the identity that the machine or
 * the cluster gave this process, the roles that are assumed from there. What it takes to get
 * credentials (s3_lend.h), but no network. */
#ifndef MILLRACE_FUSE_STORE_S3_IDENTITY_H
#define MILLRACE_FUSE_STORE_S3_IDENTITY_H

#include "fuse/store/impl.h"

struct s3_keys { /* all owned; id NULL: none */
    char *id, *secret, *token;
};
void s3_keys_clear(struct s3_keys *k);
void s3_keys_copy(struct s3_keys *to, const struct s3_keys *from);

enum s3_first {
    S3_NOBODY,
    S3_KEYS,
    S3_WEB_IDENTITY, /* a token of a cluster or another provider, shown to the token service */
    S3_CONTAINER,    /* of a service that the container was told of: ECS, EKS Pod Identity */
    S3_INSTANCE,     /* of the machine's metadata service */
    S3_DOCUMENT,     /* Google's: what its tools keep in a file */
};

struct s3_role {
    char *arn, *external_id, *session; /* owned; external_id may be NULL */
};

#define S3_ROLES_MAX 5
struct s3_identity {
    enum s3_first first;
    bool maybe;                         /* S3_INSTANCE: nobody, where no such service answers */
    struct s3_keys keys;                /* of S3_KEYS */
    char *document;                     /* owned; of S3_DOCUMENT, a secret */
    struct s3_role web;                 /* of S3_WEB_IDENTITY */
    char *token_file;                   /* owned; of S3_WEB_IDENTITY */
    struct s3_role roles[S3_ROLES_MAX]; /* one after the other */
    unsigned nroles;
    char *origin; /* owned; where a person looks for it, in words */
};

/* From options, Secrets, environment and, on a machine of one's own, the files of the AWS tools.
 * DENIED (SecretMissing: given by half), INVALID (InvalidOption). */
int s3_identity_get(const struct store_params *p, struct s3_identity *out, struct err *e);
void s3_identity_clear(struct s3_identity *id);
bool s3_identity_same(const struct s3_identity *a, const struct s3_identity *b);
/* S3_INSTANCE, of one that has no origin yet. */
void s3_identity_machine(struct s3_identity *out, bool maybe, const char *origin);
/* Its credentials are for a time only, and have to be asked for. */
bool s3_identity_lends(const struct s3_identity *id);

/* A setting of the profile in the files of the AWS tools, "region"; caller frees; NULL: none, or
 * this is no machine of one's own. */
char *s3_file_setting(const struct store_params *p, const char *key);
/* Option endpoint, else endpoint_url of those files; caller frees *url. NULL: Amazon's. */
int s3_endpoint_get(const struct store_params *p, char **url, struct err *e);

#endif
