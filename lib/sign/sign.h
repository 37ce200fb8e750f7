/* SPDX-License-Identifier: Apache-2.0 */
/* sign — who has a Dataset's key says so, on both ends of a request to a cache worker, without
 * sending it: HMAC-SHA256 over what is asked for, and over what the answer says of itself together
 * with the request it answers. The bytes of an answer are told by the checksums in its headers:
 * that keeps out who is not in the path, and says nothing of one who is and changes bytes so that
 * their CRC32C stays. Pure but for sign_key_read. */
#ifndef MILLRACE_LIB_SIGN_SIGN_H
#define MILLRACE_LIB_SIGN_SIGN_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGN_KEY_BYTES 32
#define SIGN_HEX       64 /* characters of a MAC */
/* "Millrace-HMAC-SHA256 <seconds since the epoch>.<hex>" and a NUL */
#define SIGN_REQUEST_MAX 112
#define SIGN_SKEW_S      300 /* clocks may differ by so much; a request is good for so long */

/* lower case, as http_header() and serve_header() take them */
#define SIGN_REQUEST_HEADER "authorization"
#define SIGN_ANSWER_HEADER  "x-millrace-signature"
#define SIGN_CRC_HEADER     "x-millrace-crc32c"

struct sign_key {
    unsigned char bytes[SIGN_KEY_BYTES];
};

/* 64 hexadecimal characters, perhaps a newline. NOTFOUND, DENIED, or INVALID: says what is in the
 * file instead, not the content. Errors leave *key wiped. */
int sign_key_read(const char *path, struct sign_key *key, struct err *e);
int sign_key_parse(const char *text, size_t len, struct sign_key *key); /* the same; -1: no key */
void sign_key_text(const struct sign_key *key, char out[SIGN_HEX + 1]);
/* The key of what is called so, for who has the master: the same for ever, and tells nothing of the
 * others. */
void sign_key_derive(const struct sign_key *master, const char *of, struct sign_key *out);
/* What tells it from other keys, and nothing of it. */
#define SIGN_NAME_LEN 11 /* with NUL */
void sign_key_name(const struct sign_key *key, char out[SIGN_NAME_LEN]);
void sign_key_wipe(struct sign_key *key);

/* What is asked for. query and range: NULL or "" for none. */
struct sign_ask {
    const char *method, *path, *query, *range;
};
void sign_request(const struct sign_key *key, const struct sign_ask *ask, int64_t now_s,
    char out[SIGN_REQUEST_MAX]);
/* header: as it came, or NULL. DENIED: e says why. */
int sign_check_request(const struct sign_key *key, const struct sign_ask *ask, const char *header,
    int64_t now_s, struct err *e);

/* What an answer says; range is its Content-Range, crcs its SIGN_CRC_HEADER; NULL or "" for none.
 */
struct sign_answer {
    const char *request; /* the SIGN_REQUEST_HEADER that it answers */
    int status;
    const char *range, *crcs;
    const void *body; /* NULL: its bytes are told by crcs */
    size_t body_len;
};
void sign_answer(
    const struct sign_key *key, const struct sign_answer *answer, char out[SIGN_HEX + 1]);
bool sign_check_answer(
    const struct sign_key *key, const struct sign_answer *answer, const char *signature);

#endif
