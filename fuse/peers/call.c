/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to a worker and how its answer is told from a stranger's. */
#include "fuse/peers/priv.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool peers_is_signed(const struct sign_key *key, const char *request, const struct http_resp *resp)
{
    char range[96] = "", crcs[PEERS_CRCS_TEXT] = "", signature[SIGN_HEX + 2] = "";
    if (!key)
        return true;
    http_header(resp, "content-range", range, sizeof range);
    http_header(resp, SIGN_CRC_HEADER, crcs, sizeof crcs);
    http_header(resp, SIGN_ANSWER_HEADER, signature, sizeof signature);
    const struct sign_answer answer = {
        .request = request, .status = resp->status, .range = range, .crcs = crcs};
    return sign_check_answer(key, &answer, signature);
}

int peers_call(struct http *http, const struct sign_key *key, const struct peers_call *call,
    struct http_resp *resp, struct err *e)
{
    char signature[SIGN_REQUEST_MAX], line[SIGN_REQUEST_MAX + 32];
    const char *headers[] = {NULL, NULL};
    cleanup_free char *url = xasprintf(
        "%s%s%s%s", call->url, call->path, *call->query ? "?" : "", call->query);
    if (key) {
        const struct sign_ask ask = {call->method, call->path, call->query, NULL};
        sign_request(key, &ask, clock_real_ns() / NS_PER_S, signature);
        snprintf(line, sizeof line, SIGN_REQUEST_HEADER ": %s", signature);
        headers[0] = line;
    }
    struct http_req req = {.method = call->method,
        .url = url,
        .headers = headers,
        .stall_ns = call->stall_ns,
        .cancel = call->cancel};
    if (http_do(http, &req, resp, e))
        return -1;
    if (resp->status != 401 && !peers_is_signed(key, signature, resp))
        return err_set(e, ERR_RETRY, "%s: " PEERS_UNSIGNED, call->url);
    return 0;
}

char *peers_crcs_text(const uint32_t *crcs, size_t n)
{
    struct buf b = BUF_INIT(PEERS_CRCS_TEXT);
    for (size_t i = 0; i < n; i++)
        buf_addf(&b, "%s%08" PRIx32, i ? "," : "", crcs[i]);
    return buf_take(&b);
}

int peers_crcs_parse(const char *text, uint32_t *crcs, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    if (n == 0 || strlen(text) != n * 9 - 1)
        return -1;
    for (size_t i = 0; i < n; i++, text += 9) {
        if (strspn(text, hex) < 8 || (text[8] != ',' && (i + 1 < n || text[8])))
            return -1;
        crcs[i] = (uint32_t)strtoul(text, NULL, 16);
    }
    return 0;
}
