/* SPDX-License-Identifier: Apache-2.0 */
/* lend — what those share who get credentials for a time (s3_lend.h, gs_lend.h): requests to the
 * machine's own service, forms, files with a token, errors of the way. Nothing here keeps a secret.
 */
#ifndef MILLRACE_FUSE_STORE_LEND_H
#define MILLRACE_FUSE_STORE_LEND_H

#include "fuse/store/impl.h"

#define LEND_NS         (10 * NS_PER_S)   /* a request takes that at most */
#define LEND_PROBE_NS   NS_PER_S          /* a machine that has a metadata service answers in it */
#define LEND_LIFETIME   (3600 * NS_PER_S) /* where nobody says */
#define LEND_ANSWER_MAX (64u << 10)       /* bytes */

/* For what is on this machine: by no proxy. */
struct http *lend_near(struct err *e);

void lend_answer_free(struct http_resp *resp); /* wiped */
#define cleanup_answer __attribute__((cleanup(lend_answer_free)))
/* When the answer says until when: from now on, by the clock of who answered if he tells the time,
 * as ours may be wrong. until: RFC 3339; NULL or no time: LEND_LIFETIME. */
int64_t lend_until(const struct http_resp *resp, const char *until);

/* A body of application/x-www-form-urlencoded, with a token in it. */
#define LEND_FORM BUF_INIT(256u << 10)
void lend_form_add(struct buf *form, const char *name, const char *value);
void lend_form_free(struct buf *form); /* wiped */
#define cleanup_form __attribute__((cleanup(lend_form_free)))

/* The text of a file that others write now and then, without line ends at its end; field: NULL, or
 * it is JSON and has the text there. Caller wipes and frees. NULL: DENIED (SecretMissing). */
char *lend_token(const struct store_params *p, const char *file, const char *field, struct err *e);

/* Who did not answer as HTTP has it: DENIED (TLSFailed), RETRY (NameNotResolved, Unreachable).
 * what: "token"; words: why, as inner says it or, where inner tells too much, in general. */
int lend_err_network(const struct store_params *p, const char *what, const char *at,
    const char *words, const struct err *inner, struct err *e);

#endif
