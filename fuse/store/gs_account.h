/* SPDX-License-Identifier: Apache-2.0 */
/* gs_account — credentials as Google's tools keep them in a file of JSON, and what is shown of them
 * to a token server. Pure. Its text comes from Secrets: what it names is judged by who asks there.
 */
#ifndef MILLRACE_FUSE_STORE_GS_ACCOUNT_H
#define MILLRACE_FUSE_STORE_GS_ACCOUNT_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gs_account_kind {
    GS_SERVICE_ACCOUNT, /* a private key of its own */
    GS_USER,            /* a person's refresh token */
    GS_EXTERNAL,        /* a token of another provider, from a file */
};

struct gs_account { /* all owned, "" where absent */
    enum gs_account_kind kind;
    char *token_uri;
    char *email, *key, *key_id;              /* of GS_SERVICE_ACCOUNT; key: PEM */
    char *client_id, *client_secret, *token; /* of GS_USER */
    /* of GS_EXTERNAL; field: the file is JSON and has the token there; impersonate: a URL */
    char *audience, *token_type, *file, *field, *impersonate;
};

/* INVALID: what is wrong, without a word of the text. gs_account_clear() in either case. */
int gs_account_parse(const char *text, size_t len, struct gs_account *out, struct err *e);
void gs_account_clear(struct gs_account *a);

/* What a service account says of itself for an hour from now_s on, signed (RS256); caller wipes and
 * frees. NULL: INVALID, the key is none. */
char *gs_account_sign(const struct gs_account *a, const char *scope, int64_t now_s, struct err *e);

/* The token in a document of JSON; caller wipes and frees; NULL: there is none. */
char *gs_account_field(const char *text, size_t len, const char *field);

/* -- answers of token servers -- */

struct gs_token {
    char *token; /* owned, a word */
    /* of one that says for how long, in seconds, 0 if it does not; until: or until when, "" */
    int64_t lifetime_s;
    char until[40];
};
/* False: there is no token in it. */
bool gs_token_parse(const char *text, size_t len, struct gs_token *out);
/* "invalid_grant: Invalid JWT Signature."; one printable line, "" if the answer says nothing. */
void gs_token_fault(const char *text, size_t len, char out[200]);

#endif
