/* SPDX-License-Identifier: Apache-2.0 */
/* sigv4 — AWS Signature Version 4, and the digests that go with it. Pure: no clock, no I/O (but
 * sigv4_sha256_fd). */
#ifndef MILLRACE_FUSE_STORE_SIGV4_H
#define MILLRACE_FUSE_STORE_SIGV4_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdint.h>

#define SIGV4_HEX_LEN  65 /* SHA-256 in hex and NUL */
#define SIGV4_TIME_LEN 17 /* "20130524T000000Z" and NUL */
/* SHA-256 of nothing */
#define SIGV4_EMPTY    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"

struct sigv4_pair {
    const char *name, *value;
};

struct sigv4_req {
    const char *method;
    const char *path;  /* as sent: percent-encoded, begins with "/" */
    const char *query; /* as sent: from sigv4_query(); "" for none */
    /* all that are signed, names in lower case and sorted; "host" among them */
    const struct sigv4_pair *headers;
    size_t nheaders;
    const char *payload_hash; /* hex, or SIGV4_UNSIGNED */
};

struct sigv4_scope {
    const char *region, *service;
    char time[SIGV4_TIME_LEN];
};

/* "a=1&b=%20": encoded and sorted, as URL and signature want it. Caller frees. */
char *sigv4_query(const struct sigv4_pair *pairs, size_t n);
void sigv4_time(int64_t real_ns, char out[SIGV4_TIME_LEN]);
/* The key for one day, region and service. */
void sigv4_key(const char *secret, const struct sigv4_scope *scope, unsigned char key[32]);
void sigv4_canonical(
    const struct sigv4_req *req, struct buf *canonical, struct buf *signed_headers);
/* Value of the Authorization header; key from sigv4_key() of the same scope. Caller frees. */
char *sigv4_authorization(const struct sigv4_req *req, const struct sigv4_scope *scope,
    const char *key_id, const unsigned char key[32]);

void sigv4_sha256(const void *data, size_t len, char hex[SIGV4_HEX_LEN]);
/* by pread */
int sigv4_sha256_fd(int fd, uint64_t off, uint64_t len, char hex[SIGV4_HEX_LEN], struct err *e);

#endif
