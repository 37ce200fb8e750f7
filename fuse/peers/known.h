/* SPDX-License-Identifier: Apache-2.0 */
/* known — who asks for /status: one who has the Dataset's key, as the operator does, is told all of
 * it, and can tell that nobody else answers; a stranger is told numbers and what is ready, but no
 * names, paths or texts. Pure but for the clock. */
#ifndef MILLRACE_FUSE_PEERS_KNOWN_H
#define MILLRACE_FUSE_PEERS_KNOWN_H

#include "lib/http/serve.h"
#include "lib/sign/sign.h"

#include <stdbool.h>

/* True also if there is no key. request: what the answer is signed with. */
bool known_asker(
    const struct sign_key *key, const struct serve_req *req, char request[SIGN_REQUEST_MAX + 1]);
/* Once the body is whole, to one who is known. Does nothing if there is no key. */
void known_sign(const struct sign_key *key, const char *request, struct serve_resp *resp);

#endif
