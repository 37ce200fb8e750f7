/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/peers/known.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"

bool known_asker(
    const struct sign_key *key, const struct serve_req *req, char request[SIGN_REQUEST_MAX + 1])
{
    struct err e = ERR_INIT;
    if (!key)
        return true;
    const char *header = serve_header(req, SIGN_REQUEST_HEADER, request, SIGN_REQUEST_MAX + 1);
    const struct sign_ask ask = {req->method, req->path, req->query, NULL};
    return sign_check_request(key, &ask, header, clock_real_ns() / NS_PER_S, &e) == 0;
}

void known_sign(const struct sign_key *key, const char *request, struct serve_resp *resp)
{
    char signature[SIGN_HEX + 1];
    if (!key)
        return;
    const struct sign_answer answer = {.request = request,
        .status = resp->status,
        .body = buf_str(&resp->body),
        .body_len = resp->body.len};
    sign_answer(key, &answer, signature);
    buf_addf(&resp->headers, SIGN_ANSWER_HEADER ": %s\r\n", signature);
}
