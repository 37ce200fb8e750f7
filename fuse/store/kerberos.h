/* SPDX-License-Identifier: Apache-2.0 */
/* kerberos — tells a web server by a header who we are: a ticket of Kerberos as SPNEGO wraps it
 * (RFC 4559, 4178, 4121). Threads: any; nothing is kept between calls, and the environment stays as
 * it is. Blocks as libkrb5 does: for seconds where a KDC does not answer. */
#ifndef MILLRACE_FUSE_STORE_KERBEROS_H
#define MILLRACE_FUSE_STORE_KERBEROS_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct kerberos {
    char *keytab;    /* a file; NULL: the user's credential cache (KRB5CCNAME) */
    char *principal; /* NULL: the first of the keytab, or the one of the cache */
    /* a krb5.conf that a Secret has, which kerberos_config_fault() looks at; NULL: that of the
     * machine (KRB5_CONFIG) */
    char *config;
};

/* "Authorization: Negotiate …" for the service HTTP of host; caller wipes and frees. *principal:
 * who we are, with the realm; caller frees. NULL: e: RETRY (no KDC answers), INVALID (nothing tells
 * the realm or its KDC), DENIED; what: for its text. */
char *kerberos_header(
    const struct kerberos *k, const char *host, const char *what, char **principal, struct err *e);
/* Pure: what stands in the text of a krb5.conf and could load code or read other files, which who
 * wrote it may not do here; NULL: nothing. */
const char *kerberos_config_fault(const char *text);
/* Pure: the first token of SPNEGO with that AP-REQ in it, as DER. */
void kerberos_wrap(struct buf *out, const void *request, size_t len);

#endif
